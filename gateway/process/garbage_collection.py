"""Python's garbage collector: when it runs, and over which objects."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# A collection visits all objects made since the last one, or the last few: thousands of queues or messages that stay.
# With these thresholds the first kind takes some 3 ms and the second 15; with ten times as many it was 40 and 300.
GC_THRESHOLDS: Final = (5_000, 5, 2_000)
# Connections ended since the last full collection: the number for one in a quiet second, and for one at once.
QUIET_CONNECTIONS: Final = 500
MOST_CONNECTIONS: Final = 5_000
QUIET_S: Final = 0.1  # processor time in the second before


def suspend() -> None:
    """Open the store without the collector: the objects stay, and would be visited again and again."""
    gc.collect()
    gc.disable()


def resume() -> None:
    """Run the collector rarely and over little: messages are freed by reference counts, and cycles are rare."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()


@dataclass(slots=True, eq=False)
class EndedConnections:
    """Frees the remains of ended connections, 10 to 20 KB each: a session and its parts know each other.

    Only a full collection frees such cycles, and with the thresholds above the next one may be hours away.  It takes
    about 0.25 us for each object that stays, so it waits for a quiet second as long as possible.
    """

    _collect: Callable[[], object] = gc.collect
    _spent_s: Callable[[], float] = time.process_time
    _count: int = 0
    _spent_before_s: float = 0.0

    def ended(self) -> None:
        """Count an ended connection."""
        self._count += 1

    def check(self) -> None:
        """Collect if there are enough; call it once a second."""
        spent_s = self._spent_s()
        is_quiet = spent_s - self._spent_before_s < QUIET_S
        self._spent_before_s = spent_s
        if self._count >= (QUIET_CONNECTIONS if is_quiet else MOST_CONNECTIONS):
            self._count = 0
            self._collect()
