"""A NACK, a disposition or a rollback over more than one turn's work is confirmed once all of it is done."""

from __future__ import annotations

import pytest

from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.delivery_states import Modified, Rejected, Released, State
from protocols.amqp.v1_0.wire.composites.performatives import Close, Detach, Disposition, End, Flow, Transfer
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, text
from tests.support.protocols.stomp_gateway import Peer, StompGateway, connected

COUNT = 1_000


def stomp() -> tuple[StompGateway, Peer, list[str]]:
    """Return a gateway, a client with COUNT unacknowledged messages, and what it names them by."""
    gateway, peer = connected()
    peer.subscribe("/queue/q", ack="client", **{"activemq.prefetchSize": str(COUNT)})
    with gateway.one_turn():
        peer.publish("/queue/q", *[b"x"] * COUNT, persistent="true")
    gateway.advance(0)
    return gateway, peer, [message["ack"] for message in peer.messages()]


def dead_count(gateway: StompGateway) -> int:
    return gateway.stats("ActiveMQ.DLQ").depth


def test_a_receipt_of_a_nack_waits_until_all_are_dead_letters() -> None:
    gateway, peer, acks = stomp()
    gateway.syncs = False
    peer.send("NACK", id=acks[-1], requeue="false", receipt="n")
    peer.send("SEND", b"x", destination="/queue/other", receipt="s")
    assert 0 < dead_count(gateway) < COUNT
    gateway.sync()
    assert peer.receipts() == [], "durable is only a part of it"
    gateway.advance(0)
    assert dead_count(gateway) == COUNT and peer.receipts() == []
    gateway.sync()
    assert peer.receipts() == ["n", "s"]


def test_a_disconnect_waits_for_what_was_refused_before_it() -> None:
    gateway, peer, acks = stomp()
    gateway.syncs = False
    peer.send("NACK", id=acks[-1], requeue="false")
    peer.send("DISCONNECT", receipt="d")
    gateway.sync()
    assert peer.receipts() == [] and not peer.is_closed
    gateway.advance(0)
    assert dead_count(gateway) == COUNT and peer.receipts() == []
    gateway.sync()
    assert peer.receipts() == ["d"] and peer.is_closed


def test_a_connection_that_is_lost_meanwhile() -> None:
    gateway, peer, acks = stomp()
    peer.send("NACK", id=acks[-1], requeue="false", receipt="n")
    peer.vanish()
    gateway.advance(0)
    assert dead_count(gateway) == COUNT and gateway.stats("q").depth == 0


def amqp() -> tuple[AmqpGateway, AmqpPeer]:
    """Return a gateway, and a peer with COUNT unsettled deliveries of a queue."""
    gateway = AmqpGateway(amqp=AmqpSettings())
    sender = gateway.amqp_session(container="sender")
    sender.attach_sender("q")
    peer = gateway.connect_amqp()
    peer.begin(incoming_window=10 * COUNT)
    peer.attach_receiver("q", credit=COUNT)
    for _ in range(4):
        with gateway.one_turn():
            for _ in range(COUNT // 4):
                sender.transfer(text("x", durable=True))
    sender.take()
    gateway.advance(0)
    assert len([frame for frame in peer.take() if isinstance(frame, Transfer)]) == COUNT
    return gateway, peer


@pytest.mark.parametrize("state", [Rejected(), Released(), Modified(delivery_failed=True), Modified()], ids=str)
@pytest.mark.parametrize("is_settled", [True, False])
def test_an_outcome_of_many_is_answered_when_all_have_it(state: State, is_settled: bool) -> None:
    gateway, peer = amqp()
    gateway.syncs = False
    peer.send(Disposition(True, 0, COUNT - 1, is_settled, state))
    assert gateway.stats("q").in_flight > COUNT // 4, "some of them wait for the next turns"
    gateway.sync()
    assert peer.take() == []
    gateway.advance(0)
    gateway.sync()
    answers = [frame for frame in peer.take() if isinstance(frame, Disposition)]
    assert gateway.stats("q").in_flight == 0
    if is_settled:
        assert answers == []
    else:
        (answer,) = answers
        assert (answer.first, answer.last, answer.settled, answer.state) == (0, COUNT - 1, True, state)
    if isinstance(state, Rejected):
        assert dead_count(gateway) == COUNT


@pytest.mark.parametrize("last", [End(), Close()], ids=str)
def test_an_answer_waits_for_what_was_refused_before_it(last: End | Close) -> None:
    gateway, peer = amqp()
    gateway.syncs = False
    peer.send(Disposition(True, 0, COUNT - 1, True, Rejected()))
    peer.send(last)
    gateway.sync()
    assert peer.take() == [] and not peer.is_closed
    gateway.advance(0)
    assert dead_count(gateway) == COUNT and peer.take() == []
    gateway.sync()
    assert [type(frame) for frame in peer.take()] == [type(last)]


def test_a_drain_waits_for_what_comes_back() -> None:
    gateway, peer = amqp()
    peer.send(Disposition(True, 0, COUNT - 1, True, Released()))
    peer.credit(1, 2 * COUNT, seen=COUNT, drain=True)
    gateway.advance(100)
    frames = peer.take()
    assert [type(frame) for frame in frames] == [Transfer] * COUNT + [Flow]
    last = frames[-1]
    assert isinstance(last, Flow) and last.link_credit == 0


def test_a_link_that_ends_meanwhile() -> None:
    gateway, peer = amqp()
    peer.send(Disposition(True, 0, COUNT - 1, True, Released()))
    peer.send(Detach(1, True))
    gateway.advance(0)
    assert gateway.stats("q").depth == COUNT and gateway.stats("q").in_flight == 0
