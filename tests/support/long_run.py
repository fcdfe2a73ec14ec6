"""Seeds one after the other, until a time or a number is reached: the long form of every simulation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LongRun:
    """first: the seed to begin with.  count: how many, 0 for as many as ``minutes`` allow."""

    first: int
    count: int
    minutes: float

    def take(self, run: Callable[[int], object]) -> int:
        """Run seed after seed; return how many.  Whatever ``run`` raises ends it, and names its seed itself."""
        print(f"from --seed {self.first} on, {self.count or f'{self.minutes:g} minutes of'} seeds")
        end = time.monotonic() + self.minutes * 60
        taken = 0
        while taken < self.count if self.count else time.monotonic() < end:
            run(self.first + taken)
            taken += 1
        print(f"{taken} seeds")
        return taken
