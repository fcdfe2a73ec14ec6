"""Wildcard subscriptions over many topics: they take them up some a turn, and miss nothing."""

from __future__ import annotations

from typing import Any

import pytest

from engine.consumers.consumer import AUTO, INDIVIDUAL, Consumer
from engine.consumers.turn_steps import TURN_STEPS
from engine.values.delivery import Refusal
from engine.values.destination import TOPIC
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient

TOPICS = TURN_STEPS


def world_of_topics() -> EngineWorld:
    world = EngineWorld()
    for number in range(TOPICS):
        world.topic(f"a.{number}")
    return world


def settle(world: EngineWorld) -> None:
    """Let as many turns pass as there is something to do in."""
    world.turn()
    world.advance(0)


def subscribed(world: EngineWorld, client: FakeClient, is_durable: bool, **asked: Any) -> Consumer:
    source = world.source(TOPIC, "a.>")
    if is_durable:
        return world.consumer(client, source, INDIVIDUAL, 100, is_durable=True, subscription="d", **asked)
    return world.consumer(client, source, AUTO, **asked)


@pytest.mark.parametrize("is_persistent", [False, True])
@pytest.mark.parametrize("is_durable", [False, True])
def test_what_is_published_before_a_topic_has_its_turn_arrives(is_durable: bool, is_persistent: bool) -> None:
    world = world_of_topics()
    client = world.client("c", "c")
    subscribed(world, client, is_durable)
    last = world.topic(f"a.{TOPICS - 1}")
    assert not last.plain and not last.choosy
    world.send(b"last", to=last, persistent=is_persistent)
    assert client.bodies() == [b"last"]
    settle(world)
    topics = world.topics()
    assert all(len(topic.plain) + len(topic.choosy) == 1 for topic in topics)
    world.send(b"again", to=last, persistent=is_persistent)
    assert client.bodies() == [b"again"]


def test_one_that_has_ended_is_given_nothing_by_topics_that_have_not_heard_of_it() -> None:
    world = world_of_topics()
    consumer = subscribed(world, world.client(), False)
    settle(world)
    world.broker.unsubscribe(consumer, is_lost=False)
    last = world.topic(f"a.{TOPICS - 1}")
    assert last.plain
    world.send(b"x", to=last, persistent=False)
    assert world.memory_held() == 0 and not last.plain
    settle(world)
    assert not any(topic.plain for topic in world.topics())


def test_one_that_is_deleted_opens_no_more() -> None:
    world = world_of_topics()
    client = world.client("c", "c")
    consumer = subscribed(world, client, True)
    world.broker.unsubscribe(consumer, is_lost=False)
    world.broker.delete_subscription(client, "c", "d")
    settle(world)
    assert not any(topic.choosy for topic in world.topics())
    assert world.join_count() == 0


def test_a_dead_letter_may_be_the_first_thing_that_is_published() -> None:
    individual = {"strategy": "individual", "use_queue_for_queue_messages": False, "queue_prefix": "a."}
    world = EngineWorld(address(">", **{f"dead_letters__{name}": value for name, value in individual.items()}))
    for number in range(TOPICS):
        world.topic(f"a.{number}")
    world.topic("a.q")
    worker, listener = world.client("worker"), world.client("c", "c")
    world.consumer(worker, "q", INDIVIDUAL, 1)
    world.send(b"poison")
    subscribed(world, listener, True)
    world.refuse(*worker.take(), refusal=Refusal("dead-letter"))
    assert listener.bodies() == [b"poison"]


@pytest.mark.parametrize("is_new", [False, True])
def test_no_local_holds_for_topics_that_come_later(is_new: bool) -> None:
    world = world_of_topics()
    client = world.client("c", "c")
    subscribed(world, client, True, is_no_local=True)
    topic = world.topic("a.new" if is_new else f"a.{TOPICS - 1}")
    world.send(b"own", to=topic, sender=client)
    world.send(b"other", to=topic, sender=world.client("other"))
    settle(world)
    assert client.bodies() == [b"other"]
