"""Turns of queues with different consumers, beside many waiting messages: found ahead, spilled, owned, excluded."""

from __future__ import annotations

from typing import Final

from engine.consumers.consumer import CLIENT, INDIVIDUAL
from engine.values.refusal import AS_THE_ADDRESS_SAYS, Refusal
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient
from tests.support.turns.turn_scenarios import Input, in_a_turn, scenario, selecting_comes_and_goes

SELECTORS: Final = 20
EXCLUDED: Final = Refusal("requeue", is_excluding=True)


def _found_ahead(count: int) -> tuple[EngineWorld, FakeClient]:
    """Return a world whose selectors have found that many messages on disk and take none, and their client."""
    world = EngineWorld(address("q", full__max_size_messages=1, full__address_full_policy="PAGE"))
    for number in range(count):
        world.broker.send(world.queue("q"), world.message(world.queue("q"), b"x", headers=f"n:{number % SELECTORS}"))
    world.turn()
    client = world.client()
    for number in range(SELECTORS):
        world.consumer(client, "q", INDIVIDUAL, 1, selector=f"n = '{number}'")
    world.consumer(client, "q", INDIVIDUAL, 1, selector="n = 'none'")
    world.advance(0)
    return world, client


@scenario("messages are settled beside many found ahead")
def _(count: int) -> Input:
    world, client = _found_ahead(5 * count)
    deliveries = client.take()
    return lambda: world.acknowledge(*deliveries[:3])


@scenario("a consumer comes to a queue with many messages that another will not have")
def _(count: int) -> Input:
    world, _ = _excluded(5 * count)
    return in_a_turn(world, lambda: world.consumer(world.client("other"), "q", INDIVIDUAL, 1))


@scenario("a consumer goes that will not have many messages")
def _(count: int) -> Input:
    world, client = _excluded(5 * count)
    return in_a_turn(world, lambda: world.lose(client))


def _excluded(count: int) -> tuple[EngineWorld, FakeClient]:
    world = EngineWorld()
    client = world.client()
    world.consumer(client, "q", CLIENT, count)
    world.send(*[b"x"] * count)
    world.broker.refuse_all(client.take(), EXCLUDED)
    world.advance(0)
    return world, client


@scenario("the first selector comes to a queue with many consumers, and goes")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    for _ in range(count):
        world.consumer(client, "q", INDIVIDUAL, 1)
    world.turn()
    return selecting_comes_and_goes(world)


@scenario("the first selector comes to a queue with many messages that wait for their redelivery")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client()
    world.consumer(client, "q", CLIENT, 5 * count)
    world.send(*[b"x"] * (5 * count))
    world.broker.refuse_all(client.take(), AS_THE_ADDRESS_SAYS)
    world.advance(0)
    return in_a_turn(world, lambda: world.consumer(client, "q", INDIVIDUAL, 1, selector="n = 1"))


@scenario("the owner of a group goes for which many messages wait")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.client("owner")
    world.consumer(client, "q", INDIVIDUAL, 1)
    world.consumer(world.client(), "q", INDIVIDUAL, 1)
    world.send(*[b"x"] * (4 * count), group="g")
    return lambda: world.lose(client)


@scenario("a connection is lost: selectors asked one by one that found messages ahead")
def _(count: int) -> Input:
    world = EngineWorld()
    for number in range(5 * count):
        world.broker.send(world.queue("q"), world.message(world.queue("q"), b"x", headers=f"n:{number}"))
    world.turn()
    client = world.client()
    for number in range(count // 4):
        world.consumer(client, "q", INDIVIDUAL, 1, selector=f"n LIKE '%{number}'")
    world.advance(0)
    return lambda: world.lose(client)
