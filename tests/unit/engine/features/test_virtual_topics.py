"""Virtual topics: one message, a copy for each queue of consumers, all or none."""

from __future__ import annotations

from functools import partial

import pytest

from config.model import VirtualTopic
from engine.consumers.consumer import AUTO
from engine.features.message_copies import CopyLimits
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.composite import Composite
from engine.values import gates
from engine.values.errors import LimitReached
from tests.support.engine.engine_world import EngineWorld, address, world_with_client
from tests.support.engine.restart_world import RestartWorld


def test_each_queue_of_consumers_gets_a_copy_and_the_topic_its_own() -> None:
    world = EngineWorld()
    destinations = world.broker.destinations
    early = world.consuming("Consumer.A.VirtualTopic.Orders", AUTO)
    topic = destinations.topic("VirtualTopic.Orders")
    live = world.consuming(topic, AUTO)
    destinations.queue("Consumer.B.VirtualTopic.Orders")
    destinations.queue("Consumer.B.VirtualTopic.Other")
    destinations.queue("Other.B.VirtualTopic.Orders")
    world.send(b"1", to=topic)
    assert early.bodies() == live.bodies() == [b"1"]
    assert world.stats("Consumer.B.VirtualTopic.Orders").depth == 1
    assert world.stats("Consumer.B.VirtualTopic.Other").depth == 0
    assert world.stats("Other.B.VirtualTopic.Orders").depth == 0
    assert [batch.records for batch in world.store.batches] == [3]
    copies = [one for one in world.store.messages if one.destination_id != topic.destination_id]
    assert [one.annotations for one in copies] == [b"original-destination:/topic/VirtualTopic.Orders\n"] * 2


def test_other_names_are_plain_topics() -> None:
    world = EngineWorld()
    world.queue("Consumer.A.Orders")
    topic = world.topic("Orders")
    assert not topic.is_indirect
    world.send(b"1", to=topic)
    assert world.stats("Consumer.A.Orders").depth == 0 and world.store.batches == []


def test_it_is_refused_whole_while_one_of_them_is_full() -> None:
    world = EngineWorld(address("Consumer.B.>", full__max_size_messages=1, full__address_full_policy="BLOCK"))
    destinations = world.broker.destinations
    topic = destinations.topic("VirtualTopic.T")
    for name in ("A", "B"):
        destinations.queue(f"Consumer.{name}.VirtualTopic.T")
    world.send(b"1", to=topic)
    assert world.try_send(b"2", topic) == gates.ADDRESS_FULL
    assert [world.stats(f"Consumer.{name}.VirtualTopic.T").depth for name in ("A", "B")] == [1, 1]


def test_in_a_transaction() -> None:
    world, client = world_with_client()
    world.queue("Consumer.A.VirtualTopic.T")
    topic = world.topic("VirtualTopic.T")
    transaction = Transaction(client, "tx", TransactionLimits())
    world.broker.send_in(transaction, topic, world.message(topic, b"1"))
    assert world.stats("Consumer.A.VirtualTopic.T").depth == 0
    world.broker.commit(transaction)
    assert world.stats("Consumer.A.VirtualTopic.T").depth == 1


def test_queues_found_after_a_start_get_copies_too() -> None:
    world = RestartWorld()
    world.queue("Consumer.A.VirtualTopic.T")
    world.topic("VirtualTopic.T")
    world.restart()
    world.send(b"1", to=world.topic("VirtualTopic.T"))
    assert world.stats("Consumer.A.VirtualTopic.T").depth == 1


def test_a_selective_one_copies_what_some_consumer_takes() -> None:
    world = EngineWorld(virtual_topics=(VirtualTopic("Events.>", "Group.*.", True), VirtualTopic()))
    destinations = world.broker.destinations
    topic = destinations.topic("Events.x")
    client = world.consuming("Group.a.Events.x", AUTO, selector="n = 1")
    destinations.queue("Group.b.Events.x")
    destinations.queue("Consumer.b.Events.x")
    world.send(b"1", to=topic, headers="n:1")
    world.send(b"2", to=topic, headers="n:2")
    assert client.bodies() == [b"1"]
    assert [world.stats(name).depth for name in ("Group.a.Events.x", "Group.b.Events.x", "Consumer.b.Events.x")] == [
        0,
        0,
        0,
    ]


@pytest.mark.parametrize("is_in_transaction", [False, True])
def test_a_message_has_so_many_copies(is_in_transaction: bool) -> None:
    world, client = world_with_client()
    topic = world.topic("VirtualTopic.T")
    most = CopyLimits().count
    for number in range(most - 1):
        world.queue(f"Consumer.{number}.VirtualTopic.T")
    world.send(b"1", to=topic)
    world.queue("Consumer.last.VirtualTopic.T")
    several = Composite([world.queue(), world.topic("VirtualTopic.T")])
    transaction = Transaction(client, "tx", TransactionLimits())
    for destination in (topic, several):
        message = world.message(topic, b"2")
        send = partial(world.broker.send_in, transaction) if is_in_transaction else world.broker.send
        with pytest.raises(LimitReached, match=rf"to {most + 1 + (destination is several)} .* \(limits.copies\)"):
            send(destination, message)
    assert world.stats("Consumer.0.VirtualTopic.T").depth == 1
    assert world.stats("Consumer.last.VirtualTopic.T").depth == world.stats("q").depth == 0


def test_the_copies_of_a_message_have_a_size() -> None:
    world = EngineWorld()
    topic = world.topic("VirtualTopic.T")
    for number in range(9):
        world.queue(f"Consumer.{number}.VirtualTopic.T")
    body = bytes(CopyLimits().size_bytes // 10 + 1)
    with pytest.raises(LimitReached, match="to 10 destinations, those of virtual topics included, takes"):
        world.try_send(body, topic)
    assert world.stats("Consumer.0.VirtualTopic.T").depth == 0
    world.send(body[:-1_000], to=topic)
    assert world.stats("Consumer.0.VirtualTopic.T").depth == 1
