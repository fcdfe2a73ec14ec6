"""Guests: connections that wait, hold much and leave slowly, and planted bugs: see `guest_world.py`."""

from __future__ import annotations

from typing import Any

import pytest

from engine.broker import Broker
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.sources.composite import Source
from engine.values.errors import EngineError
from engine.values.options import SubscribeOptions
from tests.support.engine.broker_view import BrokerView
from tests.support.histories.guest_world import GuestWorld, run_seed
from tests.support.long_run import LongRun
from tests.support.world.bodies import Violation
from tests.support.world.seeds import asked_or

SEEDS = range(1, 121)


@pytest.mark.parametrize("seed", asked_or(SEEDS))
def test_guest_seed(seed: int) -> None:
    run_seed(seed)


def test_more_seeds(long_run: LongRun) -> None:
    long_run.take(run_seed)


def test_same_seed_gives_same_history() -> None:
    for seed in range(1, 4):
        assert run_seed(seed).told == run_seed(seed).told


def test_the_seeds_see_what_they_are_for() -> None:
    worlds = [run_seed(seed) for seed in range(1, 61)]
    for what in (
        "brings a temporary queue",
        "sends to a temporary queue in 40",
        "sends to a temporary queue in a transaction, in 900",
        "commits",
        "commits to what has gone",
        "waits for room",
        "comes back at once",
        "is not the owner",
        "has spilled",
        "glances",
        "is given up",
        "refuses requeue, and meanwhile an end",
        "refuses requeue, and meanwhile a departure",
    ):
        assert sum(world.counts.get(what, 0) for world in worlds) > 2, what


class _WaitsForEver(Broker):
    """Nobody is told that its time at a full address is over."""

    def end_turn(self) -> int:
        self.flow.waits.deadlines.clear()
        return super().end_turn()


class _AnybodysSubscription(Broker):
    """Whose a durable subscription is nobody asks."""

    def subscribe(self, client: Client, source: Source, options: SubscribeOptions) -> Consumer:
        client.user = ""
        return super().subscribe(client, source, options)


class _StillHolding(Broker):
    """What a connection held counts on when it has gone."""

    def disconnect(self, client: Client, is_lost: bool) -> None:
        self.holdings.used_bytes += client.held_bytes
        super().disconnect(client, is_lost)


class _EndsNobody(Broker):
    """Connections may hold any amount."""

    def end_turn(self) -> int:
        self.holdings.is_over = False
        return super().end_turn()


class _FilesKeep(Broker):
    """What has expired in temporary files stays there."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.expiry.spill_sweep = None


class _TemporariesStay(Broker):
    """A temporary destination does not end with its connection."""

    def disconnect(self, client: Client, is_lost: bool) -> None:
        self.destinations.owned.pop(client.client_number, None)
        super().disconnect(client, is_lost)


class _LeavesHalfway(Broker):
    """What one turn does not finish of a departure is forgotten."""

    def begin_turn(self) -> None:
        self.steps.chores.clear()
        super().begin_turn()


class _ForgetsRefusals(Broker):
    """What a client has refused and that still waits goes with its connection."""

    def disconnect(self, client: Client, is_lost: bool) -> None:
        refusing = self.refusals._under_way.get(client.client_number)
        if refusing is not None:
            before = BrokerView(self).refused()
            refusing.jobs.clear()
            for queue in before:
                queue.fates.refused_count = BrokerView(self).refused().get(queue, 0)
        super().disconnect(client, is_lost)


@pytest.mark.parametrize(
    ("broker_class", "says"),
    [
        (_ForgetsRefusals, "never came"),
        (_WaitsForEver, "ms, allowed are"),
        (_AnybodysSubscription, "was taken by another user"),
        (_StillHolding, "what connections hold is not what is counted"),
        (_EndsNobody, "octets after a turn"),
        (_FilesKeep, "is there after two scans"),
        (_TemporariesStay, "everything has come to its end, and yet"),
        (_LeavesHalfway, ""),
    ],
)
def test_planted_bug_is_found(broker_class: type[Broker], says: str) -> None:
    assert says in first_found(broker_class)


def first_found(broker_class: type[Broker]) -> str:
    for seed in SEEDS:
        try:
            GuestWorld(seed, broker_class).run()
        except (Violation, EngineError) as violation:  # the law, or a refusal that no client has earned
            return str(violation)
    raise AssertionError(f"{broker_class.__name__} is not found in {len(SEEDS)} seeds")
