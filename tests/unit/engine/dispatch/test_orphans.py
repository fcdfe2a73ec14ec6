"""Messages found ahead for selectors that are gone: they leave memory over several turns, and none is lost."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.consumers.turn_steps import TURN_STEPS
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient

SELECTORS = 20
COUNT = 2 * TURN_STEPS


def found_ahead() -> tuple[EngineWorld, FakeClient]:
    """Return a world whose selectors have found nearly all messages ahead, and their client."""
    world = EngineWorld(address("q", full__max_size_messages=1, full__address_full_policy="PAGE"))
    queue = world.queue("q")
    for number in range(COUNT):
        world.broker.send(queue, world.message(queue, b"%d" % number, headers=f"n:{number % SELECTORS}"))
    world.turn()
    client = world.client()
    for number in range(SELECTORS):
        world.consumer(client, "q", INDIVIDUAL, 1, selector=f"n = '{number}'")
    world.consumer(client, "q", INDIVIDUAL, 1, selector="n = 'none'")
    world.advance(0)
    assert ahead(world) > COUNT // 2
    return world, client


def ahead(world: EngineWorld) -> int:
    return sum(len(lane.ahead.by_offset) for lane in world.queue("q").used_lanes)


def test_they_leave_memory_over_several_turns() -> None:
    world, client = found_ahead()
    held_bytes = world.memory_held()
    world.leave(client)
    assert 0 < ahead(world) < COUNT - SELECTORS
    world.advance(0)
    assert ahead(world) == 0
    assert world.memory_held() < held_bytes // 100


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_plain_consumer_gets_them_in_order_meanwhile(turns: int) -> None:
    world, client = found_ahead()
    world.leave(client)
    for _ in range(turns):
        world.turn()
    other = world.client("other")
    world.consumer(other, "q", AUTO)
    world.advance(0)
    numbers = [int(body) for body in other.bodies()]
    assert sorted(numbers) == list(range(COUNT))
    # The others were in flight, and come back with their consumers.
    waited = [one for one in numbers if one >= SELECTORS]
    assert waited == sorted(waited)
    assert world.memory_held() == 0


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_selectors_that_come_meanwhile_find_theirs(turns: int) -> None:
    world, client = found_ahead()
    world.leave(client)
    for _ in range(turns):
        world.turn()
    others = [world.client(f"{number}") for number in range(SELECTORS)]
    for number, other in enumerate(others):
        world.consumer(other, "q", AUTO, selector=f"n = '{number}'")
    world.advance(0)
    for number, other in enumerate(others):
        assert sorted(map(int, other.bodies())) == list(range(number, COUNT, SELECTORS))
    assert world.memory_held() == 0


def test_what_others_wait_for_stays() -> None:
    world, client = found_ahead()
    other = world.client("other")
    world.consumer(other, "q", INDIVIDUAL, 1, selector="n = '0'")
    world.advance(0)
    (first,) = other.take()
    world.leave(client)
    world.advance(0)
    numbers = [int(first.message.body)]
    while len(numbers) < COUNT // SELECTORS:
        world.acknowledge(first)
        world.advance(0)
        (first,) = other.take()
        numbers.append(int(first.message.body))
    assert numbers == [SELECTORS, 0, *range(2 * SELECTORS, COUNT, SELECTORS)]
