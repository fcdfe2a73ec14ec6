"""The permissions that subscriptions check; engine.limits.permissions implements them."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from config.permissions import Action
from engine.consumers.client import Client


@mypyc_attr(allow_interpreted_subclasses=True)
class ReadAccess:
    """is_open: no permissions are checked."""

    __slots__ = ("is_open",)

    def __init__(self, is_open: bool) -> None:
        self.is_open = is_open

    @abstractmethod
    def allows(self, client: Client, action: Action, kind: int, name: str) -> bool:
        """Say whether a client may do something with a destination."""

    @abstractmethod
    def require(self, client: Client, action: Action, kind: int, name: str) -> None:
        """Raises: AccessDenied, which names the action, the destination and the groups on both sides."""

    @abstractmethod
    def may_keep_for(self, user: str, kind: int, name: str) -> bool:
        """Say whether messages of a destination may be kept for a user, "" for none."""
