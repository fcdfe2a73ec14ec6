"""Queues that keep what is acknowledged (Artemis non-destructive): everybody gets everything, and nothing is taken."""

from __future__ import annotations

from typing import Any, Final

import pytest

from engine.backlog.lane_entries import IDLE_LANE_BYTES
from engine.consumers.consumer import AUTO, CLIENT, INDIVIDUAL
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.composite import CompositeSource
from engine.values.delivery import Refusal
from engine.values.destination import QUEUE
from engine.values.errors import DestinationInUse, InvalidSelector, LimitReached
from engine.values.wildcard import Wildcard
from tests.support.engine.engine_world import MIB, EngineWorld, address
from tests.support.engine.restart_world import RestartWorld


def kept(**values: object) -> EngineWorld:
    return EngineWorld(address("k", queue__non_destructive=True, **values))


@pytest.mark.parametrize("ack_mode", [AUTO, INDIVIDUAL, CLIENT])
@pytest.mark.parametrize("persistent", [True, False])
def test_everybody_gets_everything_whenever_they_come(ack_mode: int, persistent: bool) -> None:
    world = kept()
    first, second = world.client("first"), world.client("second")
    world.send(b"1", to="k", persistent=persistent)
    world.consumer(first, "k", ack_mode)
    world.send(b"2", to="k", persistent=persistent)
    if ack_mode != AUTO:
        world.acknowledge(*[one.delivery for one in first.handed if one.delivery is not None])
    assert first.bodies() == [b"1", b"2"]
    world.consumer(second, "k", ack_mode)
    world.send(b"3", to="k", persistent=persistent)
    assert (first.bodies(), second.bodies()) == ([b"3"], [b"1", b"2", b"3"])
    assert (world.stats("k").depth, world.stats("k").acknowledged, world.stats("k").consumers) == (3, 0, 2)
    for client in (first, second):
        world.leave(client)
    assert (world.memory_used() == 0) == persistent, "the queue itself still holds the others"
    assert world.stats("k").depth == 3 and world.feeds() == []


def test_they_come_in_order_of_priority_and_a_selector_chooses() -> None:
    world = kept()
    client = world.client()
    world.send(b"low", to="k", priority=1, headers="colour:red")
    world.send(b"high", to="k", priority=9, headers="colour:red")
    world.send(b"blue", to="k", headers="colour:blue")
    world.consumer(client, "k", AUTO, selector="colour = 'red'")
    world.send(b"no", to="k", headers="colour:blue")
    world.send(b"yes", to="k", headers="colour:red")
    assert client.bodies() == [b"high", b"low", b"yes"]
    with pytest.raises(InvalidSelector):
        world.consumer(client, "k", selector="colour =")


@pytest.mark.parametrize("selector", ["", "n >= 0"])
@pytest.mark.parametrize("persistent", [(True, True), (False, False), (True, False), (False, True)])
def test_what_comes_while_a_reader_begins_is_shown_behind_what_was_there(
    selector: str, persistent: tuple[bool, bool]
) -> None:
    """A reader copies the messages in memory over several turns; some of the entries are only on disk."""
    world = kept()
    count = 10_000
    for number in range(count):
        world.broker.send(
            world.queue("k"),
            world.message(world.queue("k"), b"%d" % number, headers=f"n:{number}", persistent=persistent[number % 2]),
        )
    world.turn()
    client = world.consuming("k", AUTO, selector=selector)
    for number in range(count, count + 40):
        message = world.message(
            world.queue("k"), b"%d" % number, headers=f"n:{number}", persistent=persistent[number // 2 % 2]
        )
        world.broker.send(world.queue("k"), message)
        if number % 4 == 0:
            world.broker.end_turn()
            world.broker.begin_turn()
    assert len(client.handed) < count, "some of it is not copied yet"
    world.advance(0)
    assert client.bodies() == [b"%d" % number for number in range(count + 40)]
    world.leave(client)
    world.purge(world.queue("k"))
    world.advance(1_000)
    assert world.memory_used() == 0


def test_a_selector_that_finds_no_steps_left_looks_in_a_later_turn() -> None:
    world = kept()
    client = world.subscriber("k", AUTO, selector="XPATH '//*[//*]'")
    for number in range(30):
        body = b"<r>" + b"<a/>" * 40 + b"</r>"
        message = world.message(world.queue("k"), body, headers=f"n:{number}", persistent=number % 3 > 0)
        world.broker.send(world.queue("k"), message)
    world.broker.end_turn()
    assert 0 < len(client.handed) < 30
    world.advance(0)
    assert [one.message.headers for one in client.handed] == [b"n:%d\n" % number for number in range(30)]


def test_a_selector_without_steps_later_reads_what_is_only_on_disk() -> None:
    world = EngineWorld(address("k", queue__non_destructive=True), memory_limit_bytes=60_000)
    client = world.client()
    for _ in range(40):
        world.send(bytes(3_000), to="k", headers="n:1")
    world.subscribe(client, "k", AUTO, selector="n = 1")
    client.handed.clear()
    world.broker.begin_turn()
    world.leave_steps(0)
    world.broker.send(world.queue("k"), world.message(world.queue("k"), b"new", headers="n:1"))
    world.turn()
    world.advance(1)
    assert client.bodies() == [b"new"]


def test_what_comes_later_has_a_place_behind_what_is_shown_already() -> None:
    world = kept()
    client = world.client()
    world.send(b"1", b"2", to="k", persistent=False)
    world.consumer(client, "k", INDIVIDUAL, selector="1 = 1")
    world.send(b"3", b"4", to="k", persistent=False)
    deliveries = client.take()
    assert len({delivery.position for delivery in deliveries}) == 4
    world.refuse(*reversed(deliveries), refusal=Refusal("requeue"))
    assert client.bodies() == [b"1", b"2", b"3", b"4"]


def test_each_has_a_window_of_its_own() -> None:
    world = kept()
    quick, slow = world.client(), world.client()
    world.consumer(quick, "k", prefetch=2)
    world.consumer(slow, "k", prefetch=1)
    for number in range(4):
        world.send(b"%d" % number, to="k")
        world.acknowledge(*quick.take())
    assert [one.message.body for one in slow.take()] == [b"0"]


def test_a_backlog_comes_in_pages_and_what_comes_meanwhile_behind_it() -> None:
    world = RestartWorld(address("k", queue__non_destructive=True))
    bodies = [b"%03d" % number + b"x" * (IDLE_LANE_BYTES // 8) for number in range(40)]
    world.send(*bodies, to="k")
    world.restart()
    client = world.client()
    consumer = world.subscribe(client, "k", prefetch=10)
    seen = client.take()
    world.send(b"new", to="k")
    while len(seen) < 41:
        world.acknowledge(*[one for one in seen if one.tag in consumer.ledger])
        seen += client.take()
    assert [one.message.body[:3] for one in seen] == [*(body[:3] for body in bodies), b"new"]
    world.acknowledge(*[one for one in seen if one.tag in consumer.ledger])
    assert world.stats("k").depth == 41
    world.restart()
    assert world.stats("k").depth == 41, "an acknowledgement is not logged"


def test_a_slow_consumer_keeps_no_more_than_others_do_in_memory() -> None:
    world = RestartWorld(address("k", queue__non_destructive=True))
    slow = world.client()
    consumer = world.consumer(slow, "k", prefetch=1)
    megabyte = b"x" * MIB
    for number in range(30):
        world.send(b"%02d" % number + megabyte, to="k", headers=f"n:{number % 2}")
    assert world.memory_used() < 12 * MIB, "the rest waits on disk"
    choosy = world.consuming("k", AUTO, selector="n = '1'")
    world.send(b"30" + megabyte, to="k", headers="n:0")
    world.send(b"31", to="k", headers="n:1")
    seen: list[bytes] = []
    while consumer.ledger:
        held = slow.take()
        seen += [one.message.body[:2] for one in held]
        world.acknowledge(*held)
    assert seen == [b"%02d" % number for number in range(32)]
    assert [body[:2] for body in choosy.bodies()] == [b"%02d" % number for number in range(1, 32, 2)]
    assert world.memory_used() == 0


def test_what_a_consumer_held_is_not_given_to_another_when_it_goes() -> None:
    world = kept(redelivery__maximum_redeliveries=0)
    lost, stays = world.client(), world.client()
    world.consumer(lost, "k")
    world.consumer(stays, "k")
    world.send(b"1", to="k")
    assert stays.bodies() == [b"1"]
    world.lose(lost)
    world.turn()
    assert stays.bodies() == [] and world.queue_names() == ["k"], "nobody is to blame"


def test_an_acknowledgement_in_a_transaction_changes_nothing_there() -> None:
    world = kept()
    client = world.consuming("k")
    world.send(b"1", to="k")
    transaction = Transaction(client, "tx", TransactionLimits())
    transaction.add_accepted(client.take())
    world.broker.commit(transaction)
    assert world.stats("k").depth == 1


def test_messages_leave_by_their_expiry() -> None:
    world = kept()
    client = world.consuming("k", prefetch=1)
    world.send(b"held", to="k")
    world.send(b"late", to="k", expires_ms=world.clock.wall_ms() + 1)
    world.advance(30_000)
    world.acknowledge(*client.take())
    assert client.take() == []
    assert (world.stats("k").depth, world.stats("k").expired) == (1, 1)


def test_only_the_newest_stays() -> None:
    world = kept(queue__last_value=True)
    first, second = world.client(), world.client()
    world.consumer(first, "k", AUTO)
    for number in range(3):
        world.send(b"%d" % number, to="k", headers="_AMQ_LVQ_NAME:a")
    world.subscribe(second, "k", AUTO)
    assert (first.bodies(), second.bodies()) == ([b"0", b"1", b"2"], [b"2"])
    assert world.stats("k").depth == 1


def test_a_wildcard_and_a_list_keep_too() -> None:
    world = EngineWorld(address("k.>", queue__non_destructive=True))
    destinations = world.broker.destinations
    world.send(b"1", to="k.a")
    world.send(b"2", to="plain")
    client = world.consuming(Wildcard(QUEUE, "k.*"), AUTO)
    world.consumer(client, CompositeSource([destinations.queue("k.a"), destinations.queue("plain")]), AUTO)
    world.send(b"3", to="k.new")
    world.turn()
    assert sorted(client.bodies()) == [b"1", b"1", b"2", b"3"]
    assert [world.stats(name).depth for name in ("k.a", "k.new", "plain")] == [1, 1, 0]


def test_it_is_in_use_while_somebody_looks() -> None:
    world = kept(queue__max_consumers=1)
    client = world.client()
    consumer = world.consumer(client, "k")
    with pytest.raises(LimitReached, match="has 1 consumers"):
        world.consumer(client, "k")
    with pytest.raises(DestinationInUse, match="1 consumers"):
        world.delete(world.queue("k"))
    world.broker.unsubscribe(consumer, is_lost=False)
    world.consumer(client, "k")


def test_the_broker_s_own_work_takes_from_it() -> None:
    world = EngineWorld(
        address("ActiveMQ.DLQ", queue__non_destructive=True), address("q", redelivery__maximum_redeliveries=0)
    )
    client = world.consuming("q")
    world.send(b"1")
    world.refuse(*client.take())
    world.leave(client)
    one = world.retry(world.queue("ActiveMQ.DLQ"))
    world.turn()
    world.advance(1_000)
    assert (one.moved_count, world.stats("ActiveMQ.DLQ").depth, world.stats().depth) == (1, 0, 1)
    world.send(b"2", to="ActiveMQ.DLQ")
    purge = world.purge(world.queue("ActiveMQ.DLQ"))
    world.advance(1_000)
    assert (purge.count, world.stats("ActiveMQ.DLQ").depth) == (1, 0)


BLOCKING: Final = {"redelivery": {"non_blocking_redelivery": False}}


@pytest.mark.parametrize("asked", [{"priority": 3}, {"is_exclusive": True}, BLOCKING], ids=str)
@pytest.mark.parametrize("persistent", [True, False])
def test_who_asks_for_more_than_the_next_message_gets_what_comes_later_too(
    asked: dict[str, Any], persistent: bool
) -> None:
    world = kept()
    client = world.consuming("k", AUTO, **asked)
    for body in (b"1", b"2"):
        world.send(body, to="k", persistent=persistent)
        assert client.bodies() == [body]


def test_groups_hold_nothing_back_from_who_is_shown_them() -> None:
    world = kept()
    client = world.consuming("k", AUTO)
    for persistent in (False, True, True):
        world.send(b"1", to="k", group="g", persistent=persistent)
        assert client.bodies() == [b"1"]
