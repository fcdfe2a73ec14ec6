"""The surroundings of a store that a command opens to change it while no gateway runs."""

from __future__ import annotations

from collections import deque

from engine.ports.timers import Timers, TimerTarget
from engine.ports.workers import Job, Workers


class WorkersInTurn(Workers):
    """Runs jobs when told so, in their order."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()

    def submit(self, job: Job, lane: int) -> None:
        self._jobs.append(job)

    def run_all(self) -> None:
        while self._jobs:
            job = self._jobs.popleft()
            job.run()
            job.finish()


class NoTimers(Timers):
    """Nothing waits for its time: the store is closed before."""

    def call_at(self, when_ms: int, target: TimerTarget, key: int) -> None:
        pass
