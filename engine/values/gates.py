"""Gates: why something does not move.  Every refusal to dispatch or to accept is one of these."""

from __future__ import annotations

from typing import Final

OPEN: Final = 0
WINDOW_FULL: Final = 1
SOCKET_PAUSED: Final = 2
NOTHING_WAITING: Final = 3
PAGING: Final = 4
DELAYED: Final = 5
STORE: Final = 6
MEMORY: Final = 7
CLOSED: Final = 8
STORE_DAMAGED: Final = 9  # what comes next lies on disk and cannot be read
SELECTOR: Final = 20  # nothing that waits matches its selector
GROUP_OWNER: Final = 21  # the waiting messages belong to groups of other consumers
EXCLUSIVE_OWNER: Final = 22  # another consumer has the queue
LOOK_AHEAD: Final = 23  # as much as memory may hold was found ahead for others, who do not take it
CONSUMERS_BEFORE_DISPATCH: Final = 24  # the queue waits for more consumers
EXCLUDED: Final = 25  # what waits, this consumer would not have (AMQP's undeliverable-here)
ADDRESS_FULL: Final = 30
DISCARDED: Final = 31  # no gate: the address is full, and its policy is to accept and drop
RATE: Final = 32  # as many as may be in this second
DISK: Final = 34  # the disk is nearly full
CREDIT: Final = 35  # a producer gets no credit while its address is full
SESSION_WINDOW: Final = 36  # the client's session takes no frames for now
REFUSING: Final = 37  # what the consumer has refused is still being put back
BYTES_FULL: Final = 33  # as many octets in flight as the consumer's window holds

GATE_NAMES: Final = {
    OPEN: "open",
    WINDOW_FULL: "window-full",
    SOCKET_PAUSED: "socket-paused",
    NOTHING_WAITING: "nothing-waiting",
    PAGING: "paging",
    DELAYED: "delayed",
    STORE: "store",
    MEMORY: "memory",
    CLOSED: "closed",
    STORE_DAMAGED: "damaged",
    SELECTOR: "selector",
    GROUP_OWNER: "group-owner",
    EXCLUSIVE_OWNER: "exclusive-owner",
    LOOK_AHEAD: "look-ahead",
    CONSUMERS_BEFORE_DISPATCH: "consumers-before-dispatch",
    EXCLUDED: "excluded",
    ADDRESS_FULL: "address-full",
    DISCARDED: "discarded",
    RATE: "rate",
    BYTES_FULL: "bytes-full",
    DISK: "disk",
    CREDIT: "credit",
    SESSION_WINDOW: "session-window",
    REFUSING: "refusing",
}
