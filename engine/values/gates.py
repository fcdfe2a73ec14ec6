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
STORE_DAMAGED: Final = 9  # the next entry on disk cannot be read
SELECTOR: Final = 20  # nothing that waits matches its selector
GROUP_OWNER: Final = 21  # all waiting messages belong to groups of other consumers
EXCLUSIVE_OWNER: Final = 22  # another consumer has the queue
LOOK_AHEAD: Final = 23  # messages found ahead for other consumers fill the memory for it
CONSUMERS_BEFORE_DISPATCH: Final = 24  # the queue waits for more consumers
EXCLUDED: Final = 25  # this consumer does not want what waits (AMQP's undeliverable-here)
PAUSED: Final = 26  # an operator has paused the queue
ADDRESS_FULL: Final = 30
DISCARDED: Final = 31  # no gate: the address is full, and its policy is to accept and drop
RATE: Final = 32  # this second's messages are used up
DISK: Final = 34  # the disk is nearly full
CREDIT: Final = 35  # a producer gets no credit while its address is full
SESSION_WINDOW: Final = 36  # the client's session takes no frames for now
REFUSING: Final = 37  # messages that the consumer refused are still being put back
USER_RATE: Final = 40  # what a user may send in this second is used up
STOPPING: Final = 39  # the gateway stops: it hands over and accepts nothing more
PUBLISHING: Final = 38  # what the user has committed to topics is not published yet, and is at the limit
BYTES_FULL: Final = 33  # the consumer's window has no room for more octets

# Those at which the messages of a client may wait.
PRODUCER_GATES: Final = (STORE, MEMORY, ADDRESS_FULL, RATE, DISK, CREDIT, PUBLISHING, STOPPING, USER_RATE)

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
    PAUSED: "paused",
    ADDRESS_FULL: "address-full",
    DISCARDED: "discarded",
    RATE: "rate",
    BYTES_FULL: "bytes-full",
    DISK: "disk",
    CREDIT: "credit",
    SESSION_WINDOW: "session-window",
    REFUSING: "refusing",
    PUBLISHING: "publishing",
    STOPPING: "stopping",
    USER_RATE: "user-rate",
}
