"""Planted bugs that schedules over random histories with stops of every kind must find."""

from __future__ import annotations

import pytest

from engine.ports.store import Store
from engine.values.stored import DestinationState, Range
from tests.support.histories.schedule_world import ScheduleWorld
from tests.support.world.seeds import SCHEDULE_SEEDS, first_found
from tests.support.world.store import StoreWrapper, TornApart


class _Forgetful(StoreWrapper):
    """How often something has fired is not logged."""

    def fail_attempts(
        self, destination_id: int, consumer_id: int, cause: int, due_ms: int, ranges: list[Range]
    ) -> None:
        pass


class _LaneLost(StoreWrapper):
    """What repeats is not taken up again."""

    def recovered(self) -> list[DestinationState]:
        found = self.inner.recovered()
        for state in found:
            state.lanes = [lane for lane in state.lanes if lane.priority != 9 or state.name in ("a", "b")]
        return found


class _Unsettled(StoreWrapper):
    """Now and then a firing does not leave the schedule."""

    def settle(self, destination_id: int, consumer_id: int, outcome: int, cause: int, ranges: list[Range]) -> None:
        if ranges[0].first % 5:
            self.inner.settle(destination_id, consumer_id, outcome, cause, ranges)


@pytest.mark.interpreted
@pytest.mark.parametrize("kind", [TornApart, _Forgetful, _LaneLost, _Unsettled])
def test_a_planted_bug_is_found(kind: type[StoreWrapper]) -> None:
    class Planted(ScheduleWorld):
        def wrap(self, store: Store) -> Store:
            return kind(store)

    assert first_found(Planted, range(1, SCHEDULE_SEEDS + 1))
