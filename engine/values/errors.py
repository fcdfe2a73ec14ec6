"""Errors of the engine: one hierarchy, each class with a stable ``condition`` word and a ``scope``.

Clients and metrics may rely on ``condition``; ``scope`` is the least that must die.  Each protocol adapter
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
    """One more than the configuration allows; the text names the limit."""

    condition: ClassVar[str] = "limit-reached"


class AccessDenied(EngineError):
    """The client's groups may not do this to the destination."""

    condition: ClassVar[str] = "access-denied"


class AddressFull(EngineError):
    """The address is full; the text names the address, its usage and its limit."""

    condition: ClassVar[str] = "address-full"


class SlowConsumer(EngineError):
    """A consumer that took too long, on an address that ends slow consumers."""

    condition: ClassVar[str] = "slow-consumer"


class DestinationInUse(EngineError):
    """The destination has consumers or a backlog and cannot be removed."""

    condition: ClassVar[str] = "destination-in-use"


class ClientIdInUse(EngineError):
    """Another connection has this client id, and only one connection may have it."""

    condition: ClassVar[str] = "client-id-in-use"
    scope: ClassVar[str] = "connection"


class DestinationLocked(EngineError):
    """The destination belongs to another connection, which alone may receive from it."""

    condition: ClassVar[str] = "destination-locked"


class SubscriptionInUse(EngineError):
    """The name belongs to another kind of subscription, or the subscription has all the consumers that it may have."""

    condition: ClassVar[str] = "subscription-in-use"


class UnknownSubscription(EngineError):
    condition: ClassVar[str] = "unknown-subscription"


class ReplayGone(EngineError):
    """Retention has dropped messages with which a replay should begin; the text names them and the oldest kept."""

    condition: ClassVar[str] = "replay-gone"


class TransactionError(EngineError):
    """The transaction is unknown, repeated or over its limits."""

    condition: ClassVar[str] = "transaction-error"


class UnknownBranch(EngineError):
    """No transaction branch with this xid is there for this user (XAER_NOTA)."""

    condition: ClassVar[str] = "unknown-xid"


class BranchInUse(EngineError):
    """The xid belongs to another branch, prepared or of another user (XAER_DUPID)."""

    condition: ClassVar[str] = "xid-in-use"


class BranchState(EngineError):
    """The branch is not in a state for this request: prepared or not prepared yet (XAER_PROTO)."""

    condition: ClassVar[str] = "xa-protocol"


class BranchCommitted(EngineError):
    """An operator has committed the branch, and its transaction manager has not forgotten it yet (XA_HEURCOM)."""

    condition: ClassVar[str] = "branch-committed"


class BranchDropped(EngineError):
    """An operator has rolled the branch back, and its transaction manager has not forgotten it yet (XA_HEURRB)."""

    condition: ClassVar[str] = "branch-dropped"


class DuplicateId(EngineError):
    """An id in the transaction belongs to a message that its address has accepted before."""

    condition: ClassVar[str] = "duplicate-id"


class HoldingsFull(EngineError):
    """Connections together hold more than their budget, and this connection holds the most."""

    condition: ClassVar[str] = "connection-memory"
    scope: ClassVar[str] = "connection"


class ConnectionForced(EngineError):
    """An operator has closed the connection."""

    condition: ClassVar[str] = "connection-forced"
    scope: ClassVar[str] = "connection"


class UserGone(ConnectionForced):
    """The user of the connection may no longer log in as it has."""


class LoginExpired(EngineError):
    """The token that the client has logged in with has ended."""

    condition: ClassVar[str] = "login-expired"
    scope: ClassVar[str] = "connection"


class StoreError(PenstockError):
    """The disk failed, or its contents cannot be trusted."""

    condition: ClassVar[str] = "store-error"
    scope: ClassVar[str] = "store"


class NoStore(StoreError):
    """The directory holds no store."""


class StoreLocked(StoreError):
    """Another process holds the directory; the text names its pid."""

    condition: ClassVar[str] = "store-locked"


class StoreCorrupt(StoreError):
    """Corruption in the middle of the log, or a file of an unknown version; the text names the position."""

    condition: ClassVar[str] = "store-corrupt"


class RangeGone(StoreError):
    """Retention has dropped this range of the log; the text names the range and the part that is left."""

    condition: ClassVar[str] = "range-gone"


# Exceptions that malformed data may raise in computations, for the few places that must survive any of them.
# Faults of the machine (memory, disk) are not among them.
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
