"""The progress of a queue or durable subscription in one consume queue: settled entries, failed entries."""

from __future__ import annotations

from engine.store.state.failed_entries import FailedEntries
from engine.store.state.settled_entries import SettledEntries
from engine.values.stored import Attempts


class Progress:
    """failed: attempts of unsettled entries; usually None: there are none."""

    __slots__ = ("settled", "failed")

    def __init__(self, cursor: int) -> None:
        self.settled = SettledEntries(cursor)
        self.failed: FailedEntries | None = None

    def attempts(self) -> dict[int, Attempts]:
        """Return the failed attempts by entry."""
        return {} if self.failed is None else self.failed.all()

    def attempts_of(self, entry: int) -> Attempts | None:
        """Return the failed attempts of an entry."""
        return None if self.failed is None else self.failed.get(entry)

    def settle(self, first: int, count: int) -> None:
        """Settle ``count`` entries from ``first`` on."""
        self.settled.add(first, count)
        failed = self.failed
        if failed is not None:
            failed.settle(first, count)
            if not failed.pages:
                self.failed = None

    def settle_runs(self, firsts: list[int], counts: list[int]) -> None:
        """Do the same for several runs of entries, given as two columns."""
        if self.failed is not None:
            for first, count in zip(firsts, counts, strict=True):
                self.settle(first, count)
        else:
            self.settled.add_runs(firsts, counts)

    def fail(self, first: int, count: int, attempt: Attempts) -> None:
        """Record a failed attempt of ``count`` entries; each keeps the time of its first one."""
        for entry in range(first, first + count):
            if not self.settled.contains(entry):
                if self.failed is None:
                    self.failed = FailedEntries()
                self.failed.note(entry, attempt)
