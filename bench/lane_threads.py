"""Surroundings of a store alone: a thread for each lane of work, and timers that fire on request."""

from __future__ import annotations

import heapq
import queue
import threading

from engine.ports.clock import Clock
from engine.ports.timers import Timers, TimerTarget
from engine.ports.workers import FILE_LANE, READ_LANE, SYNC_LANE, Job, Workers


class DueTimers(Timers):
    """Fire when ``fire_due`` is called."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._set: list[tuple[int, int, TimerTarget, int]] = []
        self._count = 0

    def call_at(self, when_ms: int, target: TimerTarget, key: int) -> None:
        self._count += 1
        heapq.heappush(self._set, (when_ms, self._count, target, key))

    def fire_due(self) -> None:
        now_ms = self._clock.monotonic_ms()
        while self._set and self._set[0][0] <= now_ms:
            _, _, target, key = heapq.heappop(self._set)
            target.timer_fired(key)


class LaneThreads(Workers):
    """Runs jobs as the gateway does; ``pump`` finishes them on the caller's thread."""

    def __init__(self) -> None:
        self._lanes: dict[int, queue.SimpleQueue[Job]] = {}
        self._done: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._under_way = 0
        for lane in (SYNC_LANE, READ_LANE, FILE_LANE):
            self._lanes[lane] = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(self._lanes[lane],), daemon=True).start()

    def submit(self, job: Job, lane: int) -> None:
        self._under_way += 1
        self._lanes[lane].put(job)

    def pump(self, is_waiting: bool) -> None:
        """Finish completed jobs; is_waiting: wait for at least one, if any is under way."""
        while self._under_way:
            try:
                job = self._done.get(block=is_waiting)
            except queue.Empty:
                return
            is_waiting = False
            self._under_way -= 1
            job.finish()

    def drain(self) -> None:
        """Wait until no job is under way."""
        while self._under_way:
            self.pump(True)

    def _serve(self, jobs: queue.SimpleQueue[Job]) -> None:
        while True:
            job = jobs.get()
            job.run()
            self._done.put(job)
