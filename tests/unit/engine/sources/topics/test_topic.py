"""Topics: fan-out to non-durable subscriptions, slow subscribers, memory."""

from __future__ import annotations

from engine.backlog.memory_budget import HOLDER_BYTES, MESSAGE_OVERHEAD_BYTES
from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.values import gates
from engine.values.options import SubscribeOptions
from tests.support.engine.engine_world import EngineWorld


def test_every_subscription_gets_every_message_in_order() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    clients = [world.client(f"c{number}") for number in range(3)]
    for client, mode in zip(clients, (AUTO, INDIVIDUAL, AUTO), strict=True):
        world.consumer(client, topic, mode)
    world.send(b"1", b"2", b"3", to=topic)
    assert [client.bodies() for client in clients] == [[b"1", b"2", b"3"]] * 3


def test_two_subscriptions_of_one_connection_both_get_it() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    client = world.client()
    consumers = [world.consumer(client, topic, AUTO), world.consumer(client, topic, AUTO)]
    world.send(b"1", to=topic)
    assert [one.consumer for one in client.handed] == consumers


def test_without_subscribers_a_persistent_message_is_logged_all_the_same() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    world.send(b"1", to=topic)
    world.send(b"2", to=topic, persistent=False)
    assert [message.body for message in world.store.messages] == [b"1"]
    assert world.memory_used() == 0
    assert world.subscriber(topic, AUTO).bodies() == []


def test_a_subscriber_with_a_full_window_pends_in_memory() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    slow, quick = world.client("slow"), world.client("quick")
    world.consumer(slow, topic, INDIVIDUAL, prefetch=1)
    world.consumer(quick, topic, AUTO)
    world.send(b"1", b"2", b"3", to=topic)
    assert quick.bodies() == [b"1", b"2", b"3"]
    assert world.memory_used() == 3 * (1 + MESSAGE_OVERHEAD_BYTES)
    for expected in (b"1", b"2", b"3"):
        (held,) = slow.take()
        assert held.message.body == expected
        world.acknowledge(held)
    assert world.memory_used() == 0
    assert world.store.settled == [], "a topic's deliveries leave no settlements"


def test_a_message_that_pends_for_several_counts_its_octets_and_its_encoded_copy() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    for number in range(3):
        client = world.client(f"c{number}")
        client.is_output_full = True
        world.consumer(client, topic, AUTO)
    world.send(b"news", to=topic)
    assert world.memory_used() == 2 * 4 + MESSAGE_OVERHEAD_BYTES + 2 * HOLDER_BYTES


def test_an_automatic_subscriber_with_full_output_gets_the_rest_in_order() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    client = world.consuming(topic, AUTO)
    client.hold_after = 2
    world.send(*(b"%d" % number for number in range(6)), to=topic)
    first = client.bodies()
    assert first[:2] == [b"0", b"1"] and len(first) <= 3
    client.hold_after = -1
    world.drain_output(client)
    assert first + client.bodies() == [b"%d" % number for number in range(6)]
    assert world.memory_used() == 0


def test_what_pends_goes_before_what_comes() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    client = world.consuming(topic, AUTO)
    client.is_output_full = True
    assert world.try_send(b"1", topic) == gates.OPEN
    client.is_output_full = False
    assert world.try_send(b"2", topic) == gates.OPEN
    world.turn()
    assert client.bodies() == [b"1", b"2"]


def test_slow_subscribers_fill_the_budget_and_then_producers_wait() -> None:
    world = EngineWorld(memory_limit_bytes=10 * (1 + MESSAGE_OVERHEAD_BYTES))
    topic = world.topic("t")
    client = world.consuming(topic, INDIVIDUAL, prefetch=1)
    for number in range(10):
        assert world.try_send(b"%d" % number, topic) == gates.OPEN
    assert world.try_send(b"x", topic) == gates.MEMORY
    assert world.try_send(b"x", topic, persistent=False) == gates.MEMORY
    assert world.try_send(b"x", "q") == gates.OPEN, "a persistent message to a queue is not held in memory only"
    world.turn()
    world.acknowledge(*client.take())
    assert world.try_send(b"x", topic) == gates.OPEN


def test_messages_that_expire_while_they_pend() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    client = world.client()
    client.is_output_full = True
    world.consumer(client, topic, AUTO)
    world.send(b"short", to=topic, expires_ms=world.clock.wall_ms() + 1_000)
    world.send(b"long", to=topic)
    world.advance(30_000)
    assert world.stats("t").expired == 1
    client.is_output_full = True
    world.drain_output(client)
    assert client.bodies() == [b"long"]
    assert world.memory_used() == 0


def test_a_message_with_an_expiry_still_arrives_in_time() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    client = world.consuming(topic, AUTO)
    world.send(b"1", to=topic, expires_ms=world.clock.wall_ms() + 1)
    assert client.bodies() == [b"1"]


def test_counts_of_subscriptions_that_ended_stay_with_the_topic() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    client = world.consuming(topic, AUTO)
    world.send(b"1", b"2", to=topic)
    world.leave(client)
    stats = world.stats("t")
    assert (stats.kind, stats.enqueued, stats.delivered, stats.acknowledged, stats.consumers) == ("topic", 2, 2, 2, 0)


def test_a_subscription_starts_with_what_comes_after_it() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    client = world.client()
    consumer = world.broker.subscribe(client, topic, SubscribeOptions(AUTO, None, "sub"))
    world.send(b"1", to=topic)  # subscribed, its receipt is still on the way
    assert client.handed == []
    consumer.queue.start_consumer(consumer)
    world.turn()
    assert client.bodies() == [b"1"]


def test_the_default_prefetch_of_a_topic() -> None:
    world = EngineWorld()
    assert world.consumer(world.client(), world.topic("t"), INDIVIDUAL).window.limit == 32_766
