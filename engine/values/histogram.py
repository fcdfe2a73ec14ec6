"""How many durations were how long: a histogram as Prometheus has it.  The only place that knows its buckets."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from engine.values.broker_stats import HistogramStats

# In seconds, each with what is exactly as long.  Messages are timed in whole milliseconds, syncs in fractions of one.
# fmt: off
MESSAGE_BOUNDS_S: Final[tuple[float, ...]] = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0, 86400.0,
)
SYNC_BOUNDS_S: Final[tuple[float, ...]] = (
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
)
# fmt: on


class Histogram:
    """bounds_s: ascending."""

    __slots__ = ("bounds_s", "counts", "sum_s")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self.bounds_s = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)
        self.sum_s = 0.0

    def add(self, duration_s: float, count: int = 1) -> None:
        self.sum_s += duration_s * count
        self.counts[bisect_left(self.bounds_s, duration_s)] += count

    def stats(self) -> HistogramStats:
        return HistogramStats(self.bounds_s, tuple(self.counts), self.sum_s)
