"""Errors of STOMP peers, and the short text of each condition in an ERROR frame."""

from __future__ import annotations

from typing import ClassVar, Final

from engine.values.errors import PenstockError
from protocols.errors import ProtocolError


class UnexpectedFrame(ProtocolError):
    """A sound frame at the wrong time: before CONNECT, a second CONNECT, a command that only servers send."""

    condition: ClassVar[str] = "unexpected-frame"


class InvalidHeader(ProtocolError):
    """A required header is missing, or its value makes no sense."""

    condition: ClassVar[str] = "invalid-header"


# The ``message`` header of ERROR; the error's own text goes into the body.
MESSAGES: Final[dict[str, str]] = {
    "protocol-error": "protocol error",
    "malformed-frame": "malformed frame",
    "frame-too-large": "frame too large",
    "unexpected-frame": "frame not expected now",
    "invalid-header": "missing or invalid header",
    "unsupported-version": "no supported protocol version",
    "login-refused": "login refused",
    "timed-out": "timed out",
    "parked-too-much": "too much waits at a gate",
    "internal-error": "internal error",
    "invalid-destination": "invalid destination",
    "invalid-option": "invalid option",
    "invalid-selector": "invalid selector",
    "access-denied": "access denied",
    "limit-reached": "limit reached",
    "address-full": "address full",
    "slow-consumer": "consumer too slow",
    "client-id-in-use": "client id in use",
    "destination-locked": "destination of another connection",
    "destination-in-use": "destination in use",
    "subscription-in-use": "subscription in use",
    "unknown-subscription": "unknown subscription",
    "replay-gone": "messages no longer kept",
    "transaction-error": "transaction error",
    "unknown-xid": "transaction branch not found",
    "xid-in-use": "transaction branch exists already",
    "xa-protocol": "transaction branch in another state",
    "branch-committed": "transaction branch committed by an operator",
    "branch-dropped": "transaction branch rolled back by an operator",
    "duplicate-id": "duplicate id",
    "connection-memory": "connection holds too much",
    "connection-forced": "closed by an operator",
    "login-expired": "login expired",
    "store-error": "store not available",
    "store-locked": "store not available",
    "store-corrupt": "store not available",
    "range-gone": "messages no longer kept",
}


def message_for(error: PenstockError) -> str:
    """Return the text for the ``message`` header; for a condition without an entry above, the condition itself."""
    return MESSAGES.get(error.condition, error.condition.replace("-", " "))
