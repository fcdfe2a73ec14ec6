"""Errors of the engine: one hierarchy, each class with a stable ``condition`` word and a ``scope``.

``condition`` is what clients and metrics may rely on; ``scope`` is the least that must die.  Each protocol adapter
has one table from condition to its wire form.
"""

from __future__ import annotations

import struct
from typing import ClassVar, Final


class PenstockError(Exception):
    """Root of every error that Penstock raises on purpose."""

    condition: ClassVar[str] = "internal-error"
    scope: ClassVar[str] = "connection"


class EngineError(PenstockError):
    """A request that the engine refuses; the rest of the connection is sound."""

    scope: ClassVar[str] = "request"


class InvalidDestination(EngineError):
    condition: ClassVar[str] = "invalid-destination"


class InvalidOption(EngineError):
    condition: ClassVar[str] = "invalid-option"


class InvalidSelector(EngineError):
    """Not a JMS selector; the text names the position, what was seen and what is allowed there."""

    condition: ClassVar[str] = "invalid-selector"


class LimitReached(EngineError):
    """One more of something than the configuration allows; the text names the limit."""

    condition: ClassVar[str] = "limit-reached"


class AccessDenied(EngineError):
    """The client's groups may not do this to the destination."""

    condition: ClassVar[str] = "access-denied"


class AddressFull(EngineError):
    """The address holds what it may hold; the text names it, what is used and the limit."""

    condition: ClassVar[str] = "address-full"


class SlowConsumer(EngineError):
    """A consumer that took too long, and whose address says that it is to end."""

    condition: ClassVar[str] = "slow-consumer"


class DestinationInUse(EngineError):
    """It has consumers, or a backlog, and so cannot go."""

    condition: ClassVar[str] = "destination-in-use"


class ClientIdInUse(EngineError):
    """Another connection has this client id, and one of the two is to be the only one."""

    condition: ClassVar[str] = "client-id-in-use"
    scope: ClassVar[str] = "connection"


class DestinationLocked(EngineError):
    """It belongs to another connection, which alone may receive from it."""

    condition: ClassVar[str] = "destination-locked"


class SubscriptionInUse(EngineError):
    """Its name stands for another kind of subscription, or it has as many consumers as it may have."""

    condition: ClassVar[str] = "subscription-in-use"


class UnknownSubscription(EngineError):
    condition: ClassVar[str] = "unknown-subscription"


class ReplayGone(EngineError):
    """A replay was to begin with messages that retention has dropped; the text names them and what is kept."""

    condition: ClassVar[str] = "replay-gone"


class TransactionError(EngineError):
    """Unknown, repeated or over its limits."""

    condition: ClassVar[str] = "transaction-error"


class HoldingsFull(EngineError):
    """Connections together hold more than their budget, and this one holds the most."""

    condition: ClassVar[str] = "connection-memory"
    scope: ClassVar[str] = "connection"


class StoreError(PenstockError):
    """The disk refused, or what is on it cannot be trusted."""

    condition: ClassVar[str] = "store-error"
    scope: ClassVar[str] = "store"


class StoreLocked(StoreError):
    """Another process holds the directory; the text names its pid."""

    condition: ClassVar[str] = "store-locked"


class StoreCorrupt(StoreError):
    """Corruption in the middle of the log, or a file of an unknown version; the text names the position."""

    condition: ClassVar[str] = "store-corrupt"


class RangeGone(StoreError):
    """A range of the log that retention has dropped; the text names it and what is left."""

    condition: ClassVar[str] = "range-gone"


# What computing with data that is not as it should be may raise: for the few places where it must not matter what.
# No fault of the machine (memory, disk) is among them.
DATA_FAULTS: Final[tuple[type[Exception], ...]] = (
    PenstockError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,  # RecursionError is one
    TypeError,
    ValueError,
    struct.error,
)
