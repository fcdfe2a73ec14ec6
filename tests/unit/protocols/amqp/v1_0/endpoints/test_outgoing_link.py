"""Links that a client receives on: credit, drain, and the transfers that leave."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted, Released
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Close, Detach, End, Flow, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from tests.support.engine.engine_world import address
from tests.support.protocols.amqp_gateway import DURABLE, AmqpGateway, AmqpPeer, queue_of, text


def test_credit_is_honoured_as_granted() -> None:
    _, peer = queue_of(*"abcde")
    attach = peer.attach_receiver("q")
    assert (attach.role, attach.initial_delivery_count) == (False, 0)
    assert peer.take() == []
    peer.credit(1, 2)
    assert [one.delivery_id for one in peer.transfers()] == [0, 1]
    peer.dispose(0, Accepted(), last=1)
    assert peer.take() == []  # settling gives no credit
    peer.credit(1, 2, seen=1)  # one of two was on its way
    assert [one.delivery_id for one in peer.transfers()] == [2]
    peer.credit(1, 0, seen=2)
    assert peer.take() == []


def test_credit_may_be_taken_back() -> None:
    _, peer = queue_of()
    peer.attach_receiver("q", credit=5)
    peer.credit(1, 0)
    peer.publish("a")
    assert peer.take() == []


def test_drain_without_credit_is_answered() -> None:
    _, peer = queue_of()
    peer.attach_receiver("q")
    peer.credit(1, 0, drain=True)
    flow = peer.one(Flow)
    assert (flow.link_credit, flow.drain) == (0, True)


def test_drain_waits_for_the_disk() -> None:
    gateway, peer = queue_of(*["x" * 8_000] * 20, durable=True)
    lane = gateway.queue("q").lane(4)
    assert lane.next_load < 20, "the rest lies on disk while nobody consumes"
    peer.attach_receiver("q")
    peer.credit(1, 50, drain=True)
    *transfers, flow = peer.take()
    assert len(transfers) == 20
    assert isinstance(flow, Flow)
    assert lane.next_load == 20


def test_a_large_message_leaves_in_frames_as_the_window_allows() -> None:
    peer = AmqpGateway().connect_amqp(max_frame_size=512)
    peer.begin(incoming_window=2)
    peer.attach_sender("q")
    octets = text("x" * 1_200)
    peer.transfer(octets)
    peer.take()
    peer.send(Attach("r", 1, True, source=Source("q"), target=Target()))
    peer.take()
    peer.send(Flow(0, 2, 1, 100, 1, 0, 1))
    first = peer.transfers()
    parts = list(peer.payloads)
    assert [one.more for one in first] == [True, True]
    peer.send(Flow(2, 2, 1, 100))
    last = peer.transfers()
    parts += peer.payloads
    assert [one.more for one in last] == [False]
    assert {one.delivery_id for one in first + last} == {0}
    assert b"".join(parts) == octets


def test_the_bare_message_is_delivered_octet_by_octet() -> None:
    _, peer = queue_of()
    wide = b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x73\xd0\x00\x00\x00\x09\x00\x00\x00\x01\xa1\x03abc"
    body = b"\x00\xa3\x10amqp:data:binary\xb0\x00\x00\x00\x02hi"
    dropped = b"\x00\x53\x71\xc1\x01\x00"
    footer = b"\x00\x53\x78\xc1\x01\x00"
    peer.transfer(DURABLE + dropped + wide + body + footer)
    peer.take()
    peer.attach_receiver("q", credit=2)
    assert peer.messages() == [DURABLE + wide + body + footer]
    peer.dispose(0, Released())
    (payload,) = peer.messages()
    assert payload.endswith(wide + body + footer)
    assert payload != DURABLE + wide + body + footer


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_a_converted_message_names_its_destination_and_not_the_wildcard(kind: str) -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_session()
    peer.attach_receiver(f"{kind}://w.*", credit=10)
    stomp = gateway.connect()
    for name in ("w.first", "w.second"):
        stomp.publish(f"/{kind}/{name}", b"x")
    first, second = peer.messages()
    assert b"w.first" in first and b"w.second" in second
    assert b"w.*" not in first + second


def test_settled_deliveries_are_gone_when_sent() -> None:
    gateway, peer = queue_of("a", "b", durable=True)
    peer.attach_receiver("q", credit=1, snd_settle_mode=1)
    (transfer,) = peer.transfers()
    assert transfer.settled
    assert gateway.stats("q").depth == 1
    peer.dispose(0, Released())
    assert gateway.stats("q").depth == 1


def hold_back(peer: AmqpPeer) -> Callable[[], None]:
    """Hold the output of a peer back, as the gateway does while its budget is used up; return what lets it leave."""
    flush = peer.flush

    def held(offset: int, confirmed_offset: int) -> None:
        peer.link.is_touched = False

    def let_go() -> None:
        peer.flush = flush  # type: ignore[method-assign]
        peer.link.is_touched = True
        peer.gateway.settle()

    peer.flush = held  # type: ignore[method-assign]
    return let_go


@pytest.mark.parametrize("end", [Detach(1, True), End(), Close()])
def test_what_was_sent_as_settled_goes_to_nobody_else_while_output_is_held_back(end: Composite) -> None:
    gateway, other = queue_of("a", durable=True)
    peer = gateway.amqp_session()
    peer.attach_receiver("q", snd_settle_mode=1)
    let_go = hold_back(peer)
    peer.credit(1, 1)
    peer.send(end)
    other.attach_receiver("q", credit=1)
    assert other.messages() == []
    let_go()
    assert [type(frame) for frame in peer.take()] == [Transfer, type(end)]
    assert gateway.stats("q").depth == 0


def test_what_is_too_large_for_a_link_that_ends_is_not_taken_from_its_next_consumer() -> None:
    gateway, other = queue_of("a", durable=True)
    peer = gateway.amqp_session()
    peer.attach_receiver("q", max_message_size=1)
    let_go = hold_back(peer)
    peer.credit(1, 1)
    peer.send(Detach(1, True))
    other.attach_receiver("q", credit=1)
    assert len(other.messages()) == 1
    let_go()
    assert gateway.stats("q").in_flight == 1
    other.dispose(0, Accepted())
    assert gateway.stats("q").acknowledged == 1


def test_a_slow_connection_gets_nothing_more() -> None:
    gateway, _ = queue_of(*["x" * 3_000] * 10, amqp=AmqpSettings(unread_output_bytes=10_000))
    slow = gateway.amqp_session()
    slow.attach_receiver("q")
    slow.is_stuck = True
    slow.credit(1, 10)
    assert len(slow.transfers()) == 4
    slow.drain()
    assert len(slow.transfers()) == 6


def test_a_message_tells_when_it_was_stored_and_the_priority_it_was_sent_with() -> None:
    gateway = AmqpGateway(address("q", enable_ingress_timestamp=True, queue__prioritized_messages=False))
    peer = gateway.amqp_sender("q")
    peer.transfer(b"\x00\x53\x70\xc0\x04\x02\x40\x50\x09" + text("a"))
    peer.take()
    peer.attach_receiver("q", credit=1)
    stored_ms = gateway.clock.wall_ms()
    peer.take()
    (payload,) = [payload for payload in peer.payloads if b"x-opt-ingress-time" in payload]
    assert stored_ms.to_bytes(8, "big") in payload
    assert b"\x50\x09" in payload[:16]
