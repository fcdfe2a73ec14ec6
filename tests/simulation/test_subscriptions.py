"""Topics and their subscriptions over random histories with crashes; planted bugs that this must find."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.values.stored import DestinationState, LaneState, Range
from tests.support.histories.subscription_world import SubscriptionWorld, run_seed
from tests.support.long_run import LongRun
from tests.support.store.memory_store import MemoryStore
from tests.support.world.bodies import Violation
from tests.support.world.bugs import IdleForgotten
from tests.support.world.seeds import asked_or

SEEDS = range(1, 121)


@pytest.mark.parametrize("seed", asked_or(SEEDS))
def test_subscription_seed(seed: int) -> None:
    run_seed(seed)


def test_more_seeds(long_run: LongRun) -> None:
    long_run.take(run_seed)


def test_the_seeds_see_what_they_are_for() -> None:
    worlds = [SubscriptionWorld(seed) for seed in range(1, 11)]
    for world in worlds:
        world.run()
    assert sum(world.crash_count for world in worlds) > 20
    assert sum(world.delivered_count for world in worlds) > 1_000


class _CursorsForgotten(MemoryStore):
    """Recovery begins durable subscriptions at the end of their topics."""

    def recovered(self) -> list[DestinationState]:
        found = super().recovered()
        for state in found:
            if state.topic_id:
                state.lanes = [LaneState(one.priority, one.tail, one.tail, [], {}) for one in state.lanes]
        return found


class _SettlementsLost(MemoryStore):
    """Now and then what a durable subscription has settled is not logged."""

    def settle(self, destination_id: int, consumer_id: int, outcome: int, cause: int, ranges: list[Range]) -> None:
        if not ranges[0].sizes or ranges[0].first % 7:
            super().settle(destination_id, consumer_id, outcome, cause, ranges)


def _as(kind: type[MemoryStore]) -> Callable[[MemoryStore], MemoryStore]:
    """Return what makes a store one of ``kind``, with all that it holds."""

    def wrap(store: MemoryStore) -> MemoryStore:
        wrapped = kind.__new__(kind)
        for name in MemoryStore.__slots__:
            setattr(wrapped, name, getattr(store, name))
        return wrapped

    return wrap


@pytest.mark.parametrize("kind", [_CursorsForgotten, _SettlementsLost])
def test_a_planted_bug_of_the_store_is_found(kind: type[MemoryStore]) -> None:
    assert any(_finds(SubscriptionWorld(seed, wrap=_as(kind))) for seed in SEEDS)


def test_a_planted_bug_of_the_engine_is_found() -> None:
    assert any(_finds(SubscriptionWorld(seed, broker_class=IdleForgotten.InattentiveBroker)) for seed in SEEDS)


def _finds(world: SubscriptionWorld) -> bool:
    try:
        world.run()
    except Violation:
        return True
    return False
