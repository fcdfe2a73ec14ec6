"""The life of a delivery: its transition table, when it was handed over, and clients' negative answers."""

from __future__ import annotations

import itertools

import pytest

from config.policies import Nack
from engine.consumers.consumer import INDIVIDUAL
from engine.open_transaction import Transaction, TransactionLimits
from engine.values.delivery import (
    EVENT_COUNT,
    INTERVAL_MS,
    SAMPLES_MAX,
    STATE_COUNT,
    TRANSITIONS,
    Delivery,
    HandOvers,
    Refusal,
    advance,
)
from engine.values.options import SubscribeOptions
from engine.values.outcomes import CAUSE_NACK, CAUSE_REJECTED, DEAD_LETTERED
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer
from tests.support.fakes import FakeClient


@pytest.mark.parametrize(("row", "after"), TRANSITIONS.items())
def test_every_row_of_the_table(row: tuple[int, int], after: int) -> None:
    assert advance(*row) == after


ILLEGAL = [row for row in itertools.product(range(STATE_COUNT), range(EVENT_COUNT)) if row not in TRANSITIONS]


@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_every_other_move_is_our_bug(state: int, event: int) -> None:
    with pytest.raises(AssertionError, match=f"no transition from state {state} on event {event}"):
        advance(state, event)


def test_a_tag_was_handed_over_at_or_after_the_sample_before_it() -> None:
    times = HandOvers()
    times.sample(1, 1_000)
    times.sample(5, 3_000)
    assert [times.since_ms(tag) for tag in (1, 4, 5, 900)] == [1_000, 1_000, 3_000, 3_000]


def test_a_quiet_second_moves_the_sample_instead_of_adding_one() -> None:
    times = HandOvers()
    times.sample(1, 1_000)
    times.sample(1, 2_000)
    assert list(times.samples) == [(1, 2_000)]
    assert times.since_ms(1) == 2_000


def test_what_is_older_than_the_samples_is_not_known() -> None:
    times = HandOvers()
    for number in range(1, SAMPLES_MAX + 10):
        times.sample(number, number * INTERVAL_MS)
    assert len(times.samples) == SAMPLES_MAX
    assert times.since_ms(1) == 0


def test_the_broker_samples_as_time_passes() -> None:
    world, client = world_with_consumer()
    world.advance(INTERVAL_MS)
    first_ms = world.clock.wall_ms()
    world.broker.begin_turn()
    world.send(b"1")
    world.advance(3 * INTERVAL_MS)
    world.broker.begin_turn()
    world.send(b"2")
    early, late = client.take()
    assert world.handed_over_ms(early) == first_ms
    assert world.handed_over_ms(late) == first_ms + 3 * INTERVAL_MS


DLQ = "ActiveMQ.DLQ"


def only(client: FakeClient) -> Delivery:
    (delivery,) = client.take()
    return delivery


def with_one_message(*entries: object, persistent: bool = True) -> tuple[EngineWorld, FakeClient]:
    world = EngineWorld(*entries)  # type: ignore[arg-type]
    client = world.consuming()
    world.send(b"1", persistent=persistent)
    return world, client


@pytest.mark.parametrize("address_mode", ["redeliver", "dead-letter", "requeue"])
def test_the_client_s_wish_stands_above_the_address(address_mode: Nack) -> None:
    world, client = with_one_message(address("q", nack=address_mode))
    world.refuse(only(client), refusal=Refusal("requeue"))
    (handed,) = client.handed
    assert (handed.is_redelivered, handed.delivery_count) == (True, 1)
    world.refuse(only(client), refusal=Refusal("redeliver"))
    assert world.stats().delayed == 1
    world.advance(1_000)
    assert client.handed[0].delivery_count == 2
    world.refuse(only(client), refusal=Refusal("dead-letter"))
    assert world.stats(DLQ).depth == 1


def test_a_delay_of_the_client_s_own_replaces_the_policy_s() -> None:
    world, client = with_one_message()
    world.refuse(only(client), refusal=Refusal(delay_ms=5_000))
    world.advance(4_999)
    assert client.handed == []
    world.advance(1)
    assert client.handed[0].delivery_count == 2
    (failed,) = world.store.failed
    assert failed.due_ms == world.clock.wall_ms()


def test_a_delay_of_zero_is_no_delay() -> None:
    world, client = with_one_message()
    world.refuse(only(client), refusal=Refusal(delay_ms=0))
    world.advance(0)
    assert client.handed[0].delivery_count == 2


def test_requeue_with_a_delay_waits_and_counts_nothing() -> None:
    world, client = with_one_message()
    world.refuse(only(client), refusal=Refusal("requeue", delay_ms=2_000))
    assert world.stats().delayed == 1
    world.advance(1_999)
    assert client.handed == []
    world.advance(1)
    assert (client.handed[0].is_redelivered, client.handed[0].delivery_count) == (True, 1)


def test_the_client_s_words_stand_in_the_dead_letter() -> None:
    world, client = with_one_message()
    world.refuse(only(client), refusal=Refusal("dead-letter", cause=CAUSE_REJECTED, text="not an order: no total"))
    (record,) = world.store.settled
    assert (record.outcome, record.cause) == (DEAD_LETTERED, CAUSE_REJECTED)
    operator = world.subscriber(DLQ)
    text = only(operator).message.annotations.decode()
    assert "dlqDeliveryFailureCause:rejected\\c delivery 1 failed; not an order\\c no total\n" in text
    assert "dlqCause:rejected\n" in text


def test_a_consumer_s_own_policy_stands_above_the_address() -> None:
    world, client = world_with_client(address("q", redelivery__maximum_redeliveries=5))
    own = {"maximum_redeliveries": 1, "initial_redelivery_delay_ms": 10}
    queue = world.queue("q")
    consumer = world.broker.subscribe(client, queue, SubscribeOptions(INDIVIDUAL, redelivery=own))
    consumer.start()
    world.send(b"1")
    world.refuse(only(client))
    world.advance(10)
    world.refuse(only(client))
    assert world.stats(DLQ).depth == 1
    operator = world.subscriber(DLQ)
    assert "allows 1 redeliveries" in only(operator).message.annotations.decode()


def test_another_consumer_of_the_queue_keeps_the_address_s_policy() -> None:
    world = EngineWorld(address("q", redelivery__initial_redelivery_delay_ms=0))
    strict, client = world.client(), world.client()
    queue = world.queue("q")
    own = {"maximum_redeliveries": 0}
    consumer = world.broker.subscribe(strict, queue, SubscribeOptions(INDIVIDUAL, redelivery=own))
    consumer.start()
    world.leave(strict)
    world.consumer(client)
    world.send(b"1")
    world.refuse(only(client))
    world.advance(0)
    assert client.handed[0].delivery_count == 2


def test_first_and_last_failure_are_remembered_with_who_had_it() -> None:
    world = EngineWorld(address("q", redelivery__maximum_redeliveries=1))
    client = world.client("worker")
    world.consumer(client)
    world.send(b"1")
    first_ms = world.clock.wall_ms()
    world.refuse(only(client))
    world.advance(1_000)
    world.refuse(only(client))
    operator = world.subscriber(DLQ)
    text = only(operator).message.annotations.decode()
    assert f"dlqFirstFailureTime:{first_ms}\ndlqLastFailureTime:{first_ms + 1_000}\n" in text
    assert "dlqConsumer:worker, subscription sub\n" in text


def test_a_refusal_in_a_transaction_keeps_its_wish() -> None:
    world, client = with_one_message()
    transaction = Transaction(client, "tx", TransactionLimits())
    transaction.add_refused(client.take(), Refusal("dead-letter", cause=CAUSE_NACK))
    world.broker.commit(transaction)
    world.turn()
    assert world.stats(DLQ).depth == 1
