"""Advisories for OpenWire clients: what happens, and what was there before."""

from __future__ import annotations

import pytest

from protocols.openwire.mapping.advisory import structure_of
from protocols.openwire.mapping.openwire_form import read_properties
from protocols.openwire.wire import commands
from protocols.openwire.wire.commands import DestinationInfo, MessageDispatch, RemoveInfo
from protocols.openwire.wire.identities import ConnectionId, ConsumerId, Destination, ProducerId
from tests.support.protocols.openwire_gateway import OpenWireGateway, message_in, queue, topic

PREFIX = "ActiveMQ.Advisory."


def structures(dispatches: list[MessageDispatch]) -> list[object]:
    return [message_in(one).data_structure for one in dispatches]


def test_consumers_that_come_and_go() -> None:
    gateway = OpenWireGateway()
    watcher = gateway.openwire_consumer(topic(PREFIX + "Consumer.Queue.q"))
    consumer = gateway.openwire_consumer(queue("q"), prefetch=7)
    (added,) = watcher.dispatches()
    info = message_in(added).data_structure
    assert isinstance(info, commands.ConsumerInfo)
    assert (info.destination, info.prefetch_size, info.client_id) == (queue("q"), 7, consumer.connection_id)
    properties = read_properties(message_in(added).marshalled_properties)
    assert properties["consumerCount"].value == 1
    assert message_in(added).type == "Advisory"
    assert message_in(added).content is None
    consumer.send(RemoveInfo(object_id=consumer.consumer_id()))
    (removed,) = structures(watcher.dispatches())
    assert isinstance(removed, RemoveInfo)
    assert removed.object_id == info.consumer_id


def test_a_late_listener_hears_of_what_is_there() -> None:
    gateway = OpenWireGateway()
    worker = gateway.openwire_consumer(queue("q"))
    worker.consume(topic("t"), 2)
    late = gateway.openwire_consumer(topic(f"{PREFIX}Queue,{PREFIX}Topic,{PREFIX}TempQueue,{PREFIX}TempTopic"))
    found = structures(late.dispatches())
    destinations = [one.destination for one in found if isinstance(one, DestinationInfo)]
    assert sorted(str(one) for one in destinations) == ["queue://q", "topic://t"]
    late.send(DestinationInfo(destination=Destination(102, f"{late.connection_id}:1")))  # of its own
    (own,) = structures(late.dispatches())
    assert isinstance(own, DestinationInfo)
    assert own.operation_type == 0


@pytest.mark.parametrize(("name", "kind"), [("Consumer.Queue.q", "ConsumerInfo"), ("Connection", "ConnectionInfo")])
def test_a_late_listener_hears_of_consumers_and_connections(name: str, kind: str) -> None:
    gateway = OpenWireGateway()
    gateway.openwire_consumer(queue("q"))
    watcher = gateway.openwire_consumer(topic(PREFIX + name))
    dispatches = watcher.dispatches()
    assert {type(one).__name__ for one in structures(dispatches)} == {kind}
    assert message_in(dispatches[0]).target_consumer_id == watcher.consumer_id()


@pytest.mark.parametrize("place", [queue("q"), topic("q")])
def test_a_late_listener_hears_of_producers(place: Destination) -> None:
    gateway = OpenWireGateway()
    worker = gateway.connect_openwire()
    for number in (1, 2, 3):
        worker.add_producer(place, number)
    worker.send(RemoveInfo(object_id=worker.producer_id(2)))
    kind = "Queue" if place.kind == queue("q").kind else "Topic"
    watcher = gateway.openwire_consumer(topic(f"{PREFIX}Producer.{kind}.q"))
    dispatches = watcher.dispatches()
    found = structures(dispatches)
    assert [type(one).__name__ for one in found] == ["ProducerInfo", "ProducerInfo"]
    assert {one.destination for one in found if isinstance(one, commands.ProducerInfo)} == {place}
    properties = read_properties(message_in(dispatches[0]).marshalled_properties)
    assert properties["producerCount"].value == 2
    worker.send(RemoveInfo(object_id=worker.producer_id(3)))
    (removed,) = structures(watcher.dispatches())
    assert isinstance(removed, RemoveInfo)
    last = found[1]
    assert isinstance(last, commands.ProducerInfo)
    assert removed.object_id == last.producer_id


def test_a_listener_to_all_hears_once_of_a_temporary_queue() -> None:
    gateway = OpenWireGateway()
    watcher = gateway.openwire_consumer(topic(PREFIX + ">"))
    worker = gateway.connect_openwire()
    watcher.take()
    worker.ask(DestinationInfo(destination=Destination(102, f"{worker.connection_id}:1")))
    (added,) = watcher.dispatches()
    assert added.destination == topic(PREFIX + "TempQueue")


def test_a_message_of_an_advisory_topic_that_is_no_advisory() -> None:
    gateway = OpenWireGateway()
    watcher = gateway.openwire_consumer(topic(PREFIX + "Queue"))
    stomp = gateway.connect()
    bodies = (b"", b"[]", b'{"a":1}', b'{"ConsumerInfo":{"prefetchSize":1e300,"destination":7}}', b'{"RemoveInfo":{}}')
    for body in bodies:
        stomp.publish(f"/topic/{PREFIX}Queue", body, transformation="jms-advisory-json", consumerCount="many")
    assert len(watcher.dispatches()) == len(bodies)


@pytest.mark.parametrize(
    ("topic_name", "part", "identity"),
    [
        ("Connection", {"value": "7"}, ConnectionId("7")),
        ("Consumer.Queue.q", {"connectionId": "7", "sessionId": 1, "value": 3}, ConsumerId("7", 1, 3)),
        ("Producer.Queue.q", {"connectionId": "7", "sessionId": 1, "value": 3}, ProducerId("7", 3, 1)),
    ],
)
def test_what_has_gone_is_named_by_the_topic(topic_name: str, part: dict[str, object], identity: object) -> None:
    found = structure_of("RemoveInfo", {"objectId": part}, PREFIX + topic_name)
    assert isinstance(found, RemoveInfo)
    assert found.object_id == identity


def test_a_listener_hears_of_thousands_over_several_turns() -> None:
    gateway = OpenWireGateway()
    sender = gateway.connect_openwire()
    for number in range(3_000):
        sender.publish(queue(f"q{number}"), "a")
    watcher = gateway.openwire_consumer(topic(PREFIX + "Queue"))
    told: list[object] = []
    turns = 0
    while len(told) < 3_000 and turns < 100:
        told += structures(watcher.dispatches())
        gateway.advance(1)
        turns += 1
    names = [str(one.destination) for one in told if isinstance(one, DestinationInfo)]
    assert names == [f"queue://q{number}" for number in range(3_000)]
    assert turns > 1
