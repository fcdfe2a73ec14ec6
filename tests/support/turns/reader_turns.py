"""Turns of readers that take nothing: browsers, replays, readers of non-destructive queues."""

from __future__ import annotations

from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.values.options import FIRST, NEXT, ReplayStart
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.turns.turn_scenarios import BODY, BODY_SELECTOR, Input, consumers, in_a_turn, published, scenario

KEEPING = address("q", queue__non_destructive=True)


@scenario("a browser comes to a queue with many messages in memory")
def _(count: int) -> Input:
    return _browse(_full(count))


@scenario("a reader comes to a non-destructive queue with many messages in memory")
def _(count: int) -> Input:
    world = _full(count, is_kept=True)
    return in_a_turn(world, lambda: world.consumer(world.client(), "q", INDIVIDUAL, 1))


@scenario("a browser comes to a queue from which selectors have taken many messages ahead")
def _(count: int) -> Input:
    world = EngineWorld(address("q", full__max_size_messages=1, full__address_full_policy="PAGE"))
    for _ in range(5 * count):
        world.broker.send(world.queue("q"), world.message(world.queue("q"), b"x", headers="n:1"))
    world.send(b"first", priority=9)
    client = world.consuming("q", INDIVIDUAL, 5 * count, selector="n = 1")
    world.advance(0)
    assert len(client.take()) == 5 * count
    return _browse(world)


def _full(count: int, is_kept: bool = False) -> EngineWorld:
    world = EngineWorld(*[KEEPING] * is_kept)
    for _ in range(20):
        world.send(*[b"x"] * count, persistent=False)
    return world


def _browse(world: EngineWorld) -> Input:
    return in_a_turn(world, lambda: world.consumer(world.client(), "q", INDIVIDUAL, 1, is_browser=True))


@scenario("a reader of a non-destructive queue looks for something in the bodies of many messages")
def _(count: int) -> Input:
    world = EngineWorld(KEEPING)
    for _ in range(count // 10):
        world.send(BODY, headers="n:1")
    world.advance(0)

    def read() -> None:
        world.consumer(world.client(), "q", AUTO, selector=BODY_SELECTOR.format("2"))
        world.advance(1_000)

    return read


@scenario("messages come to many readers of a non-destructive queue that look into bodies")
def _(count: int) -> Input:
    world = EngineWorld(KEEPING)
    client = world.client()
    for number in range(count // 40):
        world.consumer(client, "q", AUTO, selector=BODY_SELECTOR.format(number))
    world.turn()

    def send() -> None:
        for number in range(3):
            world.broker.send(world.queue("q"), world.message(world.queue("q"), BODY, persistent=number % 2 > 0))
        world.turn()
        world.advance(1_000)

    return send


@scenario("a replay looks for something in the bodies of many messages")
def _(count: int) -> Input:
    world = EngineWorld()
    topic = world.topic("t")
    published(world, topic, count // 10, body=BODY, persistent=True)

    def read() -> None:
        selector = BODY_SELECTOR.format("2")
        world.consumer(world.client(), topic, AUTO, selector=selector, replay=ReplayStart(FIRST))
        world.advance(1_000)

    return read


@scenario("messages come to many replays that look into bodies")
def _(count: int) -> Input:
    world = EngineWorld()
    topic = world.topic("t")
    client = world.client()
    for number in range(count // 40):
        world.consumer(client, topic, AUTO, selector=BODY_SELECTOR.format(number), replay=ReplayStart(NEXT))
    world.turn()

    def send() -> None:
        for number in range(3):
            published(world, topic, 1, body=BODY, persistent=number % 2 > 0)
        world.advance(1_000)

    return send


@scenario("a message comes beside many browsers that have not seen everything")
def _(count: int) -> Input:
    world = EngineWorld()
    world.send(b"1", b"2")
    consumers(world, 3 * count, "q", INDIVIDUAL, 1, is_browser=True)
    world.advance(0)
    return lambda: world.send(b"x", to="other")


@scenario("a message comes beside many replays that follow queues")
def _(count: int) -> Input:
    world = EngineWorld()
    consumers(world, 5 * count, "q.{}", INDIVIDUAL, 1, replay=ReplayStart(NEXT))
    world.advance(0)
    return lambda: world.send(b"x", to="other")


@scenario("many browsers look through a queue")
def _(count: int) -> Input:
    world = EngineWorld()
    world.send(*[b"x"] * 200)
    client = world.client()
    for _ in range(count):
        world.consumer(client, "q", INDIVIDUAL, 1, is_browser=True, selector="n IS NOT NULL")
        world.broker.end_turn()
        world.broker.begin_turn()
    return lambda: world.advance(0)
