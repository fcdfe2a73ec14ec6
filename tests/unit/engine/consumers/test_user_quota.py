"""What one user may have of what all share; where logins are not checked, one address."""

from __future__ import annotations

from typing import Any

import pytest

from engine.consumers.consumer import AUTO
from engine.consumers.user_quota import (
    CONNECTIONS,
    DESTINATIONS,
    DURABLE_SUBSCRIPTIONS,
    SCHEDULES,
    SUBSCRIPTIONS,
    UserLimits,
    holder_of,
    network_of,
)
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import Plan
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.composite import Composite, CompositeSource, Source
from engine.values import gates
from engine.values.destination import QUEUE, TEMP_QUEUE, TOPIC
from engine.values.errors import InvalidDestination, InvalidOption, LimitReached
from engine.values.message import PLAIN, STOMP, Message
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient


def enter(world: EngineWorld, user: str = "", host: str = "192.0.2.1", client_id: str = "") -> FakeClient:
    client = world.client(client_id=client_id)
    client.user = user
    world.enter(client, user, host)
    return client


def subscribe(world: EngineWorld, client: FakeClient, name: str, source: Source | None = None) -> None:
    options = SubscribeOptions(AUTO, subscription=name, is_durable=True)
    consumer = world.broker.subscribe(client, source or world.topic("t"), options)
    world.broker.unsubscribe(consumer, is_lost=False)


# -- connections


def test_a_user_has_so_many_connections() -> None:
    world = EngineWorld(user_limits=UserLimits(connections=2))
    first = enter(world, "ann")
    enter(world, "ann", "192.0.2.2")
    with pytest.raises(
        LimitReached, match=r"user 'ann' has 2 connections, which is the limit \(limits.connections-per-user: 2\)"
    ):
        enter(world, "ann", "192.0.2.3")
    enter(world, "bob")
    world.broker.disconnect(first, is_lost=True)
    enter(world, "ann")
    assert world.refused_counts()[CONNECTIONS] == 1


def test_a_refused_connection_gives_nothing_back() -> None:
    world = EngineWorld(user_limits=UserLimits(connections=1))
    enter(world, "ann")
    refused = world.client()
    with pytest.raises(LimitReached):
        world.enter(refused, "ann", "192.0.2.1")
    world.broker.disconnect(refused, is_lost=False)
    with pytest.raises(LimitReached):
        enter(world, "ann")


def test_where_no_login_is_checked_connections_are_counted_at_their_accept() -> None:
    world = EngineWorld(user_limits=UserLimits(connections=1))
    enter(world)
    enter(world)


# -- destinations


@pytest.mark.parametrize("user", ["ann", ""])
def test_so_many_destinations_are_made(user: str) -> None:
    world = EngineWorld(user_limits=UserLimits(destinations=2))
    broker = world.broker
    client = enter(world, user)
    queue = broker.target(client, QUEUE, "a")
    broker.source(client, TOPIC, "b")
    who = "user 'ann'" if user else "address 192.0.2.1"
    text = rf"{who} has 2 destinations that it made, which is the limit \(limits.destinations-per-user: 2\)"
    for _ in range(2):
        with pytest.raises(LimitReached, match=text):
            broker.target(enter(world, user), QUEUE, "c")
    with pytest.raises(LimitReached, match=text):
        broker.source(client, TOPIC, "c")
    with pytest.raises(LimitReached, match=text):
        broker.open_temporary(client, TEMP_QUEUE)
    assert sorted(world.queue_names()) == ["a"]
    assert world.refused_counts()[DESTINATIONS] == 4
    assert broker.target(client, QUEUE, "a") is queue, "what is there is no new one"
    assert isinstance(broker.source(client, QUEUE, ">"), Wildcard)
    broker.target(client, QUEUE, "ActiveMQ.Statistics.Broker")
    broker.target(enter(world, user and "bob", "192.0.2.9"), QUEUE, "d")
    world.remove(queue)
    broker.target(client, QUEUE, "c")


@pytest.mark.parametrize(
    ("last", "most", "error"),
    [
        ((QUEUE, "d"), 2, LimitReached),
        ((TOPIC, "orders..eu"), 9, InvalidDestination),
        ((QUEUE, "closed.b"), 9, InvalidDestination),
        ((TEMP_QUEUE, "ID:gone"), 9, InvalidDestination),
    ],
)
def test_a_list_with_a_part_that_is_refused_makes_none_of_them(
    last: tuple[int, str], most: int, error: type[Exception]
) -> None:
    world = EngineWorld(address("closed.>", queue__auto_create=False), user_limits=UserLimits(destinations=most))
    client = enter(world, "ann")
    naming = world.broker.naming
    parts = [(QUEUE, "a"), (TOPIC, "b"), (QUEUE, "a"), last]
    for asked in (naming.targets, naming.sources):
        with pytest.raises(error):
            asked(client, parts)
        assert not world.has_destinations()
    naming.sources(client, parts[:3])
    several = naming.targets(client, parts[:3])
    assert several.uri() == "queue://a,topic://b", "there is room for two"


def test_a_list_of_more_destinations_than_the_gateway_may_have_makes_none_of_them() -> None:
    world = EngineWorld()
    world.allow_destinations(2)
    naming = world.broker.naming
    with pytest.raises(LimitReached, match=r"2 destinations exist.*'c' would be one more"):
        naming.sources(world.client(), [(QUEUE, "a"), (QUEUE, "b"), (QUEUE, "c")])
    assert not world.has_destinations()


def test_a_list_of_more_topics_than_a_user_may_subscribe_to_leaves_no_subscription() -> None:
    world = EngineWorld(user_limits=UserLimits(subscriptions=1))
    client = enter(world, "ann")
    several = CompositeSource([world.topic("a"), world.topic("b")])
    with pytest.raises(LimitReached, match="subscriptions of topics"):
        world.consumer(client, several)
    assert world.feeds() == [] and client.consumers == {}
    world.consumer(client, world.topic("a"))


def test_temporary_destinations_are_given_back_with_their_connection() -> None:
    world = EngineWorld(user_limits=UserLimits(destinations=2))
    for _ in range(3):
        client = enter(world, "ann")
        for _ in range(2):
            world.broker.open_temporary(client, TEMP_QUEUE)
        world.broker.disconnect(client, is_lost=True)
        world.turn()
    assert world.destinations_made_by("user 'ann'") == 0


def test_the_way_of_an_answer_is_a_destination_that_who_asks_has_made() -> None:
    world = EngineWorld(user_limits=UserLimits(destinations=1))
    client = enter(world, "ann")
    question = world.broker.target(client, QUEUE, "ActiveMQ.Statistics.Broker")
    for number in range(3):
        world.hear(client.client_number)
        block = b"reply-to:/queue/answers.%d\n" % number
        world.broker.send(question, Message(0, STOMP, PLAIN, 4, 0, 0, 0, b"", block, b""))
        world.turn()
    assert world.queue_names() == ["answers.0"]
    assert world.destinations_made_by("user 'ann'") == 1


def test_what_the_broker_makes_is_nobody_s() -> None:
    world = EngineWorld(user_limits=UserLimits(destinations=0))
    queue = world.queue("own")
    world.remove(queue)


# -- durable subscriptions


def test_so_many_durable_subscriptions() -> None:
    world = EngineWorld(user_limits=UserLimits(durable_subscriptions=2))
    client = enter(world, "ann", client_id="c1")
    for name in ("a", "b", "a"):
        subscribe(world, client, name)
    with pytest.raises(
        LimitReached, match=r"user 'ann' has 2 durable subscriptions, .* \(limits.durable-subscriptions-per-user: 2\)"
    ):
        subscribe(world, enter(world, "ann", client_id="c2"), "c")
    assert world.refused_counts()[DURABLE_SUBSCRIPTIONS] == 1
    assert len(world.subscriptions()) == 2
    subscribe(world, enter(world, "bob", client_id="c3"), "c")
    world.delete_subscription("c1", "a")
    subscribe(world, client, "c")


@pytest.mark.parametrize(("client_id", "name"), [("c" * 1025, "s"), ("c", "é" * 513)])
def test_what_a_durable_subscription_is_called_is_not_longer_than_a_destination(client_id: str, name: str) -> None:
    world = EngineWorld()
    with pytest.raises(InvalidOption, match="and a name of 1 to 1024 octets"):
        subscribe(world, enter(world, "ann", client_id=client_id), name)
    subscribe(world, enter(world, "ann", client_id=client_id[:1024]), name[:512])
    assert len(world.subscriptions()) == 1


def test_a_subscription_that_changes_is_still_one() -> None:
    world = EngineWorld(user_limits=UserLimits(durable_subscriptions=1))
    client = enter(world, "ann", client_id="c1")
    subscribe(world, client, "a")
    subscribe(world, client, "a", world.topic("other"))
    subscribe(world, client, "a", Wildcard(TOPIC, "w.>"))
    for name in ("w.1", "w.2"):
        world.topic(name)
    assert world.subscriptions_of("user 'ann'") == 1


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::77", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::77", "2001:db8:1:3::/64"),
        ("2001:db8:1:3::/64", "2001:db8:1:3::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("?", "?"),
    ],
)
def test_a_host_of_ipv6_is_its_network(address: str, expected: str) -> None:
    assert network_of(address) == expected


# -- schedules


def test_long_names_that_begin_alike_are_two_users() -> None:
    """The holder says also whose a pending schedule is."""
    assert holder_of("a" * 254 + "b") != holder_of("a" * 254 + "c")


@pytest.mark.parametrize("user", ["ann", ""])
def test_so_many_messages_are_scheduled(user: str) -> None:
    world = EngineWorld(user_limits=UserLimits(schedules=2))
    client = enter(world, user)
    for _ in range(2):
        schedule(world, client)
    who = "user 'ann'" if user else "address 192.0.2.1"
    text = rf"{who} has 2 messages scheduled, which is the limit \(limits.schedules-per-user: 2\)"
    with pytest.raises(LimitReached, match=text):
        schedule(world, enter(world, user))
    assert world.refused_counts()[SCHEDULES] == 1
    schedule(world, enter(world, "bob", "192.0.2.9"))
    world.advance(1_000)
    schedule(world, client)


def test_several_destinations_are_several_schedules_also_in_a_transaction() -> None:
    world = EngineWorld(user_limits=UserLimits(schedules=2))
    client = enter(world, "ann")
    three = delayed(Composite([world.queue(name) for name in "abc"]), Plan(delay_ms=1_000))
    text = r"user 'ann' has 0 messages scheduled, 3 more would exceed the limit \(limits.schedules-per-user: 2\)"
    world.hear(client.client_number)
    with pytest.raises(LimitReached, match=text):
        world.broker.send(three, world.message(world.queue("a"), b"x"))
    with pytest.raises(LimitReached, match=text):
        world.broker.send_in(Transaction(client, "tx", TransactionLimits()), three, world.message(three, b"x"))


@pytest.mark.parametrize("plan", [Plan(period_ms=100, repeat=3), Plan(cron="* * * * *", period_ms=100, repeat=2)])
def test_what_repeats_counts_until_it_is_over(plan: Plan) -> None:
    world = EngineWorld(user_limits=UserLimits(schedules=20))
    client = enter(world, "ann")
    schedule(world, client, plan)
    world.advance(150_000)
    pending = world.broker.inspect().schedule.pending
    assert world.scheduled_by("user 'ann'") == pending
    assert pending == (1 if plan.cron else 0)


def schedule(world: EngineWorld, client: FakeClient, plan: Plan | None = None) -> None:
    queue = world.queue("q")
    world.hear(client.client_number)
    assert world.broker.send(delayed(queue, plan or Plan(delay_ms=1_000)), world.message(queue, b"x")) == gates.OPEN
    world.turn()


def test_what_the_times_of_a_cron_expression_begin_keeps_to_the_limit() -> None:
    world = EngineWorld(user_limits=UserLimits(schedules=3))
    client = enter(world, "ann")
    schedule(world, client, Plan(cron="* * * * *", delay_ms=3_600_000))
    world.advance(600_000)
    assert world.broker.inspect().schedule.pending == 3
    assert world.scheduled_by("user 'ann'") == 3
    world.advance(3_600_000)
    assert world.broker.inspect().schedule.pending == 3
    assert world.queue("q").depth >= 2, "there is room again once those have been delivered"


# -- destinations made again


@pytest.mark.parametrize("way", ["send", "delayed", "composite", "transaction"])
def test_a_destination_that_is_made_again_counts_for_its_sender(way: str) -> None:
    world = EngineWorld(user_limits=UserLimits(destinations=2))
    ann = enter(world, "ann")
    queue = world.broker.target(ann, QUEUE, "q")
    world.delete(queue)
    assert world.destinations_of(ann.holder) == 0
    world.let_send(ann)
    message = world.message(queue, b"x")
    if way == "transaction":
        transaction = Transaction(ann, "tx", TransactionLimits())
        transaction.add_send(queue, message)
        world.broker.commit(transaction)
    elif way == "delayed":
        world.broker.send(delayed(queue, Plan(delay_ms=1_000)), message)
    else:
        world.broker.send(queue if way == "send" else Composite([queue, queue]), message)
    assert world.has_queue("q")
    assert world.destinations_of(ann.holder) == 1
    world.delete(world.queue("q"), is_forced=True)
    assert world.destinations_of(ann.holder) == 0


def test_a_user_with_all_it_may_have_makes_nothing_again_but_what_is_confirmed() -> None:
    world = EngineWorld(user_limits=UserLimits(destinations=1))
    ann = enter(world, "ann")
    queue = world.broker.target(ann, QUEUE, "q")
    world.delete(queue)
    world.broker.target(ann, QUEUE, "other")
    world.let_send(ann)
    with pytest.raises(LimitReached, match="user 'ann' has 1 destinations that it made"):
        world.broker.send(queue, world.message(queue, b"x"))
    transaction = Transaction(ann, "tx", TransactionLimits())
    transaction.add_send(queue, world.message(queue, b"x"))
    world.broker.commit(transaction)
    assert world.has_queue("q"), "a message of a transaction is confirmed before its COMMIT"
    assert world.destinations_of(ann.holder) == 2


# -- subscriptions in memory

SHARED: dict[str, Any] = {"subscription": "s", "is_shared": True, "is_global": True}


@pytest.mark.parametrize("name", ["t", ">"])
@pytest.mark.parametrize(
    "asked", [{}, {"subscription": "s", "is_shared": True, "is_global": True}], ids=["own", "shared"]
)
def test_a_user_has_so_many_subscriptions_in_memory(name: str, asked: dict[str, Any]) -> None:
    world = EngineWorld(user_limits=UserLimits(subscriptions=2))
    ann = enter(world, "ann", client_id="a")
    source = world.topic("t") if name == "t" else Wildcard(TOPIC, name)
    consumers = [world.consumer(ann, world.topic("other"), name="1"), world.consumer(ann, source, **asked)]
    with pytest.raises(LimitReached, match="user 'ann' has 2 subscriptions of topics that are not durable, which is"):
        world.consumer(enter(world, "ann"), world.topic("third"), name="3")
    world.consumer(enter(world, "bob"), world.topic("third"), name="3")
    for consumer in consumers:
        world.broker.leave([consumer])
        world.turn()
        world.consumer(ann, world.topic("third"), name="4")
    assert world.refused_counts()[SUBSCRIPTIONS] == 1
    world.leave(ann)
    assert world.open_subscriptions_of(ann.holder) == 0


def test_a_shared_subscription_that_is_refused_leaves_no_name_behind() -> None:
    world = EngineWorld(user_limits=UserLimits(subscriptions=1))
    ann = enter(world, "ann", client_id="a")
    first = world.consumer(ann, world.topic("other"), name="1")
    with pytest.raises(LimitReached):
        world.consumer(ann, world.topic("t"), **SHARED)
    world.broker.leave([first])
    world.turn()
    shared = world.consumer(ann, world.topic("t"), **SHARED)
    world.send(b"x", to=world.topic("t"))
    assert shared.queue.enqueued_count == 1
