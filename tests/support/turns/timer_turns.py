"""Turns that timers, the disk or the memory begin, for what many clients have made."""

from __future__ import annotations

from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import Plan
from engine.values.options import SubscribeOptions
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.turns.turn_scenarios import Input, consumers, in_a_turn, published, scenario


@scenario("it is time to release the idle groups of many queues")
def _(count: int) -> Input:
    world = EngineWorld(address("q.>", queue__group_idle_timeout_ms=10_000))
    consumers(world, 5 * count, "q.{}", INDIVIDUAL, 1)
    world.turn()
    return lambda: world.advance(10_000)


@scenario("it is time to open many queues that wait for more consumers")
def _(count: int) -> Input:
    world = EngineWorld(address("q.>", queue__consumers_before_dispatch=2, queue__delay_before_dispatch_ms=10_000))
    consumers(world, 5 * count, "q.{}", INDIVIDUAL, 1)
    world.turn()
    return lambda: world.advance(10_000)


@scenario("many scheduled messages are due")
def _(count: int) -> Input:
    world = _scheduled(2 * count)
    return lambda: world.advance(60_000)


@scenario("a queue is deleted for which many messages are scheduled")
def _(count: int) -> Input:
    world = _scheduled(2 * count)
    return in_a_turn(world, lambda: world.delete(world.queue("q"), is_forced=True))


def _scheduled(count: int) -> EngineWorld:
    world = EngineWorld()
    target = delayed(world.queue("q"), Plan(delay_ms=60_000))
    for _ in range(count):
        world.broker.send(target, world.message(world.queue("q"), b"x"))
    world.turn()
    return world


@scenario("the disk takes writes again beside many queues")
def _(count: int) -> Input:
    world = EngineWorld()
    consumers(world, 5 * count, "q.{}", INDIVIDUAL, 1)
    world.turn()
    world.fail_store("full")
    world.turn()

    def heal() -> None:
        world.heal_store()
        world.advance(0)

    return heal


@scenario("a connection is lost: the only consumers of many queues that are purged then")
def _(count: int) -> Input:
    world = EngineWorld(address("q.>", queue__purge_on_no_consumers=True))
    client = consumers(world, count, "q.{}", INDIVIDUAL, 1)
    for number in range(2 * count):
        world.send(b"x", to=f"q.{number % count}")

    def lose() -> None:
        world.lose(client)
        world.advance(1_000)

    return lose


@scenario("memory is no longer short: many queues wait for it")
def _(count: int) -> Input:
    world = EngineWorld(memory_limit_bytes=4_000_000)
    client = world.client()
    for number in range(2 * count):
        world.send(b"x", b"x", to=f"q.{number}", headers="n:1")
    hog = world.queue("hog")
    while not world.is_memory_short():
        world.send(b"x" * 10_000, to=hog, persistent=False)
    for number in range(2 * count):
        world.consumer(client, f"q.{number}", INDIVIDUAL, 2, selector="n = 2")
    world.advance(0)
    taker = world.client()

    def take() -> None:
        world.consumer(taker, hog, AUTO)
        world.advance(0)

    return take


@scenario("many consumers may have the messages of the next second")
def _(count: int) -> Input:
    world = EngineWorld(address("q.>", flow__consumer_max_rate_per_second=1))
    consumers(world, count, "q.{}", INDIVIDUAL, 10)
    for number in range(3 * count):
        world.broker.send(world.queue(f"q.{number % count}"), world.message(world.queue(f"q.{number % count}"), b"x"))
        if number % 200 == 0:
            world.turn()
    world.turn()
    return lambda: world.advance(1_000)


@scenario("the owner of many groups goes")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client("owner")
    world.consumer(client, "q", INDIVIDUAL, 4 * count)
    world.consumer(world.client(), "q", INDIVIDUAL, 1)
    for number in range(4 * count):
        world.send(b"x", group=f"g{number}")
    return lambda: world.lose(client)


@scenario("many durable subscriptions begin whose messages are on disk")
def _(count: int) -> Input:
    world = EngineWorld()
    topic = world.topic("t")
    client = world.client("c", "c")
    for number in range(count // 2):
        world.consumer(client, topic, INDIVIDUAL, is_durable=True, subscription=f"d{number}")
    world.turn()
    world.leave(client)
    world.advance(0)
    published(world, topic, 3, persistent=True)
    client = world.client("c", "c")
    options = [SubscribeOptions(INDIVIDUAL, is_durable=True, subscription=f"d{number}") for number in range(count // 2)]
    consumers = [world.broker.subscribe(client, topic, one) for one in options]
    world.advance(0)

    def begin() -> None:
        for consumer in consumers:
            consumer.start()
        world.advance(0)
        assert len(client.take()) == 3 * len(consumers)

    return begin
