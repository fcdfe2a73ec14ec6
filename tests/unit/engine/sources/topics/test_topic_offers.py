"""A message of a topic with many selectors is offered to some of them a turn."""

from __future__ import annotations

from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.consumers.turn_steps import TURN_STEPS
from engine.selector.table import ASKED_AT_ONCE
from engine.sources.topics.topic import AT_ONCE_MOST
from engine.values.destination import TOPIC
from engine.values.message import Message
from tests.support.engine.engine_world import EngineWorld
from tests.support.fakes import FakeClient

MANY = 3 * TURN_STEPS


def with_subscriptions(count: int, is_all: bool = True) -> tuple[EngineWorld, FakeClient]:
    world = EngineWorld()
    client = world.client()
    topic = world.topic("t")
    for number in range(count):
        world.consumer(client, topic, AUTO, selector=f"n LIKE '{'%' if is_all else number}'")
    world.turn()
    return world, client


def publish(world: EngineWorld, body: bytes) -> Message:
    topic = world.topic("t")
    message = world.message(topic, body, persistent=False, headers="n:7")
    world.broker.send(topic, message)
    return message


def test_all_get_it_in_order_over_several_turns() -> None:
    world, client = with_subscriptions(MANY)
    publish(world, b"1")
    publish(world, b"2")
    world.turn()
    assert 0 < len(client.handed) < MANY, "what is left goes on in the next turns"
    world.finish_turns()
    by_consumer: dict[int, list[bytes]] = {}
    for one in client.handed:
        by_consumer.setdefault(one.consumer.consumer_id, []).append(one.message.body)
    assert world.memory_used() == 0
    assert list(by_consumer.values()) == [[b"1", b"2"]] * MANY
    assert world.most_steps() <= TURN_STEPS + ASKED_AT_ONCE


def test_who_comes_after_it_does_not_get_it() -> None:
    world, client = with_subscriptions(MANY, is_all=False)
    publish(world, b"1")
    late = world.consuming(world.topic("t"), AUTO, selector="n LIKE '7'")
    world.finish_turns()
    assert client.bodies() == [b"1"]
    assert late.bodies() == []
    publish(world, b"2")
    world.finish_turns()
    assert late.bodies() == [b"2"]


def test_who_leaves_before_it_is_asked_is_passed_over() -> None:
    world, client = with_subscriptions(MANY)
    publish(world, b"1")
    publish(world, b"2")
    world.lose(client)
    world.finish_turns()
    assert world.memory_used() == 0
    assert client.consumers == {}


def test_a_topic_with_few_selectors_offers_at_once_whatever_is_left_of_the_turn() -> None:
    world, _ = with_subscriptions(MANY)
    few = world.subscriber(world.topic("few"), AUTO, selector="n LIKE '%'")
    publish(world, b"1")
    publish(world, b"2")
    topic = world.topic("few")
    world.broker.send(topic, world.message(topic, b"3", persistent=False, headers="n:7"))
    world.turn()
    assert few.bodies() == [b"3"]


def test_what_is_under_way_ends_beside_steady_traffic() -> None:
    """Inputs that use up each turn leave some steps for what follows them."""
    world, _ = with_subscriptions(2 * TURN_STEPS, is_all=False)
    leaving = world.client()
    for number in range(1_000):
        world.consumer(leaving, f"q.{number}", INDIVIDUAL)
    world.turn()
    for _ in range(4):
        publish(world, b"x")
    world.lose(leaving)
    for _ in range(20):
        publish(world, b"x")
        world.advance(0)
    assert leaving.consumers == {}


def test_a_wildcard_that_ends_meanwhile_gets_nothing_more() -> None:
    """It leaves its topics some a turn, later than its queue has ended."""
    world, client = with_subscriptions(ASKED_AT_ONCE + 100)
    consumer = world.subscribe(client, world.source(TOPIC, "t.>"), AUTO, selector="n LIKE '%'")
    publish(world, b"1")
    world.leave_steps(0)
    world.broker.unsubscribe(consumer, is_lost=False)
    world.finish_turns()
    assert world.memory_used() == 0


# -- subscriptions that take everything


def test_a_message_to_thousands_goes_to_some_a_turn_in_order() -> None:
    world = EngineWorld()
    client = world.client()
    for _ in range(MANY):
        world.consumer(client, world.topic("t"), AUTO)
    world.turn()
    publish(world, b"1")
    publish(world, b"2")
    late = world.subscriber(world.topic("t"), AUTO)
    assert AT_ONCE_MOST <= len(client.handed) < MANY, "what is left goes on in the next turns"
    world.finish_turns()
    by_consumer: dict[int, list[bytes]] = {}
    for one in client.handed:
        by_consumer.setdefault(one.consumer.consumer_id, []).append(one.message.body)
    assert list(by_consumer.values()) == [[b"1", b"2"]] * MANY
    assert late.handed == []
    assert world.memory_used() == 0
    assert world.most_steps() <= TURN_STEPS + 2 * ASKED_AT_ONCE


def test_thousands_with_one_selector_get_it_over_several_turns_too() -> None:
    world = EngineWorld()
    client = world.client()
    for _ in range(MANY):
        world.consumer(client, world.topic("t"), AUTO, selector="n = '7'")
    world.turn()
    publish(world, b"1")
    world.turn()
    assert 0 < len(client.handed) < MANY
    world.finish_turns()
    assert len(client.handed) == MANY and world.memory_used() == 0
