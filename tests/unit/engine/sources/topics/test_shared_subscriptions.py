"""Subscriptions that several consumers share, and what tells a named one from another."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO
from engine.values.delivery import Refusal
from engine.values.destination import TOPIC
from engine.values.errors import InvalidOption, InvalidSelector, SubscriptionInUse
from engine.values.wildcard import Wildcard
from tests.support.engine.engine_world import EngineWorld


def test_each_message_goes_to_one_of_those_who_share() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    one, two, alone = world.client("1"), world.client("2"), world.client("3")
    for client in (one, two):
        world.consumer(client, topic, AUTO, subscription="s", is_shared=True)
    world.consumer(alone, topic, AUTO)
    world.send(b"1", b"2", to=topic, persistent=False)
    world.send(b"3", b"4", to=topic)
    first, second = one.bodies(), two.bodies()
    assert len(first) == len(second) == 2
    assert sorted(first + second) == alone.bodies() == [b"1", b"2", b"3", b"4"]
    assert world.memory_used() == 0


def test_what_one_leaves_goes_to_the_other_and_the_last_takes_the_rest_along() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    one, two = world.client("1"), world.client("2")
    first = world.consumer(one, topic, prefetch=1, subscription="s", is_shared=True)
    world.consumer(two, topic, prefetch=1, subscription="s", is_shared=True)
    world.send(b"1", b"2", b"3", to=topic)
    world.unsubscribe(first)
    (held,) = two.take()
    world.acknowledge(held)
    (again,) = two.take()
    assert (held.message.body, again.message.body, again.is_redelivered) == (b"2", b"1", True)
    world.lose(two)
    assert world.memory_used() == 0 and world.subscriptions() == {}
    assert world.subscriber(topic, AUTO, subscription="s", is_shared=True).bodies() == []


def test_the_topics_of_a_shared_wildcard_count_for_one_of_its_clients() -> None:
    world = EngineWorld()
    for name in ("a.1", "a.2"):
        world.topic(name)
    one, two = world.client("1"), world.client("2")
    shared = [world.consumer(client, Wildcard(TOPIC, "a.>"), subscription="s", is_shared=True) for client in (one, two)]
    world.advance(0)
    assert (one.fed_topics, two.fed_topics) == (2, 0)
    world.unsubscribe(shared[0])
    world.topic("a.3")
    assert (one.fed_topics, two.fed_topics) == (0, 3)
    world.remove(world.topic("a.1"))
    assert two.fed_topics == 2
    world.lose(two)
    assert two.fed_topics == 0


def test_names_belong_to_a_client_id_or_to_nobody() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    clients = [world.client("1", "a"), world.client("2", "b"), world.client("3")]
    for client in clients:
        world.consumer(client, topic, AUTO, subscription="s", is_shared=True)
    world.send(b"1", to=topic)
    assert [client.bodies() for client in clients] == [[b"1"]] * 3


def test_who_shares_must_ask_for_the_same() -> None:
    world = EngineWorld()
    destinations = world.broker.destinations
    client = world.consuming(destinations.topic("t"), AUTO, subscription="s", is_shared=True, selector="n = '1'")
    for topic, selector in (("t", "n = '2'"), ("u", "n = '1'"), ("t", "")):
        with pytest.raises(SubscriptionInUse, match="can be changed once they have closed"):
            world.consumer(client, destinations.topic(topic), subscription="s", is_shared=True, selector=selector)
    world.send(b"no", to=destinations.topic("t"), headers="n:2")
    world.send(b"yes", to=destinations.topic("t"), headers="n:1")
    assert client.bodies() == [b"yes"]


def test_shared_over_a_wildcard() -> None:
    world = EngineWorld()
    one, two = world.client("1"), world.client("2")
    for client in (one, two):
        world.consumer(client, Wildcard(TOPIC, "t.>"), AUTO, subscription="s", is_shared=True)
    for name in ("t.1", "t.2", "t.1"):
        world.send(name.encode(), to=world.topic(name))
    assert sorted(one.bodies() + two.bodies()) == [b"t.1", b"t.1", b"t.2"]


def test_what_makes_no_sense() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    client = world.client()
    for match, options in (
        ("needs a name", {"is_shared": True}),
        ("neither durable nor shared", {"subscription": "s"}),
        ("needs a client id", {"subscription": "s", "is_durable": True}),
        ("noLocal", {"subscription": "s", "is_shared": True, "is_no_local": True}),
    ):
        with pytest.raises(InvalidOption, match=match):
            world.consumer(client, topic, **options)
    with pytest.raises(InvalidSelector):
        world.consumer(client, topic, subscription="s", is_shared=True, selector="a b")
    assert client.consumers == {} and world.feeds() == [] and world.subscriptions() == {}


def test_selectors_of_a_topic_and_no_local() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    me, you = world.client("me"), world.client("you")
    world.consumer(me, topic, AUTO, is_no_local=True)
    world.consumer(me, topic, AUTO, selector="colour = 'red'")
    world.consumer(you, topic, AUTO, selector="colour <> 'red' AND size > 3", is_no_local=True)
    world.send(b"mine", to=topic, sender=me, headers="colour:red")
    world.send(b"yours", to=topic, sender=you, headers="colour:blue size:4")
    world.send(b"nobody's", to=topic, headers="colour:blue size:4", persistent=False)
    assert me.bodies() == [b"mine", b"yours", b"nobody's"]
    assert you.bodies() == [b"nobody's"]
    world.leave(me)
    world.leave(you)
    world.send(b"late", to=topic)
    assert len(topic.selected.selectors) == 0 and not topic.is_choosy and world.memory_used() == 0


@pytest.mark.parametrize("group", ["", "g"])
def test_who_joins_a_wildcard_in_memory_that_chooses_takes_turns_there(group: str) -> None:
    """Such a queue has no number of its own, and begins to choose by its messages or by what one of them refuses."""
    world = EngineWorld()
    topic = world.topic("t.a")
    wildcard = Wildcard(TOPIC, "t.>")
    one, two = world.client("1"), world.client("2")
    world.consumer(one, wildcard, prefetch=1, subscription="s", is_shared=True)
    world.send(b"1", to=topic, persistent=False, group=group)
    (held,) = one.take()
    if not group:
        world.broker.refuse_all([held], Refusal("requeue", is_excluding=True))
        world.turn()
    late = world.consumer(two, wildcard, prefetch=1, subscription="s", is_shared=True)
    world.send(b"2", b"3", to=topic, persistent=False, group=group and "h")
    world.turn()
    assert two.bodies()
    world.unsubscribe(late)
