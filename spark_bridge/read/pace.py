"""How fast a task reads the log, so that a gateway beside it keeps the disk and the processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

LEAST_BATCH_BYTES: Final = 1 << 16


class Pace:
    """At most ``bytes_per_s``; a time without reads is not made up for.  clock: seconds."""

    def __init__(self, bytes_per_s: int, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self.bytes_per_s = bytes_per_s
        self._clock = clock
        self._sleep = sleep
        self._next_s = clock()

    def spend(self, size: int) -> None:
        """Wait as long as reading ``size`` octets takes at this pace."""
        now_s = self._clock()
        self._next_s = max(self._next_s, now_s) + size / self.bytes_per_s
        self._sleep(self._next_s - now_s)

    def batch_bytes(self, most: int) -> int:
        """Return how much to read at once: about a second's, at most ``most``."""
        return min(most, max(self.bytes_per_s, LEAST_BATCH_BYTES))
