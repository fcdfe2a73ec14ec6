"""All features of the engine at once, at random, and planted bugs: see tests/support/histories/feature_world.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.backlog.memory_budget import MESSAGE_OVERHEAD_BYTES
from engine.broker import Broker
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.dispatch.message_selection import Selection
from engine.dispatch.selector_view import View
from engine.features.scheduler.delayed_send import Delayed
from engine.sources.composite import Destination, Source
from engine.sources.queue import queue_of
from engine.values.delivery import GONE, Delivery, Refusal
from engine.values.message import Message
from engine.values.options import SubscribeOptions
from tests.support.histories.feature_world import ANSWERS, FeatureWorld, run_seed
from tests.support.long_run import LongRun
from tests.support.world.bugs import (
    AccountingLeak,
    ExclusiveShared,
    GroupsForgotten,
    SelectorIgnored,
    SleepyBroker,
    WindowOffByOne,
)
from tests.support.world.seeds import first_found, taken
from tests.support.world.world import Bug

SEEDS = 600
TOGETHER = 50


def batches() -> list[list[int]]:
    seeds = taken(range(1, SEEDS + 1))
    return [seeds[start : start + TOGETHER] for start in range(0, len(seeds), TOGETHER)]


@pytest.mark.parametrize("seeds", batches(), ids=lambda seeds: f"feature_seed-{seeds[0]}")
def test_each_message_has_one_end(seeds: list[int]) -> None:
    for seed in seeds:
        run_seed(seed)


def test_more_seeds(long_run: LongRun) -> None:
    long_run.take(run_seed)


def test_same_seed_gives_same_history() -> None:
    for seed in range(1, 10):
        assert run_seed(seed).told == run_seed(seed).told


@pytest.mark.interpreted
def test_the_seeds_see_what_they_are_for() -> None:
    worlds = [run_seed(seed) for seed in range(1, 31)]
    ends = {sent.end for world in worlds for place in world.places.values() for sent in place.values()}
    assert ends >= {"acknowledged", "dead-lettered", "expired"}
    assert {name for world in worlds for name in world.places} >= {"kept", "Consumer.a.VirtualTopic.v", "dropping"}
    assert sum(world.crash_count for world in worlds) > 30
    assert sum(world.delivered_count for world in worlds) > 2_500
    assert sum(world.answer_count for world in worlds) > 10
    told = "\n".join(line for world in worlds for line in world.told)
    for what in (
        "in 300",
        "a transaction of",
        "given up",
        "subscribes topic://t.>",
        "browses",
        "replays",
        "leaves",
        "ask ActiveMQ",
        "wall clock",
    ):
        assert what in told


class _DeadAndAlive(Broker):
    """What is dead-lettered stays on its queue, too."""

    def refuse(self, delivery: Delivery, refusal: Refusal) -> None:
        queue, message = queue_of(delivery.lane), delivery.message
        super().refuse(delivery, refusal)
        if delivery.state == GONE and queue.name == "plain":
            self.send(queue, message.twin(message.flags, message.annotations, message.headers, message.body))


class _Impatient(Broker):
    """Delays count for nothing."""

    def send(self, destination: Destination, message: Message) -> int:
        if isinstance(destination, Delayed) and len(destination.parts) == 1:
            destination = destination.parts[0]
            message.destination_id = destination.destination_id
        return super().send(destination, message)


class _Deaf(Broker):
    """Every seventh acknowledgement puts the message back."""

    answers = 0

    def acknowledge(self, delivery: Delivery) -> None:
        _Deaf.answers += 1
        if _Deaf.answers % 7:
            super().acknowledge(delivery)
        else:
            super().refuse(delivery, Refusal("requeue"))


class _Forgetful(Broker):
    """What a lost connection had is not given back."""

    def disconnect(self, client: Client, is_lost: bool) -> None:
        if is_lost:
            for consumer in client.consumers.values():
                for delivery in list(consumer.ledger.values())[:1]:
                    self.acknowledge(delivery)
        super().disconnect(client, is_lost)


class _NothingOwed(dict[int, View]):
    def __setitem__(self, key: int, value: View) -> None:
        pass


class _Drowsy(Broker):
    """Nobody else is woken for a message when the consumer that was to look at it closes or can take nothing."""

    def subscribe(self, client: Client, source: Source, options: SubscribeOptions) -> Consumer:
        consumer = super().subscribe(client, source, options)
        for queue in self.destinations.queues.values():
            if isinstance(queue.selection, Selection):
                queue.selection.turns.owed = _NothingOwed()
        return consumer


class _NeverLooks(Broker):
    """What has expired is found by consumers alone."""

    def __init__(self, *given: Any) -> None:
        given = *given[:-1], replace(given[-1], expire_messages_period_ms=10**9)
        super().__init__(*given)


class _Ahead(Broker):
    """Expiry is judged by a clock that is ahead of the wall clock."""

    @property
    def wall_ms(self) -> int:
        return self.context.clock.wall_ms()

    def begin_turn(self) -> None:
        super().begin_turn()
        self.context.wall_ms = self.wall_ms + 1_000


class _SettledOnlyInMemory(Broker):
    """Acknowledgements never reach the log."""

    def end_turn(self) -> int:
        for batch, _ in self.settlements.waiting:
            batch.following = -1
            batch.ranges = []
        self.settlements.waiting.clear()
        return super().end_turn()


class _HoldsAnswers(Broker):
    """An answer stays in the memory budget."""

    answer_count = 0

    def end_turn(self) -> int:
        offset = super().end_turn()
        queue = self.destinations.queues.get(ANSWERS)
        if queue is not None and queue.enqueued_count > self.answer_count:
            self.answer_count = queue.enqueued_count
            self.memory.used_bytes += MESSAGE_OVERHEAD_BYTES
        return offset


class _Restless(Broker):
    """A queue is paused for one turn."""

    def begin_turn(self) -> None:
        super().begin_turn()
        for queue in self.destinations.queues.values():
            self.pauses.resume(queue)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("broker_class", "says"),
    [
        (SleepyBroker, "waits beside consumer"),
        (_Drowsy, "waits beside consumer"),
        (_NeverLooks, "is there after two scans"),
        (_Ahead, "it was to live until"),
        (_HoldsAnswers, "everything has come to its end, and yet"),
        (_DeadAndAlive, "it was dead-lettered"),
        (_SettledOnlyInMemory, "it was acknowledged"),
        (_Impatient, "before its time"),
        (_Deaf, "it was acknowledged"),
        (_Forgetful, "never came"),
        (_Restless, "and its queue is paused"),
    ],
)
def test_planted_bug_is_found(broker_class: type[Broker], says: str) -> None:
    found = first_found(lambda seed: FeatureWorld(seed, broker_class), range(1, SEEDS + 1))
    assert found
    assert says in found


@pytest.mark.interpreted
@pytest.mark.parametrize("bug", [WindowOffByOne, SelectorIgnored, GroupsForgotten, ExclusiveShared, AccountingLeak])
def test_planted_bug_of_the_other_world_is_found_here_too(bug: type[Bug]) -> None:
    broker_class = bug().broker_class()
    assert first_found(lambda seed: FeatureWorld(seed, broker_class), range(1, SEEDS + 1))
