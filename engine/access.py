"""Who may do what: the one place where the engine asks for permission, for every protocol.

Source: ActiveMQ authorizationPlugin (read, write, admin), HornetQ security-settings; the entries are data in
``config.permissions``.  What the broker moves by itself (dead letters, expiry, retries) needs no permission.
"""

from __future__ import annotations

from config.permissions import Action, PermissionMap
from engine.client import Client
from engine.composite import CompositeSource, Source
from engine.destination import QUEUE, TOPIC, uri
from engine.errors import AccessDenied
from engine.options import SubscribeOptions


class Access:
    """is_open: everybody may do everything."""

    __slots__ = ("permissions", "is_open")

    def __init__(self, permissions: PermissionMap) -> None:
        self.permissions = permissions
        self.is_open = permissions.is_open

    def allows(self, client: Client, action: Action, kind: int, name: str) -> bool:
        return self.is_open or self.permissions.allows(action, kind, name, client.groups)

    def require(self, client: Client, action: Action, kind: int, name: str) -> None:
        """Raises: AccessDenied that names the action, the destination and the groups on both sides."""
        if self.allows(client, action, kind, name):
            return
        own = ", ".join(sorted(client.groups)) or "none"
        allowed = ", ".join(sorted(self.permissions.groups_for(action, kind, name))) or "nobody"
        raise AccessDenied(
            f"no permission to {action} {uri(kind, name[:200])}: your groups are {own}; allowed: {allowed}"
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
