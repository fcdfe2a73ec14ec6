"""Time and threads of the simulation: they move only when the World says so.

The seed decides between which two steps a job runs and between which two its result is handed over; what threads
would leave to chance is one of the choices of a run.
"""

from __future__ import annotations

import heapq
from collections import deque
from random import Random
from typing import Final

from engine.ports.clock import Clock
from engine.ports.timers import Timers, TimerTarget
from engine.ports.workers import FILE_LANE, READ_LANE, SYNC_LANE, Job, Workers

EPOCH_MS: Final = 1_700_000_000_000
LANES: Final = (SYNC_LANE, READ_LANE, FILE_LANE)


class VirtualClock(Clock):
    """now_ms: since the World began; it does not stop while the gateway is down."""

    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return EPOCH_MS + self.now_ms


class VirtualTimers(Timers):
    """Fire in order of time, then of their setting."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._waiting: list[tuple[int, int, TimerTarget, int]] = []
        self._count = 0

    def call_at(self, when_ms: int, target: TimerTarget, key: int) -> None:
        self._count += 1
        heapq.heappush(self._waiting, (when_ms, self._count, target, key))

    def next_ms(self) -> int | None:
        """Return when the next one is due."""
        return self._waiting[0][0] if self._waiting else None

    def fire_due(self) -> int:
        """Fire all that are due, also those set meanwhile for a time that has come; return how many."""
        fired = 0
        while self._waiting and self._waiting[0][0] <= self._clock.now_ms:
            _, _, target, key = heapq.heappop(self._waiting)
            target.timer_fired(key)
            fired += 1
        return fired


class VirtualWorkers(Workers):
    """One queue a lane for jobs that wait to run, one for those that wait to be handed over."""

    def __init__(self) -> None:
        self._to_run: dict[int, deque[Job]] = {lane: deque() for lane in LANES}
        self._to_finish: dict[int, deque[Job]] = {lane: deque() for lane in LANES}

    def submit(self, job: Job, lane: int) -> None:
        self._to_run[lane].append(job)

    def is_idle(self) -> bool:
        return not self.choices()

    def choices(self) -> list[tuple[str, int]]:
        """Return what could happen next."""
        found = [("run", lane) for lane in LANES if self._to_run[lane]]
        return found + [("finish", lane) for lane in LANES if self._to_finish[lane]]

    def step(self, what: str, lane: int) -> None:
        """Run one job, or hand one over."""
        if what == "run":
            job = self._to_run[lane].popleft()
            job.run()
            self._to_finish[lane].append(job)
        else:
            self._to_finish[lane].popleft().finish()

    def step_any(self, chance: Random) -> bool:
        """Take one step that the seed chooses; return False if there is none."""
        choices = self.choices()
        if choices:
            self.step(*chance.choice(choices))
        return bool(choices)

    def drain(self) -> None:
        """Take all steps there are, lane by lane."""
        while choices := self.choices():
            self.step(*choices[0])
