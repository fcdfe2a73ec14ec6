"""Temporary destinations: of one connection, never in the store, gone with it."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO
from engine.sources.composite import Composite
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values.destination import TEMP_QUEUE, TEMP_TOPIC
from engine.values.errors import DestinationInUse, DestinationLocked, InvalidDestination, LimitReached
from tests.support.engine.engine_world import EngineWorld, address, world_with_client


def test_names_are_unique_over_stores_starts_and_connections() -> None:
    world = EngineWorld()
    mine, other = world.client(), world.client()
    queue = world.broker.open_temporary(mine, TEMP_QUEUE)
    assert queue.uri() == "temp-queue://ID:c0ffee00-3-1:1"
    assert world.broker.open_temporary(other, TEMP_TOPIC).uri() == "temp-topic://ID:c0ffee00-3-2:2"
    assert world.temporary(TEMP_QUEUE, queue.name) is queue


def test_a_persistent_message_to_a_temporary_queue_is_not_logged() -> None:
    world, client = world_with_client()
    queue = world.broker.open_temporary(client, TEMP_QUEUE)
    world.send(b"1", b"2", to=queue)
    assert world.store.messages == []
    assert world.memory_used() > 0
    consumer = world.subscribe(client, queue)
    first, second = client.take()
    world.acknowledge(first, second)
    assert world.store.settled == [] and world.memory_used() == 0
    assert consumer.queue is queue


def test_only_the_connection_that_made_it_receives_and_everybody_sends() -> None:
    world = EngineWorld()
    mine, other = world.client("mine"), world.client("other")
    for kind in (TEMP_QUEUE, TEMP_TOPIC):
        destination = world.broker.open_temporary(mine, kind)
        with pytest.raises(DestinationLocked, match="another connection"):
            world.consumer(other, destination)
        world.consumer(mine, destination, AUTO)
        world.send(b"hello", to=destination, sender=other)
        assert mine.bodies() == [b"hello"]


def test_it_ends_with_its_connection_and_what_waits_is_dropped() -> None:
    world, client = world_with_client()
    queue = world.broker.open_temporary(client, TEMP_QUEUE)
    topic = world.broker.open_temporary(client, TEMP_TOPIC)
    world.send(b"1", b"2", to=queue)
    consumer = world.consumer(client, queue, prefetch=1)
    world.consumer(client, topic)
    world.send(b"3", to=topic)
    world.turn()
    assert len(consumer.ledger) == 1
    world.lose(client)
    assert world.memory_used() == 0
    assert not world.has_destinations() and world.temporary_count() == 0
    for gone, kind in ((queue, TEMP_QUEUE), (topic, TEMP_TOPIC)):
        with pytest.raises(InvalidDestination, match="ends with the connection"):
            world.target(kind, gone.name)
        with pytest.raises(InvalidDestination, match="ends with the connection"):
            world.try_send(b"late", gone)
        with pytest.raises(InvalidDestination):
            world.try_send(b"late", Composite([gone]))


def test_one_that_has_consumers_cannot_be_deleted() -> None:
    world, client = world_with_client()
    queue = world.broker.open_temporary(client, TEMP_QUEUE)
    topic = world.broker.open_temporary(client, TEMP_TOPIC)
    consumers = [world.consumer(client, queue), world.consumer(client, topic)]
    for destination in (queue, topic):
        with pytest.raises(DestinationInUse):
            world.broker.close_temporary(destination)
    for consumer in consumers:
        world.broker.unsubscribe(consumer, is_lost=False)
    world.broker.close_temporary(queue)
    world.broker.close_temporary(topic)
    assert world.temporary_names() == []
    world.leave(client)


def test_a_message_given_up_there_goes_to_the_dead_letters_as_any_other() -> None:
    world, client = world_with_client(address(">", nack="dead-letter"))
    queue = world.broker.open_temporary(client, TEMP_QUEUE)
    world.consumer(client, queue)
    world.send(b"bad", to=queue)
    world.refuse(*client.take())
    (dead,) = world.store.messages
    assert b"original-destination:/remote-temp-queue/ID" in dead.annotations
    assert world.memory_used() == 0 and world.store.settled == []


def test_what_a_consumer_leaves_goes_back_to_the_queue() -> None:
    world, client = world_with_client()
    queue = world.broker.open_temporary(client, TEMP_QUEUE)
    consumer = world.consumer(client, queue)
    world.send(b"1", to=queue)
    world.broker.unsubscribe(consumer, is_lost=False)
    client.take()
    world.subscribe(client, queue, AUTO)
    assert client.bodies() == [b"1"] and world.memory_used() == 0


def test_they_count_as_destinations() -> None:
    world = EngineWorld()
    world.allow_destinations(1)
    client = world.client()
    destination = world.broker.open_temporary(client, TEMP_QUEUE)
    assert isinstance(destination, Queue) and not isinstance(destination, Topic)
    with pytest.raises(LimitReached):
        world.broker.open_temporary(client, TEMP_TOPIC)


def test_a_client_may_choose_the_name() -> None:
    world = EngineWorld()
    mine, other = world.client(), world.client()
    queue = world.broker.open_temporary(mine, TEMP_QUEUE, "ID:mine:1")
    assert queue.uri() == "temp-queue://ID:mine:1"
    assert world.temporary(TEMP_QUEUE, "ID:mine:1") is queue
    with pytest.raises(InvalidDestination, match="exists already"):
        world.broker.open_temporary(other, TEMP_QUEUE, "ID:mine:1")
    with pytest.raises(InvalidDestination, match="one of"):
        world.broker.open_temporary(other, TEMP_QUEUE, "a,b")


@pytest.mark.parametrize("kind", [TEMP_QUEUE, TEMP_TOPIC])
def test_a_client_may_not_choose_the_name_of_the_gateways_next_one(kind: int) -> None:
    world = EngineWorld()
    client = world.client()
    given = world.broker.open_temporary(client, kind).name
    start, _, number = given.rpartition(":")
    with pytest.raises(InvalidDestination, match="that the gateway itself would choose"):
        world.broker.open_temporary(client, kind, f"{start}:{int(number) + 1}")
    assert world.broker.open_temporary(client, kind).name != given
