"""Schedules over random histories with stops of every kind; planted bugs that this must find."""

from __future__ import annotations

import pytest

from engine.ports.store import Store
from engine.values.stored import DestinationState, Range
from tests.support.histories.schedule_world import ScheduleWorld, run_seed
from tests.support.long_run import LongRun
from tests.support.world.bodies import Violation
from tests.support.world.seeds import asked_or
from tests.support.world.store import StoreWrapper

SEEDS = range(1, 81)


@pytest.mark.parametrize("seed", asked_or(SEEDS))
def test_schedule_seed(seed: int) -> None:
    run_seed(seed)


def test_more_seeds(long_run: LongRun) -> None:
    long_run.take(run_seed)


def test_the_seeds_see_what_they_are_for() -> None:
    worlds = [run_seed(seed) for seed in range(1, 16)]
    assert sum(world.stop_count for world in worlds) > 40
    assert sum(world.fired_count for world in worlds) > 1_000
    assert sum(world.sparse_count for world in worlds) > 0
    assert any(one.fired_at_cancel >= 0 for world in worlds for one in world.asked.values())


class _Torn(StoreWrapper):
    """What belongs together is not written as one batch."""

    def begin(self) -> None:
        pass

    def commit(self) -> None:
        pass


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


@pytest.mark.parametrize("kind", [_Torn, _Forgetful, _LaneLost, _Unsettled])
def test_a_planted_bug_is_found(kind: type[StoreWrapper]) -> None:
    class Planted(ScheduleWorld):
        def wrap(self, store: Store) -> Store:
            return kind(store)

    def finds(seed: int) -> bool:
        try:
            run_seed(seed, Planted)
        except Violation:
            return True
        return False

    assert any(finds(seed) for seed in SEEDS)
