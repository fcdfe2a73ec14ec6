"""Deliveries that await redelivery, by queue: what ends with its queue is looked for nowhere else."""

from __future__ import annotations

from engine.consumers.consumer import INDIVIDUAL
from engine.dispatch.delays import FORGOTTEN_AT_MOST
from engine.values.destination import TEMP_QUEUE
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient

DELAY_MS = 1_000


def world_of_delays() -> EngineWorld:
    return EngineWorld(address(">", redelivery__initial_redelivery_delay_ms=DELAY_MS))


def with_delayed(world: EngineWorld, count: int) -> FakeClient:
    """Return the owner of a temporary queue in which so many messages await redelivery."""
    owner = world.client()
    queue = world.broker.open_temporary(owner, TEMP_QUEUE)
    world.consumer(owner, queue, INDIVIDUAL, count)
    world.send(*[b"x" * 1_000] * count, to=queue, persistent=False)
    world.refuse(*owner.take())
    world.advance(0)  # many are refused over several turns
    return owner


def test_of_two_queues_the_one_that_stays_gets_its_messages_back() -> None:
    world = world_of_delays()
    staying = world.consuming("q", INDIVIDUAL, 2)
    world.send(b"1", b"2")
    world.refuse(*staying.take())
    leaving = with_delayed(world, 3)
    assert world.delayed_count() == 5
    world.lose(leaving)
    assert world.stats().delayed == 2
    world.advance(DELAY_MS)
    assert staying.bodies() == [b"1", b"2"]
    assert leaving.handed == []
    assert world.delayed_count() == 0


def test_what_has_ended_leaves_memory_before_it_is_due() -> None:
    world = world_of_delays()
    staying = world.consuming("q", INDIVIDUAL, 1)
    world.send(b"1")
    world.refuse(*staying.take())
    held = world.memory_held()
    world.lose(with_delayed(world, FORGOTTEN_AT_MOST + 1))
    world.advance(0)
    assert world.memory_held() == held
    assert world.delayed_count() == 1
    world.advance(DELAY_MS)
    assert staying.bodies() == [b"1"]
