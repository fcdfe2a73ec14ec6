"""How a delivery ends, and why: outcomes and causes in settlements, also on disk."""

from __future__ import annotations

from typing import Final

# Outcomes of a settlement.
ACKNOWLEDGED: Final = 1
DEAD_LETTERED: Final = 2
EXPIRED: Final = 3
DROPPED: Final = 4  # rejected with no dead-letter address, or discarded by a policy

OUTCOME_NAMES: Final = {
    ACKNOWLEDGED: "acknowledged",
    DEAD_LETTERED: "dead-lettered",
    EXPIRED: "expired",
    DROPPED: "dropped",
}

# Causes, of a settlement or of a failed attempt.
CAUSE_NONE: Final = 0
CAUSE_NACK: Final = 1
CAUSE_CONNECTION_LOST: Final = 2
CAUSE_EXHAUSTED: Final = 3
CAUSE_EXPIRED: Final = 4
CAUSE_DAMAGED: Final = 5  # its record cannot be read, and the operator allows to skip it
CAUSE_REJECTED: Final = 6  # its consumer says that it can never be processed
CAUSE_NOT_SELECTED: Final = 7  # the selector of the durable subscription does not match it
CAUSE_REPLACED: Final = 8  # a newer one with the same last-value key has come
CAUSE_EVICTED: Final = 9  # a slow consumer's pending-message limit was exceeded
CAUSE_PURGED: Final = 10  # an operator emptied the queue, or it keeps nothing without consumers
CAUSE_ADDRESS_FULL: Final = 11  # the address was full, and its policy is to drop
CAUSE_RETRIED: Final = 12  # moved from a dead-letter queue back to where it came from
CAUSE_ADMIN: Final = 13  # an operator removed or moved it
CAUSE_FIRED: Final = 14  # of a scheduled message: it was due and was sent to its destination
CAUSE_CANCELLED: Final = 15  # of a scheduled message: a client or an operator cancelled it
CAUSE_CLOSED: Final = 16  # its consumer was closed in order, and the application had received it

CAUSE_NAMES: Final = {
    CAUSE_NONE: "none",
    CAUSE_NACK: "nack",
    CAUSE_CONNECTION_LOST: "connection-lost",
    CAUSE_EXHAUSTED: "exhausted",
    CAUSE_EXPIRED: "expired",
    CAUSE_DAMAGED: "damaged",
    CAUSE_REJECTED: "rejected",
    CAUSE_NOT_SELECTED: "not-selected",
    CAUSE_REPLACED: "replaced",
    CAUSE_EVICTED: "evicted",
    CAUSE_PURGED: "purged",
    CAUSE_ADDRESS_FULL: "address-full",
    CAUSE_RETRIED: "retried",
    CAUSE_ADMIN: "admin",
    CAUSE_FIRED: "fired",
    CAUSE_CANCELLED: "cancelled",
    CAUSE_CLOSED: "closed",
}
