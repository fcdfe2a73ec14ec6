"""The coordinator: declare, discharge, and what is held back in between."""

from __future__ import annotations

from typing import Any

import pytest

from config.matching import AddressEntry
from config.sources.uri import parse_endpoint
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.composite_codec import encode_composite
from protocols.amqp.v1_0.wire.composites.delivery_states import (
    Accepted,
    Declared,
    Rejected,
    Released,
    TransactionalState,
)
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Detach, Disposition, End, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator, Declare, Discharge
from tests.support.engine.engine_world import address
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, text


def request(peer: AmqpPeer, composite: Composite) -> Any:
    """Send a request to the coordinator; return the state that it is answered with."""
    peer.transfer(b"\x00\x53\x77" + encode_composite(composite), handle=9)
    (answer,) = (frame for frame in peer.take() if isinstance(frame, Disposition) and frame.role)
    assert answer.settled
    return answer.state


def declare(peer: AmqpPeer) -> bytes:
    state = request(peer, Declare())
    assert isinstance(state, Declared)
    return state.txn_id


def transacted(*addresses: AddressEntry, **options: Any) -> tuple[AmqpGateway, AmqpPeer]:
    gateway = AmqpGateway(*addresses, **options)
    peer = gateway.amqp_sender("q")
    attach = peer.attach_coordinator()
    assert isinstance(attach.target, Coordinator)
    assert "amqp:local-transactions" in (attach.target.capabilities or [])
    return gateway, peer


def test_sends_show_at_commit() -> None:
    gateway, peer = transacted()
    name = declare(peer)
    for body in "ab":
        peer.transfer(text(body), state=TransactionalState(name))
        assert peer.one(Disposition).state == TransactionalState(name, Accepted())
    assert gateway.stats("q").depth == 0
    assert request(peer, Discharge(name)) == Accepted()
    assert gateway.stats("q").depth == 2


def test_a_commit_is_confirmed_once_it_is_durable() -> None:
    gateway, peer = transacted()
    name = declare(peer)
    peer.transfer(text("a", durable=True), state=TransactionalState(name))
    peer.take()
    gateway.syncs = False
    peer.transfer(b"\x00\x53\x77" + encode_composite(Discharge(name)), handle=9)
    assert [frame for frame in peer.take() if isinstance(frame, Disposition)] == []
    gateway.syncs = True
    gateway.sync()
    assert [frame.state for frame in peer.take() if isinstance(frame, Disposition)] == [Accepted()]


def test_sends_vanish_at_rollback() -> None:
    gateway, peer = transacted()
    name = declare(peer)
    peer.transfer(text("a"), state=TransactionalState(name))
    peer.take()
    assert request(peer, Discharge(name, True)) == Accepted()
    assert gateway.stats("q").depth == 0
    assert isinstance(request(peer, Discharge(name)), Rejected)  # it is over


def test_outcomes_count_at_commit() -> None:
    gateway, peer = transacted()
    peer.publish("a", "b", "c")
    peer.attach_receiver("q", credit=5)
    peer.take()
    name = declare(peer)
    peer.dispose(0, TransactionalState(name, Accepted()))
    peer.dispose(1, TransactionalState(name, Rejected()))
    peer.dispose(2, TransactionalState(name, Released()))
    assert gateway.stats("q").depth == 3
    request(peer, Discharge(name))
    assert gateway.stats("ActiveMQ.DLQ").depth == 1
    assert gateway.stats("q").depth == 1


def test_rolled_back_messages_come_again_first_and_counted() -> None:
    gateway, peer = transacted()
    peer.publish(*"abcd")
    peer.attach_receiver("q", credit=3)
    peer.take()
    name = declare(peer)
    for number in range(2):
        peer.dispose(number, TransactionalState(name, Accepted()))
    request(peer, Discharge(name, True))
    gateway.advance(10)
    peer.dispose(2, Released())
    peer.credit(1, 10, seen=3)
    payloads = [
        payload for frame, payload in zip(peer.take(), peer.payloads, strict=True) if frame.NAME.startswith("amqp:tr")
    ]
    assert [payload[-1:] for payload in payloads] == [b"a", b"b", b"c", b"d"]
    assert [b"\x52\x01" in payload for payload in payloads] == [True, True, False, False]


@pytest.mark.parametrize("credit", [1, 10])
def test_a_rolled_back_message_comes_before_those_behind_it_whatever_the_credit(credit: int) -> None:
    """The credit for the next ones comes in one read with the discharge, as from a client that receives ahead."""
    gateway, peer = transacted()
    peer.publish(*"abcd")
    peer.attach_receiver("q", credit=1)
    peer.take()
    name = declare(peer)
    peer.dispose(0, TransactionalState(name, Accepted()))
    with gateway.one_turn():
        peer.transfer(b"\x00\x53\x77" + encode_composite(Discharge(name, True)), handle=9)
        peer.credit(1, credit, seen=1)
    frames = peer.take()
    payloads = [payload for frame, payload in zip(frames, peer.payloads, strict=True) if isinstance(frame, Transfer)]
    assert b"".join(payload[-1:] for payload in payloads) == b"abcd"[:credit]


def test_limits_of_transactions() -> None:
    gateway, peer = transacted(amqp=AmqpSettings(transactions=1, transaction_actions=2, transaction_bytes=10_000))
    name = declare(peer)
    state = request(peer, Declare())
    assert isinstance(state, Rejected)
    for _ in range(3):
        peer.transfer(text("a"), state=TransactionalState(name))
    peer.take()
    assert isinstance(request(peer, Discharge(name)), Rejected)
    assert gateway.stats("q").depth == 0
    declare(peer)


@pytest.mark.parametrize("frame", [Detach(9, True), End(), None], ids=["link", "session", "lost connection"])
def test_open_transactions_end_with_their_coordinator(frame: Detach | End | None) -> None:
    gateway, peer = transacted()
    peer.publish("a")
    peer.attach_receiver("q", credit=1)
    peer.take()
    name = declare(peer)
    peer.transfer(text("b"), state=TransactionalState(name))
    peer.dispose(0, TransactionalState(name, Accepted()))
    peer.take()
    if frame is None:
        peer.vanish()
    else:
        peer.send(frame)
    gateway.advance(10)
    assert gateway.stats("q").depth == 1


def test_commits_that_wait_end_with_their_coordinator_when_one_is_refused() -> None:
    two = {"full__max_size_messages": 2}
    gateway = AmqpGateway(
        address("q", full__address_full_policy="BLOCK", **two), address("f", full__address_full_policy="FAIL", **two)
    )
    peer = gateway.amqp_sender("q")
    peer.attach_sender("f", handle=1)
    source = Source(outcomes=[Accepted.NAME])  # without rejected, a refusal ends the link
    peer.send(Attach("txn", 9, False, source=source, target=Coordinator(), initial_delivery_count=0))
    peer.take()
    names = [declare(peer) for _ in range(2)]
    for name in names:
        peer.transfer(text("a"), state=TransactionalState(name))
        peer.transfer(text("b"), handle=1, state=TransactionalState(name))
    for full in ("q", "f"):
        sender = gateway.amqp_sender(full)
        for body in "12":
            sender.transfer(text(body))
    for name in names:
        peer.transfer(b"\x00\x53\x77" + encode_composite(Discharge(name)), handle=9)
    peer.take()
    other = gateway.amqp_session()
    other.attach_receiver("q", credit=2)
    other.take()
    other.dispose(0, Accepted(), last=1)
    (detach,) = (frame for frame in peer.take() if isinstance(frame, Detach))
    assert detach.error is not None and detach.error.condition == "amqp:resource-limit-exceeded"
    assert (gateway.stats("q").depth, gateway.stats("f").depth) == (0, 2)


@pytest.mark.parametrize(
    "payload", [b"junk", text("declare"), b"\x00\x53\x75\xa0\x01x", b"\x00\x53\x77" + encode_composite(Declare(b"x"))]
)
def test_what_is_no_request_is_rejected(payload: bytes) -> None:
    _, peer = transacted()
    peer.transfer(payload, handle=9)
    assert isinstance(peer.one(Disposition).state, Rejected)


def test_a_rollback_waits_where_its_address_sets_a_delay() -> None:
    gateway, peer = transacted(address("q", redelivery__delays_rollback=True))
    peer.publish("a")
    peer.attach_receiver("q", credit=3)
    peer.take()
    name = declare(peer)
    peer.dispose(0, TransactionalState(name, Accepted()))
    request(peer, Discharge(name, True))
    gateway.advance(999)
    assert gateway.stats("q").delayed == 1
    gateway.advance(1)
    assert gateway.stats("q").in_flight == 1


NO_LIMIT = "tcp://h:1?jms.redeliveryPolicy.maximumRedeliveries=-1"  # the line that docs/reference/amqp.md gives


@pytest.mark.parametrize(("uri", "dead_letters"), [("tcp://h:1", 1), (NO_LIMIT, 0)])
def test_rollbacks_are_limited_unless_the_listener_says_otherwise(uri: str, dead_letters: int) -> None:
    """ActiveMQ's JMS clients give up after six; it sets no limit for AMQP sessions."""
    settings = AmqpSettings(defaults=parse_endpoint(uri, ("tcp",)).defaults)
    gateway, peer = transacted(amqp=settings)
    peer.publish("a")
    peer.attach_receiver("q", credit=100)
    for number in range(7):
        peer.take()
        name = declare(peer)
        peer.dispose(number, TransactionalState(name, Accepted()))
        request(peer, Discharge(name, True))
    assert gateway.stats("q").depth == 1 - dead_letters
    if dead_letters:
        assert gateway.stats("ActiveMQ.DLQ").depth == 1


def test_several_transactions_on_one_session() -> None:
    gateway, peer = transacted()
    one, other = declare(peer), declare(peer)
    peer.transfer(text("a"), state=TransactionalState(one))
    peer.transfer(text("b"), state=TransactionalState(other))
    peer.take()
    assert request(peer, Discharge(one, True)) == Accepted()
    assert request(peer, Discharge(other)) == Accepted()
    assert gateway.stats("q").depth == 1


def test_one_transaction_over_several_sessions() -> None:
    gateway, peer = transacted()
    name = declare(peer)
    peer.begin(1)
    peer.attach_sender("other", 3, channel=1)
    peer.transfer(text("a"), state=TransactionalState(name))
    peer.transfer(text("b"), 3, channel=1, state=TransactionalState(name))
    peer.take()
    assert gateway.stats("q").depth == gateway.stats("other").depth == 0
    assert request(peer, Discharge(name)) == Accepted()
    assert gateway.stats("q").depth == gateway.stats("other").depth == 1
