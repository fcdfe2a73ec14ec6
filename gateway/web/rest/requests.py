"""What requests about messages ask for, and what they may be answered with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from engine.values.errors import EngineError
from gateway.web.connections.http_connection import HttpConnection

LEASE_MOST: Final = 1_000  # unsettled messages of one user, or address
ACKNOWLEDGE: Final = "acknowledge"
RELEASE: Final = "release"
OUTCOMES: Final = (ACKNOWLEDGE, RELEASE, "fail", "dead-letter")


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks.

    login: as in the request, checked where logins are.  address: of the peer.
    groups: of a user who is not in the configuration, None for others.
    """

    login: str
    address: str
    groups: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to be sent.  fields: by the members of FIELDS.  is_text: of the body, which then is UTF-8."""

    body: bytes
    is_text: bool
    is_persistent: bool
    priority: int
    ttl_ms: int
    fields: Mapping[str, str]
    properties: dict[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class Took:
    """How messages are taken.  ends_with_connection: the lease ends also with the connection of the request."""

    selector: str
    count: int
    wait_ms: int
    lease_ms: int
    ends_with_connection: bool
    body_form: str


@dataclass(frozen=True, slots=True)
class Page:
    """documents: of messages, as JSON.  next: leads to the next page, "" on the last one."""

    documents: list[bytes]
    next: str


class NotNow(EngineError):
    """The destination accepts nothing at present; the text names the gate."""

    condition: ClassVar[str] = "blocked"


class Gone(LookupError):
    """A cursor is over, or belongs to another user."""


@dataclass(slots=True, eq=False)
class Watch:
    """Calls back once when the connection of a request is lost.  connection: None where nothing is known of it."""

    connection: HttpConnection | None
    callback: Callable[[], None] | None = field(default=None)

    def when_lost(self, callback: Callable[[], None] | None) -> None:
        """callback: replaces the last one; None for none."""
        if self.connection is not None:
            self.connection.when_lost(self.callback, callback)
            self.callback = callback
