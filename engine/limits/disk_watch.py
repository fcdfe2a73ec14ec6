"""Stops producers before the disk is full, and warns earlier.

Source: Artemis max-disk-usage and min-disk-free (docs/reference/semantics.md, "Disk").
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

from engine.limits.producer_gate import Flow
from engine.ports.clock import Clock
from engine.ports.timers import Timers, TimerTarget
from engine.ports.workers import FILE_LANE, Job, Workers

LOOK_MS: Final = 1_000
FILLED: Final = "the space left at the last check of the disk is used up; it is being checked again"
NEVER: Final = 1 << 63  # no log grows that long
WARNING_PERCENT: Final = 90  # of a limit; from here on the operator is warned
RESUME_POINTS: Final = 1  # percent of the disk below max-disk-usage at which producers continue
RESUME_PERCENT: Final = 105  # of min-disk-free, likewise


@mypyc_attr(allow_interpreted_subclasses=True)
class DiskSpace(ABC):
    """The disk that holds the store."""

    @abstractmethod
    def measure(self) -> tuple[int, int]:
        """Return (octets in all, octets free); called on a worker thread.  Raises: OSError."""


class _Look(Job):
    """One check of the disk, on a worker thread."""

    __slots__ = ("watch",)

    def __init__(self, watch: DiskWatch) -> None:
        self.watch = watch

    def run(self) -> None:
        self.watch.look()

    def finish(self) -> None:
        self.watch.looked()


class DiskWatch(TimerTarget):
    """Checks the disk each second, and sooner once half of the room up to a limit was appended since the last check.

    If all of that room was appended before the check is done, producers wait for it.

    max_usage_percent: -1 for no limit.  min_free_bytes: 0 for none.
    fault: why the last check has failed.
    written_offset: the log is on the disk up to here.  looked_at_offset: the same at the last check.
    look_offset: end of the log that triggers a check.  stop_offset: end at which a limit may be passed.
    is_guessed: ``stop_offset`` was reached, and no check has come since.
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
        "written_offset",
        "look_offset",
        "looked_at_offset",
        "is_looking",
        "stop_offset",
        "is_guessed",
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
        self.written_offset = 0
        self.look_offset = NEVER
        self.looked_at_offset = 0
        self.is_looking = False
        self.stop_offset = NEVER
        self.is_guessed = False

    def start(self) -> None:
        """Check now and then from now on, if there is a limit at all."""
        if self.max_usage_percent >= 0 or self.min_free_bytes > 0:
            self.timer_fired(0)

    def turn_ended(self, append_offset: int, written_offset: int) -> None:
        """Record the end of the log, and how far it is on the disk."""
        self.written_offset = written_offset
        if append_offset >= self.look_offset:
            self._look_soon()
        if append_offset >= self.stop_offset:
            self.stop_offset = NEVER
            self.is_guessed = True
            self._stop_or_go(FILLED)

    def timer_fired(self, key: int) -> None:
        self.timers.call_at(self.clock.monotonic_ms() + LOOK_MS, self, 0)
        self._look_soon()

    def _look_soon(self) -> None:
        if not self.is_looking:
            self.is_looking = True
            self.look_offset = NEVER
            self.looked_at_offset = self.written_offset
            self.workers.submit(_Look(self), FILE_LANE)

    def look(self) -> None:
        try:
            self.total_bytes, self.free_bytes = self.space.measure()
            self.fault = ""
        except OSError as error:
            self.fault = f"the disk's free space is not known: {error}"

    def looked(self) -> None:
        self.is_looking = False
        if self.fault:
            self.flow.disk_warning = self.fault  # the last known state holds: neither stop nor continue without knowing
            return
        flow = self.flow
        is_stopped = bool(flow.disk_reason) and not self.is_guessed
        self.is_guessed = False
        reason = self._beyond(100, RESUME_POINTS if is_stopped else 0, RESUME_PERCENT if is_stopped else 100)
        flow.disk_warning = reason or self._beyond(WARNING_PERCENT, 0, 10_000 // WARNING_PERCENT)
        self._stop_or_go(reason)
        if not reason:
            room_bytes = self._room_bytes()
            self.look_offset = self.looked_at_offset + room_bytes // 2
            self.stop_offset = self.looked_at_offset + room_bytes

    def _stop_or_go(self, reason: str) -> None:
        if reason != self.flow.disk_reason:
            self.flow.disk_reason = reason
            self.flow.block()  # ``open_gates`` reopens them if possible

    def _room_bytes(self) -> int:
        """Return the octets that may be written before a limit is reached."""
        room = self.free_bytes - self.min_free_bytes
        if self.max_usage_percent >= 0:
            room = min(room, self.free_bytes - self.total_bytes * (100 - self.max_usage_percent) // 100)
        return room

    def _beyond(self, usage_share: int, points: int, free_share: int) -> str:
        """Return the limit that is passed, in words; shares are percent of the limits."""
        used_percent = 100 * (self.total_bytes - self.free_bytes) / self.total_bytes if self.total_bytes else 0.0
        if self.max_usage_percent >= 0 and used_percent >= self.max_usage_percent * usage_share / 100 - points:
            return (
                f"{used_percent:.1f} % of the disk are used, the limit is {self.max_usage_percent} % (max-disk-usage)"
            )
        if self.free_bytes < self.min_free_bytes * free_share // 100:
            return f"{self.free_bytes} octets of the disk are free, the limit is {self.min_free_bytes} (min-disk-free)"
        return ""
