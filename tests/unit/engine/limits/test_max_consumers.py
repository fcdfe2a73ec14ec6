"""max-consumers, for who subscribes to one queue, to a list of them, or to a wildcard."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO
from engine.sources.composite import CompositeSource
from engine.values.destination import QUEUE
from engine.values.errors import LimitReached
from engine.values.wildcard import Wildcard
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient


def world_of_one(**more: object) -> tuple[EngineWorld, FakeClient]:
    """A world whose queues ``one.>`` take one consumer each, and who has one.a's."""
    world = EngineWorld(address("one.>", queue__max_consumers=1, **more))
    first = world.client("first")
    world.consumer(first, "one.a", AUTO)
    return world, first


def listed(world: EngineWorld, *names: str) -> CompositeSource:
    return CompositeSource([world.queue(name) for name in names])


def test_a_list_with_a_queue_that_has_its_consumers_is_refused_as_a_whole() -> None:
    world, _ = world_of_one()
    other = world.client("other")
    with pytest.raises(LimitReached, match=r"queue://one.a has 1 consumers, which is its limit \(max_consumers\)"):
        world.consumer(other, listed(world, "free", "one.a"), AUTO)
    assert other.consumers == {}
    world.consumer(other, listed(world, "free", "one.b"), AUTO)
    world.send(b"1", to="one.b")
    assert other.bodies() == [b"1"]


def test_a_wildcard_goes_without_a_queue_until_its_consumer_leaves() -> None:
    world, first = world_of_one()
    other = world.client("other")
    world.consumer(other, Wildcard(QUEUE, "one.>"), AUTO)
    queue = world.queue("one.a")
    assert queue.consumer_count() == 1
    world.send(b"1", b"2", to="one.a")
    assert (first.bodies(), other.bodies()) == ([b"1", b"2"], [])
    world.broker.disconnect(first, is_lost=False)
    world.send(b"3", to="one.a")
    assert (queue.consumer_count(), other.bodies()) == (1, [b"3"])


def test_places_are_given_in_the_order_of_the_asking() -> None:
    world, first = world_of_one()
    clients = [world.client(str(number)) for number in range(3)]
    consumers = [world.consumer(client, Wildcard(QUEUE, "one.>"), AUTO) for client in clients]
    world.broker.unsubscribe(consumers[0], is_lost=False)
    world.broker.disconnect(first, is_lost=False)
    world.send(b"1", to="one.a")
    world.broker.unsubscribe(consumers[1], is_lost=False)
    world.send(b"2", to="one.a")
    assert [client.bodies() for client in clients] == [[], [b"1"], [b"2"]]
    world.broker.unsubscribe(consumers[2], is_lost=False)
    assert world.place_seekers() == 0


def test_nobody_waits_for_a_queue_that_is_gone() -> None:
    world, _ = world_of_one(queue__auto_delete=True)
    other = world.client("other")
    consumer = world.consumer(other, Wildcard(QUEUE, "one.>"), AUTO)
    assert world.place_seekers() == 1
    world.broker.unsubscribe(consumer, is_lost=False)
    assert world.place_seekers() == 0
    world.consumer(other, Wildcard(QUEUE, "one.>"), AUTO)
    world.remove(world.queue("one.a"))
    assert world.place_seekers() == 0


def test_views_of_a_queue_that_keeps_its_messages_count_too() -> None:
    world, first = world_of_one(queue__non_destructive=True)
    other = world.client("other")
    with pytest.raises(LimitReached):
        world.consumer(other, listed(world, "one.a", "free"), AUTO)
    world.consumer(other, Wildcard(QUEUE, "one.>"), AUTO)
    world.send(b"1", to="one.a")
    assert other.bodies() == []
    world.broker.disconnect(first, is_lost=False)
    world.turn()
    assert other.bodies() == [b"1"]


def test_many_lists_in_one_turn_do_not_pass_the_limit() -> None:
    """Each joins its queues over several turns, and asks again then."""
    world = EngineWorld(address("one.>", queue__max_consumers=1))
    names = [f"one.{number}" for number in range(1_000)]
    client = world.client()
    for _ in range(3):
        try:
            world.consumer(client, listed(world, *names), AUTO)
        except LimitReached:
            continue
    for _ in range(50):
        world.advance(0)
    assert {world.queue(name).consumer_count() for name in names} == {1}
