"""Planted bugs that prepared transactions over random histories with stops of every kind must find."""

from __future__ import annotations

import pytest

from engine.ports.store import Store
from engine.values.destination import PREPARED_QUEUE
from engine.values.message import Message
from engine.values.stored import Range
from tests.support.histories.branch_world import BranchWorld
from tests.support.world.seeds import BRANCH_SEEDS, first_found
from tests.support.world.store import StoreWrapper, TornApart


class _OutcomeLost(StoreWrapper):
    """Now and then the records of a branch stay after its outcome."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._number = -1

    def open_destination(self, kind: int, name: str) -> int:
        number = super().open_destination(kind, name)
        if name == PREPARED_QUEUE:
            self._number = number
        return number

    def settle(self, destination_id: int, consumer_id: int, outcome: int, cause: int, ranges: list[Range]) -> None:
        if destination_id != self._number or ranges[0].first % 5:
            self.inner.settle(destination_id, consumer_id, outcome, cause, ranges)


class _NothingHeld(StoreWrapper):
    """What a branch has acknowledged is forgotten by a start."""

    def read_messages(self, destination_id: int, priority: int, first: int, count: int) -> list[Message]:
        found = self.inner.read_messages(destination_id, priority, first, count)
        return [
            one if not one.annotations.startswith(b"prepared-xid") else one.twin(one.flags, one.annotations, b"", b"")
            for one in found
        ]


class _PreparedLost(StoreWrapper):
    """A start finds no branches."""

    def read_messages(self, destination_id: int, priority: int, first: int, count: int) -> list[Message]:
        return []


@pytest.mark.interpreted
@pytest.mark.parametrize("kind", [TornApart, _OutcomeLost, _NothingHeld, _PreparedLost])
def test_a_planted_bug_is_found(kind: type[StoreWrapper]) -> None:
    class Planted(BranchWorld):
        def wrap(self, store: Store) -> Store:
            return kind(store)

    assert first_found(Planted, range(1, BRANCH_SEEDS + 1))
