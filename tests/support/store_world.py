"""Time and workers that a test moves by hand, and a listener that remembers: what a store is run with."""

from __future__ import annotations

from collections import deque

from engine.ports.clock import Clock
from engine.ports.store import StoreListener
from engine.ports.timers import Timers, TimerTarget
from engine.ports.workers import Job, Workers
from engine.values.message import Message
from engine.values.stored import Entry, LanePlace

START_WALL_MS = 1_700_000_000_000


class ManualClock(Clock):
    """Stands still until it is advanced."""

    def __init__(self, wall_ms: int = START_WALL_MS) -> None:
        self.now_ms = 0
        self.wall_start_ms = wall_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.wall_start_ms + self.now_ms


class ManualTimers(Timers):
    """Timers that fire when ``advance`` reaches them."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self._set: list[tuple[int, int, TimerTarget, int]] = []
        self._count = 0

    def call_at(self, when_ms: int, target: TimerTarget, key: int) -> None:
        self._count += 1
        self._set.append((when_ms, self._count, target, key))

    def advance(self, milliseconds: int) -> None:
        """Let time pass, firing what falls due in between."""
        end = self.clock.now_ms + milliseconds
        while due := [timer for timer in self._set if timer[0] <= end]:
            timer = min(due, key=lambda timer: timer[:2])
            self._set.remove(timer)
            self.clock.now_ms = max(self.clock.now_ms, timer[0])
            timer[2].timer_fired(timer[3])
        self.clock.now_ms = end


class ManualWorkers(Workers):
    """Jobs run when the test says so, in the order of their submission; ``lanes`` picks some."""

    def __init__(self) -> None:
        self.jobs: deque[tuple[Job, int]] = deque()

    def submit(self, job: Job, lane: int) -> None:
        self.jobs.append((job, lane))

    def run_one(self, lane: int | None = None) -> bool:
        """Run and finish the oldest job, of one lane if given; return False if there is none."""
        for number, (job, job_lane) in enumerate(self.jobs):
            if lane is None or job_lane == lane:
                del self.jobs[number]
                job.run()
                job.finish()
                return True
        return False

    def run_all(self, lane: int | None = None) -> None:
        """Run jobs, and those that they lead to, until none is left."""
        while self.run_one(lane):
            pass


class Page:
    """One answer of ``page_loaded``."""

    def __init__(
        self, destination_id: int, priority: int, first: int, next_offset: int, messages: list[Message], reader: int
    ) -> None:
        self.destination_id = destination_id
        self.priority = priority
        self.first = first
        self.next_offset = next_offset
        self.messages = messages
        self.reader = reader


class RecordingListener(StoreListener):
    """Remembers everything that a store tells."""

    def __init__(self) -> None:
        self.durable_offset = 0
        self.pages: list[Page] = []
        self.page_failures: list[str] = []
        self.failed_readers: list[int] = []
        self.failures: list[str] = []
        self.skipped: list[tuple[int, str]] = []
        self.skipped_sizes: list[int] = []
        self.skipped_readers: list[int] = []
        self.healed_count = 0
        self.sought_places: list[tuple[int, int, list[LanePlace]]] = []
        self.seek_failures: list[tuple[int, str]] = []
        self.expired: list[tuple[int, list[tuple[int, int]], int]] = []

    def durable(self, offset: int) -> None:
        assert offset >= self.durable_offset, "what is durable does not become less"
        self.durable_offset = offset

    def page_loaded(
        self, destination_id: int, priority: int, first: int, next_offset: int, messages: list[Message], reader: int = 0
    ) -> None:
        self.pages.append(Page(destination_id, priority, first, next_offset, messages, reader))

    def page_failed(self, destination_id: int, priority: int, first: int, reason: str, reader: int = 0) -> None:
        self.page_failures.append(reason)
        self.failed_readers.append(reader)

    def record_skipped(
        self, destination_id: int, priority: int, queue_offset: int, size_bytes: int, reason: str, reader: int = 0
    ) -> None:
        self.skipped.append((queue_offset, reason))
        self.skipped_sizes.append(size_bytes)
        self.skipped_readers.append(reader)

    def sought(self, reader: int, log_start: int, places: list[LanePlace]) -> None:
        self.sought_places.append((reader, log_start, places))

    def expired_found(
        self, destination_id: int, priority: int, first: int, next_offset: int, expired: list[Entry], next_ms: int
    ) -> None:
        self.expired.append((next_offset, [(entry.offset, entry.size_bytes) for entry in expired], next_ms))

    def seek_failed(self, reader: int, reason: str) -> None:
        self.seek_failures.append((reader, reason))

    def store_failed(self, reason: str) -> None:
        self.failures.append(reason)

    def store_healed(self) -> None:
        self.healed_count += 1
