"""Histories in which most messages are settled soon and space is always being freed: segments become sparse, then one.

The law is that of every history.  The events differ, and the machine crashes in the middle of compaction.
"""

from __future__ import annotations

from dataclasses import replace

from engine.ports.store import Store
from engine.store.format.layout import SPARSE
from tests.support.store.store_history import Bug, History
from tests.support.store.store_model import Settled
from tests.support.world.seeds import telling

SHORT = 30  # the largest number of entries in one settlement
FLAGS_AT = 12  # position in the header of a segment


class ThinHistory(History):
    """sparse: how many sparse segments were seen.  folded: how many segments became part of another one."""

    def __init__(self, seed: int, bug: Bug | None = None) -> None:
        super().__init__(seed, bug=bug)
        self.sparse = 0
        self.folded = 0
        self.is_rotting = False
        self.settings = replace(
            self.settings, segment_bytes=4096, retention_time_ms=0, retention_bytes=0, compaction_live_percent=100
        )

    def _do(self) -> None:
        chance = self.chance.random()
        if chance < 0.15:
            self._settle_most()
        elif chance < 0.3:
            self._let_by()
        else:
            super()._do()

    def _settle_most(self) -> None:
        """Settle all but the oldest of one place, which keeps its segment."""
        places = self.model.places()
        if not places:
            return
        name, priority = self.chance.choice(places)
        _, *pending = self.model.pending(name, priority)
        while pending:
            count = 1
            while count < len(pending) and pending[count] == pending[0] + count and count < SHORT:
                count += 1
            self._end(self._settle_picked(Settled(name, priority, pending[0], count)))
            del pending[:count]

    def _let_by(self) -> None:
        """Let time pass while space is freed; in half of the cases cut the power meanwhile."""
        self._mend_disk()
        bases = self._bases()
        if self.chance.random() < 0.5:
            self.files.crash_at = self.files.operations + self.chance.randint(1, 150)
        for _ in range(self.chance.randint(2, 12)):
            self.timers.advance(100)
            self.workers.run_all()
        gone = bases - self._bases()
        self.folded += any(base > min(self._bases()) for base in gone)
        self.sparse += sum(self.files.octets(path)[FLAGS_AT] & SPARSE != 0 for path in self.files.paths(".log"))

    def _bases(self) -> set[int]:
        return {int(path.rpartition("/")[2][:20]) for path in self.files.paths(".log")}

    def _open(self) -> Store:
        before = self._bases()
        store = super()._open()
        left = self._bases()
        self.folded += any(base > min(left) for base in before - left)
        return store


def run_seed(seed: int) -> ThinHistory:
    history = ThinHistory(seed)
    with telling("thin", seed, history.told):
        history.run(60 if seed % 2 else 40)
    return history
