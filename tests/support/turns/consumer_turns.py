"""Turns of consumers, selectors and groups that come and go."""

from __future__ import annotations

from collections.abc import Callable

from config.matching import AddressEntry
from engine.consumers.consumer import AUTO, CLIENT, INDIVIDUAL
from engine.sources.registry import TEMPORARY_DESTINATIONS_MAX
from engine.sources.topics.topic import Topic
from engine.values.destination import QUEUE, TEMP_QUEUE
from engine.values.errors import SubscriptionInUse
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer
from tests.support.fakes import FakeClient
from tests.support.turns.turn_scenarios import (
    BODY,
    BODY_SELECTOR,
    Input,
    consumers,
    in_a_turn,
    published,
    scenario,
    selecting_comes_and_goes,
)


@scenario("a connection is lost: consumers")
def _(count: int) -> Input:
    world = EngineWorld()
    client = consumers(world, count, "q.{}", INDIVIDUAL)
    world.turn()
    return lambda: world.lose(client)


@scenario("a connection is lost: consumers of one queue")
def _(count: int) -> Input:
    world = EngineWorld()
    client = consumers(world, count, "q", INDIVIDUAL, 1)
    world.send(*[b"x"] * (count // 2))
    return lambda: world.lose(client)


@scenario("a connection is lost: temporary queues")
def _(count: int) -> Input:
    world, client = world_with_client()
    for _ in range(min(count, TEMPORARY_DESTINATIONS_MAX)):
        world.consumer(client, world.broker.open_temporary(client, TEMP_QUEUE), AUTO)
    world.turn()
    return lambda: world.lose(client)


@scenario("a connection is lost: subscriptions of one topic")
def _(count: int) -> Input:
    world, client = world_with_client()
    topic = world.topic("t")
    for _ in range(count):
        world.consumer(client, topic, AUTO)
    world.turn()
    return lambda: world.lose(client)


@scenario("a connection is lost: messages in flight")
def _(count: int) -> Input:
    world, client = world_with_consumer(address("q", blame="all"), ack_mode=CLIENT, prefetch=10 * count)
    world.send(*[b"x"] * (10 * count))
    world.acknowledge(client.take()[count // 2])
    return lambda: world.lose(client)


@scenario("a connection is lost: messages of many queues in flight")
def _(count: int) -> Input:
    world, client = world_with_client()
    world.consumer(client, world.source(QUEUE, "a.>"), CLIENT, 5 * count)
    for number in range(5 * count):
        world.send(b"x", to=f"a.{number % count}")
    return lambda: world.lose(client)


@scenario("a connection is lost: durable subscriptions")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client("c", "c")
    topic = world.topic("t")
    for number in range(count):
        world.consumer(client, topic, INDIVIDUAL, is_durable=True, subscription=f"d{number}")
    published(world, topic, 1)
    return lambda: world.lose(client)


@scenario("a consumer unsubscribes: messages in flight")
def _(count: int) -> Input:
    world = EngineWorld()
    consumer = world.consumer(world.client(), "q", CLIENT, 10 * count)
    world.send(*[b"x"] * (10 * count))
    return in_a_turn(world, lambda: world.broker.unsubscribe(consumer, is_lost=False))


@scenario("a subscription of a topic ends: messages in flight and waiting")
def _(count: int) -> Input:
    world = EngineWorld()
    topic = world.topic("t")
    consumer = world.consumer(world.client(), topic, CLIENT, 10 * count)
    published(world, topic, 30 * count)
    return in_a_turn(world, lambda: world.broker.unsubscribe(consumer, is_lost=False))


@scenario("consumers with selectors come and go")
def _(count: int) -> Input:
    world = EngineWorld()
    consumers(world, count, "q", INDIVIDUAL, 1, selector="n = {}")
    world.turn()
    return selecting_comes_and_goes(world)


@scenario("many selectors look for their messages on disk: found by value")
def _(count: int) -> Input:
    _, run, _ = _selectors(count // 2, "n = '{}'", 3 * count)
    return run


@scenario("many selectors look for their messages on disk: asked one by one")
def _(count: int) -> Input:
    _, run, _ = _selectors(count // 4, "n LIKE '{}'", 3 * count // 4)
    return run


@scenario("a connection is lost: selectors that found messages ahead")
def _(count: int) -> Input:
    world, run, client = _selectors(count // 2, "n = '{}'", 3 * count)
    run()
    return lambda: world.lose(client)


def _selectors(count: int, selector: str, message_count: int) -> tuple[EngineWorld, Input, FakeClient]:
    """Return a world, a function that starts the selectors of one client, and the client."""
    world = EngineWorld()
    for number in range(message_count):
        world.send(b"x" * 100, headers=f"n:{number * count // message_count}")
    client = world.client()
    for number in range(count):
        world.consumer(client, "q", INDIVIDUAL, 1, selector=selector.format(number))
    return world, lambda: world.advance(0), client


@scenario("a message comes to a topic with many selectors")
def _(count: int) -> Input:
    world, topic = _topic_selectors(5 * count, "n LIKE '{}'")
    return lambda: published(world, topic, 3)


@scenario("messages come to a topic with selectors that look into bodies")
def _(count: int) -> Input:
    world, topic = _topic_selectors(count // 20, BODY_SELECTOR)
    return lambda: published(world, topic, 5, body=BODY)


@scenario("a message comes to a queue with selectors that look into bodies")
def _(count: int) -> Input:
    world, _ = _body_selectors(count // 20)
    return lambda: world.send(BODY)


@scenario("selectors that look into bodies look for their messages on disk")
def _(count: int) -> Input:
    world, subscribe = _body_selectors(0)
    world.send(*[BODY] * 5)
    subscribe(count // 20)
    return lambda: world.advance(0)


@scenario("messages come to durable subscriptions that look into bodies")
def _(count: int) -> Input:
    world, topic, _ = _durables(count // 40)
    return lambda: published(world, topic, 3, body=BODY, persistent=True)


@scenario("durable subscriptions that look into bodies read what came while they were away")
def _(count: int) -> Input:
    world, topic, client = _durables(count // 100)
    world.leave(client)
    for _ in range(10):
        published(world, topic, 1, body=BODY, persistent=True)
    return in_a_turn(world, lambda: _come(world, topic, count // 100))


def _durables(count: int) -> tuple[EngineWorld, Topic, FakeClient]:
    world = EngineWorld()
    topic = world.topic("t")
    client = _come(world, topic, count)
    world.turn()
    return world, topic, client


def _come(world: EngineWorld, topic: Topic, count: int) -> FakeClient:
    """Have a client take durable subscriptions that look into bodies and want all messages."""
    client = world.client("c", "c")
    for number in range(count):
        selector = f"XPATH '//*[//*]' AND m{number} IS NULL"
        world.consumer(client, topic, INDIVIDUAL, 1, is_durable=True, subscription=f"d{number}", selector=selector)
    return client


def _topic_selectors(count: int, selector: str) -> tuple[EngineWorld, Topic]:
    world, client = world_with_client()
    topic = world.topic("t")
    for number in range(count):
        world.consumer(client, topic, AUTO, selector=selector.format(number))
    world.turn()
    world.advance(0)
    return world, topic


def _body_selectors(count: int) -> tuple[EngineWorld, Callable[[int], None]]:
    """Return a world with consumers whose selectors look into bodies, and a function that adds more of them."""
    world, client = world_with_client()

    def subscribe(count: int) -> None:
        for number in range(count):
            world.consumer(client, "q", INDIVIDUAL, 1, selector=BODY_SELECTOR.format(number))

    subscribe(count)
    world.turn()
    return world, subscribe


@scenario("a browser looks for something in the bodies of many messages")
def _(count: int) -> Input:
    world = EngineWorld()
    for _ in range(count // 10):
        world.send(BODY, headers="n:1")
    world.advance(0)

    def browse() -> None:
        world.consumer(world.client(), "q", AUTO, is_browser=True, selector=BODY_SELECTOR.format("2"))
        world.advance(1_000)

    return browse


@scenario("a consumer comes to a queue with many groups")
def _(count: int) -> Input:
    world, _ = world_with_consumer(prefetch=count)
    for number in range(count):
        world.broker.send(world.queue("q"), world.message(world.queue("q"), b"x", group=f"g{number}"))
    world.advance(0)
    return in_a_turn(world, lambda: world.consumer(world.client("other"), "q", INDIVIDUAL, 1))


@scenario("a consumer comes to a queue that shares its groups out anew")
def _(count: int) -> Input:
    world, _ = _groups(count, address("q", queue__group_rebalance=True))
    return in_a_turn(world, lambda: world.consumer(world.client("other"), "q", INDIVIDUAL, 1))


@scenario("many groups are idle")
def _(count: int) -> Input:
    world, client = _groups(count, address("q", queue__group_idle_timeout_ms=1_000))
    world.acknowledge(*client.take())
    return lambda: world.advance(5_000)


@scenario("consumers beside many groups come and go")
def _(count: int) -> Input:
    world, _ = _groups(count)
    last = world.client("last")

    def come_and_go() -> None:
        for _ in range(20):
            world.broker.unsubscribe(world.consumer(last, "q", INDIVIDUAL, 1), is_lost=False)
        world.turn()

    return come_and_go


def _groups(count: int, *addresses: AddressEntry) -> tuple[EngineWorld, FakeClient]:
    """Return a world with a consumer that owns that many groups, and its client."""
    world, client = world_with_consumer(*addresses, prefetch=2 * count)
    for number in range(count):
        world.send(b"x", group=f"g{number}")
    return world, client


@scenario("messages of an exclusive queue are settled before its heir takes over")
def _(count: int) -> Input:
    world, client = world_with_consumer(
        address("q", queue__exclusive_consumer=True), ack_mode=INDIVIDUAL, prefetch=count
    )
    world.send(*[b"x"] * 50)
    for _ in range(count):
        world.consumer(client, "q", INDIVIDUAL, 1, priority=5)
    world.advance(0)
    deliveries = client.take()
    return lambda: world.acknowledge(*deliveries)


@scenario("a shared subscription is changed while many of its consumers leave")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client("c", "c")
    topic = world.topic("t")
    for _ in range(5 * count):
        world.consumer(client, topic, INDIVIDUAL, 1, is_durable=True, is_shared=True, subscription="s")
    other = world.client("other", "c")

    def change() -> None:
        world.broker.disconnect(client, is_lost=True)
        try:
            world.consumer(other, topic, is_durable=True, is_shared=True, subscription="s", selector="n = 1")
        except SubscriptionInUse:
            pass  # so many leave over several turns
        world.turn()

    return change
