"""Planted bugs that random histories of subscriptions and other readers must find."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from engine.broker import Broker
from engine.values.stored import DestinationState, LaneState, Range
from tests.support.histories.subscription_world import SubscriptionWorld
from tests.support.histories.topic_world import TopicWorld
from tests.support.histories.view_world import ViewWorld
from tests.support.store.memory_store import MemoryStore
from tests.support.world.bugs import ChoresForgotten, IdleForgotten
from tests.support.world.seeds import READER_SEEDS, SUBSCRIPTION_SEEDS, Runnable, first_found
from what_if.ports.virtual_store import VirtualStore


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


class _PostponedForgotten(Broker):
    """A reader for which a turn had no steps left is not dispatched in the next."""

    def begin_turn(self) -> None:
        self.steps.postponed.clear()
        super().begin_turn()


def _as(kind: type[MemoryStore]) -> Callable[[MemoryStore], MemoryStore]:
    """Return what makes a store one of ``kind``, with all that it holds."""

    def wrap(store: MemoryStore) -> MemoryStore:
        wrapped = kind.__new__(kind)
        for name in (*VirtualStore.__slots__, *MemoryStore.__slots__):
            setattr(wrapped, name, getattr(store, name))
        return wrapped

    return wrap


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("world", "seeds"),
    [
        (partial(SubscriptionWorld, wrap=_as(_CursorsForgotten)), SUBSCRIPTION_SEEDS),
        (partial(SubscriptionWorld, wrap=_as(_SettlementsLost)), SUBSCRIPTION_SEEDS),
        (partial(SubscriptionWorld, broker_class=IdleForgotten.InattentiveBroker), SUBSCRIPTION_SEEDS),
        (partial(ViewWorld, broker_class=_PostponedForgotten), READER_SEEDS),
        (partial(TopicWorld, broker_class=ChoresForgotten), READER_SEEDS),
    ],
    ids=["cursors forgotten", "settlements lost", "idle forgotten", "postponed forgotten", "chores forgotten"],
)
def test_a_planted_bug_is_found(world: Callable[[int], Runnable], seeds: int) -> None:
    assert first_found(world, range(1, seeds + 1))
