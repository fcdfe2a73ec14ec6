"""Durable subscriptions: a cursor in the log that outlives consumers, connections and stops."""

from __future__ import annotations

from typing import Any

import pytest

from engine.consumers.consumer import AUTO, INDIVIDUAL, Consumer
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.topics.topic import Topic
from engine.values.destination import QUEUE, TEMP_TOPIC, TOPIC
from engine.values.errors import InvalidOption, SubscriptionInUse, UnknownSubscription
from engine.values.options import SubscribeOptions
from engine.values.outcomes import CAUSE_NOT_SELECTED, DROPPED
from engine.values.wildcard import Wildcard
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import FakeClient


def _durable(
    world: EngineWorld, client: FakeClient, source: Topic | Wildcard, ack_mode: int = INDIVIDUAL, **options: Any
) -> Consumer:
    options.setdefault("subscription", "s")
    consumer = world.subscribe(client, source, ack_mode, is_durable=True, **options)
    return consumer


def test_what_comes_while_nobody_is_there_waits_and_costs_no_memory() -> None:
    world = RestartWorld()
    client = world.client(client_id="c")
    _durable(world, client, world.topic())
    world.leave(client)
    world.send(*(b"%d" % number for number in range(50)), to=world.topic())
    (queue,) = world.topic().subscriptions.values()
    assert queue.depth == 50 and world.memory_used() == 0
    assert [len(lane.ready) for lane in queue.used_lanes] == [0]
    again = world.client(client_id="c")
    _durable(world, again, world.topic(), AUTO)
    assert again.bodies() == [b"%d" % number for number in range(50)]
    assert queue.depth == 0


def test_it_begins_with_what_comes_after_it_also_in_priorities_that_were_used_before() -> None:
    world = RestartWorld()
    topic = world.topic()
    world.send(b"old", to=topic)
    world.send(b"old", to=topic, priority=9)
    client = world.client(client_id="c")
    _durable(world, client, topic, AUTO)
    world.send(b"1", to=topic, persistent=False)
    world.send(b"2", to=topic, priority=9)
    world.send(b"3", to=topic)
    assert client.bodies() == [b"1", b"2", b"3"]


def test_over_a_crash_nothing_confirmed_is_missed_and_nothing_settled_comes_back() -> None:
    world = RestartWorld()
    client = world.client(client_id="c")
    _durable(world, client, world.topic())
    world.send(*(b"%d" % number for number in range(10)), to=world.topic())
    held = client.take()
    world.acknowledge(held[0], held[1], held[4])
    world.sync()
    world.send(b"late", to=world.topic())
    world.crash()
    again = world.client(client_id="c")
    (queue,) = world.topic().subscriptions.values()
    assert queue.depth == 7
    _durable(world, again, world.topic(), AUTO)
    assert again.bodies() == [b"%d" % number for number in (2, 3, 5, 6, 7, 8, 9)], "what was not durable is gone"
    world.send(b"10", to=world.topic())
    assert again.bodies() == [b"10"]


def test_it_goes_on_after_a_crash_without_its_consumer() -> None:
    world = RestartWorld()
    client = world.client(client_id="c")
    _durable(world, client, world.topic())
    world.send(b"1", to=world.topic())
    world.restart()
    world.send(b"2", to=world.topic())
    world.restart()
    again = world.client(client_id="c")
    _durable(world, again, world.topic(), AUTO)
    assert again.bodies() == [b"1", b"2"]


def test_counts_of_failed_attempts_survive() -> None:
    world = RestartWorld(address(">", redelivery__initial_redelivery_delay_ms=0, redelivery__redelivery_delay_ms=0))
    client = world.client(client_id="c")
    _durable(world, client, world.topic())
    world.send(b"1", to=world.topic())
    world.refuse(*client.take())
    world.advance(1)
    world.restart()
    again = world.client(client_id="c")
    _durable(world, again, world.topic())
    (one,) = again.take()
    assert (one.failed_attempts, one.is_redelivered) == (1, True)


def test_what_is_given_up_goes_to_the_dead_letters_and_leaves_the_others_alone() -> None:
    world = RestartWorld(address(">", nack="dead-letter"))
    clients = [world.client(client_id=name) for name in ("a", "b")]
    for client in clients:
        _durable(world, client, world.topic())
    world.send(b"1", to=world.topic())
    world.refuse(*clients[0].take())
    world.restart()
    dead = world.consuming("ActiveMQ.DLQ", AUTO)
    again = [world.client(client_id=name) for name in ("a", "b")]
    for client in again:
        _durable(world, client, world.topic(), AUTO)
    assert [client.bodies() for client in again] == [[], [b"1"]]
    (letter,) = dead.handed
    assert b"_AMQ_ORIG_QUEUE:a\\cs\n" in letter.message.annotations


def test_messages_that_are_not_logged_wait_in_memory_in_their_order() -> None:
    world = RestartWorld()
    client = world.client(client_id="c")
    _durable(world, client, world.topic())
    world.leave(client)
    world.send(b"1", to=world.topic())
    world.send(b"2", to=world.topic(), persistent=False)
    world.send(b"3", to=world.topic())
    assert world.memory_used() > 0
    again = world.client(client_id="c")
    _durable(world, again, world.topic(), AUTO)
    assert again.bodies() == [b"1", b"2", b"3"] and world.memory_used() == 0


def test_only_one_consumer_at_a_time() -> None:
    world = RestartWorld()
    client = world.client(client_id="c")
    first = _durable(world, client, world.topic())
    with pytest.raises(SubscriptionInUse, match="active consumer"):
        _durable(world, client, world.topic())
    _durable(world, client, world.topic(), subscription="other")
    _durable(world, world.client(client_id="d"), world.topic())
    world.broker.unsubscribe(first, is_lost=False)
    _durable(world, client, world.topic())


def test_shared_ones_have_many_and_belong_to_a_client_id_or_to_nobody() -> None:
    world = RestartWorld()
    one, two = world.client(), world.client()
    for client in (one, two):
        _durable(world, client, world.topic(), is_shared=True)
    world.send(*(b"%d" % number for number in range(4)), to=world.topic())
    held = one.take()
    assert len(held) == 2 and len(two.take()) == 2
    world.acknowledge(*held)
    world.restart()
    again = world.client()
    _durable(world, again, world.topic(), AUTO, is_shared=True)
    assert again.bodies() == [b"1", b"3"]
    with pytest.raises(SubscriptionInUse, match="is shared"):
        _durable(world, _unshared_with_the_same_name(world), world.topic())


def _unshared_with_the_same_name(world: RestartWorld) -> FakeClient:
    sharer = world.client(client_id="c")
    _durable(world, sharer, world.topic(), is_shared=True)
    world.leave(sharer)
    return world.client(client_id="c")


@pytest.mark.parametrize("change", ["topic", "selector", "no_local"])
def test_asking_for_something_else_begins_anew(change: str) -> None:
    world = RestartWorld()
    client = world.client(client_id="c")
    consumer = _durable(world, client, world.topic())
    world.broker.unsubscribe(consumer, is_lost=False)
    world.send(b"old", to=world.topic())
    changes: dict[str, dict[str, Any]] = {"selector": {"selector": "n = '1'"}, "no_local": {"is_no_local": True}}
    asked = changes.get(change, {})
    topic = world.topic("other" if change == "topic" else "t")
    _durable(world, client, topic, AUTO, **asked)
    world.send(b"new", to=topic, headers="n:1")
    assert client.bodies() == [b"new"]
    assert sum(len(one.subscriptions) for one in world.topics()) == 1
    world.leave(client)
    world.restart()
    again = world.client(client_id="c")
    _durable(world, again, world.topic(topic.name), AUTO, **asked)
    world.send(b"next", to=world.topic(topic.name), headers="n:1")
    assert again.bodies() == [b"next"]


def test_deleting_one_lets_go_of_everything_and_cannot_be_done_under_a_consumer() -> None:
    world = RestartWorld()
    client = world.client(client_id="c")
    consumer = _durable(world, client, world.topic(), prefetch=1)
    world.send(b"1", b"2", to=world.topic())
    world.send(b"3", to=world.topic(), persistent=False)
    with pytest.raises(SubscriptionInUse):
        world.delete_subscription("c", "s")
    world.broker.unsubscribe(consumer, is_lost=False)
    world.delete_subscription("c", "s")
    with pytest.raises(UnknownSubscription, match="no subscription 's' of client id 'c'"):
        world.delete_subscription("c", "s")
    assert world.memory_used() == 0 and not world.topic().is_choosy
    world.restart()
    assert world.subscriptions() == {}
    again = world.client(client_id="c")
    _durable(world, again, world.topic(), AUTO)
    assert again.bodies() == []


def test_a_transaction_that_held_its_messages_when_it_was_deleted() -> None:
    world = RestartWorld()
    client = world.client(client_id="c")
    for is_committed in (True, False):
        consumer = _durable(world, client, world.topic())
        world.send(b"1", to=world.topic())
        world.send(b"2", to=world.topic(), persistent=False)
        transaction = Transaction(client, "tx", TransactionLimits())
        transaction.add_accepted(client.take())
        world.broker.unsubscribe(consumer, is_lost=False)
        world.delete_subscription("c", "s")
        if is_committed:
            world.broker.commit(transaction)
        else:
            world.broker.abort(transaction)
        world.sync()
        assert world.memory_used() == 0
    world.crash()
    assert world.subscriptions() == {}


def test_a_selector_settles_what_it_passes_in_ranges() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    client = world.client(client_id="c")
    consumer = _durable(world, client, topic, selector="n = '1'")
    for headers in ("n:2", "n:2", "n:1", "n:2"):
        world.send(headers.encode(), to=topic, headers=headers)
    passed = [one for one in world.store.settled if one.outcome == DROPPED]
    assert [(one.cause, one.destination_id, one.ranges) for one in passed] == [
        (CAUSE_NOT_SELECTED, consumer.queue.destination_id, [(4, 0, 1)]),
        (CAUSE_NOT_SELECTED, consumer.queue.destination_id, [(4, 1, 1)]),
        (CAUSE_NOT_SELECTED, consumer.queue.destination_id, [(4, 3, 1)]),
    ]
    world.acknowledge(*client.take())
    assert consumer.queue.depth == 0


def test_a_selector_looks_at_what_came_meanwhile_when_it_is_loaded() -> None:
    world = RestartWorld()
    client = world.client(client_id="c")
    _durable(world, client, world.topic(), selector="n > 1")
    world.restart()
    for number in (1, 2, 3, 1):
        world.send(b"%d" % number, to=world.topic(), headers=f"n:{number}")
    (queue,) = world.topic().subscriptions.values()
    assert queue.depth == 3, "behind the first that waits on disk nobody has looked"
    again = world.client(client_id="c")
    _durable(world, again, world.topic(), AUTO, selector="n > 1")
    assert again.bodies() == [b"2", b"3"] and queue.depth == 0
    world.leave(again)
    world.restart()
    (queue,) = world.topic().subscriptions.values()
    assert queue.depth == 0


@pytest.mark.parametrize("selector", ["n = '1'", "n = '1' OR XPATH '//no'"])
def test_a_selector_decides_about_all_messages_also_beside_groups(selector: str) -> None:
    world = RestartWorld(address("t", full__address_full_policy="PAGE", full__max_size_messages=1))
    client = world.client(client_id="c")
    consumer = _durable(world, client, world.topic(), selector=selector, prefetch=1)
    world.send(b"0", to=world.topic(), headers="n:1", group="g")
    (first,) = client.take()
    for number, headers in enumerate(("n:1", "n:1", "n:2", "n:1", "n:2", "n:1"), 1):
        world.send(b"%d" % number, to=world.topic(), headers=headers)
    taken = [first.message.body]
    world.acknowledge(first)
    while found := client.take():
        taken += [one.message.body for one in found]
        world.acknowledge(*found)
    assert taken == [b"0", b"1", b"2", b"4", b"6"]
    assert consumer.queue.depth == 0


def test_a_message_that_the_turn_has_no_steps_for_comes_later_also_beside_groups() -> None:
    world = RestartWorld()
    client = world.client(client_id="c")
    _durable(world, client, world.topic(), AUTO, selector="n = '1' OR XPATH '//no'")
    world.send(b"0", to=world.topic(), headers="n:1", group="g")
    world.leave_steps(0)
    world.send(b"1", to=world.topic(), headers="n:1")
    assert client.bodies() == [b"0", b"1"]


def test_no_local_leaves_out_what_its_own_connection_sends_also_when_it_is_behind() -> None:
    world = RestartWorld()
    client = world.client(client_id="c")
    _durable(world, client, world.topic(), is_no_local=True)
    world.leave(client)
    world.send(*(b"%d" % number for number in range(3)), to=world.topic())
    again = world.client(client_id="c")
    consumer = world.broker.subscribe(again, world.topic(), _options(is_no_local=True))
    world.send(b"mine", to=world.topic(), sender=again)
    world.send(b"yours", to=world.topic())
    consumer.start()
    world.turn()
    assert again.bodies() == [b"0", b"1", b"2", b"yours"]
    assert consumer.queue.depth == 0


def _options(**options: Any) -> SubscribeOptions:
    return SubscribeOptions(AUTO, subscription="s", is_durable=True, **options)


def test_a_wildcard_has_a_cursor_for_each_topic_also_for_those_to_come() -> None:
    world = RestartWorld()
    world.topic("t.1")
    client = world.client(client_id="c")
    _durable(world, client, Wildcard(TOPIC, "t.>"))
    world.send(b"1", to=world.topic("t.1"))
    world.send(b"2", to=world.topic("t.2"))
    first, second = client.take()
    world.acknowledge(second)
    world.restart()
    world.send(b"3", to=world.topic("t.3"))
    world.send(b"no", to=world.topic("u"))
    again = world.client(client_id="c")
    consumer = _durable(world, again, Wildcard(TOPIC, "t.>"), AUTO)
    world.send(b"4", to=world.topic("t.4"))
    assert again.bodies() == [b"1", b"3", b"4"]
    world.broker.unsubscribe(consumer, is_lost=False)
    world.delete_subscription("c", "s")
    world.send(b"5", to=world.topic("t.1"))
    assert world.feeds() == []
    world.restart()
    assert world.subscriptions() == {} and "t.>" not in world.topic_names()
    assert first.message.body == b"1"


def test_a_wildcard_that_matches_nothing_yet_is_remembered() -> None:
    world = RestartWorld()
    client = world.client(client_id="c")
    _durable(world, client, Wildcard(TOPIC, "t.>"))
    world.restart()
    world.send(b"1", to=world.topic("t.1"))
    again = world.client(client_id="c")
    _durable(world, again, Wildcard(TOPIC, "t.>"), AUTO)
    assert again.bodies() == [b"1"]


def test_many_messages_come_in_pages() -> None:
    world = RestartWorld()
    client = world.client(client_id="c")
    _durable(world, client, world.topic())
    world.leave(client)
    bodies = [b"%05d" % number for number in range(3_000)]
    world.send(*bodies, to=world.topic())
    world.sync()
    again = world.client(client_id="c")
    _durable(world, again, world.topic(), prefetch=100)
    seen: list[bytes] = []
    while deliveries := again.take():
        assert len(deliveries) <= 100
        seen += [one.message.body for one in deliveries]
        world.acknowledge(*deliveries)
    assert seen == bodies


def test_the_default_window_is_that_of_durable_topics() -> None:
    world = RestartWorld()
    assert _durable(world, world.client(client_id="c"), world.topic()).window.limit == 100


def test_what_cannot_be_durable() -> None:
    world = RestartWorld()
    client = world.client(client_id="c")
    temporary = world.broker.open_temporary(client, TEMP_TOPIC)
    assert isinstance(temporary, Topic)
    with pytest.raises(InvalidOption, match="in memory only"):
        _durable(world, client, temporary)
    with pytest.raises(InvalidOption, match="is a queue"):
        world.consumer(client, Wildcard(QUEUE, "q.>"), is_durable=True, subscription="s")
    assert world.subscriptions() == {}


def test_expired_messages_leave_it() -> None:
    world = RestartWorld()
    client = world.client(client_id="c")
    _durable(world, client, world.topic())
    world.leave(client)
    world.send(b"short", to=world.topic(), expires_ms=world.clock.wall_ms() + 10)
    world.send(b"long", to=world.topic())
    world.advance(1_000)
    again = world.client(client_id="c")
    _durable(world, again, world.topic(), AUTO)
    assert again.bodies() == [b"long"]
    world.restart()
    (queue,) = world.topic().subscriptions.values()
    assert queue.depth == 0


# -- retroactive consumers


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_retroactive_consumer_gets_the_past_and_then_what_comes_none_twice(is_durable: bool) -> None:
    world = RestartWorld(address("t", retroactive__recovery_message_count=3))
    world.send(*(b"%d" % number for number in range(5)), to=world.topic())
    client = world.client(client_id="c")
    options = {"is_durable": True, "subscription": "s"} if is_durable else {}
    consumer = world.broker.subscribe(client, world.topic(), _retroactive(**options))
    world.send(b"live", to=world.topic())
    consumer.start()
    world.turn()
    world.send(b"later", to=world.topic())
    world.send(b"unlogged", to=world.topic(), persistent=False)
    assert client.bodies() == [b"2", b"3", b"4", b"live", b"later", b"unlogged"]
    world.leave(client)
    assert world.memory_used() == 0


def _retroactive(**options: Any) -> SubscribeOptions:
    return SubscribeOptions(AUTO, is_retroactive=True, **options)


def test_all_of_the_log_comes_when_nothing_limits_it_and_a_selector_chooses() -> None:
    world = RestartWorld()
    for number in range(2_000):
        world.send(b"%d" % number, to=world.topic(), headers=f"n:{number}")
    everything, chosen, live = world.client(), world.client(), world.client()
    world.consumer(everything, world.topic(), AUTO, is_retroactive=True)
    world.consumer(chosen, world.topic(), AUTO, is_retroactive=True, selector="n >= 1990")
    world.subscribe(live, world.topic(), AUTO)
    assert everything.bodies() == [b"%d" % number for number in range(2_000)]
    assert chosen.bodies() == [b"%d" % number for number in range(1_990, 2_000)]
    assert live.bodies() == [] and world.memory_used() == 0


def test_every_subscription_looks_back_where_the_address_says_so() -> None:
    world = RestartWorld(address("t", retroactive__message_count=2))
    world.send(b"1", b"2", b"3", to=world.topic())
    assert world.subscriber(world.topic(), AUTO).bodies() == [b"2", b"3"]


def test_how_far_back_in_time() -> None:
    world = RestartWorld(address("t", retroactive__recovery_time_ms=1_000, retroactive__always=True))
    world.send(b"old", to=world.topic())
    world.advance(5_000)
    world.send(b"recent", to=world.topic())
    assert world.subscriber(world.topic(), AUTO).bodies() == [b"recent"]


def test_a_wildcard_does_not_look_back() -> None:
    world = RestartWorld()
    with pytest.raises(InvalidOption, match="many topics"):
        world.consumer(world.client(), Wildcard(TOPIC, "t.>"), AUTO, is_retroactive=True)
    assert world.feeds() == []


def test_a_slow_one_that_looks_back_keeps_no_more_than_a_page_in_memory() -> None:
    world = RestartWorld()
    world.send(*(b"x" * 10_000 for _ in range(2_000)), to=world.topic())
    client = world.subscriber(world.topic(), INDIVIDUAL, prefetch=1, is_retroactive=True)
    assert 0 < world.memory_used() < 9 * 1024 * 1024
    world.leave(client)
    assert world.memory_used() == 0
