"""The order in which several processes share the suite.

xdist gives each process a run of tests of equal length; who has finished takes the end of the longest run.  So each run
begins with files that wait for other processes, which then wait side by side, and the end of each is short tests that
any process may take.  The files that use Spark are in one run, because they share its JVM.  Tests of a file stay
together: otherwise each part would make the fixtures of the file anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

Item = TypeVar("Item")


def in_runs(
    items: list[Item],
    run_count: int,
    file_of: Callable[[Item], Hashable],
    waits: Callable[[Item], bool],
    is_together: Callable[[Item], bool],
) -> list[Item]:
    """Return the items in their order for so many processes.

    waits: whether a test had better begin early.  is_together: whether its file belongs into the first run.
    """
    files: dict[Hashable, list[Item]] = {}
    for item in items:
        files.setdefault(file_of(item), []).append(item)
    together = [file for file, tests in files.items() if any(map(is_together, tests))]
    waiting = [file for file, tests in files.items() if file not in together and any(map(waits, tests))]
    first: list[list[Item]] = [[] for _ in range(run_count)]
    for file in together:
        first[0] += files[file]
    for place, file in enumerate(waiting):
        first[-1 - place % max(1, run_count - 1)] += files[file]
    early = {*together, *waiting}
    rest = [item for item in items if file_of(item) not in early]
    ordered: list[Item] = []
    for place, run in enumerate(first):
        size = (len(items) - len(ordered)) // (run_count - place)  # as xdist divides them
        count = max(0, size - len(run))
        ordered += run + rest[:count]
        del rest[:count]
    return ordered
