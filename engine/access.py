"""Who may do what: the one place where the engine asks for permission, for every protocol.

Source: ActiveMQ authorizationPlugin (read, write, admin), HornetQ security-settings; the entries are data in
``config.permissions``.  What the broker moves by itself (dead letters, expiry, retries) needs no permission.
"""

from __future__ import annotations

from config.permissions import Action, PermissionMap
from engine.client import Client
from engine.destination import uri
from engine.errors import AccessDenied


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
