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
}
