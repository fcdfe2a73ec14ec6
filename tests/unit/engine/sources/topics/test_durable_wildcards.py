"""Durable subscriptions to wildcards: their limits, and their end over several turns and a stop in between."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO
from engine.consumers.turn_steps import TURN_STEPS
from engine.consumers.user_quota import DURABLE_WILDCARD_TOPICS, DURABLE_WILDCARDS, UserLimits
from engine.ports.workers import SYNC_LANE
from engine.sources.topics.wildcard_joins import CLOSE_STEPS
from engine.values.destination import TOPIC
from engine.values.errors import LimitReached
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard
from tests.support.engine.engine_world import EngineWorld
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import FakeClient

MANY = 2 * TURN_STEPS // CLOSE_STEPS  # topics: their cursors are closed over several turns


def world_of_topics(count: int, **limits: int) -> EngineWorld:
    world = EngineWorld(user_limits=UserLimits(**limits))
    for number in range(count):
        world.topic(f"w.{number}")
    return world


def enter(world: EngineWorld, user: str, client_id: str = "shop", host: str = "192.0.2.1") -> FakeClient:
    client = world.client(client_id=client_id)
    client.user = user
    world.enter(client, user, host)
    return client


def subscribe(world: EngineWorld, client: FakeClient, name: str = "s", wildcard: str = "w.>") -> None:
    """Make a durable subscription; its consumer leaves."""
    options = SubscribeOptions(AUTO, subscription=name, is_durable=True)
    consumer = world.broker.subscribe(client, Wildcard(TOPIC, wildcard), options)
    world.broker.unsubscribe(consumer, is_lost=False)
    world.advance(0)


def make(world: EngineWorld, client: FakeClient, name: str) -> None:
    world.broker.target(client, TOPIC, name)


def cursor_count(world: EngineWorld) -> int:
    return sum(len(topic.choosy) for topic in world.topics())


# -- limits


@pytest.mark.parametrize(("user", "holder"), [("ann", "user 'ann'"), ("", "address 192.0.2.1")])
def test_a_user_has_so_many(user: str, holder: str) -> None:
    world = world_of_topics(0, durable_wildcards=2)
    client = enter(world, user)
    for name in ("a", "b"):
        subscribe(world, client, name)
    text = rf"{holder} has 2 durable subscriptions to wildcards, .* \(limits.durable-wildcards-per-user: 2\)"
    with pytest.raises(LimitReached, match=text):
        subscribe(world, client, "c")
    subscribe(world, client, "b", "other.>")
    assert world.refused_counts()[DURABLE_WILDCARDS] == 1
    world.broker.delete_subscription(client, "shop", "a")
    subscribe(world, client, "c")
    assert sorted(name for _, name, _ in world.subscriptions()) == ["b", "c"]


def test_it_begins_with_no_more_topics_than_are_left() -> None:
    world = world_of_topics(3, durable_wildcard_topics=5)
    client = enter(world, "ann")
    subscribe(world, client, "a")
    text = r"user 'ann' has 3 topics of durable wildcards, 3 more would exceed .*wildcard-topics-per-user: 5\)"
    with pytest.raises(LimitReached, match=text):
        subscribe(world, client, "b")
    subscribe(world, client, "c", "other.>")
    assert len(world.subscriptions()) == 2
    subscribe(world, enter(world, "bob", "c"), "b")
    assert cursor_count(world) == 6


@pytest.mark.parametrize("user", ["ann", ""])
def test_a_topic_too_much_for_the_wildcards_of_its_maker_is_refused(user: str) -> None:
    world = world_of_topics(1, durable_wildcard_topics=3)
    client = enter(world, user)
    subscribe(world, client, "a")
    subscribe(world, client, "b", "*.x")
    make(world, client, "w.1")
    with pytest.raises(LimitReached, match="has 2 topics of durable wildcards, 2 more would exceed the limit"):
        make(world, client, "w.x")
    make(world, client, "other")
    make(world, client, "w.2")
    assert cursor_count(world) == 3


def test_other_users_make_what_is_too_much_for_a_wildcard() -> None:
    world = world_of_topics(1, durable_wildcard_topics=1)
    subscribe(world, enter(world, "ann"))
    make(world, enter(world, "bob", "c"), "w.new")
    assert "w.new" in {topic.name for topic in world.topics()}
    assert cursor_count(world) == 1
    assert world.refused_counts()[DURABLE_WILDCARD_TOPICS] == 1


def test_topics_and_wildcards_that_end_give_their_places_back() -> None:
    world = world_of_topics(2, durable_wildcard_topics=2)
    client = enter(world, "ann")
    subscribe(world, client)
    with pytest.raises(LimitReached):
        make(world, client, "w.2")
    world.remove(world.topic("w.0"))
    make(world, client, "w.2")
    world.broker.delete_subscription(client, "shop", "s")
    world.advance(0)
    subscribe(world, client, "again")
    assert cursor_count(world) == 2


# -- the end


def subscribed(world: RestartWorld, client: FakeClient, selector: str = "") -> None:
    source = Wildcard(TOPIC, "w.>")
    consumer = world.consumer(client, source, AUTO, subscription="s", is_durable=True, selector=selector)
    world.broker.unsubscribe(consumer, is_lost=False)


def stop_after_one_turn(world: RestartWorld) -> int:
    """Make durable what one turn has done, and crash; return how many cursors were there."""
    world.end_turn()
    count = cursor_count(world)
    world.broker.sync()
    while world.workers.finish(SYNC_LANE):
        pass
    world.crash()
    return count


def ended_world() -> RestartWorld:
    """Return a world with a durable wildcard of many topics that has just been deleted."""
    world = RestartWorld()
    for number in range(MANY):
        world.topic(f"w.{number}")
    client = world.client(client_id="c")
    subscribed(world, client)
    world.advance(0)
    assert cursor_count(world) == MANY
    world.broker.delete_subscription(client, "c", "s")
    return world


def test_its_cursors_are_closed_over_several_turns() -> None:
    world = ended_world()
    assert not world.subscriptions() and 0 < cursor_count(world) < MANY
    world.send(b"x", to=world.topic(f"w.{MANY - 1}"))
    world.advance(0)
    assert cursor_count(world) == 0


def test_a_stop_meanwhile_leaves_none_of_it() -> None:
    world = ended_world()
    assert 0 < stop_after_one_turn(world) < MANY
    assert not world.subscriptions() and cursor_count(world) == 0
    world.restart()
    assert cursor_count(world) == 0


@pytest.mark.parametrize("selector", ["", "n = '1'"])
def test_one_of_its_name_that_begins_meanwhile_survives_the_stop(selector: str) -> None:
    world = ended_world()
    subscribed(world, world.client(client_id="c"), selector)
    stop_after_one_turn(world)
    last = world.topic(f"w.{MANY - 1}")
    world.send(b"x", to=last, headers="n:1")
    assert cursor_count(world) == MANY
    again = world.client(client_id="c")
    world.subscribe(again, Wildcard(TOPIC, "w.>"), AUTO, subscription="s", is_durable=True, selector=selector)
    world.advance(0)
    assert again.bodies() == [b"x"]


def test_a_topic_that_is_deleted_meanwhile_is_closed_once() -> None:
    world = ended_world()
    world.remove(next(topic for topic in world.topics() if topic.choosy))
    world.advance(0)
    assert cursor_count(world) == 0
    world.restart()
    assert cursor_count(world) == 0 and len(world.topics()) == MANY - 1
