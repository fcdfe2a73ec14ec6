"""Turns of queues with different consumers, beside many waiting messages: found ahead, spilled, owned, excluded."""

from __future__ import annotations

from typing import Final

from engine.consumers.consumer import CLIENT, INDIVIDUAL
from engine.values.delivery import AS_THE_ADDRESS_SAYS, Refusal
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient
from tests.support.turns.turn_scenarios import Input, consumers, in_a_turn, scenario, selecting_comes_and_goes

SELECTORS: Final = 20
PRIORITIES: Final = 10
EXCLUDED: Final = Refusal("requeue", is_excluding=True)


def _found_ahead(count: int) -> tuple[EngineWorld, FakeClient]:
    """Return a world whose selectors have found that many messages on disk and take none, and their client."""
    world = EngineWorld(address("q", full__max_size_messages=1, full__address_full_policy="PAGE"))
    for number in range(count):
        world.broker.send(world.queue("q"), world.message(world.queue("q"), b"x", headers=f"n:{number % SELECTORS}"))
    world.turn()
    client = consumers(world, SELECTORS, "q", INDIVIDUAL, 1, selector="n = '{}'")
    world.consumer(client, "q", INDIVIDUAL, 1, selector="n = 'none'")
    world.advance(0)
    return world, client


@scenario("messages are settled beside many found ahead")
def _(count: int) -> Input:
    world, client = _found_ahead(5 * count)
    deliveries = client.take()
    return lambda: world.acknowledge(*deliveries[:3])


@scenario("the last selectors go that found many messages ahead")
def _(count: int) -> Input:
    world, client = _found_ahead(10 * count)
    return in_a_turn(world, lambda: world.lose(client))


@scenario("selectors go that found many messages ahead, beside one that did not")
def _(count: int) -> Input:
    world, client = _found_ahead(10 * count)
    other = world.client("other")
    world.consumer(other, "q", INDIVIDUAL, 1, selector="n = 'other'")
    world.turn()
    return in_a_turn(world, lambda: world.lose(client))


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
    client = world.consuming("q", CLIENT, count)
    world.send(*[b"x"] * count)
    world.broker.refuse_all(client.take(), EXCLUDED)
    world.advance(0)
    return world, client


@scenario("the first selector comes to a queue with many consumers, and goes")
def _(count: int) -> Input:
    world = EngineWorld()
    consumers(world, count, "q", INDIVIDUAL, 1)
    world.turn()
    return selecting_comes_and_goes(world)


@scenario("the first selector comes to a queue with many messages that wait for their redelivery")
def _(count: int) -> Input:
    world = EngineWorld()
    client = world.consuming("q", CLIENT, 5 * count)
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
    client = consumers(world, count // 4, "q", INDIVIDUAL, 1, selector="n LIKE '%{}'")
    world.advance(0)
    return lambda: world.lose(client)


@scenario("messages of all priorities come to a selector whose consumer has room for none")
def _(count: int) -> Input:
    world = EngineWorld()
    world.consuming("q", INDIVIDUAL, 1, selector="n = '1'")
    _send_by_priority(world, 2 * count)
    world.turn()
    return in_a_turn(world, lambda: _send_by_priority(world, 100))


def _send_by_priority(world: EngineWorld, count: int) -> None:
    queue = world.queue("q")
    for number in range(count):
        world.broker.send(
            queue, world.message(queue, b"x", persistent=False, priority=number % PRIORITIES, headers="n:1")
        )
