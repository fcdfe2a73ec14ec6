"""Errors of OpenWire peers."""

from __future__ import annotations

from typing import ClassVar

from protocols.errors import ProtocolError


class UnexpectedCommand(ProtocolError):
    """A sound command at the wrong time: anything before WireFormatInfo, a second ConnectionInfo."""

    condition: ClassVar[str] = "unexpected-frame"


class RequestError(ProtocolError):
    """A command that cannot be met; the rest of the connection is sound."""

    condition: ClassVar[str] = "invalid-request"
    scope: ClassVar[str] = "request"


class MessageTooLarge(RequestError):
    """A message beyond the limit of a frame, which is not read.  head: its octets up to responseRequired."""

    condition: ClassVar[str] = "limit-reached"

    def __init__(self, message: str, head: bytes) -> None:
        super().__init__(message)
        self.head = head


class NotImplementedHere(RequestError):
    """A feature of OpenWire that is not offered; the text names it."""

    condition: ClassVar[str] = "not-implemented"


class NoClientId(RequestError):
    condition: ClassVar[str] = "no-client-id"


class StaleCopies(ProtocolError):
    """A client has two copies of a message: one of a lost connection, and one that it was sent on this one.

    Only a new connection makes it drop both.  It is told nothing, because it connects again by itself.
    """

    condition: ClassVar[str] = "stale-copies"
