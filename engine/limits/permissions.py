"""Permissions: the one place where the engine asks for them, for every protocol.

Source: ActiveMQ authorizationPlugin (read, write, admin), HornetQ security-settings; the entries are data in
``config.permissions``.  What the broker moves by itself (dead letters, expiry, retries) needs no permission.
"""

from __future__ import annotations

from typing import Final

from config.permissions import SEEING, SEEING_WORDS, Action, PermissionMap
from engine.consumers.client import Client
from engine.consumers.read_access import ReadAccess
from engine.sources.composite import CompositeSource, Source
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC, is_topic, told_of, uri
from engine.values.errors import AccessDenied
from engine.values.options import SubscribeOptions
from engine.values.wildcard import is_wildcard

LOOKING: Final[tuple[Action, ...]] = ("browse", "read")


class Access(ReadAccess):
    """Permissions by group; ``permissions`` has what the configuration says."""

    __slots__ = ("permissions",)

    def __init__(self, permissions: PermissionMap) -> None:
        super().__init__(permissions.is_open)
        self.permissions = permissions

    def allows(self, client: Client, action: Action, kind: int, name: str) -> bool:
        if self.is_open:
            return True
        if not self.permissions.allows(action, kind, name, client.groups):
            return False
        return kind != TOPIC or action == "write" or self._may_be_told(client, name)

    def require(self, client: Client, action: Action, kind: int, name: str) -> None:
        """Raises: AccessDenied that names the action, the destination and the groups on both sides."""
        if self.allows(client, action, kind, name):
            return
        if self.permissions.allows(action, kind, name, client.groups):
            raise AccessDenied(
                f"no permission to {action} {uri(kind, name[:200])}: it tells of a destination that needs the "
                "permission browse or read"
            )
        own = ", ".join(sorted(client.groups)) or "none"
        allowed = ", ".join(sorted(self.permissions.groups_for(action, kind, name))) or "nobody"
        raise AccessDenied(
            f"no permission to {action} {uri(kind, name[:200])}: your groups are {own}; allowed: {allowed}"
        )

    def may_keep_for(self, user: str, kind: int, name: str) -> bool:
        return self.is_open or not user or self.permissions.allows_user("read", kind, name, user)

    def _may_be_told(self, client: Client, topic: str) -> bool:
        """Say whether a client may look at what an advisory is about, which may hold the body of a message.

        What a wildcard matches is asked for one by one, as it is found.
        """
        about = told_of(topic)
        if about is None or is_wildcard(about[1]):
            return True
        return any(self.permissions.allows(action, *about, client.groups) for action in LOOKING)

    def may_see(self, client: Client, destination: Queue | Topic) -> bool:
        """Say whether a client may know what a destination holds, or what feeds it: queues of subscriptions, too."""
        if self.is_open:
            return True
        if destination.kind in (TEMP_QUEUE, TEMP_TOPIC):
            return destination.owner == client.client_number
        kind = TOPIC if is_topic(destination.kind) else QUEUE
        return any(self.allows(client, action, kind, destination.name) for action in SEEING)

    def require_sight_of_all(self, client: Client, what: str) -> None:
        """Raises: AccessDenied for who may not see every destination."""
        if self.is_open or any(self.permissions.allows_everywhere(action, client.groups) for action in SEEING):
            return
        own = ", ".join(sorted(client.groups)) or "none"
        raise AccessDenied(
            f"{what} needs the permission {SEEING_WORDS} for all destinations (match: '>'); your groups are {own}"
        )

    def require_own_name(self, client: Client, user: str) -> None:
        """Ask that a message which names its sender names the client's own login, where logins are checked.

        Raises: AccessDenied.  Source: AMQP 1.0 part 3, 3.2.4 (user-id "MAY be authenticated by intermediaries").
        """
        if client.user and user != client.user:
            raise AccessDenied(
                f"a message names {user[:200]!r} as its sender (user-id); allowed is your own login, {client.user!r}, "
                "or none"
            )

    def require_use(self, client: Client, source: Source, options: SubscribeOptions) -> None:
        """Ask for what a subscription does: look, take, or have a topic's messages kept for it.  Raises: AccessDenied.

        What a wildcard matches is asked for one by one, as it is found.
        """
        for part in source.parts if isinstance(source, CompositeSource) else [source]:
            if part.kind == QUEUE:
                # A replay shows what others have settled long ago, which is more than a look at what waits.
                is_look = options.is_browser and options.replay is None
                self.require(client, "browse" if is_look else "read", part.kind, part.name)
            elif part.kind == TOPIC:
                self.require(client, "read", part.kind, part.name)
                action: Action = "subscribe-durable" if options.is_durable else "subscribe"
                self.require(client, action, part.kind, part.name)
