"""Turns of questions, of upkeep, and of messages that are refused, dropped, or in transactions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from engine.consumers.consumer import AUTO, CLIENT
from engine.open_transaction import Transaction, TransactionLimits
from engine.values.delivery import AS_THE_ADDRESS_SAYS, Refusal
from engine.values.options import FIRST, ReplayStart
from tests.support.engine.broker_view import covered_by
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer
from tests.support.turns.turn_scenarios import (
    Input,
    in_a_turn,
    published,
    scenario,
)

LARGE: Final = TransactionLimits(16, 1_000_000, 1 << 30)


@scenario("statistics of all queues are asked for")
def _(count: int) -> Input:
    world = EngineWorld()
    for number in range(count):
        world.queue(f"a.{number}")
    world.subscribe(world.client(), "answers", AUTO)
    return lambda: world.send(b"", to="ActiveMQ.Statistics.Destination.>", headers="reply-to:/queue/answers")


@scenario("many messages expire")
def _(count: int) -> Input:
    world = EngineWorld()
    for kind in range(20):
        world.send(*[b"x"] * count, persistent=False, expires_ms=world.clock.wall_ms() + 1_000 + 120_000 * (kind % 2))
    return lambda: world.advance(120_000)


@scenario("the queues of many messages that expire are many")
def _(count: int) -> Input:
    world = EngineWorld()
    for number in range(count):
        world.send(b"x", to=f"q.{number}", expires_ms=world.clock.wall_ms() + 1_000)
    return lambda: world.advance(120_000)


@scenario("a queue is purged")
def _(count: int) -> Input:
    world = EngineWorld()
    world.send(*[b"x"] * count)

    def purge() -> None:
        world.purge(world.queue("q"))
        world.advance(60_000)

    return purge


@scenario("a queue of messages in memory is purged")
def _(count: int) -> Input:
    world = EngineWorld()
    world.send(*[b"x"] * (20 * count), persistent=False)

    def purge() -> None:
        world.purge(world.queue("q"))
        world.advance(1_000)

    return purge


@scenario("a queue is deleted")
def _(count: int) -> Input:
    world = EngineWorld()
    queue = world.queue("q")
    for _ in range(20):
        world.send(*[b"x"] * count, persistent=False)
    return in_a_turn(world, lambda: world.delete(queue, is_forced=True))


@scenario("a replay of a queue is read")
def _(count: int) -> Input:
    world = EngineWorld()
    world.send(*[b"x"] * count)
    reader = world.client("reader")
    return in_a_turn(world, lambda: world.consumer(reader, "q", AUTO, 1, replay=ReplayStart(FIRST)))


@scenario("a group begins beside many others")
def _(count: int) -> Input:
    world, _ = world_with_consumer(prefetch=2 * count)
    for number in range(count):
        world.send(b"x", group=f"g{number}")

    def begin() -> None:
        for number in range(3):
            world.send(b"x", group=f"new{number}")

    return begin


@scenario("a message of a group is refused before many others of it")
def _(count: int) -> Input:
    world, client = world_with_consumer(prefetch=10)
    world.send(*[b"x"] * count, group="g")
    delivery = client.take()[0]
    return lambda: world.refuse(delivery, refusal=Refusal(delay_ms=60_000))


def _slow_subscriber(count: int, eviction: str) -> Input:
    limits = {"pending__strategy": "constant", "pending__limit": 20, "pending__eviction": eviction}
    world, client = world_with_client(address("t", **limits, pending__eviction_property="s"))
    topic = world.topic("t")
    world.subscribe(client, topic, AUTO, count)
    client.is_output_full = True
    published(world, topic, count, priority=2)
    published(world, topic, 40)

    def publish() -> None:
        for _ in range(5):
            published(world, topic, 1)

    return publish


for _eviction in ("oldest", "oldest-lowest-priority", "unique-property"):
    scenario(f"the pending limit of a slow subscriber lets one go: {_eviction}")(
        partial(_slow_subscriber, eviction=_eviction)
    )


@scenario("one cumulative acknowledgement")
def _(count: int) -> Input:
    world, client = world_with_consumer(ack_mode=CLIENT, prefetch=count)
    world.send(*[b"x"] * count)
    last = client.take()[-1]

    def acknowledge() -> None:
        world.broker.acknowledge_all(covered_by(last))
        world.turn()

    return acknowledge


def _nack(count: int, refusal: Refusal) -> Input:
    world, client = world_with_consumer(ack_mode=CLIENT, prefetch=count)
    world.send(*[b"x"] * count)
    last = client.take()[-1]

    def refuse() -> None:
        world.broker.refuse_all(covered_by(last), refusal)
        client.is_output_full = True
        world.advance(0)

    return refuse


for _end, _refusal in (
    ("they wait for their redelivery", AS_THE_ADDRESS_SAYS),
    ("they go back", Refusal("requeue")),
    ("they are dead letters", Refusal("dead-letter")),
):
    scenario(f"one cumulative NACK: {_end}")(partial(_nack, refusal=_refusal))


@scenario("a transaction of acknowledgements is rolled back for a client that has forgotten them")
def _(count: int) -> Input:
    world, client = world_with_consumer(prefetch=count)
    world.send(*[b"x"] * count)
    deliveries = client.take()

    def roll_back() -> None:
        world.broker.roll_back(deliveries)
        client.is_output_full = True
        world.advance(0)

    return roll_back


@scenario("many messages are due for their redelivery")
def _(count: int) -> Input:
    world, client = world_with_consumer(ack_mode=CLIENT, prefetch=5 * count)
    world.send(*[b"x"] * (5 * count))
    world.broker.refuse_all(client.take(), AS_THE_ADDRESS_SAYS)
    world.advance(0)
    client.is_output_full = True
    return lambda: world.advance(10_000)


@scenario("a cumulative acknowledgement of one message beside many held by a transaction")
def _(count: int) -> Input:
    world, client = world_with_consumer(ack_mode=CLIENT, prefetch=count)
    world.send(*[b"x"] * count)
    deliveries = client.take()
    transaction = Transaction(client, "t", LARGE)
    transaction.add_accepted(deliveries[:-5])

    def acknowledge() -> None:
        for one in deliveries[-5:]:
            transaction.add_accepted(covered_by(one))

    return acknowledge


def _sends(count: int) -> tuple[EngineWorld, Transaction]:
    world = EngineWorld()
    transaction = Transaction(world.client(), "t", LARGE)
    queue = world.queue("q")
    for _ in range(count):
        world.broker.send_in(transaction, queue, world.message(queue, b"x"))
    return world, transaction


def _sends_to_topic(count: int, **asked: Any) -> tuple[EngineWorld, Transaction]:
    """Return a tenth as many sends to a topic with a quarter as many subscriptions."""
    world = EngineWorld()
    topic = world.topic("t")
    client = world.client("c", "c")
    for number in range(count // 4):
        world.consumer(client, topic, AUTO, subscription=f"s{number}" if asked else "", **asked)
    if asked:
        world.lose(client)
    transaction = Transaction(world.client(), "t", LARGE)
    for _ in range(count // 10):
        world.broker.send_in(transaction, topic, world.message(topic, b"x"))
    return world, transaction


def _acknowledgements(count: int) -> tuple[EngineWorld, Transaction]:
    world, client = world_with_consumer(prefetch=count)
    world.send(*[b"x"] * count)
    transaction = Transaction(client, "t", LARGE)
    transaction.add_accepted(client.take())
    return world, transaction


def _ends(count: int, make: Callable[[int], tuple[EngineWorld, Transaction]], commits: bool) -> Input:
    world, transaction = make(count)
    end = world.broker.commit if commits else world.broker.abort
    return in_a_turn(world, lambda: end(transaction))


for _of, _make in (("sends", _sends), ("acknowledgements", _acknowledgements)):
    scenario(f"a transaction of {_of} commits")(partial(_ends, make=_make, commits=True))
    scenario(f"a transaction of {_of} is aborted")(partial(_ends, make=_make, commits=False))

for _of, _asked in (("plain", {}), ("durable", {"is_durable": True})):
    scenario(f"a transaction of sends to a topic with many {_of} subscriptions commits")(
        partial(_ends, make=partial(_sends_to_topic, **_asked), commits=True)
    )
