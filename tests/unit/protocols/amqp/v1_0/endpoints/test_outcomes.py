"""What becomes of a delivery: outcomes, and the end of what held it."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.amqp.v1_0.wire.composites.composite import Composite, Error
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted, Modified, Rejected, Released
from protocols.amqp.v1_0.wire.composites.performatives import Close, Detach, Disposition, End, Transfer
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.messages.sections import PROPERTIES
from protocols.amqp.v1_0.wire.types.value_encoder import described_list, encode
from protocols.amqp.v1_0.wire.types.values import Symbol, Timestamp, Value
from tests.support.engine.engine_world import address
from tests.support.protocols.amqp_gateway import DURABLE, AmqpGateway, queue_of, text


@pytest.mark.parametrize(
    ("state", "count", "delay_ms"),
    [(Released(), 0, 0), (Modified(), 0, 0), (Modified(False, False), 0, 0), (Modified(True), 1, 1_000), (None, 0, 0)],
)
def test_outcomes_that_bring_a_message_back(state: Any, count: int, delay_ms: int) -> None:
    gateway, peer = queue_of("a")
    peer.attach_receiver("q", credit=2)
    peer.take()
    peer.dispose(0, state)
    if delay_ms:
        assert peer.take() == []
        gateway.advance(delay_ms)
    (payload,) = peer.messages()
    expected = (
        b"\x00\x53\x70\xc0\x07\x05\x40\x40\x40\x42\x52\x01" if count else b"\x00\x53\x70\xc0\x05\x04\x40\x40\x40\x42"
    )
    assert payload == expected + text("a")


@pytest.mark.parametrize("state", [Rejected(), Rejected(Error("app:bad", "not wanted"))])
def test_outcomes_that_end_as_dead_letters(state: Any) -> None:
    gateway, peer = queue_of("a", durable=True)
    peer.attach_receiver("q", credit=2)
    peer.take()
    peer.dispose(0, state)
    assert gateway.stats("q").depth == 0
    assert gateway.stats("ActiveMQ.DLQ").depth == 1
    peer.attach_receiver("ActiveMQ.DLQ", handle=2, credit=1)
    (payload,) = peer.messages()
    assert b"x-opt-original-destination" in payload
    assert state.error is None or b"not wanted" in payload


def with_expiry(expires_ms: int | None) -> bytes:
    """Return properties with a message-id and, unless it is None, an absolute-expiry-time."""
    fields: list[Value] = ["id", *[None] * 7, None if expires_ms is None else Timestamp(expires_ms), None, "group"]
    return described_list(PROPERTIES, len(fields), b"".join(encode(field) for field in fields))


def read_dead(gateway: AmqpGateway) -> bytes:
    """Return the only dead letter, as a new consumer gets it."""
    peer = gateway.amqp_session()
    peer.attach_receiver("ActiveMQ.DLQ", credit=1)
    (payload,) = peer.messages()
    return payload


@pytest.mark.parametrize(("expiration_ms", "is_rejected"), [(0, True), (0, False), (86_400_000, True)])
def test_a_dead_letter_expires_as_the_gateway_says_and_not_as_its_sender_did(
    expiration_ms: int, is_rejected: bool
) -> None:
    dead_letters = {"dead_letters__process_expired": True, "dead_letters__expiration_ms": expiration_ms}
    gateway = AmqpGateway(address(">", **dead_letters))
    peer = gateway.amqp_sender("q")
    expires_ms = gateway.clock.wall_ms() + 5_000
    peer.transfer(DURABLE + with_expiry(expires_ms) + text("a"))
    peer.take()
    if is_rejected:
        peer.attach_receiver("q", 1, credit=1)
        assert with_expiry(expires_ms) in peer.messages()[0]
        peer.dispose(0, Rejected())
        gateway.advance(10_000)
    else:
        gateway.advance(60_000)
    dead = read_dead(gateway)
    assert b"x-opt-original-destination" in dead
    if expiration_ms:
        assert with_expiry(gateway.clock.wall_ms() - 10_000 + expiration_ms) in dead
    else:
        assert with_expiry(None) in dead


def test_annotations_of_modified_are_merged_for_the_next() -> None:
    gateway, peer = queue_of("a", durable=True)
    peer.attach_receiver("q", 1, credit=10)
    peer.take()
    peer.dispose(0, Modified(message_annotations={Symbol("x-opt-one"): 1, Symbol("x-opt-two"): "old"}))
    (payload,) = peer.messages()
    assert b"x-opt-one" in payload
    peer.dispose(1, Modified(True, message_annotations={Symbol("x-opt-two"): "new"}))
    gateway.advance(1_000)
    (payload,) = peer.messages()
    assert payload.endswith(text("a"))
    assert b"x-opt-one" in payload
    assert b"new" in payload
    assert b"old" not in payload
    peer.dispose(2, Modified(message_annotations={Symbol("x-opt-huge"): "x" * 100_000}))
    (payload,) = peer.messages()
    assert b"x-opt-one" in payload, "what would be too much changes nothing"


@pytest.mark.parametrize(
    ("state", "count", "delay_ms"), [(Modified(False, True), 0, 0), (Modified(True, True), 1, 1_000)]
)
def test_undeliverable_here_leaves_a_message_to_others(state: Any, count: int, delay_ms: int) -> None:
    gateway, peer = queue_of("a", "b", durable=True)
    peer.attach_receiver("q", 1, credit=10)
    assert len(peer.transfers()) == 2
    peer.dispose(0, state)
    gateway.advance(delay_ms)
    assert peer.take() == []
    assert gateway.stats("q").depth == 2
    peer.attach_receiver("q", 2, credit=10)
    (payload,) = peer.messages()
    assert b"\xa1\x01a" in payload
    assert (b"\x52\x01" in payload) == bool(count)


def test_accepted_settles() -> None:
    gateway, peer = queue_of("a", "b", "c", durable=True)
    peer.attach_receiver("q", credit=5)
    peer.take()
    peer.dispose(0, Accepted(), last=1)
    assert gateway.stats("q").depth == 1
    assert peer.take() == []
    peer.dispose(0, Accepted(), last=2**31 - 1)  # a hostile range costs what is there
    assert gateway.stats("q").depth == 0


@pytest.mark.parametrize("state", [Accepted(), Modified(True), Rejected()])
def test_an_outcome_in_second_mode_is_settled_by_us_once_durable(state: Any) -> None:
    gateway, peer = queue_of("a", durable=True)
    peer.attach_receiver("q", credit=1, rcv_settle_mode=1)
    peer.take()
    gateway.syncs = False
    peer.dispose(0, state, settled=False)
    assert [one for one in peer.take() if isinstance(one, Disposition)] == []
    gateway.syncs = True
    gateway.sync()
    (disposition,) = (one for one in peer.take() if isinstance(one, Disposition))
    assert disposition == Disposition(False, 0, None, True, state)


@pytest.mark.parametrize("frame", [Detach(1, True), Detach(1), End(), Close()])
def test_what_was_held_goes_back_uncounted_in_order(frame: Any) -> None:
    gateway, peer = queue_of("a", "b", "c")
    peer.attach_receiver("q", credit=2)
    peer.take()
    peer.send(frame)
    other = gateway.amqp_session()
    other.attach_receiver("q", credit=5)
    payloads = other.messages()
    assert [payload[-1:] for payload in payloads] == [b"a", b"b", b"c"]
    assert b"\x52\x01" not in payloads[0]


def test_the_answer_to_close_stands_for_what_was_accepted_before() -> None:
    gateway, peer = queue_of("a", durable=True)
    peer.attach_receiver("q", credit=1)
    peer.take()
    gateway.syncs = False
    peer.dispose(0, Accepted())
    peer.send(Close())
    assert peer.take() == []
    assert not peer.is_closed
    gateway.syncs = True
    gateway.sync()
    assert peer.one(Close) == Close()
    assert peer.is_closed


def test_a_lost_connection_counts() -> None:
    gateway, peer = queue_of("a")
    peer.attach_receiver("q", credit=2)
    peer.take()
    peer.vanish()
    other = gateway.amqp_session()
    other.attach_receiver("q", credit=5)
    assert b"\x52\x01" in other.messages()[0]


@pytest.mark.parametrize("last", [Close(), Detach(1, True), End(), None], ids=["close", "detach", "end", "malformed"])
def test_dispositions_of_one_read_count_before_what_ends_their_link(last: Composite | None) -> None:
    gateway, peer = queue_of("a", "b", "c")
    peer.attach_receiver("q", credit=3)
    peer.take()
    accepted = [encode_frame(0, Disposition(True, number, None, True, Accepted())) for number in (0, 2)]
    peer.send_octets(b"".join(accepted) + (bytes(8) if last is None else encode_frame(0, last)))
    stats = gateway.stats("q")
    assert (stats.acknowledged, stats.depth) == (2, 1)


def test_dispositions_of_one_read_make_room_for_the_transfer_between_them() -> None:
    gateway = AmqpGateway(address("q", full__address_full_policy="FAIL", full__max_size_messages=2))
    peer = gateway.amqp_sender("q")
    peer.publish("a", "b")
    peer.attach_receiver("q", credit=2)
    peer.take()
    accepted = [encode_frame(0, Disposition(True, number, None, True, Accepted())) for number in range(2)]
    transfer = encode_frame(0, Transfer(0, 9, b"9", 0), text("c"))
    peer.send_octets(accepted[0] + transfer + accepted[1])
    assert gateway.stats("q").depth == 1
    assert peer.one(Disposition).state == Accepted()
