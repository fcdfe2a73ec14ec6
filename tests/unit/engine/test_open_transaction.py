"""Transactions: nothing shows before COMMIT, ABORT leaves nothing behind, limits, windows freed inside."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO, CLIENT, INDIVIDUAL
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.composite import Composite, Target
from engine.sources.queue import Queue
from engine.values import gates
from engine.values.delivery import AS_THE_ADDRESS_SAYS
from engine.values.errors import TransactionError
from engine.values.outcomes import ACKNOWLEDGED
from tests.support.engine.broker_view import covered_by
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer
from tests.support.fakes import FakeClient


def begin(client: FakeClient, limits: TransactionLimits | None = None) -> Transaction:
    return Transaction(client, "tx", limits or TransactionLimits())


def add_send(
    world: EngineWorld, transaction: Transaction, body: bytes, to: str = "q", *, persistent: bool = True
) -> None:
    destination = world.queue(to)
    transaction.add_send(destination, world.message(destination, body, persistent=persistent))


def test_the_defaults_are_the_documented_limits() -> None:
    limits = TransactionLimits()
    assert (limits.open_count, limits.action_count, limits.size_bytes) == (16, 10_000, 64 * 1024 * 1024)


def test_sends_show_at_commit_in_order_over_several_destinations() -> None:
    world, client = world_with_consumer(destination="a", ack_mode=AUTO)
    world.consumer(client, "b", AUTO)
    transaction = begin(client)
    for body, to in ((b"a1", "a"), (b"b1", "b"), (b"a2", "a")):
        add_send(world, transaction, body, to)
    world.turn()
    assert client.handed == []
    world.broker.commit(transaction)
    world.turn()
    assert sorted(client.bodies()) == [b"a1", b"a2", b"b1"]


def test_a_commit_is_one_batch_with_its_acknowledgements() -> None:
    world, client = world_with_consumer()
    world.send(b"1", b"2", b"3")
    held = client.take()
    transaction = begin(client)
    transaction.add_accepted([held[0], held[2]])
    add_send(world, transaction, b"answer", "answers")
    assert world.store.settled == []
    world.broker.commit(transaction)
    (batch,) = world.store.batches
    assert batch.records == 3, "one message, one settlement, and the consumer's metadata in front of it"
    (record,) = world.store.settled
    assert (record.outcome, record.ranges) == (ACKNOWLEDGED, [(4, 0, 1), (4, 2, 1)])
    assert world.stats().depth == 1


def test_what_was_settled_outside_does_not_get_into_the_batch() -> None:
    world, client = world_with_consumer()
    world.send(b"1", b"2")
    held = client.take()
    world.broker.acknowledge(held[0])
    transaction = begin(client)
    transaction.add_accepted([held[1]])
    world.broker.commit(transaction)
    world.turn()
    assert [record.ranges for record in world.store.settled] == [[(4, 0, 1)], [(4, 1, 1)]]
    assert [batch.records for batch in world.store.batches] == [1]


def test_an_acknowledgement_inside_frees_its_place_in_the_window() -> None:
    world, client = world_with_consumer(prefetch=1)
    world.send(*(b"%d" % number for number in range(5)))
    transaction = begin(client)
    for number in range(5):
        (held,) = client.take()
        assert held.message.body == b"%d" % number
        transaction.add_accepted([held])
        world.turn()
    assert world.stats().depth == 5
    world.broker.commit(transaction)
    world.turn()
    assert world.stats().depth == 0


def test_a_message_to_several_destinations_is_in_a_transaction_whole_or_not_at_all() -> None:
    world = EngineWorld()
    parts: list[Target] = [world.queue(name) for name in "abc"]
    several = Composite(parts)
    transaction = begin(world.client(), TransactionLimits(action_count=4))
    world.broker.send_in(transaction, several, world.message(several, b"1"))
    with pytest.raises(TransactionError, match="6 actions, the limit is 4"):
        world.broker.send_in(transaction, several, world.message(several, b"2"))
    world.broker.commit(transaction)
    assert [part.depth for part in parts if isinstance(part, Queue)] == [1, 1, 1]


def test_abort_undoes_acknowledgements_without_an_attempt() -> None:
    world, client = world_with_client()
    consumer = world.consumer(client, prefetch=2)
    world.send(b"1", b"2", b"3", b"4")
    held = client.take()
    transaction = begin(client)
    transaction.add_accepted(held)
    add_send(world, transaction, b"never", "answers")
    world.turn()
    assert client.bodies() == [b"3", b"4"]
    world.broker.abort(transaction)
    world.turn()
    assert client.handed == [], "they stay delivered: nothing comes again"
    assert (consumer.window.in_flight, consumer.gate()) == (4, gates.WINDOW_FULL)
    assert world.stats().in_flight == 4
    assert world.queue("answers").depth == 0
    assert world.store.failed == []
    assert all(one.failed_attempts == 0 for one in held)
    world.acknowledge(*held)
    assert world.stats().depth == 2


def test_abort_closes_a_window_that_is_full_again() -> None:
    world, client = world_with_consumer(prefetch=2)
    world.send(b"1", b"2")
    transaction = begin(client)
    transaction.add_accepted(client.take())
    world.broker.abort(transaction)
    world.send(b"3")
    assert client.handed == []


def test_acknowledgements_of_an_aborted_transaction_count_as_looked_at() -> None:
    world, client = world_with_consumer()
    world.send(b"1", b"2", b"3")
    held = client.take()
    transaction = begin(client)
    transaction.add_accepted([held[1]])
    world.broker.abort(transaction)
    world.lose(client)
    assert [one.failed_attempts for one in held] == [1, 1, 1]


def test_refusals_take_effect_at_commit() -> None:
    world, client = world_with_consumer()
    world.send(b"1")
    transaction = begin(client)
    transaction.add_refused(client.take(), AS_THE_ADDRESS_SAYS)
    world.advance(5_000)
    assert client.handed == []
    world.broker.commit(transaction)
    world.advance(1_000)
    assert [(one.body, one.delivery_count) for one in client.handed] == [(b"1", 2)]


@pytest.mark.parametrize("nack", ["requeue", "dead-letter"])
def test_refusals_in_the_other_modes(nack: str) -> None:
    world, client = world_with_consumer(address("q", nack=nack))
    world.send(b"1")
    transaction = begin(client)
    transaction.add_refused(client.take(), AS_THE_ADDRESS_SAYS)
    world.broker.commit(transaction)
    world.turn()
    assert client.bodies() == ([b"1"] if nack == "requeue" else [])
    assert world.stats().dead_lettered == (0 if nack == "requeue" else 1)
    assert len(world.store.batches) == 1


def test_an_aborted_refusal_is_still_delivered() -> None:
    world, client = world_with_consumer()
    world.send(b"1")
    held = client.take()
    transaction = begin(client)
    transaction.add_refused(held, AS_THE_ADDRESS_SAYS)
    world.broker.abort(transaction)
    world.acknowledge(*held)
    assert world.stats().depth == 0


def accepted_by_a_closed_subscription() -> tuple[EngineWorld, Transaction]:
    """Return a world in which a transaction has accepted the first of two messages of a subscription that has gone."""
    world, client = world_with_client()
    consumer = world.consumer(client)
    world.send(b"1", b"2")
    held = client.take()
    transaction = begin(client)
    transaction.add_accepted([held[0]])
    world.broker.unsubscribe(consumer, is_lost=False)
    return world, transaction


def test_commit_after_the_subscription_has_closed() -> None:
    world, transaction = accepted_by_a_closed_subscription()
    world.turn()
    world.broker.commit(transaction)
    world.turn()
    heir = world.client("heir")
    world.subscribe(heir)
    assert heir.bodies() == [b"2"]
    assert world.stats().depth == 1


def test_abort_after_the_subscription_has_closed_returns_the_message() -> None:
    world, transaction = accepted_by_a_closed_subscription()
    world.broker.abort(transaction)
    heir = world.client("heir")
    world.subscribe(heir)
    assert heir.bodies() == [b"1", b"2"]
    assert world.stats().in_flight == 2


@pytest.mark.parametrize("ending", ["commit", "abort"])
@pytest.mark.parametrize("is_accepted", [True, False])
def test_a_topic_subscription_that_closed_meanwhile_leaves_nothing_in_memory(ending: str, is_accepted: bool) -> None:
    world = EngineWorld()
    topic = world.topic("t")
    client = world.client()
    consumer = world.consumer(client, topic, INDIVIDUAL)
    world.send(b"1", b"2", to=topic, persistent=False)
    held = client.take()
    transaction = begin(client)
    if is_accepted:
        transaction.add_accepted([held[0]])
    else:
        transaction.add_refused([held[0]], AS_THE_ADDRESS_SAYS)
    world.broker.unsubscribe(consumer, is_lost=False)
    if ending == "commit":
        world.broker.commit(transaction)
    else:
        world.broker.abort(transaction)
    world.advance(10_000)
    assert world.memory_used() == 0


def test_a_cumulative_acknowledgement_skips_what_another_transaction_holds() -> None:
    world, client = world_with_consumer(ack_mode=CLIENT)
    world.send(b"1", b"2", b"3")
    held = client.take()
    transaction = begin(client)
    transaction.add_accepted([held[0]])
    assert covered_by(held[2]) == [held[1], held[2]]


def test_too_many_actions_are_refused_and_change_nothing() -> None:
    world, client = world_with_consumer()
    world.send(b"1", b"2")
    held = client.take()
    transaction = begin(client, TransactionLimits(action_count=2))
    add_send(world, transaction, b"a")
    with pytest.raises(TransactionError, match=r"'tx' has 3 actions, the limit is 2"):
        transaction.add_accepted(held)
    with pytest.raises(TransactionError, match="3 actions"):
        transaction.add_refused(held, AS_THE_ADDRESS_SAYS)
    transaction.add_accepted(held[:1])
    with pytest.raises(TransactionError, match="3 actions"):
        add_send(world, transaction, b"b")
    world.acknowledge(held[1])  # never was held


def test_too_many_octets_are_refused() -> None:
    world = EngineWorld()
    transaction = begin(world.client(), TransactionLimits(size_bytes=10))
    add_send(world, transaction, b"x" * 10)
    with pytest.raises(TransactionError, match=r"holds 11 octets of messages, the limit is 10"):
        add_send(world, transaction, b"x")


def test_an_empty_transaction_commits() -> None:
    world = EngineWorld()
    world.broker.commit(begin(world.client()))
    assert [batch.records for batch in world.store.batches] == [0]


def test_a_commit_waits_at_the_gate_of_what_it_sends_to() -> None:
    world = EngineWorld()
    transaction = begin(world.client())
    add_send(world, transaction, b"1")
    assert world.broker.commit_refusal(transaction) == (gates.OPEN, None)
    world.store.fail("disk full")
    assert world.broker.commit_refusal(transaction) == (gates.STORE, world.queue("q"))
    world.store.heal()
    assert world.broker.commit_refusal(transaction) == (gates.OPEN, None)


def test_acknowledgements_alone_never_wait_at_a_gate() -> None:
    world, client = world_with_consumer()
    world.send(b"1")
    transaction = begin(client)
    transaction.add_accepted(client.take())
    world.store.fail("disk full")
    assert world.broker.commit_refusal(transaction) == (gates.OPEN, None)


def test_what_is_reserved_is_enough_for_many_scattered_acknowledgements() -> None:
    world, client = world_with_consumer(prefetch=1_000)
    world.send(*(b"%d" % number for number in range(1_000)))
    held = client.take()
    transaction = begin(client)
    transaction.add_accepted(held[::2])
    transaction.add_refused(held[1::4], AS_THE_ADDRESS_SAYS)
    world.broker.commit(transaction)
    assert len(world.store.batches) == 1
