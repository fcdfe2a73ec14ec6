"""Advisories: what the broker tells of itself, to those who listen and to nobody else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.fate.expiry import EXPIRE_MESSAGES_PERIOD_MS
from engine.features.advisory_topics import RETIRED_MAX
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.queue import Queue
from engine.values.destination import TEMP_QUEUE, TEMP_TOPIC, TOPIC
from engine.values.errors import InvalidOption, LimitReached
from engine.values.wildcard import Wildcard, is_wildcard
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer
from tests.support.fakes import FakeClient

ALL = Wildcard(TOPIC, "ActiveMQ.Advisory.>")


def _listener(world: EngineWorld, name: str = "") -> FakeClient:
    client = world.client("listener")
    world.consumer(client, world.topic(f"ActiveMQ.Advisory.{name}") if name else ALL, AUTO)
    return client


def _told(world: EngineWorld, client: FakeClient) -> list[tuple[str, dict[str, Any]]]:
    """Return (what the topic's name says, the body) of all that came."""
    world.turn()
    told = [(one.message.destination_id, json.loads(one.body)) for one in client.handed]
    client.handed = []
    prefix = "topic://ActiveMQ.Advisory."
    return [(world.uri_of(number).removeprefix(prefix), body) for number, body in told]


def test_consumers_and_destinations_that_come_and_go() -> None:
    world = EngineWorld()
    listener = _listener(world)
    client = world.client("worker", client_id="w")
    consumer = world.consumer(client, "orders", INDIVIDUAL, 7)
    queue_made, consumer_came = _told(world, listener)
    assert queue_made == (
        "Queue",
        {"DestinationInfo": {"destination": {"@class": "queue", "physicalName": "orders"}, "operationType": 0}},
    )
    assert consumer_came[0] == "Consumer.Queue.orders"
    info = consumer_came[1]["ConsumerInfo"]
    assert (info["prefetchSize"], info["clientId"], info["destination"]["physicalName"]) == (7, "w", "orders")
    world.broker.unsubscribe(consumer, is_lost=False)
    ((name, body),) = _told(world, listener)
    assert name == "Consumer.Queue.orders" and list(body) == ["RemoveInfo"]


def test_how_many_consumers_there_are() -> None:
    world, client = world_with_consumer(destination="orders")
    listener = _listener(world, "Consumer.Queue.orders")
    world.subscribe(client, "orders")
    assert [b"consumerCount:2\n" in one.message.headers for one in listener.handed] == [True]
    assert all(b"originBrokerName:Penstock\n" in one.message.headers for one in listener.handed)


def test_connections_and_temporary_destinations() -> None:
    world = EngineWorld()
    listener = _listener(world)
    client = world.client("10.0.0.1", client_id="c")
    world.announce(client)
    world.broker.open_temporary(client, TEMP_QUEUE)
    world.leave(client)
    names = [(name, next(iter(body))) for name, body in _told(world, listener)]
    assert names == [
        ("Connection", "ConnectionInfo"),
        ("TempQueue", "DestinationInfo"),
        ("TempQueue", "DestinationInfo"),
        ("Connection", "RemoveInfo"),
    ]


def test_messages_given_up_and_expired() -> None:
    world = EngineWorld(address(">", nack="dead-letter", expiry_address="EXP", advisories__include_body=True))
    listener = _listener(world)
    client = world.consuming("q", prefetch=1)
    world.send(b"bad")
    world.refuse(*client.take())
    world.send(b"held")
    world.send(b"late", expires_ms=world.clock.wall_ms() + 1)
    world.advance(30_000)
    told = {name: body for name, body in _told(world, listener) if "Message" in name or "Expired" in name}
    assert told["MessageDLQd.Queue.q"]["ActiveMQMessage"]["text"] == "bad"
    assert told["Expired.Queue.q"]["ActiveMQMessage"]["text"] == "late"


@pytest.mark.parametrize("listens_to", ["Expired.Queue.q", "Expired.>", "*.Queue.*", ">"])
@pytest.mark.parametrize("persistent", [True, False])
def test_a_message_that_expires_and_is_dropped(listens_to: str, persistent: bool) -> None:
    world = EngineWorld()
    listener = world.client("listener")
    name = f"ActiveMQ.Advisory.{listens_to}"
    consumer = world.consumer(listener, Wildcard(TOPIC, name) if is_wildcard(name) else world.topic(name), AUTO)
    world.send(b"late", expires_ms=world.clock.wall_ms() + 1, persistent=persistent)
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    (told,) = [body for name, body in _told(world, listener) if name == "Expired.Queue.q"]
    assert told["ActiveMQMessage"]["destination"] == {"@class": "queue", "physicalName": "q"}
    assert (world.stats().depth, world.queue("q").fates.expired_count, world.memory_held()) == (0, 1, 0)
    assert world.expiry_listeners() == 1
    world.unsubscribe(consumer)
    assert world.expiry_listeners() == 0


def test_a_message_that_expires_at_a_wildcard_subscription_names_its_own_topic() -> None:
    world = EngineWorld()
    listener = _listener(world, "Expired.Topic.news.eu")
    world.consumer(world.client(), Wildcard(TOPIC, "news.>"), INDIVIDUAL, 1)
    topic = world.topic("news.eu")
    world.send(b"held", to=topic, persistent=False)
    world.send(b"late", to=topic, persistent=False, expires_ms=world.clock.wall_ms() + 1)
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert [name for name, _ in _told(world, listener)] == ["Expired.Topic.news.eu"]


def test_an_event_of_a_message_has_activemqs_properties_spelled_as_there() -> None:
    world = EngineWorld(address("q", advisories__no_consumers=True))
    listener = _listener(world, "NoConsumer.Queue.q")
    world.send(b"1")
    (told,) = listener.handed
    assert b"orignalMessageId:" in told.message.headers
    assert b"orignalDestination:queue\\c//q\n" in told.message.headers


def test_the_body_of_a_message_to_a_temporary_destination_is_for_its_owner_alone() -> None:
    world = EngineWorld(address(">", advisories__delivery=True, advisories__include_body=True))
    listener = _listener(world)
    for kind in (TEMP_QUEUE, TEMP_TOPIC):
        answers = world.broker.open_temporary(world.client(), kind)
        world.broker.send(answers, world.message(answers, b"for you alone"))
    told = [body for name, body in _told(world, listener) if name.startswith("MessageDelivered")]
    assert len(told) == 2
    assert "alone" not in str(told)


def test_each_message_where_the_address_asks_for_it() -> None:
    world = EngineWorld(address("told", advisories__delivery=True, advisories__no_consumers=True))
    listener = _listener(world)
    world.send(b"1", to="told")
    world.send(b"1", to="untold")
    world.consumer(world.client(), "told", AUTO)
    world.send(b"2", to="told")
    names = [name for name, _ in _told(world, listener) if name.startswith(("Message", "NoConsumer"))]
    assert names == ["MessageDelivered.Queue.told", "NoConsumer.Queue.told", "MessageDelivered.Queue.told"]


def _messages(world: EngineWorld, listener: FakeClient) -> list[str]:
    return [name for name, _ in _told(world, listener) if name.startswith("Message")]


@pytest.mark.parametrize("ack_mode", [AUTO, INDIVIDUAL])
def test_each_hand_over_and_acknowledgement_where_the_address_asks_for_it(ack_mode: int) -> None:
    world = EngineWorld(address("told", advisories__dispatched=True, advisories__consumed=True))
    listener = _listener(world)
    client = world.consuming("told", ack_mode)
    world.consumer(client, "untold", ack_mode)
    world.send(b"1", to="told")
    world.send(b"1", to="untold")
    dispatched, consumed = "MessageDispatched.Queue.told", "MessageConsumed.Queue.told"
    if ack_mode == AUTO:
        assert _messages(world, listener) == [dispatched, consumed]
        return
    assert _messages(world, listener) == [dispatched]
    first, untold = client.take()
    world.refuse(first)
    world.advance(1_000)
    assert _messages(world, listener) == [dispatched], "handed over again, and not consumed"
    world.acknowledge(untold, *client.take())
    assert _messages(world, listener) == [consumed]


@pytest.mark.parametrize("event", ["dispatched", "consumed"])
def test_of_the_two_only_what_is_asked_for(event: str) -> None:
    world = EngineWorld(address("told", **{f"advisories__{event}": True}))
    listener = _listener(world)
    world.consumer(world.client(), "told", AUTO)
    world.send(b"1", to="told")
    assert _messages(world, listener) == [f"Message{event.title()}.Queue.told"]


@pytest.mark.parametrize("way", ["plain", "wildcard", "durable"])
@pytest.mark.parametrize("persistent", [True, False])
def test_hand_overs_of_a_topic_are_told_for_each_subscription(way: str, persistent: bool) -> None:
    world = EngineWorld(address("news.eu", advisories__dispatched=True, advisories__consumed=True))
    topic, other = world.topic("news.eu"), world.topic("news.us")
    client = world.client(client_id="me")
    listener = _listener(world)
    if way == "durable":
        world.consumer(client, topic, AUTO, subscription="s", is_durable=True)
    else:
        world.consumer(client, Wildcard(TOPIC, "news.>") if way == "wildcard" else topic, AUTO)
    world.send(b"1", to=topic, persistent=persistent)
    world.send(b"2", to=other, persistent=persistent)
    assert client.bodies() == ([b"1", b"2"] if way == "wildcard" else [b"1"])
    assert _messages(world, listener) == ["MessageDispatched.Topic.news.eu", "MessageConsumed.Topic.news.eu"]


def test_an_acknowledgement_in_a_transaction_is_told_at_its_commit_also_when_its_consumer_has_gone() -> None:
    world = EngineWorld(address("told", advisories__consumed=True))
    listener = _listener(world)
    client = world.client()
    consumer = world.consumer(client, "told")
    world.send(b"1", to="told")
    transaction = Transaction(client, "tx", TransactionLimits())
    transaction.add_accepted(client.take())
    world.broker.unsubscribe(consumer, is_lost=False)
    assert _messages(world, listener) == []
    world.broker.commit(transaction)
    assert _messages(world, listener) == ["MessageConsumed.Queue.told"]


def test_producers_slow_consumers_and_full_addresses() -> None:
    world = EngineWorld(
        address("q", advisories__slow_consumers=True, advisories__fast_producers=True, advisories__when_full=True)
    )
    listener = _listener(world)
    client = world.client()
    consumer = world.consumer(client)
    queue = world.queue("q")
    advisories = world.broker.advisories
    _told(world, listener)
    advisories.producer_added(client, queue)
    advisories.slow_consumer(consumer)
    advisories.fast_producer(client, queue)
    advisories.full(queue, "max-size-bytes")
    assert [name for name, _ in _told(world, listener)] == [
        "Producer.Queue.q",
        "SlowConsumer.Queue.q",
        "FastProducer.Queue.q",
        "FULL.Queue.q",
    ]


def test_nothing_is_made_while_nobody_listens_and_nothing_is_logged() -> None:
    world = EngineWorld()
    listener = _listener(world)
    assert world.advisory_listeners() == 1
    world.leave(listener)
    assert world.advisory_listeners() == 0
    before = set(world.topic_names())
    world.consumer(world.client(), "orders")
    assert set(world.topic_names()) == before
    assert world.store.messages == []


def test_advisory_topics_are_no_destinations_of_the_store() -> None:
    world = EngineWorld()
    listener = _listener(world, "Connection")
    world.announce(world.client())
    world.turn()
    assert len(listener.handed) == 1 and world.store.messages == []
    everything = world.consuming(Wildcard(TOPIC, ">"), AUTO)
    world.announce(world.client())
    world.turn()
    assert everything.handed == [], "who asks for everything does not mean the broker's own"
    with pytest.raises(InvalidOption, match="in memory only"):
        world.consumer(
            world.client(client_id="c"), world.topic("ActiveMQ.Advisory.Connection"), subscription="s", is_durable=True
        )


def test_they_can_be_switched_off() -> None:
    world = EngineWorld()
    world.stop_advisories()
    listener = _listener(world)
    world.consumer(world.client(), "orders")
    assert _told(world, listener) == []


def test_a_full_memory_is_not_filled_further() -> None:
    world = EngineWorld(memory_limit_bytes=100)
    listener = _listener(world)
    world.send(b"x" * 200, persistent=False)
    listener.handed = []
    world.consumer(world.client(), "orders")
    assert _told(world, listener) == []


@pytest.mark.parametrize("is_advised", [False, True])
def test_what_a_pending_limit_drops_is_told_where_the_address_says_so(is_advised: bool) -> None:
    limits: dict[str, object] = {"pending__strategy": "constant", "pending__limit": 1}
    world = EngineWorld(address("t", advisories__discarding_messages=is_advised, **limits))
    listener = _listener(world, "MessageDiscarded.Topic.t")
    topic = world.topic("t")
    world.consumer(world.client(), topic, INDIVIDUAL, 1)
    world.send(b"1", b"2", b"3", to=topic, persistent=False)
    told = _told(world, listener)
    assert [name for name, _ in told] == (["MessageDiscarded.Topic.t"] if is_advised else [])


def test_advisory_topics_go_with_what_they_are_about() -> None:
    world = EngineWorld()
    destinations = world.broker.destinations
    destinations.count_max = 3
    listener = _listener(world)
    for _ in range(3 * RETIRED_MAX):
        client = world.client()
        reply = world.broker.open_temporary(client, TEMP_QUEUE)
        assert isinstance(reply, Queue)
        world.consumer(client, reply)
        world.leave(client)
    names = [name for name in destinations.topics if "ID:" in name]
    assert names == [] and destinations.advisory_count == len(destinations.topics)
    for name in "abc":
        world.consumer(world.client(), name)
    with pytest.raises(LimitReached):
        destinations.queue("d")
    world.leave(listener)


def test_what_waits_for_a_listener_still_says_what_it_is_about() -> None:
    world = EngineWorld()
    destinations = world.broker.destinations
    listener = world.client("listener")
    consumer = world.consumer(listener, ALL, INDIVIDUAL, 1)
    client = world.client()
    for _ in range(5):
        reply = world.broker.open_temporary(client, TEMP_QUEUE)
        assert isinstance(reply, Queue)
        world.broker.unsubscribe(world.consumer(client, reply), is_lost=False)
        world.broker.close_temporary(reply)
    world.turn()
    told: list[str] = []
    while held := listener.take():
        told.append(destinations.uri_of(held[0].message.destination_id))
        world.acknowledge(*held)
    assert len(told) == 20 and all(told)
    assert sum("ID:" in name for name in destinations.topics) == 5
    world.leave(listener)
    world.leave(client)
    assert consumer.is_closed and destinations.advisory_count == len(destinations.topics)


def test_a_topic_of_advisories_that_a_client_has_named_goes_with_its_last_subscription() -> None:
    world, client = world_with_client()
    reply = world.broker.open_temporary(client, TEMP_QUEUE)
    listener = _listener(world, f"Consumer.Queue.{reply.name}")
    assert isinstance(reply, Queue)
    world.consumer(client, reply)
    world.leave(client)
    assert [body for _, body in _told(world, listener)] != []
    world.leave(listener)
    assert world.topic_names() == [] and not world.has_destinations()


def test_those_who_read_a_queue_that_keeps_its_messages_are_its_consumers() -> None:
    world = EngineWorld(address("kept", queue__non_destructive=True, advisories__no_consumers=True))
    listener = _listener(world)
    clients = [world.subscriber("kept"), world.subscriber("kept")]
    _, *came = _told(world, listener)
    assert [(name, body["ConsumerInfo"]["browser"]) for name, body in came] == [("Consumer.Queue.kept", False)] * 2
    assert len(world.present("ActiveMQ.Advisory.Consumer.Queue.kept")) == 2
    world.send(b"1", to="kept")
    assert _told(world, listener) == []
    world.leave(clients[0])
    assert [b"consumerCount:1\n" in one.message.headers for one in listener.handed] == [True]
    assert [name for name, _ in _told(world, listener)] == ["Consumer.Queue.kept"]
    world.leave(clients[1])
    world.send(b"2", to="kept")
    assert [name for name, _ in _told(world, listener)] == ["Consumer.Queue.kept", "NoConsumer.Queue.kept"]
