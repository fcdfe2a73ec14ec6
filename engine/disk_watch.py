"""Stops producers before the disk is full, and says so before that.

Source: Artemis max-disk-usage and min-disk-free (semantics.md 3.3).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

from engine.flow import Flow
from engine.ports import FILE_LANE, Clock, Job, Timers, TimerTarget, Workers

LOOK_MS: Final = 1_000
WARNING_PERCENT: Final = 90  # of a limit: the operator hears of it from there on
RESUME_POINTS: Final = 1  # percent of the disk below max-disk-usage at which producers go on
RESUME_PERCENT: Final = 105  # of min-disk-free, likewise


@mypyc_attr(allow_interpreted_subclasses=True)
class DiskSpace(ABC):
    """The disk that holds the store."""

    @abstractmethod
    def measure(self) -> tuple[int, int]:
        """Return (octets in all, octets free); called on a worker thread.  Raises: OSError."""


class _Look(Job):
    """One look at the disk, on a worker thread."""

    __slots__ = ("watch",)

    def __init__(self, watch: DiskWatch) -> None:
        self.watch = watch

    def run(self) -> None:
        self.watch.look()

    def finish(self) -> None:
        self.watch.looked()


class DiskWatch(TimerTarget):
    """max_usage_percent: -1 for no limit.  min_free_bytes: 0 for none.

    fault: why the last look has failed.
    """

    __slots__ = (
        "flow",
        "space",
        "workers",
        "clock",
        "timers",
        "max_usage_percent",
        "min_free_bytes",
        "total_bytes",
        "free_bytes",
        "fault",
    )

    def __init__(
        self,
        flow: Flow,
        space: DiskSpace,
        workers: Workers,
        clock: Clock,
        timers: Timers,
        max_usage_percent: int,
        min_free_bytes: int,
    ) -> None:
        self.flow = flow
        self.space = space
        self.workers = workers
        self.clock = clock
        self.timers = timers
        self.max_usage_percent = max_usage_percent
        self.min_free_bytes = min_free_bytes
        self.total_bytes = 0
        self.free_bytes = 0
        self.fault = ""

    def start(self) -> None:
        """Look now and then from now on, if there is a limit at all."""
        if self.max_usage_percent >= 0 or self.min_free_bytes > 0:
            self.workers.submit(_Look(self), FILE_LANE)

    def timer_fired(self, key: int) -> None:
        self.workers.submit(_Look(self), FILE_LANE)

    def look(self) -> None:
        try:
            self.total_bytes, self.free_bytes = self.space.measure()
            self.fault = ""
        except OSError as error:
            self.fault = f"the disk's free space is not known: {error}"

    def looked(self) -> None:
        self.timers.call_at(self.clock.monotonic_ms() + LOOK_MS, self, 0)
        if self.fault:
            self.flow.disk_warning = self.fault  # what was known last holds: neither stop nor go on without knowing
            return
        flow = self.flow
        reason = self._beyond(
            100, RESUME_POINTS if flow.disk_reason else 0, RESUME_PERCENT if flow.disk_reason else 100
        )
        flow.disk_warning = reason or self._beyond(WARNING_PERCENT, 0, 10_000 // WARNING_PERCENT)
        if reason != flow.disk_reason:
            flow.disk_reason = reason
            flow.is_blocked = True  # open_gates opens what can be opened

    def _beyond(self, usage_share: int, points: int, free_share: int) -> str:
        """Return which limit is passed in words; shares are percent of the limits."""
        used_percent = 100 * (self.total_bytes - self.free_bytes) / self.total_bytes if self.total_bytes else 0.0
        if self.max_usage_percent >= 0 and used_percent >= self.max_usage_percent * usage_share / 100 - points:
            return (
                f"{used_percent:.1f} % of the disk are used, the limit is {self.max_usage_percent} % (max-disk-usage)"
            )
        if self.free_bytes < self.min_free_bytes * free_share // 100:
            return f"{self.free_bytes} octets of the disk are free, the limit is {self.min_free_bytes} (min-disk-free)"
        return ""
