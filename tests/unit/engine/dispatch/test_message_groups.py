"""Message groups: one owner a group, order kept, and who gets a group when its owner goes, idles or ends it."""

from __future__ import annotations

from typing import Any

import pytest

from engine.backlog.lane_entries import LANE_MESSAGES
from engine.consumers.consumer import AUTO, INDIVIDUAL, consumer_of
from engine.dispatch.message_groups import ALL_GROUPS_MAX, GROUPS_MAX, SWEEP_GROUPS, TEXT_MOST, Groups, GroupTotal
from engine.dispatch.message_selection import Selection
from engine.dispatch.selector_view import seat_of
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.queue import Queue
from engine.values import gates
from engine.values.delivery import Delivery, Refusal
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer
from tests.support.fakes import FakeClient

DELAYS = {"redelivery__initial_redelivery_delay_ms": 300, "redelivery__redelivery_delay_ms": 300}


def texts(deliveries: list[Delivery]) -> list[str]:
    return [one.message.body.decode() for one in deliveries]


def send(world: EngineWorld, *bodies: str, **values: Any) -> None:
    """Send messages whose group is the first letter of their body; none for a figure."""
    for body in bodies:
        world.send(body.encode(), group=body[0] if body[0].isalpha() else "", **values)


def two_consumers(world: EngineWorld, prefetch: int = 100) -> tuple[FakeClient, FakeClient]:
    clients = world.client("one"), world.client("two")
    for client in clients:
        world.consumer(client, prefetch=prefetch)
    return clients


def queue_of(world: EngineWorld) -> Queue:
    return world.queue("q")


def selection_of(world: EngineWorld) -> Selection:
    selection = queue_of(world).selection
    assert isinstance(selection, Selection)
    return selection


def test_a_group_goes_to_one_consumer_and_groups_are_shared_out_in_turn() -> None:
    world = EngineWorld()
    one, two = two_consumers(world)
    send(world, "a1", "b1", "a2", "c1", "b2", "a3", "1")
    assert (texts(one.take()), texts(two.take())) == (["a1", "a2", "a3"], ["b1", "c1", "b2", "1"])
    assert queue_of(world).group_owners() == {"a": 1, "b": 2, "c": 2}


def test_what_waited_before_there_were_consumers_is_shared_out_too() -> None:
    world = EngineWorld()
    send(world, "a1", "b1", "a2", "b2")
    one, two = two_consumers(world)
    world.turn()
    assert (texts(one.take()), texts(two.take())) == (["a1", "a2"], ["b1", "b2"])


def test_automatic_consumers_own_groups_too() -> None:
    world = EngineWorld()
    one, two = world.client("one"), world.client("two")
    for client in (one, two):
        world.consumer(client, ack_mode=AUTO)
    send(world, "a1", "b1", "a2", "b2")
    assert (one.bodies(), two.bodies()) == ([b"a1", b"a2"], [b"b1", b"b2"])
    assert world.stats().depth == 0


def test_a_full_owner_keeps_its_messages_and_others_get_theirs() -> None:
    world = EngineWorld()
    one, two = two_consumers(world, prefetch=2)
    send(world, "a1", "b1", "a2", "a3", "a4", "b2")
    held = one.take()
    assert (texts(held), texts(two.take())) == (["a1", "a2"], ["b1", "b2"])
    world.acknowledge(*held)
    assert texts(one.take()) == ["a3", "a4"]


def test_the_gate_names_the_owner() -> None:
    world = EngineWorld()
    one = world.client("one")
    world.consumer(one, prefetch=1)
    send(world, "a1", "a2")
    idle = world.subscribe(world.client("two"))
    assert idle.gate() == gates.GROUP_OWNER
    said = "group-owner: the waiting messages belong to groups of other consumers: 'a' of consumer 1"
    assert idle.describe_gate() == said


def test_groups_of_a_consumer_that_closes_go_to_others_in_order() -> None:
    world = EngineWorld()
    one, two = two_consumers(world, prefetch=2)
    send(world, "a1", "b1", "a2", "a3", "a4")
    held = two.take()
    assert texts(held) == ["b1"]
    world.lose(one)
    assert texts(two.take()) == ["a1"]
    world.acknowledge(*held)
    assert queue_of(world).group_owners() == {"a": 2, "b": 2}


def test_the_end_of_a_group_lets_the_next_message_choose_a_new_owner() -> None:
    world = EngineWorld()
    one, two = two_consumers(world)
    send(world, "a1")
    send(world, "a2", headers="JMSXGroupSeq:-1")
    assert queue_of(world).group_owners() == {}
    send(world, "a3", "a4")
    assert (texts(one.take()), texts(two.take())) == (["a1", "a2"], ["a3", "a4"])


def test_a_group_waits_while_one_of_its_messages_waits_for_its_redelivery() -> None:
    world, client = world_with_consumer(address("q", **DELAYS), prefetch=1)
    send(world, "a1", "a2", "b1", "1")
    (first,) = client.take()
    world.refuse(first)
    (other,) = client.take()
    assert texts([other]) == ["b1"]
    world.acknowledge(other)
    (plain,) = client.take()
    assert texts([plain]) == ["1"]
    world.acknowledge(plain)
    assert client.take() == []
    world.advance(300)
    for text in ("a1", "a2"):
        (held,) = client.take()
        assert texts([held]) == [text]
        world.acknowledge(held)


def test_it_waits_also_if_the_owner_goes_meanwhile() -> None:
    world = EngineWorld(address("q", **DELAYS))
    one, two = two_consumers(world, prefetch=1)
    send(world, "a1", "a2")
    world.refuse(*one.take())
    world.leave(one)
    assert two.take() == []
    world.advance(300)
    assert texts(two.take()) == ["a1"]


def test_a_group_waits_for_what_an_open_transaction_holds_of_it() -> None:
    world = EngineWorld()
    one, two = two_consumers(world)
    send(world, "a1", "a2")
    held = one.take()
    transaction = Transaction(one, "t", TransactionLimits())
    transaction.add_accepted(held[:1])
    consumer = consumer_of(held[0])
    world.unsubscribe(consumer)
    assert two.take() == []
    world.broker.abort(transaction)
    world.turn()
    assert texts(two.take()) == ["a1", "a2"]


def test_a_new_consumer_shares_the_groups_where_the_address_says_so() -> None:
    world = EngineWorld(address("q", queue__group_rebalance=True))
    one = world.client("one")
    world.consumer(one)
    send(world, "a1", "b1")
    held = one.take()
    two = world.client("two")
    world.consumer(two)
    send(world, "a2", "b2")
    assert (one.take(), two.take()) == ([], [])  # until the last owner has settled what it holds
    world.acknowledge(held[0])
    world.acknowledge(held[1])
    assert sorted(texts(one.take()) + texts(two.take())) == ["a2", "b2"]
    assert sorted(queue_of(world).group_owners().values()) == [1, 2]


def test_the_only_one_that_gets_anything_gets_the_groups_of_all() -> None:
    """What its owner has still comes first; when the exclusive one goes, the others have the groups again."""
    world = EngineWorld()
    owner, only = world.client("owner"), world.client("only")
    world.consumer(owner, "q", INDIVIDUAL, 1)
    send(world, "g0", "g1")
    exclusive = world.subscribe(only, "q", INDIVIDUAL, 1, is_exclusive=True)
    assert only.bodies() == []
    (first,) = owner.take()
    world.broker.acknowledge(first)
    world.turn()
    assert (only.bodies(), owner.bodies()) == ([b"g1"], [])
    send(world, "g2")
    world.unsubscribe(exclusive)
    assert owner.bodies() == [b"g1"]


def test_a_group_stays_with_its_owner_where_it_does_not() -> None:
    world = EngineWorld()
    one = world.client("one")
    world.consumer(one)
    send(world, "a1")
    two = world.client("two")
    world.consumer(two)
    send(world, "a2")
    assert (texts(one.take()), two.take()) == (["a1", "a2"], [])


def test_an_idle_group_loses_its_owner() -> None:
    world = EngineWorld(address("q", queue__group_idle_timeout_ms=1_000))
    one, two = two_consumers(world, prefetch=2)
    send(world, "a1", "b1", "1", "2")
    held = one.take()
    assert texts(held) == ["a1", "1"]
    assert texts(two.take()) == ["b1", "2"]
    one.is_output_full = True
    world.acknowledge(held[0])
    send(world, "a2")
    world.advance(2_000)
    three = world.client("three")
    world.subscribe(three)
    assert texts(three.take()) == ["a2"]


def test_a_group_with_messages_in_flight_is_not_idle() -> None:
    world = EngineWorld(address("q", queue__group_idle_timeout_ms=1_000))
    one, two = two_consumers(world, prefetch=1)
    send(world, "a1", "a2")
    world.advance(5_000)
    assert (texts(one.take()), two.take()) == (["a1"], [])


def test_the_first_message_for_an_owner_says_so_where_the_address_asks_for_it() -> None:
    world = EngineWorld(address("q", queue__group_first_key="JMSXGroupFirstForConsumer", **DELAYS))
    one = world.client("one")
    world.consumer(one, prefetch=2)
    send(world, "a1", "a2")
    marks = [one.message.annotations for one in one.handed]
    assert marks == [b"JMSXGroupFirstForConsumer:true\n", b""]
    two = world.client("two")
    world.consumer(two, prefetch=1)
    world.leave(one)
    assert two.handed[0].message.annotations == b"JMSXGroupFirstForConsumer:true\n"
    (held,) = two.take()
    world.acknowledge(held)
    (second,) = two.take()
    assert second.message.annotations == b""
    world.refuse(second)
    world.advance(300)
    (again,) = two.take()
    assert again.message.annotations == b""
    assert selection_of(world).originals == {}


@pytest.mark.parametrize("way", ["acknowledged", "lost", "left", "given up", "unsubscribed"])
@pytest.mark.parametrize("ack_mode", [AUTO, INDIVIDUAL])
@pytest.mark.parametrize("persistent", [True, False])
def test_a_marked_message_of_a_topic_leaves_the_budget(way: str, ack_mode: int, persistent: bool) -> None:
    world = EngineWorld(address("t", queue__group_first_key="first", redelivery__maximum_redeliveries=0, **DELAYS))
    topic = world.topic("t")
    clients = [world.client(f"c{number}") for number in range(3)]
    consumers = [world.consumer(client, topic, ack_mode) for client in clients]
    send(world, "a1", "a2", to=topic, persistent=persistent)
    for client, consumer in zip(clients, consumers, strict=True):
        if ack_mode != AUTO:
            assert [one.message.annotations for one in client.handed] == [b"first:true\n", b""]
        held = client.take()
        if way == "acknowledged":
            world.acknowledge(*held)
        elif way == "given up":
            world.refuse(*held, refusal=Refusal("dead-letter"))
        elif way == "lost":
            world.lose(client)
        elif way == "left":
            world.leave(client)
        else:
            world.broker.unsubscribe(consumer, is_lost=False)
    world.turn()
    undertaker = world.client("undertaker")
    world.subscribe(undertaker, "ActiveMQ.DLQ", AUTO)
    assert (world.memory_used(), world.memory_paged()) == (0, 0)


def test_the_name_of_the_mark_is_the_operator_s_and_senders_may_use_it_as_in_artemis() -> None:
    world = EngineWorld(address("q", queue__group_first_key="first", **DELAYS))
    queue = world.queue("q")
    one = world.client("one")
    world.consumer(one, prefetch=2)
    for number in range(2):
        message = world.message(queue, b"%d" % number, headers="first:mine")
        message.group_hash = 7
        world.broker.send(queue, message)
    world.turn()
    first, second = [one.message for one in one.handed]
    assert first.annotations == b"first:true\n", (
        "in STOMP the first of a name counts, and the gateway's own comes first"
    )
    assert second.annotations == b""
    assert first.headers == second.headers


def test_buckets_share_owners() -> None:
    world = EngineWorld(address("q", queue__group_buckets=1))
    one, two = two_consumers(world)
    send(world, "a1", "b1", "c1", "1")
    assert (texts(one.take()), texts(two.take())) == (["a1", "b1", "c1"], ["1"])


def test_no_buckets_are_no_groups() -> None:
    world = EngineWorld(address("q", queue__group_buckets=0))
    one, two = two_consumers(world)
    send(world, "a1", "a2")
    assert (texts(one.take()), texts(two.take())) == (["a1"], ["a2"])


def test_what_the_owner_does_not_select_goes_to_others() -> None:
    world = EngineWorld()
    red, every = world.client("red"), world.client("every")
    world.consumer(red, selector="colour = 'red'")
    world.consumer(every, prefetch=1)
    every.is_output_full = True
    send(world, "a1", headers="colour:red")
    world.broker.output_drained(every)
    send(world, "a2", headers="colour:blue")
    send(world, "a3", headers="colour:red")
    assert (texts(red.take()), texts(every.take())) == (["a1", "a3"], ["a2"])


def test_only_so_many_idle_groups_are_remembered() -> None:
    world, _ = world_with_consumer(ack_mode=AUTO)
    send(world, "a1")
    for number in range(GROUPS_MAX + 10):
        world.send(b"x", group=f"g{number}")
    owners = queue_of(world).group_owners()
    assert len(owners) <= GROUPS_MAX
    assert "a" not in owners
    assert f"g{GROUPS_MAX + 9}" in owners


def test_all_queues_together_remember_only_so_many_groups() -> None:
    total = GroupTotal(ALL_GROUPS_MAX - 10)
    groups = Groups(-1, total)
    for key in range(1, 1_000):
        groups.begin(key, "")
    assert len(groups.by_key) <= 10 + SWEEP_GROUPS
    assert total.count == ALL_GROUPS_MAX - 10 + len(groups.by_key)
    groups.forget(next(iter(groups.by_key.values())))
    groups.close()
    assert total.count == ALL_GROUPS_MAX - 10


def test_of_a_long_group_id_only_the_beginning_is_kept() -> None:
    world, _ = world_with_consumer(ack_mode=AUTO)
    world.send(b"x", group="g" * 9_000)
    assert list(queue_of(world).group_owners()) == ["g" * TEXT_MOST]


def test_a_queue_without_consumers_remembers_no_groups() -> None:
    world, client = world_with_consumer(ack_mode=AUTO)
    world.send(b"x", group="g")
    total = selection_of(world).groups.total
    assert total.count == 1
    world.broker.disconnect(client, is_lost=True)
    world.turn()
    assert total.count == 0


def test_a_full_owner_does_not_keep_other_groups_waiting_behind_a_long_queue() -> None:
    world = EngineWorld()
    one, two = two_consumers(world, prefetch=1)
    send(world, "a1", *["a2"] * (LANE_MESSAGES + 2_000))
    assert texts(one.take()) == ["a1"]
    send(world, "b1")
    for _ in range(10):
        world.advance(0)
    assert texts(two.take()) == ["b1"]


def test_the_queue_is_plain_again_once_it_is_empty() -> None:
    world = EngineWorld()
    one, two = two_consumers(world)
    send(world, "a1")
    world.acknowledge(*one.take())
    world.leave(one)
    assert queue_of(world).is_choosy
    world.leave(two)
    assert not queue_of(world).is_choosy
    assert queue_of(world).group_owners() == {}


def test_who_wakes_as_a_group_ends_does_not_lose_its_turn_to_the_one_that_ended_it() -> None:
    world = EngineWorld()
    low, high = world.client("low"), world.client("high")
    world.consumer(low, prefetch=2)
    world.send(b"1", group="g")
    waking = world.consumer(high, priority=5)
    queue = world.queue("q")
    for body, headers in ((b"2", "JMSXGroupSeq:-1"), (b"3", "")):
        world.broker.send(queue, world.message(queue, body, headers=headers, group="g"))
    world.turn()
    assert (low.bodies(), high.bodies()) == ([b"1", b"2"], [b"3"])
    world.broker.unsubscribe(waking, is_lost=False)
    world.send(b"4")
    assert low.bodies() == []


def test_a_new_group_beyond_the_most_looks_at_a_few_others_only() -> None:
    groups = Groups(-1)
    for key in range(1, GROUPS_MAX + 1):
        groups.begin(key, "").unsettled.add(key)
    for key in range(GROUPS_MAX + 1, GROUPS_MAX + 11):
        groups.begin(key, "").unsettled.add(key)
    assert next(iter(groups.by_key)) == 10 * SWEEP_GROUPS + 1, "the others have been asked, and stay"
    assert len(groups.by_key) == GROUPS_MAX + 10, "all are in use"


def test_groups_without_messages_are_forgotten_unless_they_were_used_of_late() -> None:
    groups = Groups(-1)
    for key in range(1, 2 * GROUPS_MAX):
        groups.begin(key, "")
        groups.use(groups.by_key[1], key)
    assert 1 in groups.by_key
    assert 2 not in groups.by_key
    assert len(groups.by_key) <= GROUPS_MAX


def test_what_waits_behind_refused_messages_of_its_group_is_not_looked_at_for_each_of_them() -> None:
    refused_count, behind_count = 60, 300
    world, client = world_with_client(
        address("q", redelivery__initial_redelivery_delay_ms=100, redelivery__redelivery_delay_ms=100)
    )
    consumer = world.consumer(client, "q", INDIVIDUAL, refused_count)
    for number in range(refused_count + behind_count):
        world.send(b"%d" % number, group="g")
    for delivery in client.take():
        world.clock.now_ms += 1  # so that they come back one after the other
        world.refuse(delivery)
    assert client.handed == [], "their group waits for them"
    world.advance(1_000)
    order: list[int] = []
    while held := client.take():
        order += [int(one.message.body) for one in held]
        world.acknowledge(*held)
    assert order == list(range(refused_count + behind_count))
    seat = seat_of(consumer)
    assert seat is not None
    assert seat.view.matched_count <= 3 * (refused_count + behind_count)


def test_a_group_that_has_ended_leaves_nothing_to_wait_for() -> None:
    """Its messages that are held belong to no group any more, so the queue is a plain one without consumers."""
    world, client = world_with_consumer()
    world.send(b"1", group="a")
    world.send(b"2", group="a", headers="JMSXGroupSeq:-1")
    assert len(client.take()) == 2
    world.leave(client)
    assert queue_of(world).selection is None
