"""Errors of OpenWire peers."""

from __future__ import annotations

from typing import ClassVar

from engine.values.errors import PenstockError


class ProtocolError(PenstockError):
    """The peer broke the protocol: its next octets on this connection cannot be trusted."""

    condition: ClassVar[str] = "protocol-error"
    scope: ClassVar[str] = "connection"


class FrameError(ProtocolError):
    """Octets that are no command; the decoder accepts nothing more."""

    condition: ClassVar[str] = "malformed-frame"


class FrameTooLarge(FrameError):
    """A frame beyond the limit, refused before it is buffered."""

    condition: ClassVar[str] = "frame-too-large"


class UnexpectedCommand(ProtocolError):
    """A sound command at the wrong time: anything before WireFormatInfo, a second ConnectionInfo."""

    condition: ClassVar[str] = "unexpected-frame"


class UnsupportedVersion(ProtocolError):
    """The client speaks only versions below the lowest one that we speak."""

    condition: ClassVar[str] = "unsupported-version"


class LoginRefused(ProtocolError):
    """Wrong or missing credentials; the text never says which of the two."""

    condition: ClassVar[str] = "login-refused"


class TimedOut(ProtocolError):
    """No ConnectionInfo, no end of a frame or no keep-alive in time."""

    condition: ClassVar[str] = "timed-out"


class ParkedTooMuch(ProtocolError):
    """The client continued to send while too much of its input waits at a gate."""

    condition: ClassVar[str] = "parked-too-much"


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
