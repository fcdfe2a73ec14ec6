"""Errors of a peer that STOMP and OpenWire have alike; each protocol adds its own, and has its form on the wire."""

from __future__ import annotations

from typing import ClassVar

from engine.values.errors import PenstockError


class ProtocolError(PenstockError):
    """The peer broke the protocol: its next octets on this connection cannot be trusted."""

    condition: ClassVar[str] = "protocol-error"
    scope: ClassVar[str] = "connection"


class FrameError(ProtocolError):
    """Octets that are not a frame; the decoder accepts nothing more."""

    condition: ClassVar[str] = "malformed-frame"


class FrameTooLarge(FrameError):
    """A frame, or a part of one, beyond its limit, refused before it is buffered."""

    condition: ClassVar[str] = "frame-too-large"


class UnsupportedVersion(ProtocolError):
    """The client speaks no version that we speak."""

    condition: ClassVar[str] = "unsupported-version"


class LoginRefused(ProtocolError):
    """Wrong or missing credentials; the text never says which of the two."""

    condition: ClassVar[str] = "login-refused"


class TimedOut(ProtocolError):
    """No introduction, no end of a frame or no sign of life in time."""

    condition: ClassVar[str] = "timed-out"


class ParkedTooMuch(ProtocolError):
    """The client continued to send while too much of its input waits at a gate."""

    condition: ClassVar[str] = "parked-too-much"
