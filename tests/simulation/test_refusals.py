"""Refusals that go on through many turns beside everything else, and planted bugs: see `refusal_world.py`."""

from __future__ import annotations

import pytest

from engine.broker import Broker
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.fate.refusals import Refusing
from engine.values.errors import EngineError
from tests.support.histories.refusal_world import RefusalWorld, run_seed
from tests.support.long_run import LongRun
from tests.support.world.bodies import Violation
from tests.support.world.seeds import asked_or

SEEDS = range(1, 121)


@pytest.mark.parametrize("seed", asked_or(SEEDS))
def test_refusal_seed(seed: int) -> None:
    run_seed(seed)


def test_more_seeds(long_run: LongRun) -> None:
    long_run.take(run_seed)


def test_same_seed_gives_same_history() -> None:
    for seed in range(1, 4):
        assert run_seed(seed).told == run_seed(seed).told


def test_the_seeds_see_what_they_are_for() -> None:
    worlds = [run_seed(seed) for seed in range(1, 61)]
    for what in (
        "refuses",
        "closes while its client refuses",
        "purges what is refused",
        "deletes what is refused",
        "waits while somebody refuses",
        "ends a slow consumer",
    ):
        assert sum(world.counts.get(what, 0) for world in worlds) > 2, what


class _HeirsAreHasty(Broker):
    """An exclusive queue hands over though some of what was refused is not back."""

    def end_turn(self) -> int:
        counts = {queue: queue.fates.refused_count for queue in self.destinations.queues.values()}
        for queue in counts:
            queue.fates.refused_count = 0
        offset = super().end_turn()
        for queue, count in counts.items():
            queue.fates.refused_count += count
            if count and not queue.fates.refused_count:
                queue.mark_dirty()
        return offset


class _DropsRefused(Broker):
    """What a client has refused goes with a consumer that it closes meanwhile."""

    def unsubscribe(self, consumer: Consumer, is_lost: bool) -> None:
        refusing = self.refusals._under_way.get(consumer.client.client_number)
        if refusing is not None:
            refusing.jobs.clear()
        super().unsubscribe(consumer, is_lost)


class _CountsTwice(Broker):
    """What is refused is counted once more when its client goes."""

    def disconnect(self, client: Client, is_lost: bool) -> None:
        for chore in self.steps.chores:
            if isinstance(chore, Refusing) and client.is_refusing:
                for consumer in chore.held.values():
                    consumer.queue.fates.refused_count += 1
        super().disconnect(client, is_lost)


@pytest.mark.parametrize(
    ("broker_class", "says"),
    [
        (_HeirsAreHasty, "which is before it, waits"),
        (_DropsRefused, ""),
        (_CountsTwice, ""),
    ],
)
def test_planted_bug_is_found(broker_class: type[Broker], says: str) -> None:
    assert says in first_found(broker_class)


def first_found(broker_class: type[Broker]) -> str:
    for seed in SEEDS:
        try:
            RefusalWorld(seed, broker_class).run()
        except (Violation, EngineError) as violation:
            return str(violation)
    raise AssertionError(f"{broker_class.__name__} is not found in {len(SEEDS)} seeds")
