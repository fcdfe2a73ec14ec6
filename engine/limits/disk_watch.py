"""Stops producers before the disk is full, and warns earlier.

Source: Artemis max-disk-usage and min-disk-free (docs/reference/semantics.md, "Disk").
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

from mypy_extensions import mypyc_attr

from engine.limits.producer_gates import ProducerGates
from engine.ports.clock import Clock
from engine.ports.timers import Timers, TimerTarget
from engine.ports.workers import FILE_LANE, Job, Workers

CHECK_MS: Final = 1_000
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


@dataclass(slots=True, eq=False)
class _DiskCheck(Job):
    """One check of the disk, on a worker thread."""

    watch: DiskWatch

    def run(self) -> None:
        self.watch.measure_disk()

    def finish(self) -> None:
        self.watch.checked()


@dataclass(slots=True, eq=False)
class DiskWatch(TimerTarget):
    """Checks the disk each second, and sooner once half of the room up to a limit was appended since the last check.

    If all of that room was appended before the check is done, producers wait for it.

    max_usage_percent: -1 for no limit.  min_free_bytes: 0 for none.
    fault: why the last check has failed.
    written_offset: the log is on the disk up to here.  checked_offset: the same at the last check.
    check_offset: end of the log that triggers a check.  stop_offset: end at which a limit may be passed.
    is_guessed: ``stop_offset`` was reached, and no check has come since.
    """

    producer_gates: ProducerGates
    space: DiskSpace
    workers: Workers
    clock: Clock
    timers: Timers
    max_usage_percent: int
    min_free_bytes: int
    total_bytes: int = 0
    free_bytes: int = 0
    fault: str = ""
    written_offset: int = 0
    check_offset: int = NEVER
    checked_offset: int = 0
    is_checking: bool = False
    stop_offset: int = NEVER
    is_guessed: bool = False

    def start(self) -> None:
        """Check now and then from now on, if there is a limit at all."""
        if self.max_usage_percent >= 0 or self.min_free_bytes > 0:
            self.timer_fired(0)

    def turn_ended(self, append_offset: int, written_offset: int) -> None:
        """Record the end of the log, and how far it is on the disk."""
        self.written_offset = written_offset
        if append_offset >= self.check_offset:
            self._check_soon()
        if append_offset >= self.stop_offset:
            self.stop_offset = NEVER
            self.is_guessed = True
            self._stop_or_go(FILLED)

    def timer_fired(self, key: int) -> None:
        self.timers.call_at(self.clock.monotonic_ms() + CHECK_MS, self, 0)
        self._check_soon()

    def _check_soon(self) -> None:
        if not self.is_checking:
            self.is_checking = True
            self.check_offset = NEVER
            self.checked_offset = self.written_offset
            self.workers.submit(_DiskCheck(self), FILE_LANE)

    def measure_disk(self) -> None:
        try:
            total_bytes, self.free_bytes = self.space.measure()
            self.total_bytes = total_bytes  # last: it says to the engine's thread that both are known
            self.fault = ""
        except OSError as error:
            self.fault = f"the disk's free space is not known: {error}"

    def checked(self) -> None:
        self.is_checking = False
        if self.fault:
            # The last known state holds: neither stop nor continue without knowing.
            self.producer_gates.disk_warning = self.fault
            return
        producer_gates = self.producer_gates
        is_stopped = bool(producer_gates.disk_reason) and not self.is_guessed
        self.is_guessed = False
        reason = self._beyond(100, RESUME_POINTS if is_stopped else 0, RESUME_PERCENT if is_stopped else 100)
        producer_gates.disk_warning = reason or self._beyond(WARNING_PERCENT, 0, 10_000 // WARNING_PERCENT)
        self._stop_or_go(reason)
        if not reason:
            room_bytes = self._room_bytes()
            self.check_offset = self.checked_offset + (room_bytes + 1) // 2
            self.stop_offset = self.checked_offset + room_bytes

    def _stop_or_go(self, reason: str) -> None:
        if reason != self.producer_gates.disk_reason:
            self.producer_gates.disk_reason = reason
            self.producer_gates.block()  # ``open_gates`` reopens them if possible

    def room_bytes(self) -> int | None:
        """Return the octets that could be written before a limit at the last check; None before the first one.

        Negative: a limit is passed.  Without a limit there are no checks.
        """
        return self._room_bytes() if self.total_bytes else None

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
        if self.min_free_bytes and self.free_bytes <= self.min_free_bytes * free_share // 100:  # no room is left
            return f"{self.free_bytes} octets of the disk are free, the limit is {self.min_free_bytes} (min-disk-free)"
        return ""
