"""How far a queue, or a durable subscription, has come in one consume queue: what is settled, what has failed."""

from __future__ import annotations

from dataclasses import replace

from engine.store.state.settled_entries import SettledEntries
from engine.values.stored import Attempts


class Progress:
    """attempts: of entries that are not settled, by queue offset."""

    __slots__ = ("settled", "attempts")

    def __init__(self, cursor: int) -> None:
        self.settled = SettledEntries(cursor)
        self.attempts: dict[int, Attempts] = {}

    def settle(self, first: int, count: int) -> None:
        """Take ``count`` entries from ``first`` on out."""
        self.settled.add(first, count)
        attempts = self.attempts
        if attempts:
            if count <= len(attempts):
                for entry in range(first, first + count):
                    attempts.pop(entry, None)
            else:
                for entry in [entry for entry in attempts if first <= entry < first + count]:
                    del attempts[entry]

    def settle_runs(self, firsts: list[int], counts: list[int]) -> None:
        """Do the same for several runs of entries, given as two columns."""
        if self.attempts:
            for first, count in zip(firsts, counts, strict=True):
                self.settle(first, count)
        else:
            self.settled.add_runs(firsts, counts)

    def fail(self, first: int, count: int, attempt: Attempts) -> None:
        """Note a failed attempt of ``count`` entries; of each, the time of the first one stays."""
        for entry in range(first, first + count):
            if not self.settled.contains(entry):
                known = self.attempts.get(entry)
                self.attempts[entry] = attempt if known is None else replace(attempt, first_ms=known.first_ms)
