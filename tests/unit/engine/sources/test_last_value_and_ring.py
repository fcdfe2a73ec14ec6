"""Queues that keep only the newest: last-value queues and ring queues."""

from __future__ import annotations

import pytest

from engine.backlog.lane_entries import LANE_MESSAGES
from engine.consumers.consumer import AUTO
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.last_value_and_ring import SWEPT_KEYS, Keeper
from engine.values.delivery import Refusal
from engine.values.outcomes import CAUSE_EVICTED, CAUSE_PURGED, CAUSE_REPLACED, DROPPED
from engine.values.stored import LaneState
from tests.support.engine.engine_world import EngineWorld, address, world_with_consumer
from tests.support.engine.restart_world import RestartWorld
from tests.support.store.scripted_store import ScriptedStore, Settled, recovered_queue, stored_message

DELAYS = {"redelivery__initial_redelivery_delay_ms": 300}


def send(world: EngineWorld, *bodies: str, key: str = "_AMQ_LVQ_NAME", persistent: bool = True) -> None:
    """Send messages whose key is the first letter of their body; none for a figure."""
    for body in bodies:
        headers = f"{key}:{body[0]}" if body[0].isalpha() else ""
        world.send(body.encode(), headers=headers, persistent=persistent)


def waiting(world: EngineWorld) -> list[str]:
    """Return what a new consumer gets."""
    client = world.consuming(prefetch=30_000)
    world.advance(0)  # one turn may not come to all of it
    return [body.decode() for body in client.bodies()]


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("key", ["_AMQ_LVQ_NAME", "_HQ_LVQ_NAME", "symbol"])
def test_a_new_message_replaces_the_one_of_its_key(persistent: bool, key: str) -> None:
    world = EngineWorld(address("q", queue__last_value=True, queue__last_value_key="symbol"))
    send(world, "a1", "b1", "1", "a2", "1", "a3", key=key, persistent=persistent)
    assert world.stats().depth == 4
    if persistent:
        assert world.store.settled == [
            Settled(1, 0, DROPPED, CAUSE_REPLACED, [(4, 0, 1)]),
            Settled(1, 0, DROPPED, CAUSE_REPLACED, [(4, 3, 1)]),
        ]
    assert waiting(world) == ["b1", "1", "1", "a3"]
    assert world.queue("q").dropped_count == 2


def test_elsewhere_the_property_means_nothing() -> None:
    world = EngineWorld()
    send(world, "a1", "a2")
    assert waiting(world) == ["a1", "a2"]


def test_several_of_one_turn_leave_the_last() -> None:
    world = EngineWorld(address("q", queue__last_value=True))
    queue = world.queue("q")
    client = world.consuming()
    for body in (b"a1", b"a2", b"a3"):
        world.broker.send(queue, world.message(queue, body, headers="_AMQ_LVQ_NAME:a"))
    world.turn()
    assert client.bodies() == [b"a3"]


def test_what_is_with_a_consumer_stays_and_goes_when_it_comes_back_too_late() -> None:
    world, client = world_with_consumer(address("q", queue__last_value=True, **DELAYS), prefetch=1)
    send(world, "a1", "a2")
    (first,) = client.take()
    assert world.stats().depth == 2
    world.refuse(first)
    (second,) = client.take()
    assert second.message.body == b"a2"
    world.advance(300)
    assert world.stats().depth == 1
    world.acknowledge(second)
    assert (client.take(), world.stats().depth) == ([], 0)


def test_it_stays_if_the_newer_one_was_taken_for_good() -> None:
    world, client = world_with_consumer(address("q", queue__last_value=True, **DELAYS), prefetch=1)
    send(world, "a1", "a2")
    world.refuse(*client.take())
    world.acknowledge(*client.take())
    world.advance(300)
    assert client.bodies() == [b"a1"]


def test_one_that_is_only_on_disk_is_replaced_too() -> None:
    world = EngineWorld(address("q", queue__last_value=True))
    world.consumer(world.client(), prefetch=1, selector="never = 'so'")
    world.send(*[b"x"] * LANE_MESSAGES)
    send(world, "a1", "b1", "a2")
    assert world.stats().depth == LANE_MESSAGES + 2
    assert world.store.settled == [Settled(1, 0, DROPPED, CAUSE_REPLACED, [(4, LANE_MESSAGES, 1)])]
    assert waiting(world)[-2:] == ["b1", "a2"]


@pytest.mark.parametrize("comes_first", [True, False])
def test_after_a_restart_the_newest_stays(comes_first: bool) -> None:
    bodies = [b"a1", b"b1", b"a2", b"1"]
    messages = [stored_message(1, offset, body) for offset, body in enumerate(bodies)]
    for message in messages:
        message.headers = b"_AMQ_LVQ_NAME:" + message.body[:1] + b"\n" if message.body != b"1" else b""
    store = ScriptedStore([recovered_queue(1, "q", [LaneState(4, 4, 0, [], {})])], messages)
    world = EngineWorld(address("q", queue__last_value=True), store=store)
    if comes_first:
        send(world, "b2")  # while b1 is on disk and nobody knows its key
        assert waiting(world) == ["a2", "1", "b2"]
        assert world.stats().depth == 3
    else:
        assert waiting(world) == ["b1", "a2", "1"]


def test_keys_whose_messages_are_gone_are_forgotten() -> None:
    """And so are their bodies, which no budget counts any more."""
    world, client = world_with_consumer(address("q", queue__last_value=True), prefetch=1_000)
    world.send(b"stays", headers="_AMQ_LVQ_NAME:stays")
    world.send(*[b"x"] * 3, headers="_AMQ_LVQ_NAME:again")
    for number in range(200):
        world.send(b"x", headers=f"_AMQ_LVQ_NAME:k{number}")
    keeper = world.queue("q").extras.keeper
    assert isinstance(keeper, Keeper)
    assert len(keeper.by_key) == 202
    world.acknowledge(*client.take()[1:])
    for number in range(2 * 202 // SWEPT_KEYS):
        world.send(b"x", headers=f"_AMQ_LVQ_NAME:new{number % 5}")
    assert set(keeper.by_key) == {"stays", *[f"new{number}" for number in range(5)]}


@pytest.mark.parametrize("persistent", [True, False])
def test_a_ring_drops_the_oldest(persistent: bool) -> None:
    world = EngineWorld(address("q", queue__ring_size=3))
    send(world, "1", "2", "3", "4", "5", persistent=persistent)
    assert world.stats().depth == 3
    if persistent:
        assert {one.cause for one in world.store.settled} == {CAUSE_EVICTED}
    assert waiting(world) == ["3", "4", "5"]


def test_what_is_with_a_consumer_does_not_count_for_the_ring() -> None:
    world, client = world_with_consumer(address("q", queue__ring_size=1), prefetch=2)
    send(world, "1", "2", "3", "4")
    held = client.take()
    assert [one.message.body for one in held] == [b"1", b"2"]
    world.lose(client)
    assert waiting(world) == ["4"]


@pytest.mark.parametrize("end", ["commit", "commit of a refusal", "abort", "abort without its consumer"])
def test_what_a_transaction_holds_does_not_count_for_the_ring(end: str) -> None:
    world, client = world_with_consumer(address("q", queue__ring_size=1), prefetch=2)
    send(world, "1", "2")
    transaction = Transaction(client, "t", TransactionLimits())
    if end == "commit of a refusal":
        transaction.add_refused(client.take(), Refusal("requeue"))
    else:
        transaction.add_accepted(client.take())
    send(world, "3")
    assert client.bodies() == [b"3"]
    if end == "abort without its consumer":
        world.leave(client)
    if end.startswith("commit"):
        world.broker.commit(transaction)
    else:
        world.broker.abort(transaction)
    world.turn()
    assert world.queue("q").fates.enlisted_count == 0
    assert world.stats().depth == {"commit of a refusal": 2, "abort": 3}.get(end, 1)


def test_a_ring_that_lies_on_disk_is_cut_once_it_is_loaded() -> None:
    messages = [stored_message(1, offset, b"%d" % offset) for offset in range(5)]
    store = ScriptedStore([recovered_queue(1, "q", [LaneState(4, 5, 0, [], {})])], messages)
    world = EngineWorld(address("q", queue__ring_size=2), store=store)
    send(world, "5")
    assert world.stats().depth == 2
    assert waiting(world) == ["4", "5"]


@pytest.mark.parametrize("is_awaited", [False, True])
def test_a_ring_that_was_made_smaller_holds_from_the_start_on(is_awaited: bool) -> None:
    world = RestartWorld(address("q"))
    send(world, *map(str, range(2 * LANE_MESSAGES)))
    world.addresses = (address("q", queue__ring_size=2),)
    world.restart()
    client = world.consuming(prefetch=5) if is_awaited else None
    world.turn()
    assert world.stats().depth == 2
    client = client or world.subscriber(prefetch=5)
    assert client.bodies() == [b"%d" % (2 * LANE_MESSAGES - left) for left in (2, 1)]


@pytest.mark.parametrize("persistent", [True, False])
def test_without_consumers_nothing_waits_where_that_is_asked_for(persistent: bool) -> None:
    world = EngineWorld(address("q", queue__purge_on_no_consumers=True))
    send(world, "1", persistent=persistent)
    assert (world.stats().depth, world.queue("q").dropped_count) == (0, 1)
    first, second = world.client(), world.client()
    world.consumer(first, prefetch=1)
    world.consumer(second, prefetch=1)
    send(world, "2", "3", "4", persistent=persistent)
    world.leave(first)
    assert world.stats().depth == 3  # one consumer is still there
    world.lose(second)
    assert world.stats().depth == 0
    purged = [one for one in world.store.settled if one.cause == CAUSE_PURGED]
    assert bool(purged) is persistent
    assert waiting(world) == []


def last_value_of(is_kept: bool) -> RestartWorld:
    return RestartWorld(address("q", queue__last_value=True, queue__last_value_key="k", queue__non_destructive=is_kept))


@pytest.mark.parametrize("is_kept", [False, True], ids=["taken", "non-destructive"])
def test_messages_of_earlier_runs_are_replaced_however_many_lie_on_disk(is_kept: bool) -> None:
    count = LANE_MESSAGES + 200
    world = last_value_of(is_kept)
    for value in (b"old", b"older than new", b"new"):
        for key in range(count):
            world.broker.send(world.queue("q"), world.message(world.queue("q"), value, headers=f"k:{key}"))
        world.turn()
        assert world.stats().depth == count
        world.restart()
    world.send(b"newest", headers="k:0")
    assert world.stats().depth == count
    client = world.consuming(prefetch=2 * count)
    world.finish_turns()
    assert sorted(client.bodies()) == [b"new"] * (count - 1) + [b"newest"]


def test_what_was_replaced_before_it_was_read_does_not_follow_the_newer_one() -> None:
    world = last_value_of(False)
    world.send(b"old", headers="k:1", priority=4)
    world.restart()
    client = world.client()
    world.consumer(client, "q", AUTO)
    for number in range(10):  # keys of messages that are gone are forgotten otherwise
        world.broker.send(world.queue("q"), world.message(world.queue("q"), b"new", headers="k:1", priority=9))
        world.broker.end_turn()
        world.broker.begin_turn()
        world.broker.send(world.queue("q"), world.message(world.queue("q"), b"", headers=f"k:x{number}", priority=9))
    world.turn()
    assert b"old" not in client.bodies() and world.stats().depth == 0
