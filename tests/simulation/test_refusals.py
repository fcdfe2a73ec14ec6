"""Planted bugs that connections which wait, hold much, refuse and leave slowly must find: see `refusal_world.py`."""

from __future__ import annotations

from typing import Any

import pytest

from engine.broker import Broker
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.fate.refusals import Refusing
from engine.sources.composite import Source
from engine.values.delivery import Delivery, Refusal
from engine.values.options import SubscribeOptions
from tests.support.engine.broker_view import BrokerView
from tests.support.histories.refusal_world import RefusalWorld, run_seed
from tests.support.world.bugs import ChoresForgotten, HoardingBroker
from tests.support.world.seeds import REFUSAL_SEEDS, first_found


@pytest.mark.interpreted
def test_the_seeds_see_what_they_are_for() -> None:
    worlds = [run_seed(seed) for seed in range(1, 91)]
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
        "refuses",
        "closes while its client refuses",
        "leaves while it refuses",
        "purges what is refused",
        "deletes what is refused",
        "waits while somebody refuses",
        "ends a slow consumer",
    ):
        assert sum(world.counts.get(what, 0) for world in worlds) > 2, what


class _WaitsForEver(Broker):
    """Nobody is told that its time at a full address is over."""

    def end_turn(self) -> int:
        self.producer_gates.waits.deadlines.clear()
        return super().end_turn()


class _AnybodysSubscription(Broker):
    """Whose a durable subscription is nobody asks."""

    def subscribe(self, client: Client, source: Source, options: SubscribeOptions) -> Consumer:
        client.user = ""
        return super().subscribe(client, source, options)


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
                for consumer in chore.stopped.values():
                    consumer.queue.fates.refused_count += 1
        super().disconnect(client, is_lost)


class _OneForAll(Broker):
    """Of several deliveries that are refused at once only the first is, and the others are lost."""

    def refuse_all(self, deliveries: list[Delivery], refusal: Refusal) -> None:
        self.acknowledge_all(deliveries[1:])
        super().refuse_all(deliveries[:1], refusal)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("broker_class", "says"),
    [
        (_ForgetsRefusals, "are in flight, found are"),
        (_WaitsForEver, "ms, allowed are"),
        (_AnybodysSubscription, "was taken by another user"),
        (HoardingBroker, "what connections hold is not what is counted"),
        (_EndsNobody, "octets after a turn"),
        (_FilesKeep, "is there after two scans"),
        (_TemporariesStay, "everything has come to its end, and yet"),
        (ChoresForgotten, ""),
        (_HeirsAreHasty, "which is before it, waits"),
        (_DropsRefused, ""),
        (_CountsTwice, ""),
        (_OneForAll, "which is before it, waits"),
    ],
)
def test_planted_bug_is_found(broker_class: type[Broker], says: str) -> None:
    found = first_found(lambda seed: RefusalWorld(seed, broker_class), range(1, REFUSAL_SEEDS + 1))
    assert found
    assert says in found
