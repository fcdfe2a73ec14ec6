"""Acknowledgements of OpenWire clients, in and out of transactions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.mapping.openwire_form import read_properties
from protocols.openwire.session.acknowledgements import (
    DELIVERED,
    EXPIRED,
    INDIVIDUAL,
    POISON,
    REDELIVERED,
    STANDARD,
)
from protocols.openwire.session.branch_commands import ROLLBACK
from protocols.openwire.session.requests import BEGIN, COMMIT_ONE_PHASE
from protocols.openwire.wire.commands import (
    ConnectionError,
    MessageAck,
    MessageDispatch,
    RemoveInfo,
    Response,
    SessionInfo,
)
from protocols.openwire.wire.identities import (
    ConnectionId,
    ConsumerId,
    MessageId,
    SessionId,
    Throwable,
)
from tests.support.protocols.openwire_gateway import (
    OpenWireGateway,
    OpenWirePeer,
    message_in,
    queue,
    sent,
    text_in,
    topic,
)


def test_acknowledged_messages_are_gone() -> None:
    gateway, peer = sent("a", "b", "c")
    first, second, third = peer.dispatches()
    peer.acknowledge(second, STANDARD, first)
    assert gateway.stats("q").depth == 1
    peer.acknowledge(third)
    peer.acknowledge(third)  # a client that reconnects sends leftovers
    assert gateway.stats("q").depth == 0
    assert peer.take() == []


def test_individual_acknowledgements() -> None:
    gateway, peer = sent("a", "b", "c")
    _, second, _ = peer.dispatches()
    peer.acknowledge(second, INDIVIDUAL)
    assert gateway.stats("q").depth == 2
    peer.vanish()
    other = gateway.openwire_consumer(queue("q"))
    assert other.texts() == ["a", "c"]


def test_a_range_leaves_out_what_is_before_it() -> None:
    gateway, peer = sent("a", "b", "c")
    _, second, third = peer.dispatches()
    peer.acknowledge(third, STANDARD, second)
    peer.vanish()
    assert gateway.openwire_consumer(queue("q")).texts() == ["a"]


def test_processed_messages_let_others_follow() -> None:
    texts = [str(number) for number in range(20)]
    gateway, peer = sent(*texts, prefetch=4)
    first = found = peer.dispatches()
    seen = [text_in(one) for one in found]
    while len(seen) < len(texts):
        peer.acknowledge(found[1] if len(found) > 1 else found[-1], DELIVERED, first[0])
        found = peer.dispatches() or pytest.fail("no more follow")
        seen += [text_in(one) for one in found]
    assert seen == texts
    assert gateway.stats("q").depth == len(texts)
    peer.acknowledge(found[-1], STANDARD, first[0])
    assert gateway.stats("q").depth == 0


def test_the_prefetch_is_kept() -> None:
    _, peer = sent(*"abcdef", prefetch=3)
    assert peer.texts() == ["a", "b", "c"]


def test_a_poisoned_message_becomes_a_dead_letter_with_its_cause() -> None:
    gateway, peer = sent("bad", "good")
    bad, _ = peer.dispatches()
    peer.acknowledge(bad, POISON, poison_cause=Throwable("java.lang.Throwable", "Delivery[7] exceeds the limit"))
    dead = gateway.openwire_consumer(queue("ActiveMQ.DLQ"))
    (dispatch,) = dead.dispatches()
    found = message_in(dispatch)
    assert found.destination == queue("ActiveMQ.DLQ")
    assert found.original_destination == queue("q")
    cause = read_properties(found.marshalled_properties)["dlqDeliveryFailureCause"].value
    assert "java.lang.Throwable: Delivery[7] exceeds the limit" in cause


def test_the_last_origin_of_a_dead_letter_counts() -> None:
    """The copy of a virtual topic names the topic as its origin; the dead letter names the queue besides."""
    gateway = OpenWireGateway()
    origin = queue("Consumer.a.VirtualTopic.t")
    peer = gateway.openwire_consumer(origin)
    peer.send(peer.message(topic("VirtualTopic.t"), "bad"))
    (bad,) = peer.dispatches()
    assert message_in(bad).original_destination == topic("VirtualTopic.t")
    peer.acknowledge(bad, POISON, poison_cause=Throwable("java.lang.Throwable", "bad"))
    (dispatch,) = gateway.openwire_consumer(queue("ActiveMQ.DLQ")).dispatches()
    found = message_in(dispatch)
    assert found.original_destination == origin
    assert read_properties(found.marshalled_properties)["original-destination"].value == f"/queue/{origin.name}"


def test_unreadable_properties_stay_as_they_came_in_a_dead_letter() -> None:
    gateway = OpenWireGateway()
    peer = gateway.openwire_consumer(queue("q"))
    odd = peer.message(queue("q"), "odd")
    odd.marshalled_properties = b"\0\0"
    peer.send(odd)
    (bad,) = peer.dispatches()
    peer.acknowledge(bad, POISON, poison_cause=Throwable("java.lang.Throwable", "cannot be read"))
    dead = gateway.openwire_consumer(queue("ActiveMQ.DLQ"))
    (dispatch,) = dead.dispatches()
    assert text_in(dispatch) == "odd"
    message = message_in(dispatch)
    assert message.marshalled_properties == b"\0\0"
    assert message.original_destination == queue("q")
    assert dead.link.conversion_faults == []


def test_a_redelivered_acknowledgement_changes_nothing() -> None:
    gateway, peer = sent("a")
    (dispatch,) = peer.dispatches()
    peer.acknowledge(dispatch, REDELIVERED)
    assert gateway.stats("q").in_flight == 1
    peer.acknowledge(dispatch)
    assert gateway.stats("q").depth == 0


def test_a_message_that_the_client_finds_expired() -> None:
    gateway = OpenWireGateway()
    peer = gateway.openwire_consumer(queue("q"))
    gateway.connect_openwire().publish(queue("q"), "old", expiration=gateway.clock.wall_ms() + 500)
    (dispatch,) = peer.dispatches()
    gateway.advance(1_000)
    peer.acknowledge(dispatch, EXPIRED)
    gateway.advance(40_000)
    assert gateway.stats("q").depth == 0


def test_an_acknowledgement_that_asks_is_answered() -> None:
    gateway, peer = sent("a")
    (dispatch,) = peer.dispatches()
    peer.acknowledge(dispatch, command_id=77, response_required=True)
    assert peer.one(Response).correlation_id == 77
    assert gateway.stats("q").depth == 0


def test_an_unknown_kind_of_acknowledgement_is_refused() -> None:
    _, peer = sent("a")
    (dispatch,) = peer.dispatches()
    peer.acknowledge(dispatch, 9)
    assert peer.one(ConnectionError).exception is not None


def test_acknowledgements_of_unknown_consumers_are_ignored() -> None:
    gateway, peer = sent("a")
    (dispatch,) = peer.dispatches()
    peer.acknowledge(replace(dispatch, consumer_id=ConsumerId(peer.connection_id, 1, 99)))
    peer.send(MessageAck(consumer_id=peer.consumer_id(), ack_type=STANDARD))
    other = MessageId(None, peer.producer_id(), 5, 999_999)
    peer.send(MessageAck(consumer_id=peer.consumer_id(), ack_type=STANDARD, last_message_id=other))
    assert peer.take() == []
    assert gateway.stats("q").depth == 1


@pytest.mark.parametrize("kind", [STANDARD, INDIVIDUAL])
def test_a_transaction_fails_if_it_acknowledges_what_is_not_there_any_more(kind: int) -> None:
    """Its messages are with another consumer, so its work would be done twice."""
    gateway, peer = sent("a")
    (dispatch,) = peer.dispatches()
    peer.ask(RemoveInfo(9, True, peer.consumer_id(), -1))
    for number, one in enumerate((dispatch, replace(dispatch, consumer_id=ConsumerId(peer.connection_id, 1, 99)))):
        peer.send(peer.transact(BEGIN, number))
        peer.acknowledge(one, kind, transaction_id=peer.transaction(number))
        peer.one(ConnectionError)
        exception = peer.refused(peer.transact(COMMIT_ONE_PHASE, number))
        assert exception.class_name == "javax.jms.TransactionRolledBackException"
    assert gateway.stats("q").depth == 1


def test_a_closed_consumer_returns_its_messages_as_redelivered() -> None:
    gateway, peer = sent("a")
    peer.take()
    peer.send(RemoveInfo(object_id=peer.consumer_id()))
    (dispatch,) = gateway.openwire_consumer(queue("q")).dispatches()
    assert dispatch.redelivery_counter == 1


@pytest.mark.parametrize("closed", ["consumer", "session", "connection"])
@pytest.mark.parametrize(("place", "counters"), [(-1, [0, 0, 0]), (0, [1, 0, 0]), (1, [1, 1, 0]), (2, [1, 1, 1])])
def test_an_orderly_close_counts_what_was_received(closed: str, place: int, counters: list[int]) -> None:
    gateway, peer = sent("a", "b", "c")
    dispatches = peer.dispatches()
    message_id = message_in(dispatches[place]).message_id
    assert message_id is not None
    last = -1 if place < 0 else message_id.broker_sequence
    name: object = peer.consumer_id()
    if closed == "session":
        name = SessionId(peer.connection_id, 1)
    elif closed == "connection":
        name = ConnectionId(peer.connection_id)
    peer.send(RemoveInfo(object_id=name, last_delivered_sequence_id=last))
    assert [one.redelivery_counter for one in gateway.openwire_consumer(queue("q")).dispatches()] == counters


@pytest.mark.parametrize("closed", ["session", "connection"])
@pytest.mark.parametrize(("is_processed", "counter"), [(False, 0), (True, 1)])
def test_a_close_counts_nothing_for_consumers_that_have_received_nothing(
    closed: str, is_processed: bool, counter: int
) -> None:
    """The client names the last message of all of them: an earlier one of another may still lie in its buffer."""
    gateway, peer = sent("a", "b")
    (early, _) = peer.dispatches()
    peer.consume(queue("r"), 2)
    gateway.connect_openwire().publish(queue("r"), "c", "d")
    (last, _) = peer.dispatches()
    if is_processed:
        peer.acknowledge(early, DELIVERED)
    message_id = message_in(last).message_id
    assert message_id is not None
    name = SessionId(peer.connection_id, 1) if closed == "session" else ConnectionId(peer.connection_id)
    peer.send(RemoveInfo(object_id=name, last_delivered_sequence_id=message_id.broker_sequence))
    for destination, counters in ((queue("q"), [counter, 0]), (queue("r"), [1, 0])):
        dispatches = gateway.openwire_consumer(destination).dispatches()
        assert [one.redelivery_counter for one in dispatches] == counters


def test_a_closed_session_closes_its_consumers() -> None:
    gateway, peer = sent("a")
    peer.send(SessionInfo(session_id=SessionId(peer.connection_id, 1)))
    peer.send(RemoveInfo(object_id=SessionId(peer.connection_id, 1)))
    assert gateway.stats("q").consumers == 0


def test_a_commit_applies_sends_and_acknowledgements() -> None:
    gateway, peer = sent("a")
    (dispatch,) = peer.dispatches()
    peer.send(peer.transact(BEGIN))
    peer.acknowledge(dispatch, transaction_id=peer.transaction())
    peer.send(peer.message(queue("r"), "b", persistent=True, transaction_id=peer.transaction()))
    assert gateway.stats("q").depth == 1
    assert peer.take() == []
    peer.ask(peer.transact(COMMIT_ONE_PHASE))
    assert gateway.stats("q").depth == 0
    assert gateway.openwire_consumer(queue("r")).texts() == ["b"]


def test_a_rollback_leaves_deliveries_with_the_consumer() -> None:
    gateway, peer = sent("a", "b")
    first, second = peer.dispatches()
    for number in (1, 2):
        peer.send(peer.transact(BEGIN, number))
        peer.acknowledge(second, STANDARD, first, transaction_id=peer.transaction(number))
        peer.send(peer.message(queue("r"), "x", transaction_id=peer.transaction(number)))
        peer.ask(peer.transact(ROLLBACK, number))
        peer.acknowledge(second, REDELIVERED, first)
    assert peer.take() == []  # nothing is dispatched again
    assert gateway.stats("q").in_flight == 2
    peer.send(peer.transact(BEGIN, 3))
    peer.acknowledge(second, STANDARD, first, transaction_id=peer.transaction(3))
    peer.ask(peer.transact(COMMIT_ONE_PHASE, 3))
    assert gateway.stats("q").depth == 0


def test_a_transaction_larger_than_the_prefetch() -> None:
    texts = [str(number) for number in range(30)]
    gateway, peer = sent(*texts, prefetch=2)
    peer.send(peer.transact(BEGIN))
    first = found = peer.dispatches()
    seen = [text_in(one) for one in found]
    while len(seen) < len(texts):
        peer.acknowledge(found[-1], DELIVERED, first[0], transaction_id=peer.transaction())
        found = peer.dispatches() or pytest.fail("no more follow")
        seen += [text_in(one) for one in found]
    peer.acknowledge(found[-1], STANDARD, first[0], transaction_id=peer.transaction())
    peer.ask(peer.transact(ROLLBACK))
    peer.send(peer.transact(BEGIN, 2))
    peer.acknowledge(found[-1], STANDARD, first[0], transaction_id=peer.transaction(2))
    peer.ask(peer.transact(COMMIT_ONE_PHASE, 2))
    assert seen == texts
    assert gateway.stats("q").depth == 0


def test_an_unknown_transaction_is_refused() -> None:
    peer = OpenWireGateway().connect_openwire()
    assert peer.refused(peer.transact(COMMIT_ONE_PHASE)).message == "Transaction 1 has not been started."
    assert peer.refused(peer.transact(ROLLBACK)).class_name == "javax.jms.JMSException"


def test_a_failed_send_spoils_its_transaction() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    peer.send(peer.transact(BEGIN))
    peer.send(peer.message(queue("no..name"), "x", transaction_id=peer.transaction()))
    assert peer.one(ConnectionError).exception is not None
    exception = peer.refused(peer.transact(COMMIT_ONE_PHASE))
    assert exception.class_name == "javax.jms.TransactionRolledBackException"
    assert "empty element" in exception.message


def test_a_lost_connection_rolls_back() -> None:
    gateway, peer = sent("a")
    (dispatch,) = peer.dispatches()
    peer.send(peer.transact(BEGIN))
    peer.acknowledge(dispatch, transaction_id=peer.transaction())
    peer.vanish()
    assert gateway.openwire_consumer(queue("q")).texts() == ["a"]


def test_a_failed_acknowledgement_spoils_its_transaction() -> None:
    gateway = OpenWireGateway(openwire=OpenWireSettings(transaction_actions=2))
    gateway.connect_openwire().publish(queue("q"), "a", "b", "c")
    peer = gateway.openwire_consumer(queue("q"))
    first, _, third = peer.dispatches()
    peer.send(peer.transact(BEGIN))
    peer.acknowledge(third, STANDARD, first, transaction_id=peer.transaction())
    assert "the limit is 2" in str(peer.one(ConnectionError).exception)
    assert peer.refused(peer.transact(COMMIT_ONE_PHASE)).class_name == "javax.jms.TransactionRolledBackException"
    assert gateway.stats("q").depth == 3


def test_a_response_confirms_earlier_acknowledgements_of_several_queues() -> None:
    gateway = OpenWireGateway(is_restartable=True)
    gateway.connect_openwire().publish(queue("a,b"), "x")
    peer = gateway.openwire_consumer(queue("a,b"))
    for dispatch in peer.dispatches():
        peer.acknowledge(dispatch)
    peer.send(RemoveInfo(9, True, ConnectionId(peer.connection_id), -1))
    assert peer.one(Response).correlation_id == 9
    later = OpenWireGateway(earlier=gateway)
    assert [later.stats(name).depth for name in "ab"] == [0, 0]


def reconnected(count: int) -> tuple[OpenWireGateway, OpenWirePeer, list[MessageDispatch], list[MessageDispatch]]:
    """Return a restarted gateway, a peer that has connected again, and what it got before and after.

    Message b is of a STOMP client, the others of an OpenWire client.
    """
    gateway = OpenWireGateway(is_restartable=True)
    gateway.connect_openwire().publish(queue("q"), "a")
    gateway.connect().send_confirmed("SEND", b"b", destination="/queue/q", persistent="true")
    gateway.connect_openwire().publish(queue("q"), *"cdef"[: count - 2])
    first = gateway.openwire_consumer(queue("q"))
    old = first.dispatches()
    later = OpenWireGateway(earlier=gateway)
    again = later.connect_openwire(connection_id=first.connection_id, failover_reconnect=True)
    again.consume(queue("q"))
    return later, again, old, again.dispatches()


def test_copies_of_an_earlier_start_are_acknowledged_by_their_names() -> None:
    """A failover client redelivers to itself what it had, and drops what it gets again."""
    gateway, peer, old, new = reconnected(4)
    peer.send(peer.transact(BEGIN))
    peer.acknowledge(old[1], STANDARD, old[0], count=2, transaction_id=peer.transaction())
    peer.acknowledge(new[2], STANDARD, old[2], count=1, transaction_id=peer.transaction())
    peer.ask(peer.transact(COMMIT_ONE_PHASE))
    assert gateway.stats("q").depth == 1
    peer.acknowledge(old[3])
    assert gateway.stats("q").depth == 0


def test_a_range_of_old_and_new_copies() -> None:
    gateway, peer, old, new = reconnected(4)
    peer.send(peer.transact(BEGIN))
    peer.acknowledge(new[2], STANDARD, old[0], count=3, transaction_id=peer.transaction())
    peer.ask(peer.transact(COMMIT_ONE_PHASE))
    peer.vanish()
    assert gateway.openwire_consumer(queue("q")).texts() == ["d"]


def test_a_client_with_two_copies_of_a_message_must_connect_again() -> None:
    """It redelivers d to itself before what it gets again, d among it, and would show d in two transactions."""
    gateway, peer, old, new = reconnected(4)
    peer.send(peer.transact(BEGIN))
    peer.acknowledge(new[1], STANDARD, old[3], count=3, transaction_id=peer.transaction())
    assert peer.is_closed
    assert peer.take() == [], "its application hears of the reconnection only"
    assert gateway.stats("q").depth == 4


def test_a_transaction_fails_if_the_client_has_messages_in_another_order() -> None:
    gateway, peer = sent("a", "b", "c")
    _, second, third = peer.dispatches()
    peer.send(peer.transact(BEGIN))
    peer.acknowledge(second, STANDARD, third, count=3, transaction_id=peer.transaction())
    reason = peer.one(ConnectionError).exception
    assert reason is not None
    assert "acknowledges 3 messages, of which its consumer has 0 in this order" in reason.message
    exception = peer.refused(peer.transact(COMMIT_ONE_PHASE))
    assert exception.class_name == "javax.jms.TransactionRolledBackException"
    assert gateway.stats("q").depth == 3


def test_what_another_consumer_has_now_is_not_acknowledged() -> None:
    gateway = OpenWireGateway(is_restartable=True)
    gateway.connect_openwire().publish(queue("q"), "a")
    first = gateway.openwire_consumer(queue("q"))
    (old,) = first.dispatches()
    later = OpenWireGateway(earlier=gateway)
    other = later.openwire_consumer(queue("q"))
    again = later.connect_openwire(connection_id=first.connection_id, failover_reconnect=True)
    again.consume(queue("q"))
    again.acknowledge(old)
    again.send(again.transact(BEGIN))
    again.acknowledge(old, transaction_id=again.transaction())
    assert again.one(ConnectionError).exception is not None
    exception = again.refused(again.transact(COMMIT_ONE_PHASE))
    assert exception.class_name == "javax.jms.TransactionRolledBackException", "another one has the message"
    assert other.texts() == ["a"]


def test_a_browser_in_a_transacted_session() -> None:
    gateway, peer = sent("a", "b", browser=True)
    first, second, _ = peer.dispatches()
    peer.send(peer.transact(BEGIN))
    peer.acknowledge(second, STANDARD, first, transaction_id=peer.transaction())
    peer.ask(peer.transact(COMMIT_ONE_PHASE))
    peer.send(peer.transact(BEGIN, 2))
    peer.acknowledge(second, STANDARD, first, transaction_id=peer.transaction(2))
    peer.ask(peer.transact(ROLLBACK, 2))
    assert gateway.stats("q").depth == 2
    assert gateway.openwire_consumer(queue("q")).texts() == ["a", "b"]
