"""Threads of the simulation: they move only on the World's request.

The seed decides between which two steps a job runs, and between which two its result is handed over.  With real threads
chance would decide this.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Final

from engine.ports.workers import FILE_LANE, READ_LANE, SYNC_LANE, Job, Workers

LANES: Final = (SYNC_LANE, READ_LANE, FILE_LANE)


class VirtualWorkers(Workers):
    """Per lane, one queue of jobs that wait to run and one of those that wait to be handed over."""

    def __init__(self) -> None:
        self._to_run: dict[int, deque[Job]] = {lane: deque() for lane in LANES}
        self._to_finish: dict[int, deque[Job]] = {lane: deque() for lane in LANES}

    def submit(self, job: Job, lane: int) -> None:
        self._to_run[lane].append(job)

    def is_idle(self) -> bool:
        return not self.choices()

    def choices(self) -> list[tuple[str, int]]:
        """Return the possible next steps."""
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
        """Take all possible steps, lane by lane."""
        while choices := self.choices():
            self.step(*choices[0])
