"""Errors of AMQP 1.0 peers, and the symbol of each condition on the wire."""

from __future__ import annotations

from typing import ClassVar, Final

from engine.values.errors import PenstockError


class AmqpError(PenstockError):
    """The peer broke the protocol; ``scope`` is the part that ends: connection, session, link or delivery."""

    condition: ClassVar[str] = "protocol-error"
    scope: ClassVar[str] = "connection"


class FramingError(AmqpError):
    """Octets that are no frame; the decoder accepts nothing more."""

    condition: ClassVar[str] = "framing-error"


class DecodeError(AmqpError):
    """A frame whose content violates the type system or its performative.

    items_read: of a message's body, before the violation.
    """

    condition: ClassVar[str] = "decode-error"
    items_read = 0


class IllegalState(AmqpError):
    """A sound frame at the wrong time."""

    condition: ClassVar[str] = "illegal-state"


class TimedOut(AmqpError):
    """No frame within the idle time-out, no open in time, or no end of a frame."""

    condition: ClassVar[str] = "timed-out"


class Forced(AmqpError):
    """We end the connection for a reason of our own."""

    condition: ClassVar[str] = "connection-forced"


class SessionError(AmqpError):
    scope: ClassVar[str] = "session"


class WindowViolation(SessionError):
    condition: ClassVar[str] = "window-violation"


class HandleInUse(SessionError):
    condition: ClassVar[str] = "handle-in-use"


class UnattachedHandle(SessionError):
    condition: ClassVar[str] = "unattached-handle"


class FrameSizeTooSmall(SessionError):
    """The peer's max-frame-size is too small for a frame that it must get."""

    condition: ClassVar[str] = "frame-size-too-small"


class InvalidFlow(SessionError):
    """A flow without a handle that has fields of a link."""

    condition: ClassVar[str] = "invalid-field"


class TooManyLinks(SessionError):
    condition: ClassVar[str] = "too-many-links"


class UnknownTransaction(SessionError):
    condition: ClassVar[str] = "unknown-transaction"


class LinkError(AmqpError):
    scope: ClassVar[str] = "link"


class TransferLimitExceeded(LinkError):
    """More transfers than the granted link credit."""

    condition: ClassVar[str] = "transfer-limit-exceeded"


class MessageSizeExceeded(LinkError):
    condition: ClassVar[str] = "message-size-exceeded"


class PartialTooMuch(LinkError):
    """Incomplete messages take too many octets."""

    condition: ClassVar[str] = "partial-too-much"


class DeliveryTooSlow(LinkError):
    """The last transfer of a delivery has not come in time."""

    condition: ClassVar[str] = "delivery-too-slow"


class ParkedTooMuch(LinkError):
    """The peer continued to send while too many of its messages wait at a gate."""

    condition: ClassVar[str] = "parked-too-much"


class LinkStolen(LinkError):
    """Another connection of the same container has attached a link of this name."""

    condition: ClassVar[str] = "link-stolen"


class InvalidField(LinkError):
    condition: ClassVar[str] = "invalid-field"


class NotImplementedHere(LinkError):
    condition: ClassVar[str] = "not-implemented"


class AttachTooLarge(LinkError):
    """The answer to an attach exceeds the peer's max-frame-size."""

    condition: ClassVar[str] = "frame-size-too-small"


class SentSettled(LinkError):
    """A request to the coordinator that could not be answered."""

    condition: ClassVar[str] = "illegal-state"


class RolledBack(LinkError):
    """The work of a transaction is not what can be discharged; its control link ends."""

    condition: ClassVar[str] = "transaction-rollback"


class NotAllowed(LinkError):
    condition: ClassVar[str] = "not-allowed"


class NotFound(LinkError):
    condition: ClassVar[str] = "not-found"


# Our conditions -> the standard's symbols (transport 2.8.15 to 2.8.18, transactions 4.5.8).
SYMBOLS: Final[dict[str, str]] = {
    "protocol-error": "amqp:illegal-state",
    "framing-error": "amqp:connection:framing-error",
    "decode-error": "amqp:decode-error",
    "illegal-state": "amqp:illegal-state",
    "timed-out": "amqp:resource-limit-exceeded",
    "client-id-in-use": "amqp:invalid-field",
    "window-violation": "amqp:session:window-violation",
    "handle-in-use": "amqp:session:handle-in-use",
    "unattached-handle": "amqp:session:unattached-handle",
    "errant-link": "amqp:session:errant-link",
    "unknown-transaction": "amqp:transaction:unknown-id",
    "transfer-limit-exceeded": "amqp:link:transfer-limit-exceeded",
    "link-stolen": "amqp:link:stolen",
    "message-size-exceeded": "amqp:link:message-size-exceeded",
    "invalid-field": "amqp:invalid-field",
    "not-implemented": "amqp:not-implemented",
    "not-allowed": "amqp:not-allowed",
    "not-found": "amqp:not-found",
    "invalid-destination": "amqp:not-found",
    "invalid-option": "amqp:invalid-field",
    "invalid-selector": "amqp:invalid-field",
    "limit-reached": "amqp:resource-limit-exceeded",
    "transaction-rollback": "amqp:transaction:rollback",
    "transaction-error": "amqp:precondition-failed",
    "duplicate-id": "amqp:transaction:rollback",
    "connection-memory": "amqp:resource-limit-exceeded",
    "store-error": "amqp:internal-error",
    "frame-size-too-small": "amqp:frame-size-too-small",
    "destination-locked": "amqp:resource-locked",
    "too-many-links": "amqp:resource-limit-exceeded",
    "partial-too-much": "amqp:resource-limit-exceeded",
    "parked-too-much": "amqp:resource-limit-exceeded",
    "delivery-too-slow": "amqp:resource-limit-exceeded",
    "connection-forced": "amqp:connection:forced",
    "address-full": "amqp:resource-limit-exceeded",
    "slow-consumer": "amqp:resource-limit-exceeded",
    "subscription-in-use": "amqp:resource-locked",
    "destination-in-use": "amqp:resource-locked",
    "unknown-subscription": "amqp:not-found",
    "replay-gone": "amqp:not-found",
    "access-denied": "amqp:unauthorized-access",
    "login-expired": "amqp:unauthorized-access",
}


def symbol_for(error: PenstockError) -> str:
    """Return the symbol of an error; for a condition without an entry above, that of an internal error."""
    return SYMBOLS.get(error.condition, "amqp:internal-error")
