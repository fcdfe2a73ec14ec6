"""One negative answer to more messages than a turn has steps for: it goes on in the next turns, and nobody can tell."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from engine.consumers.consumer import CLIENT, INDIVIDUAL
from engine.consumers.turn_steps import CHORE_STEPS, TURN_STEPS
from engine.fate.refusals import REFUSAL_STEPS
from engine.open_transaction import Transaction, TransactionLimits
from engine.values import gates
from engine.values.delivery import IN_FLIGHT, REFUSED, Delivery, Refusal
from engine.values.destination import QUEUE
from engine.values.options import SubscribeOptions
from tests.support.engine.broker_view import covered_by
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer
from tests.support.fakes import FakeClient

COUNT = 2_000
AT_ONCE = CHORE_STEPS // REFUSAL_STEPS  # that one turn refuses
BACK = Refusal("requeue")
DEAD = Refusal("dead-letter")


def held(prefetch: int = COUNT) -> tuple[EngineWorld, FakeClient, list[Delivery]]:
    """Return a world, and a client that has COUNT messages of a queue."""
    world, client = world_with_consumer(ack_mode=CLIENT, prefetch=prefetch)
    world.send(*[b"%d" % number for number in range(COUNT)])
    return world, client, client.take()


def one_turn(world: EngineWorld) -> None:
    """Let one turn pass."""
    world.broker.begin_turn()
    world.timers.fire_due()
    world.broker.end_turn()


def turns_until_done(world: EngineWorld, client: FakeClient) -> int:
    count = 0
    while client.is_refusing:
        one_turn(world)
        count += 1
    world.advance(0)
    return count


def test_what_goes_back_comes_again_in_its_order_and_nothing_before_it() -> None:
    world, client, deliveries = held(prefetch=2 * COUNT)
    world.broker.refuse_all(deliveries, BACK)
    world.send(b"new")
    assert client.handed == [] and client.is_refusing
    (consumer,) = client.consumers.values()
    assert consumer.gate() == gates.REFUSING and "put back" in consumer.describe_gate()
    assert turns_until_done(world, client) >= 3
    assert client.bodies() == [b"%d" % number for number in range(COUNT)] + [b"new"]
    assert consumer.gate() == gates.NOTHING_WAITING


def test_few_are_refused_at_once() -> None:
    world, client, deliveries = held()
    world.broker.refuse_all(deliveries[:AT_ONCE], BACK)
    assert not client.is_refusing
    world.broker.refuse_all(deliveries[AT_ONCE : 2 * AT_ONCE], BACK)
    assert not client.is_refusing
    world.broker.refuse(deliveries[2 * AT_ONCE], BACK)
    assert client.is_refusing, "other answers have taken what this turn has"
    world.advance(0)
    assert not client.is_refusing


def test_dead_letters_come_in_order_whatever_is_refused_meanwhile() -> None:
    world, client, deliveries = held()
    world.broker.refuse_all(deliveries[:-10], DEAD)
    one_turn(world)
    for delivery in deliveries[-10:]:
        world.broker.refuse(delivery, DEAD)
    assert turns_until_done(world, client) >= 2
    assert [message.body for message in world.dead_letters()] == [b"%d" % number for number in range(COUNT)]
    assert world.queue("q").depth == world.queue("q").in_flight_count == 0


def test_a_later_answer_covers_nothing_of_it() -> None:
    world, client, deliveries = held()
    world.broker.refuse_all(covered_by(deliveries[-2]), DEAD)
    assert deliveries[1_000].state == REFUSED
    assert covered_by(deliveries[-1]) == [deliveries[-1]]
    world.broker.acknowledge(deliveries[-1])
    turns_until_done(world, client)
    assert len(world.dead_letters()) == COUNT - 1


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_client_that_leaves_meanwhile_has_refused_them_all_the_same(is_lost: bool) -> None:
    world, client, deliveries = held()
    world.broker.refuse_all(deliveries[:-100], DEAD)
    world.broker.disconnect(client, is_lost)
    world.advance(10)
    other = world.client("other")
    world.subscribe(other, "q", CLIENT, COUNT)
    assert other.bodies() == [b"%d" % number for number in range(COUNT - 100, COUNT)]
    assert len(world.dead_letters()) == COUNT - 100
    assert not client.is_refusing


@pytest.mark.parametrize("ends", ["unsubscribe", "delete"])
def test_a_consumer_or_a_queue_that_ends_meanwhile(ends: str) -> None:
    world, client, deliveries = held()
    world.broker.refuse_all(deliveries, BACK)
    (consumer,) = client.consumers.values()
    world.broker.unsubscribe(consumer, is_lost=False)
    queue = world.queue("q")
    if ends == "delete":
        assert not queue.consumers and client.is_refusing
        world.delete(queue, is_forced=True)
    world.advance(10)
    assert not client.is_refusing and client.handed == []
    if ends == "delete":
        assert world.memory_used() == world.memory_paged() == 0
    else:
        assert (queue.depth, queue.in_flight_count) == (COUNT, 0)


def test_a_group_stays_in_order() -> None:
    world = EngineWorld()
    client, other = world.client(), world.client("other")
    for one in (client, other):
        world.consumer(one, "q", CLIENT, 2 * COUNT)
    world.send(*[b"%d" % number for number in range(COUNT)], group="g", persistent=False)
    world.advance(0)
    owner = client if client.handed else other
    deliveries = owner.take()
    assert len(deliveries) == COUNT
    world.broker.refuse_all(deliveries, BACK)
    world.send(b"new", group="g")
    assert client.handed == other.handed == []
    turns_until_done(world, owner)
    assert owner.bodies() == [b"%d" % number for number in range(COUNT)] + [b"new"]


@pytest.mark.parametrize("comes", ["before", "after"])
@pytest.mark.parametrize("ends", ["unsubscribe", "disconnect", "lost"])
@pytest.mark.parametrize("kind", ["exclusive queue", "exclusive consumer", "group"])
def test_an_heir_gets_nothing_before_what_its_predecessor_has_refused(kind: str, ends: str, comes: str) -> None:
    asked: dict[str, Any] = {"is_exclusive": True} if kind == "exclusive consumer" else {}
    group = "g" if kind == "group" else ""
    world = EngineWorld(address("q", queue__exclusive_consumer=kind == "exclusive queue", blame="none"))
    client, heir = world.client(), world.client("heir")
    consumer = world.consumer(client, "q", CLIENT, COUNT, **asked)
    world.send(*[b"%d" % number for number in range(COUNT + 500)], group=group, persistent=False)
    world.advance(0)
    deliveries = client.take()
    assert len(deliveries) == COUNT
    if comes == "before":
        world.consumer(heir, "q", CLIENT, 2 * COUNT, **asked)
    world.broker.refuse_all(deliveries[COUNT // 2 :], BACK)
    world.broker.refuse_all(deliveries[: COUNT // 2], BACK)
    if ends == "unsubscribe":
        world.broker.unsubscribe(consumer, is_lost=False)
    else:
        world.broker.disconnect(client, is_lost=ends == "lost")
    while not consumer.is_closed:
        one_turn(world)
    assert client.is_refusing, "it has gone, and what it has refused is on its way"
    if comes == "after":
        world.consumer(heir, "q", CLIENT, 2 * COUNT, **asked)
    turns_until_done(world, client)
    assert heir.bodies() == [b"%d" % number for number in range(COUNT + 500)]


def test_nothing_overtakes_what_is_refused_where_a_redelivery_blocks_the_queue() -> None:
    world = EngineWorld(address("q", redelivery__non_blocking_redelivery=False, redelivery__redelivery_delay_ms=50))
    client, other = world.client(), world.client("other")
    world.consumer(client, "q", CLIENT, 5)
    world.send(b"1", b"2")
    late = world.consumer(other)
    world.leave_steps(0)
    world.broker.refuse_all(client.take(), Refusal("redeliver"))
    world.send(b"3")
    assert client.is_refusing and other.handed == []
    assert late.gate() == gates.REFUSING and "2 messages" in late.describe_gate()
    world.advance(0)
    assert late.gate() == gates.DELAYED
    world.advance(2_000)
    assert sorted(client.bodies() + other.bodies()) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("ends", ["", "unsubscribe"])
def test_nothing_overtakes_what_a_consumer_refuses_whose_own_redelivery_blocks_the_queue(ends: str) -> None:
    """ActiveMQ holds back that consumer alone; here the queue waits, as its messages are behind those refused."""
    world = EngineWorld(address("q", redelivery__redelivery_delay_ms=50))
    client, other = world.client(), world.client("other")
    blocking = {"non_blocking_redelivery": False}
    consumer = world.consumer(client, "q", CLIENT, COUNT, redelivery=blocking)
    world.consumer(client, "q", CLIENT, 1, redelivery=blocking, selector="n = 'none'")
    world.send(*[b"%d" % number for number in range(COUNT)])
    late = world.consumer(other, "q", CLIENT, 2 * COUNT)
    world.leave_steps(0)
    world.broker.refuse_all(client.take(), Refusal("redeliver"))
    world.broker.send(world.queue("q"), world.message(world.queue("q"), b"new"))
    world.broker.end_turn()
    assert client.is_refusing and other.handed == []
    assert late.gate() == gates.REFUSING
    if ends:
        world.broker.unsubscribe(consumer, is_lost=False)
    while client.is_refusing:
        one_turn(world)
    assert late.gate() == gates.DELAYED and other.handed == []
    client.is_output_full = True
    world.advance(60_000)
    assert other.bodies() == [b"%d" % number for number in range(COUNT)] + [b"new"]


def test_the_consumers_of_several_queues_share_what_holds_them() -> None:
    world, client = world_with_client()
    for name in ("a.1", "a.2"):
        world.queue(name)
    world.consumer(client, world.source(QUEUE, "a.>"), CLIENT, 2 * COUNT)
    for number in range(COUNT):
        world.send(b"%d" % number, to=f"a.{1 + number % 2}")
    world.broker.refuse_all(client.take(), BACK)
    world.send(b"new", to="a.1")
    assert client.handed == []
    turns_until_done(world, client)
    bodies = client.bodies()
    assert len(bodies) == COUNT + 1 and bodies.index(b"new") >= COUNT // 2


def test_a_rollback_of_many_comes_back_in_order() -> None:
    world, client, deliveries = held()
    world.broker.roll_back(deliveries)
    assert client.is_refusing
    turns_until_done(world, client)
    assert client.bodies() == [b"%d" % number for number in range(COUNT)]


@pytest.mark.parametrize("refusal", [BACK, DEAD], ids=lambda refusal: refusal.mode)
def test_a_commit_meanwhile_is_done_at_once_and_opens_nothing(refusal: Refusal) -> None:
    """It is one batch of the log, so it does not wait; what comes back comes in the order of the queue all the same."""
    world, client, deliveries = held(prefetch=2 * COUNT)
    transaction = Transaction(client, "t", TransactionLimits())
    transaction.add_refused(deliveries[-10:], refusal)
    world.broker.refuse_all(deliveries[:-10], refusal)
    world.broker.commit(transaction)
    world.send(b"new")
    assert client.is_refusing and client.handed == []
    turns_until_done(world, client)
    numbers = [b"%d" % number for number in range(COUNT)]
    if refusal is BACK:
        assert client.bodies() == [*numbers, b"new"]
    else:
        dead = [message.body for message in world.dead_letters()]
        assert client.bodies() == [b"new"] and sorted(dead) == sorted(numbers)
        assert [body for body in dead if body in numbers[:-10]] == numbers[:-10]


@pytest.mark.parametrize("asked", [{}, {"window_bytes": 100_000}, {"is_credited": True}], ids=str)
@pytest.mark.parametrize("refused", [(0, 1_000), (0, COUNT - 10), (0, 1_000, COUNT)], ids=str)
def test_a_window_opens_as_it_would_have(refused: tuple[int, ...], asked: dict[str, Any]) -> None:
    """What counts as in flight and what may follow is the same as if all had been done at once."""
    counts = []
    for is_at_once in (True, False):
        world = EngineWorld(address("q", redelivery__redelivery_delay_ms=0))
        client = world.client()
        consumer = world.consumer(client, "q", CLIENT, COUNT, **asked)
        if "is_credited" in asked:
            consumer.grant(3 * COUNT)
        world.send(*[b"%d" % number for number in range(COUNT)])
        deliveries = client.take()
        transaction = Transaction(client, "t", TransactionLimits())
        transaction.add_accepted(deliveries[-10:])
        for first, end in pairwise(refused):
            for place in range(first, end, AT_ONCE if is_at_once else COUNT):
                if is_at_once:
                    world.leave_steps(TURN_STEPS)
                some = deliveries[place : min(end, place + (AT_ONCE if is_at_once else COUNT))]
                world.broker.refuse_all([one for one in some if one.state == IN_FLIGHT], BACK)
        world.broker.abort(transaction)
        world.advance(10)
        window = consumer.window
        gate = window.gate if window.is_full else gates.OPEN
        in_flight = (window.in_flight, window.limits.octets and window.limits.octets.in_flight())
        counts.append((in_flight, gate, window.room(), sorted(client.bodies())))
        assert not client.is_refusing
    assert counts[0] == counts[1]


def test_whose_first_turn_comes_late_does_not_begin_while_it_leaves() -> None:
    """A RECEIPT goes before the first turn, and may come when the consumer is leaving already."""
    world, client, deliveries = held()
    world.send(b"1", to="other")
    other = world.queue("other")
    world.broker.refuse_all(deliveries[:AT_ONCE], BACK)
    world.broker.refuse_all(deliveries[AT_ONCE:], BACK)
    late = world.broker.subscribe(client, other, SubscribeOptions(INDIVIDUAL, 5, "late"))
    world.leave_steps(0)
    world.broker.unsubscribe(late, is_lost=False)
    assert client.is_refusing and not late.is_closed
    late.start()
    one_turn(world)
    assert late.ledger == {}
    turns_until_done(world, client)
    assert late.is_closed and other.depth == 1
