"""Runs of one seed after the other, until a time or a number is reached: the long form of every simulation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait

Run = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class LongRun:
    """first: the seed to begin with.  count: how many, 0 for as many as ``minutes`` allow.

    processes: the number of processes that share the seeds.
    """

    first: int
    count: int
    minutes: float
    processes: int = 1

    def take(self, run: Run) -> int:
        """Run seed after seed; return how many.  An exception of ``run`` ends it, and names its seed itself."""
        print(f"from --seed {self.first} on, {self.count or f'{self.minutes:g} minutes of'} seeds")
        taken = self._share(run, 0) if self.processes == 1 else self._take_together(run)
        print(f"{taken} seeds; go on with --seed {self.first + taken}")
        return taken

    def _share(self, run: Run, number: int) -> int:
        """Run every ``processes``-th seed, from the one with that number on."""
        end = time.monotonic() + self.minutes * 60
        taken = 0
        while number < self.count if self.count else time.monotonic() < end:
            run(self.first + number)
            number += self.processes
            taken += 1
        return taken

    def _take_together(self, run: Run) -> int:
        context = get_context("fork")  # the function belongs to a test, with all its loaded modules
        answers: list[Connection] = []
        children = []
        for number in range(self.processes):
            answer, told = context.Pipe(duplex=False)
            child = context.Process(target=self._tell, args=(run, number, told))
            child.start()
            told.close()
            answers.append(answer)
            children.append(child)
        taken = 0
        try:
            while answers:
                ready = wait(answers)
                for answer in [one for one in answers if one in ready]:
                    try:
                        count, failure = answer.recv()
                    except EOFError:
                        raise AssertionError("a process ended in the middle; the reason is above") from None
                    if failure:
                        raise AssertionError(failure)
                    taken += count
                    answers.remove(answer)
        finally:
            for child in children:
                child.terminate()
                child.join()
        return taken

    def _tell(self, run: Run, number: int, told: Connection) -> None:
        try:
            told.send((self._share(run, number), ""))
        except AssertionError as error:
            told.send((0, str(error)))
