"""Turns in which many messages end: expired, or on their last attempt when their connection is lost."""

from __future__ import annotations

from engine.consumers.consumer import CLIENT, INDIVIDUAL
from engine.sources.queue import Queue
from engine.values.destination import TEMP_QUEUE
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.turns.turn_scenarios import Input, scenario


@scenario("a consumer comes upon many messages that have expired")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.consuming("q", INDIVIDUAL, 1)
    world.send(b"first")
    world.send(*[b"x"] * (2 * count), expires_ms=world.clock.wall_ms() + 1_000)
    deliveries = client.take()
    world.clock.now_ms += 2_000
    world.broker.begin_turn()

    def acknowledge() -> None:
        world.acknowledge(*deliveries)
        world.advance(0)

    return acknowledge


@scenario("a connection is lost: messages in flight on their last attempt")
def _(count: int) -> Input:
    world = EngineWorld(address("q", blame="all", redelivery__maximum_redeliveries=0))
    client = world.consuming("q", CLIENT, count)
    world.send(*[b"x"] * count)
    world.acknowledge(client.take()[0])

    def lose() -> None:
        world.lose(client)
        world.advance(0)

    return lose


@scenario("many messages expire that are kept in another queue")
def _(count: int) -> Input:
    world = EngineWorld(address("q", expiry_address="ExpiryQueue"))
    world.send(*[b"x"] * (2 * count), expires_ms=world.clock.wall_ms() + 1_000)
    return lambda: world.advance(120_000)


@scenario("temporary queues with a delayed message end beside many delayed messages")
def _(count: int) -> Input:
    world = EngineWorld(address(">", redelivery__initial_redelivery_delay_ms=3_600_000))
    world.send(*[b"x"] * (5 * count), to="other")
    world.refuse(*world.subscriber("other", INDIVIDUAL, 5 * count).take())
    owner = world.client()
    for _ in range(count // 10):
        queue = world.broker.open_temporary(owner, TEMP_QUEUE)
        assert isinstance(queue, Queue)
        world.consumer(owner, queue, INDIVIDUAL)
        world.send(b"x", to=queue, persistent=False)
    world.refuse(*owner.take())
    return lambda: world.lose(owner)
