"""Turns of wildcards: they begin, join, end, and meet what is new; a link of many queues is drained."""

from __future__ import annotations

from collections.abc import Callable

from engine.consumers.consumer import AUTO, INDIVIDUAL, Consumer
from engine.values.destination import QUEUE, TOPIC
from engine.values.options import SubscribeOptions
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Flow
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from tests.support.engine.engine_world import EngineWorld, world_with_client
from tests.support.fakes import FakeClient
from tests.support.protocols.amqp_gateway import AmqpGateway
from tests.support.turns.turn_scenarios import CREDIT, Input, in_a_turn, scenario


@scenario("a subscription to a wildcard begins that has joined many queues")
def _(count: int) -> Input:
    world = EngineWorld()
    for number in range(5 * count):
        world.queue(f"a.{number}")
    options = SubscribeOptions(INDIVIDUAL, 10, "sub")
    consumer = world.broker.subscribe(world.client(), world.source(QUEUE, "a.>"), options)
    world.advance(1_000)
    return in_a_turn(world, consumer.start)


@scenario("an AMQP link of many queues is drained")
def _(count: int) -> Input:
    gateway = AmqpGateway()
    for number in range(5 * count):
        gateway.queue(f"a.{number}")
    peer = gateway.connect_amqp()
    peer.begin()
    peer.send(Attach("r", 0, True, source=Source("a.>"), target=Target()))
    gateway.advance(1_000)

    def drain() -> None:
        peer.send(Flow(0, 1_000_000, 0, 1_000, 0, 0, CREDIT, drain=True))
        gateway.advance(1_000)

    return drain


@scenario("a wildcard of queues is subscribed to")
def _(count: int) -> Input:
    world = EngineWorld()
    for number in range(count):
        world.queue(f"a.{number}")
    client = world.client()
    source = world.source(QUEUE, "a.>")
    return in_a_turn(world, lambda: world.consumer(client, source, INDIVIDUAL, 1))


@scenario("a wildcard of topics is subscribed to")
def _(count: int) -> Input:
    world, client = _topics(10 * count)
    source = world.source(TOPIC, "a.>")
    return in_a_turn(world, lambda: world.consumer(client, source, AUTO))


@scenario("a durable subscription to a wildcard of topics begins")
def _(count: int) -> Input:
    world, client = _topics(count)
    source = world.source(TOPIC, "a.>")
    return in_a_turn(
        world, lambda: world.consumer(client, source, INDIVIDUAL, 1, is_durable=True, subscription="wildcard")
    )


@scenario("a durable subscription to a wildcard of topics is deleted")
def _(count: int) -> Input:
    world, client = _topics(count)
    source = world.source(TOPIC, "a.>")
    consumer = world.consumer(client, source, INDIVIDUAL, 1, is_durable=True, subscription="wildcard")
    world.advance(0)
    world.unsubscribe(consumer)
    world.advance(0)
    return in_a_turn(world, lambda: world.broker.delete_subscription(client, "c", "wildcard"))


@scenario("a connection ends that has many wildcards of queues")
def _(count: int) -> Input:
    return in_a_turn(*_wildcards_of_queues(count, lambda world, client, _: world.broker.disconnect(client, True)))


@scenario("many wildcards of queues leave together")
def _(count: int) -> Input:
    return in_a_turn(*_wildcards_of_queues(count, lambda world, _, consumers: world.broker.leave(consumers)))


@scenario("a durable subscription to a wildcard of topics passes to another connection")
def _(count: int) -> Input:
    world, client = _topics(count)
    source = world.source(TOPIC, "a.>")
    world.consumer(client, source, INDIVIDUAL, 1, is_durable=True, subscription="wildcard")
    world.advance(0)
    next_client = world.client("next", "c")

    def pass_on() -> None:
        world.broker.disconnect(client, is_lost=True)
        world.subscribe(next_client, source, INDIVIDUAL, 1, is_durable=True, subscription="wildcard")

    return in_a_turn(world, pass_on)


@scenario("a subscription to a wildcard of topics ends")
def _(count: int) -> Input:
    world, client = _topics(10 * count)
    consumer = world.subscribe(client, world.source(TOPIC, "a.>"), AUTO)
    world.advance(0)
    return in_a_turn(world, lambda: world.broker.unsubscribe(consumer, is_lost=False))


def _wildcards_of_queues(
    count: int, end: Callable[[EngineWorld, FakeClient, list[Consumer]], object]
) -> tuple[EngineWorld, Input]:
    """Return a world with 25 consumers per ``count``, and what ends them."""
    world, client = world_with_client()
    for number in range(5 * count):
        world.queue(f"a.{number}")
    consumers = []
    for _ in range(5):
        consumers.append(world.consumer(client, world.source(QUEUE, "a.>"), AUTO))
        world.advance(0)
    assert len(client.consumers) > 25 * count
    return world, lambda: end(world, client, consumers)


def _topics(count: int) -> tuple[EngineWorld, FakeClient]:
    world = EngineWorld()
    for number in range(count):
        world.topic(f"a.{number}")
    return world, world.client("c", "c")


@scenario("a queue is made that many wildcards match")
def _(count: int) -> Input:
    world, client = world_with_client()
    source = world.source(QUEUE, "a.>")
    for _ in range(count):
        world.consumer(client, source, INDIVIDUAL, 1)
    world.turn()
    return lambda: world.send(b"x", to="a.new")


@scenario("a topic is made that many wildcards match")
def _(count: int) -> Input:
    world, client = world_with_client()
    source = world.source(TOPIC, "a.>")
    for _ in range(count):
        world.consumer(client, source, INDIVIDUAL, 1)
    world.turn()
    return in_a_turn(world, lambda: world.topic("a.new"))


@scenario("a message meets a wildcard consumer of many queues whose window is one")
def _(count: int) -> Input:
    world = EngineWorld()
    for number in range(count):
        world.queue(f"a.{number}")
    client = world.consuming(world.source(QUEUE, "a.>"), INDIVIDUAL, 1)
    world.advance(1_000)
    world.send(b"1", to="a.1")
    world.send(b"2", to="a.2")
    return lambda: world.acknowledge(*client.take())


@scenario("messages come to topics beside many wildcards that have not joined them")
def _(count: int) -> Input:
    world, client = _topics(count)
    source = world.source(TOPIC, "b.>")
    for _ in range(count):
        world.consumer(client, source, AUTO)
    topics = [world.topic(f"a.{number}") for number in range(4)]

    def publish() -> None:
        for topic in topics * 50:
            world.broker.send(topic, world.message(topic, b"x", persistent=False))
        world.turn()

    return publish
