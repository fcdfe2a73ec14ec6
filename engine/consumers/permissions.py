"""Permissions: the one place where the engine checks them, for every protocol.

Source: ActiveMQ authorizationPlugin (read, write, admin), HornetQ security-settings; the entries are data in
``config.permissions``.  What the broker moves by itself (dead letters, expiry, retries) needs no permission.
"""

from __future__ import annotations

from typing import Final

from config.permissions import SEEING, SEEING_WORDS, Action, PermissionMap
from engine.consumers.client import Client
from engine.sources.composite import CompositeSource, Source, parts_named
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC, advised_destination, is_topic, uri
from engine.values.errors import AccessDenied
from engine.values.options import SubscribeOptions
from engine.values.wildcard import is_wildcard

LOOKING: Final[tuple[Action, ...]] = ("browse", "read")


class Access:
    """Permissions by group; ``permissions`` has what the configuration says.  is_open: none are checked."""

    __slots__ = ("is_open", "permissions")

    def __init__(self, permissions: PermissionMap) -> None:
        self.adopt(permissions)

    def adopt(self, permissions: PermissionMap) -> None:
        """Check these from now on; consumers that are there stay."""
        self.is_open = permissions.is_open
        self.permissions = permissions

    def allows(self, client: Client, action: Action, kind: int, name: str) -> bool:
        """Say whether a client may do something with a destination."""
        if self.is_open:
            return True
        if not self.permissions.allows(action, kind, name, client.groups):
            return False
        return kind != TOPIC or action == "write" or self._may_see_advised(client, name)

    def require(self, client: Client, action: Action, kind: int, name: str) -> None:
        """Raises: AccessDenied, which names the action, the destination and the client's groups.

        The client reads the text, so it does not name the groups that may (``penstock explain`` does).
        """
        if self.allows(client, action, kind, name):
            return
        client.audit(action, uri(kind, name), is_denied=True)
        if self.permissions.allows(action, kind, name, client.groups):
            raise AccessDenied(
                f"no permission to {action} {uri(kind, name[:200])}: it reports on a destination that needs the "
                "permission browse or read"
            )
        own = ", ".join(sorted(client.groups)) or "none"
        raise AccessDenied(f"no permission to {action} {uri(kind, name[:200])}: your groups are {own}")

    def may_keep_for(self, user: str, topic: str) -> bool:
        """Say whether messages of a topic may be kept for a user, "" for none."""
        return self.is_open or not user or self.permissions.may_read_topic(user, topic)

    def _may_see_advised(self, client: Client, topic: str) -> bool:
        """Say whether a client may see the destination that an advisory is about, as it may hold the body of a message.

        Matches of a wildcard are checked one by one, as they are found.
        """
        about = advised_destination(topic)
        if about is None or is_wildcard(about[1]):
            return True
        return any(self.permissions.allows(action, *about, client.groups) for action in LOOKING)

    def may_see(self, client: Client, destination: Queue | Topic) -> bool:
        """Say whether a client may see what a destination, or the destination behind a subscription's queue, holds.

        Of a subscription to several destinations it must be allowed to see each, as the name of its queue has them all.
        """
        if self.is_open:
            return True
        if destination.kind in (TEMP_QUEUE, TEMP_TOPIC):
            return destination.owner == client.client_number
        parts = parts_named(TOPIC if is_topic(destination.kind) else QUEUE, destination.name)
        return all(kind in (QUEUE, TOPIC) and self._may_see_named(client, kind, name) for kind, name in parts)

    def _may_see_named(self, client: Client, kind: int, name: str) -> bool:
        return any(self.allows(client, action, kind, name) for action in SEEING)

    def may_all_read(self, queue: Queue, topic: str) -> bool:
        """Say whether every consumer of a queue that many topics feed may read the topic of this name."""
        return self.is_open or all(
            self.allows(consumer.client, "read", TOPIC, topic) for consumer in queue.consumers.values()
        )

    def require_sight_of_all(self, client: Client, what: str) -> None:
        """Raises: AccessDenied for a client that may not see every destination."""
        if self.is_open or any(self.permissions.allows_everywhere(action, client.groups) for action in SEEING):
            return
        client.audit("see all destinations", what, is_denied=True)
        own = ", ".join(sorted(client.groups)) or "none"
        raise AccessDenied(
            f"{what} needs the permission {SEEING_WORDS} for all destinations (match: '>'); your groups are {own}"
        )

    def require_own_name(self, client: Client, user: str) -> None:
        """If logins are checked, require that a message that names its sender names the client's own login.

        Raises: AccessDenied.  Source: AMQP 1.0 part 3, 3.2.4 (user-id "MAY be authenticated by intermediaries").
        """
        if client.user and user != client.user:
            client.audit("send as", user, is_denied=True)
            raise AccessDenied(
                f"a message names {user[:200]!r} as its sender (user-id); use your own login, {client.user!r}, or none"
            )

    def require_use(self, client: Client, source: Source, options: SubscribeOptions) -> None:
        """Check a subscription: it may browse, consume, or have a topic's messages kept for it.  Raises: AccessDenied.

        Matches of a wildcard are checked one by one, as they are found.
        """
        for part in source.parts if isinstance(source, CompositeSource) else [source]:
            if part.kind == QUEUE:
                # A replay shows messages that others settled long ago, which is more than browsing what waits.
                is_look = options.is_browser and options.replay is None
                self.require(client, "browse" if is_look else "read", part.kind, part.name)
            elif part.kind == TOPIC:
                self.require(client, "read", part.kind, part.name)
                action: Action = "subscribe-durable" if options.is_durable else "subscribe"
                self.require(client, action, part.kind, part.name)
