"""Times at which deliveries were handed over, sampled at intervals instead of kept per delivery."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Final

INTERVAL_MS: Final = 1_000
SAMPLES_MAX: Final = 20_000  # more than five hours; earlier deliveries count as "longer ago"


class HandOvers:
    """Samples of (tag, wall ms): deliveries from this tag on were handed over at that time or later."""

    __slots__ = ("samples", "next_ms")

    def __init__(self) -> None:
        self.samples: deque[tuple[int, int]] = deque(maxlen=SAMPLES_MAX)
        self.next_ms = 0

    def sample(self, next_tag: int, wall_ms: int) -> None:
        """Record the time before ``next_tag`` is handed over; call it once ``next_ms`` has passed."""
        self.next_ms = wall_ms + INTERVAL_MS
        if self.samples and self.samples[-1][0] == next_tag:
            self.samples.pop()  # nothing was handed over since
        self.samples.append((next_tag, wall_ms))

    def since_ms(self, tag: int) -> int:
        """Return the time at or shortly after which ``tag`` was handed over, 0 if that is too long ago to know."""
        index = bisect_right(self.samples, tag, key=_tag) - 1
        return self.samples[index][1] if index >= 0 else 0


def _tag(sample: tuple[int, int]) -> int:
    return sample[0]
