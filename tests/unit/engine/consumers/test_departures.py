"""Consumers of a connection that has gone: nothing more for them at once, closed some a turn."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO, INDIVIDUAL, Consumer
from engine.consumers.departures import CLOSE_STEPS, GIVE_BACK_STEPS, HELD_AT_ONCE, RECORD_STEPS
from engine.consumers.turn_steps import CHORE_STEPS, TURN_STEPS
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.queue import Queue
from engine.values.destination import QUEUE, TEMP_QUEUE
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer
from tests.support.fakes import FakeClient

MANY = 2 * TURN_STEPS // CLOSE_STEPS  # more than one turn closes


def crowd(world: EngineWorld, name: str = "many") -> FakeClient:
    """Return a client with consumers of so many queues that one turn does not close them."""
    client = world.client(name)
    for number in range(MANY):
        world.consumer(client, f"q.{number}", AUTO)
    world.turn()
    return client


def test_many_consumers_leave_over_several_turns_and_get_nothing_meanwhile() -> None:
    world = EngineWorld()
    client = crowd(world)
    world.broker.disconnect(client, is_lost=True)
    world.broker.end_turn()
    world.broker.begin_turn()
    assert 0 < len(client.consumers) < MANY
    last = f"q.{MANY - 1}"
    world.send(b"x", to=last)
    assert client.bodies() == []
    other = world.client("other")
    world.subscribe(other, last, AUTO)
    assert other.bodies() == [b"x"]
    world.advance(0)
    assert client.consumers == {}
    assert world.broker.clients == {other.client_number: other}


def test_its_socket_wakes_nobody_who_leaves() -> None:
    world = EngineWorld()
    client = crowd(world)
    world.broker.disconnect(client, is_lost=True)
    world.broker.output_drained(client)
    world.send(b"x", to=f"q.{MANY - 1}")
    assert client.bodies() == []


def test_few_consumers_leave_at_once() -> None:
    world, client = world_with_client()
    for number in range(10):
        world.consumer(client, f"q.{number}", AUTO)
    world.broker.disconnect(client, is_lost=True)
    assert client.consumers == {}


def test_what_they_held_comes_back_with_them() -> None:
    world = EngineWorld()
    client = crowd(world)
    world.consumer(client, "held", INDIVIDUAL)
    world.send(b"1", b"2", to="held")
    assert len(client.take()) == 2
    world.broker.disconnect(client, is_lost=False)
    assert world.stats("held").in_flight == 2
    world.advance(0)
    assert world.stats("held").in_flight == 0
    other = world.client("other")
    world.subscribe(other, "held", AUTO)
    assert other.bodies() == [b"1", b"2"]


def test_a_durable_subscription_is_free_for_its_client_at_once() -> None:
    world = EngineWorld()
    client = world.client("many", "mine")
    for number in range(MANY):
        world.consumer(client, f"q.{number}", AUTO)
    topic = world.topic("t")
    options = SubscribeOptions(INDIVIDUAL, is_durable=True, subscription="d")
    world.broker.subscribe(client, topic, options).start()
    world.turn()
    world.broker.disconnect(client, is_lost=True)
    again = world.client("again", "mine")
    world.broker.subscribe(again, topic, options).start()
    world.send(b"x", to=topic)
    assert again.bodies() == [b"x"]
    world.advance(0)
    assert len(again.consumers) == 1


def test_a_limit_of_consumers_does_not_count_those_who_leave() -> None:
    world = EngineWorld(address("only", queue__max_consumers=1))
    client = crowd(world)
    world.consumer(client, "only", AUTO)
    world.broker.disconnect(client, is_lost=True)
    other = world.client("other")
    world.consumer(other, "only", AUTO)
    world.send(b"x", to="only")
    assert other.bodies() == [b"x"]


def test_temporary_destinations_go_behind_the_consumers() -> None:
    world, client = world_with_client()
    for _ in range(MANY):
        world.consumer(client, world.broker.open_temporary(client, TEMP_QUEUE), AUTO)
    world.turn()
    world.broker.disconnect(client, is_lost=True)
    assert world.temporary_names()
    world.advance(0)
    assert world.temporary_names() == []
    assert client.consumers == {}


def test_a_client_that_is_gone_leaves_once() -> None:
    world = EngineWorld()
    client = crowd(world)
    world.broker.disconnect(client, is_lost=False)
    world.broker.disconnect(client, is_lost=True)
    assert len(world.chores()) == 1
    world.advance(0)
    assert client.consumers == {}


@pytest.mark.parametrize("steps_left", [None, 0])
@pytest.mark.parametrize("holds", [True, False])
def test_a_wildcard_of_a_client_that_stays_leaves_all_its_queues(steps_left: int | None, holds: bool) -> None:
    world = EngineWorld()
    for name in ("w.1", "w.2", "w.3"):
        world.queue(name)
    client = world.client()
    consumer = world.consumer(client, Wildcard(QUEUE, "w.*"), INDIVIDUAL)
    if holds:
        world.send(b"x", to="w.2")
    if steps_left is not None:
        world.leave_steps(steps_left)
    world.broker.leave([consumer])  # AMQP's end of a session
    world.turn()
    world.advance(0)
    assert client.consumers == {}
    assert [len(queue.consumers) for queue in world.queues()] == [0, 0, 0]
    assert world.stats("w.2").in_flight == 0


@pytest.mark.parametrize("selector", ["", "a = 'b'"], ids=["as it was", "with another selector"])
def test_a_shared_subscription_that_the_last_is_leaving_begins_anew(selector: str) -> None:
    world = EngineWorld()
    client = crowd(world)
    topic = world.topic("t")
    world.consumer(client, topic, AUTO, subscription="s", is_shared=True)
    world.broker.disconnect(client, is_lost=True)
    other = world.client("other")
    world.consumer(other, topic, AUTO, subscription="s", is_shared=True, selector=selector)
    world.advance(0)
    world.send(b"x", to=topic, headers="a:b\n")
    assert other.bodies() == [b"x"]
    third = world.client("third")
    world.consumer(third, topic, AUTO, subscription="s", is_shared=True, selector=selector)
    world.send(b"y", to=topic, headers="a:b\n")
    assert [*other.bodies(), *third.bodies()] == [b"y"]


def test_who_leaves_late_takes_nothing_that_another_has_by_then() -> None:
    world = EngineWorld()
    names = ["w.1", "w.2", "w.3"]
    for name in names:
        world.queue(name)
    client = world.client()
    consumer = world.consumer(client, Wildcard(QUEUE, "w.*"), INDIVIDUAL)
    world.send(b"x", to="w.1")
    assert client.bodies() == [b"x"]
    other = world.client("other")
    world.consumer(other, "w.1", INDIVIDUAL)
    world.leave_steps(0)  # others have used what this turn may do
    world.broker.unsubscribe(consumer, is_lost=False)
    world.broker.end_turn()
    world.broker.begin_turn()
    (held,) = other.take()
    world.advance(0)
    assert client.consumers == {}
    assert [world.stats(name).depth for name in names] == [1, 0, 0]
    assert [world.stats(name).in_flight for name in names] == [1, 0, 0]
    world.acknowledge(held)
    assert world.stats("w.1").depth == 0


@pytest.mark.parametrize("way", ["lost", "unsubscribed"])
def test_what_a_consumer_held_comes_back_some_a_turn_and_in_order(way: str) -> None:
    world, client = world_with_client()
    consumer = world.consumer(client, "q", INDIVIDUAL, 20_000)
    world.send(*[b"x"] * 20_000)
    assert len(consumer.ledger) == 20_000
    if way == "lost":
        world.broker.disconnect(client, is_lost=True)
    else:
        world.broker.unsubscribe(consumer, is_lost=False)
    queue = world.queue("q")
    left = []
    while queue.in_flight_count:
        left.append(queue.in_flight_count)
        assert len(consumer.ledger) == queue.in_flight_count
        world.broker.end_turn()
        world.broker.begin_turn()
        world.timers.fire_due()
    a_turn = (CHORE_STEPS - (RECORD_STEPS if way == "lost" else 0)) // GIVE_BACK_STEPS
    assert left == list(range(20_000 - a_turn, 0, -a_turn))
    assert consumer.is_closed
    other = world.client("other")
    world.subscribe(other, "q", INDIVIDUAL, 20_000)
    assert [one.position for one in other.take()] == sorted(range(0, 20_000 << 32, 1 << 32))


def test_of_those_that_come_back_in_several_turns_only_the_one_looked_at_is_blamed() -> None:
    world, client = world_with_consumer(prefetch=20_000)
    world.send(*[b"x"] * 20_000)
    first, *_ = client.take()
    world.acknowledge(first)
    world.lose(client)
    world.advance(0)
    assert [one.ranges for one in world.store.failed] == [[(4, 1, 1, 1)]]


def test_what_a_transaction_holds_stays_with_it_when_the_rest_comes_back() -> None:
    world, client = world_with_client()
    consumer = world.consumer(client, "q", INDIVIDUAL, 20_000)
    world.send(*[b"x"] * 20_000)
    held = client.take()[:9_000]
    transaction = Transaction(client, "t", TransactionLimits())
    transaction.add_accepted(held)
    world.broker.unsubscribe(consumer, is_lost=False)
    world.broker.abort(transaction)
    world.turn()
    world.advance(0)
    queue = world.queue("q")
    other = world.client("other")
    world.subscribe(other, "q", INDIVIDUAL, 20_000)
    assert len(other.take()) == 20_000
    assert queue.in_flight_count == 20_000


def test_who_is_leaving_is_in_nobodys_way() -> None:
    world, client = world_with_client()
    temporary = world.broker.open_temporary(client, TEMP_QUEUE)
    assert isinstance(temporary, Queue)
    consumer = world.consumer(client, temporary, INDIVIDUAL, 20_000)
    world.send(*[b"x"] * 20_000, to=temporary, persistent=False)
    world.broker.unsubscribe(consumer, is_lost=False)
    assert not consumer.is_closed
    world.broker.close_temporary(temporary)
    world.turn()
    world.advance(0)
    assert world.memory_held() == 0


def test_what_waited_in_a_queue_that_ends_leaves_the_budget_some_a_turn() -> None:
    world = EngineWorld()
    world.send(*[b"x"] * 20_000, persistent=False)
    queue = world.queue("q")
    before = world.memory_held()
    world.delete(queue, is_forced=True)
    left = []
    while world.memory_held():
        left.append(world.memory_held() * 20_000 // before)
        world.broker.end_turn()
        world.broker.begin_turn()
        world.timers.fire_due()
    assert left == list(range(20_000 - CHORE_STEPS, 0, -CHORE_STEPS))


def several(world: EngineWorld, count: int) -> tuple[FakeClient, Consumer]:
    """Return a client that stays, and its consumer of three queues, which holds ``count`` messages of the first."""
    for name in ("w.1", "w.2", "w.3"):
        world.queue(name)
    client = world.client()
    consumer = world.consumer(client, Wildcard(QUEUE, "w.*"), INDIVIDUAL, count + 1)
    world.send(*[b"x"] * count, to="w.1")
    world.advance(0)
    assert len(client.take()) == count
    return client, consumer


@pytest.mark.parametrize("way", ["unsubscribed", "lost"])
def test_one_of_several_that_leave_is_in_nobodys_way(way: str) -> None:
    world = EngineWorld()
    client, consumer = several(world, HELD_AT_ONCE + 1)
    world.leave_steps(0)
    if way == "lost":
        world.broker.disconnect(client, is_lost=True)
    else:
        world.broker.unsubscribe(consumer, is_lost=False)
    assert not consumer.is_closed
    world.delete(world.queue("w.2"))
    world.advance(0)
    assert not world.has_queue("w.2") and client.consumers == {}
    assert (world.stats("w.1").depth, world.stats("w.1").in_flight) == (HELD_AT_ONCE + 1, 0)


def test_who_leaves_slowly_leaves_once() -> None:
    world, client = world_with_client()
    consumer = world.consumer(client, "q", INDIVIDUAL, 20_000)
    world.send(*[b"x"] * 20_000)
    world.broker.unsubscribe(consumer, is_lost=False)
    world.broker.unsubscribe(consumer, is_lost=False)
    world.broker.leave([consumer])
    assert len(world.chores()) == 1
    world.advance(0)
    assert consumer.is_closed and (world.stats().consumers, world.stats().in_flight) == (0, 0)


def test_who_has_unsubscribed_is_not_blamed_for_a_connection_that_is_lost_meanwhile() -> None:
    world, client = world_with_client(address("q", blame="all"))
    consumer = world.consumer(client, "q", INDIVIDUAL, 20_000)
    world.send(*[b"x"] * 20_000)
    world.broker.unsubscribe(consumer, is_lost=False)
    assert not consumer.is_closed
    world.lose(client)
    world.advance(0)
    assert consumer.is_closed and world.stats().in_flight == 0
    assert world.store.failed == []


def with_a_costly_turn(world: EngineWorld) -> None:
    """Take more steps than a turn has, as the COMMIT of another client may."""
    world.leave_steps(-2 * TURN_STEPS)


def test_who_comes_again_in_a_costly_turn_finds_nobody_in_the_way() -> None:
    world = EngineWorld(address("q", queue__max_consumers=1))
    lost = world.client("c", "c")
    world.consumer(lost, world.topic("news"), is_durable=True, subscription="s")
    world.consumer(lost, world.topic("news"), is_durable=True, subscription="deleted")
    world.consumer(lost, "q")
    world.turn()
    with_a_costly_turn(world)
    world.broker.disconnect(lost, is_lost=True)
    back = world.client("c", "c")
    world.consumer(back, world.topic("news"), is_durable=True, subscription="s")
    world.broker.delete_subscription(back, "c", "deleted")
    world.consumer(back, "q")
    world.turn()
    assert len(back.consumers) == 2
