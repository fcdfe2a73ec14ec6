"""Sessions and links: attach, credit, drain, windows, transfers in frames, outcomes, and what ends what."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.amqp.v1_0.composite import Error
from protocols.amqp.v1_0.encoder import encode_frame
from protocols.amqp.v1_0.performatives import Attach, Close, Detach, Disposition, End, Flow, Transfer
from protocols.amqp.v1_0.settings import AmqpSettings
from protocols.amqp.v1_0.states import Accepted, Modified, Received, Rejected, Released
from protocols.amqp.v1_0.termini import Source, Target
from protocols.amqp.v1_0.values import Described, Symbol, UInt, ULong
from tests.support.amqp_gateway import DURABLE, AmqpGateway, AmqpPeer, capabilities, text
from tests.support.engine_world import address


def bodies(peer: AmqpPeer) -> list[bytes]:
    """Return the payloads of the transfers that came, and nothing else may have."""
    peer.transfers()
    return peer.payloads


def queue_of(*messages: Any, durable: bool = False, **options: Any) -> tuple[AmqpGateway, AmqpPeer]:
    """A gateway with messages in queue q, and a peer with a session."""
    gateway = AmqpGateway(**options)
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    peer.publish(*messages, durable=durable)
    return gateway, peer


# -- producers


def test_credit_is_granted_and_topped_up_at_half() -> None:
    peer = AmqpGateway(amqp=AmqpSettings(link_credit=4)).amqp_session()
    peer.send(Attach("s", 5, False, source=Source(), target=Target("q"), initial_delivery_count=10))
    attach, flow = peer.take()
    assert isinstance(attach, Attach)
    assert isinstance(flow, Flow)
    assert (flow.handle, flow.delivery_count, flow.link_credit) == (attach.handle, 10, 4)
    peer.transfer(text("a"), 5)
    assert [type(frame) for frame in peer.take()] == [Disposition]
    peer.transfer(text("b"), 5)
    flow, disposition = sorted(peer.take(), key=lambda frame: frame.CODE)
    assert isinstance(flow, Flow)
    assert (flow.delivery_count, flow.link_credit) == (12, 4)
    assert isinstance(disposition, Disposition)


def test_more_than_the_credit_ends_the_link() -> None:
    gateway = AmqpGateway(amqp=AmqpSettings(link_credit=1))
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    with gateway.one_turn():
        peer.transfer(text("a"))
        peer.transfer(text("b"))
    detach = next(frame for frame in peer.take() if isinstance(frame, Detach))
    assert detach.error is not None
    assert detach.error.condition == "amqp:link:transfer-limit-exceeded"
    assert detach.closed


def test_a_durable_message_is_accepted_once_it_is_durable() -> None:
    gateway = AmqpGateway()
    gateway.syncs = False
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    durable = peer.transfer(text("a", durable=True))
    assert peer.take() == []
    other = peer.transfer(text("b"))
    assert peer.one(Disposition).first == other
    gateway.syncs = True
    gateway.sync()
    assert peer.one(Disposition) == Disposition(True, durable, None, True, Accepted())


def test_dispositions_of_a_turn_are_joined() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    with gateway.one_turn():
        for number in range(5):
            peer.transfer(text(number, durable=number == 3))
    assert [(one.first, one.last) for one in peer.take() if isinstance(one, Disposition)] == [
        (0, 2),
        (4, None),
        (3, None),
    ]


def test_a_settled_message_is_not_answered() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    peer.transfer(text("a"), settled=True)
    assert peer.take() == []
    assert gateway.stats("q").depth == 1


def test_second_mode_leaves_settling_to_the_producer() -> None:
    peer = AmqpGateway().amqp_session()
    assert peer.attach_sender("q", rcv_settle_mode=1).rcv_settle_mode == 1
    delivery_id = peer.transfer(text("a", durable=True))
    assert peer.one(Disposition) == Disposition(True, delivery_id, None, False, Accepted())
    peer.send(Disposition(False, delivery_id, None, True, Accepted()))
    assert peer.take() == []


def test_a_message_in_frames() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    octets = text("x" * 100)
    peer.send(Transfer(0, 0, b"t", 0, None, True), octets[:10])
    peer.send(Transfer(0, more=True), octets[10:20])
    peer.send(Transfer(0, 0, settled=True, more=False), octets[20:])
    assert peer.take() == []  # the last word was: settled
    receiver = gateway.amqp_session()
    receiver.attach_receiver("q", credit=1)
    assert bodies(receiver) == [octets]


def test_an_aborted_message_is_forgotten() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    peer.send(Transfer(0, 0, b"t", 0, False, True), b"half")
    peer.send(Transfer(0, aborted=True), b"more")
    assert peer.take() == []
    peer.delivery_id = 1
    peer.publish("whole")
    assert gateway.stats("q").depth == 1


@pytest.mark.parametrize(
    ("frames", "condition"),
    [
        ([Transfer(0, None, b"t", 0)], "amqp:invalid-field"),
        ([Transfer(0, 0, None, 0)], "amqp:invalid-field"),
        ([Transfer(0, 0, b"t", 0, False, True), Transfer(0, 1, more=True)], "amqp:invalid-field"),
    ],
)
def test_transfers_that_make_no_sense_end_the_link(frames: list[Transfer], condition: str) -> None:
    peer = AmqpGateway().amqp_session()
    peer.attach_sender("q")
    for frame in frames:
        peer.send(frame, text("x"))
    assert peer.error()[:2] == (Detach, condition)
    peer.send(Transfer(0, 9, b"t", 0), text("dropped"))
    assert peer.take() == []
    peer.send(Detach(0, True))
    assert peer.take() == []
    peer.attach_sender("q")  # the handle is free again


def test_a_message_beyond_the_limit_ends_the_link() -> None:
    peer = AmqpGateway(amqp=AmqpSettings(body_bytes=100)).amqp_session()
    assert peer.attach_sender("q").max_message_size == 100
    peer.send(Transfer(0, 0, b"t", 0, False, True), b"x" * 80)
    peer.send(Transfer(0, more=True), b"x" * 80)
    assert peer.error()[:2] == (Detach, "amqp:link:message-size-exceeded")


def test_messages_in_frames_are_counted_over_all_links() -> None:
    peer = AmqpGateway(amqp=AmqpSettings(partial_bytes=100)).amqp_session()
    for handle in range(3):
        peer.attach_sender("q", handle)
    peer.send(Transfer(0, 0, b"t", 0, False, True), b"x" * 60)
    peer.send(Transfer(1, 1, b"t", 0, False, True), b"x" * 60)
    kind, condition, text_ = peer.error()
    assert (kind, condition) == (Detach, "amqp:resource-limit-exceeded")
    assert "the limit of a connection is 100" in text_
    peer.send(Transfer(2, 2, b"t", 0, False, True), b"x" * 30)
    peer.send(Transfer(0, aborted=True))  # what is aborted counts no more
    peer.send(Transfer(2, more=True), b"x" * 60)
    assert peer.take() == []
    peer.send(Detach(2, True))
    peer.take()
    assert peer.connection.partial_bytes == 0


@pytest.mark.parametrize(
    ("payload", "message_format", "condition"),
    [
        (b"\x00\x53\x70", 0, "amqp:decode-error"),
        (b"\x00\x53\x70\xa1\x01x", 0, "amqp:decode-error"),
        (b"\x00\x53\x73\xc0\x02\x01\x41\x00\x53\x70\x45", 0, "amqp:decode-error"),
        (b"\x00" * 1_000, 0, "amqp:decode-error"),
        (b"\x00\x53\x6f\x45", 0, "amqp:decode-error"),
        (b"junk", 0, "amqp:decode-error"),
        (text("x"), 0x80013700, "amqp:not-implemented"),
    ],
)
def test_a_bad_message_fails_alone(payload: bytes, message_format: int, condition: str) -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    peer.send(Transfer(0, 0, b"t", message_format, False), payload)
    disposition = peer.one(Disposition)
    assert isinstance(disposition.state, Rejected)
    assert disposition.state.error is not None
    assert disposition.state.error.condition == condition
    peer.delivery_id = 1
    peer.publish("sound")
    assert gateway.stats("q").depth == 1


def test_a_bad_message_that_is_settled_ends_the_link() -> None:
    peer = AmqpGateway().amqp_session()
    peer.attach_sender("q")
    peer.send(Transfer(0, 0, b"t", 0, True), b"junk")
    assert peer.error()[:2] == (Detach, "amqp:decode-error")


def test_a_relay_goes_by_each_message() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_session()
    peer.attach_sender(None)
    to_a = b"\x00\x53\x73\xc0\x06\x03\x40\x40\xa1\x01a"
    to_topic = b"\x00\x53\x72\xc1\x13\x02\xa3\x0ex-opt-jms-dest\x51\x01" + to_a
    peer.transfer(to_a)
    peer.transfer(to_topic)
    assert all(one.state == Accepted() for one in peer.take() if isinstance(one, Disposition))
    assert gateway.broker.destinations.queues["a"].depth == 1
    assert gateway.broker.destinations.topics["a"].enqueued_count == 1
    peer.transfer(text("nowhere"))
    state = peer.one(Disposition).state
    assert isinstance(state, Rejected)


def test_a_closed_gate_holds_credit_back() -> None:
    gateway = AmqpGateway(amqp=AmqpSettings(link_credit=2), memory_limit_bytes=20_000)
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    accepted = 0
    granted = 2
    while granted > accepted:
        peer.transfer(text("x" * 4_000))
        frames = peer.take()
        accepted += sum(isinstance(frame, Disposition) for frame in frames)
        granted += sum(isinstance(frame, Flow) for frame in frames)
        if not frames:
            break
    assert peer.connection.is_blocked()
    consumer = gateway.amqp_session()
    consumer.attach_receiver("q", credit=10)
    consumer.dispose(0, Accepted(), last=20)
    frames = peer.take()
    assert any(isinstance(frame, Disposition) for frame in frames)
    assert any(isinstance(frame, Flow) for frame in frames)


def test_messages_that_wait_go_with_their_link() -> None:
    gateway = AmqpGateway(memory_limit_bytes=10_000)
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    for _ in range(4):
        peer.transfer(text("x" * 4_000))
    assert peer.connection.is_blocked()
    peer.send(Detach(0, True))
    assert not peer.connection.is_blocked()


def test_full_addresses_that_fail_reject_the_message() -> None:
    entry = address("q", **{"full.max_size_bytes": 5_000, "full.address_full_policy": "FAIL"})
    gateway = AmqpGateway(entry)
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    states = []
    for _ in range(4):
        peer.transfer(text("x" * 3_000))
        states += [type(frame.state) for frame in peer.take() if isinstance(frame, Disposition)]
    assert states[0] is Accepted
    assert states[-1] is Rejected


# -- consumers


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


def test_drain_uses_up_what_cannot_be_delivered() -> None:
    _, peer = queue_of("a", "b")
    peer.attach_receiver("q")
    peer.credit(1, 5, drain=True)
    *transfers, flow = peer.take()
    assert len(transfers) == 2
    assert isinstance(flow, Flow)
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (5, 0, True)
    peer.publish("c")
    assert peer.take() == []
    peer.credit(1, 1, seen=5)
    assert len(peer.transfers()) == 1


def test_drain_without_credit_is_answered() -> None:
    _, peer = queue_of()
    peer.attach_receiver("q")
    peer.credit(1, 0, drain=True)
    flow = peer.one(Flow)
    assert (flow.link_credit, flow.drain) == (0, True)


def test_drain_waits_for_the_disk() -> None:
    gateway, peer = queue_of(*["x" * 8_000] * 20, durable=True)
    lane = gateway.broker.destinations.queue("q").lane(4)
    assert lane.next_load < 20, "the rest lies on disk while nobody consumes"
    peer.attach_receiver("q")
    peer.credit(1, 50, drain=True)
    *transfers, flow = peer.take()
    assert len(transfers) == 20
    assert isinstance(flow, Flow)
    assert lane.next_load == 20


def test_echo_is_answered() -> None:
    _, peer = queue_of("a", "b")
    peer.attach_receiver("q")
    peer.credit(1, 0, echo=True)
    flow = peer.one(Flow)
    assert (flow.handle, flow.available, flow.echo) == (1, 2, False)
    peer.send(Flow(0, 100, 0, 100, echo=True))
    assert peer.one(Flow).handle is None


def test_the_session_window_is_counted_in_frames() -> None:
    _, peer = queue_of(*range(5))
    peer.attach_receiver("q")
    peer.send(Flow(0, 2, 5, 100, 1, 0, 10))
    assert len(peer.transfers()) == 2
    peer.send(Flow(2, 2, 5, 100))
    assert len(peer.transfers()) == 2
    peer.send(Flow(4, 100, 5, 100))
    assert len(peer.transfers()) == 1


def test_a_shut_session_window_leaves_messages_to_others() -> None:
    gateway, peer = queue_of(*range(5))
    peer.attach_receiver("q")
    peer.send(Flow(0, 1, 5, 100, 1, 0, 10))
    assert len(peer.transfers()) == 1
    other = gateway.amqp_session()
    other.attach_receiver("q", credit=10)
    assert len(other.transfers()) == 4


def test_a_large_message_leaves_in_frames_as_the_window_allows() -> None:
    gateway = AmqpGateway()
    peer = gateway.connect_amqp(max_frame_size=512)
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
    gateway = AmqpGateway()
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    wide = b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x73\xd0\x00\x00\x00\x09\x00\x00\x00\x01\xa1\x03abc"
    body = b"\x00\xa3\x10amqp:data:binary\xb0\x00\x00\x00\x02hi"
    dropped = b"\x00\x53\x71\xc1\x01\x00"
    footer = b"\x00\x53\x78\xc1\x01\x00"
    peer.transfer(DURABLE + dropped + wide + body + footer)
    peer.take()
    peer.attach_receiver("q", credit=2)
    assert bodies(peer) == [DURABLE + wide + body + footer]
    peer.dispose(0, Released())
    (payload,) = bodies(peer)
    assert payload.endswith(wide + body + footer)
    assert payload != DURABLE + wide + body + footer


@pytest.mark.parametrize(
    ("state", "count", "delay_ms"),
    [
        (Released(), 0, 0),
        (Modified(), 0, 0),
        (Modified(False, False), 0, 0),
        (Modified(True), 1, 1_000),
        (None, 0, 0),
    ],
)
def test_outcomes_that_bring_a_message_back(state: Any, count: int, delay_ms: int) -> None:
    gateway, peer = queue_of("a")
    peer.attach_receiver("q", credit=2)
    peer.take()
    peer.dispose(0, state)
    if delay_ms:
        assert peer.take() == []
        gateway.advance(delay_ms)
    (payload,) = bodies(peer)
    expected = (
        b"\x00\x53\x70\xc0\x07\x05\x40\x40\x40\x42\x52\x01" if count else b"\x00\x53\x70\xc0\x05\x04\x40\x40\x40\x42"
    )
    assert payload == expected + text("a")


def test_the_default_outcome_applies_to_what_is_settled_without_one() -> None:
    gateway, peer = queue_of("a")
    peer.attach_receiver("q", credit=2, source=Source("q", default_outcome=Modified(True)))
    peer.take()
    peer.dispose(0, None)
    gateway.advance(1_000)
    assert b"\x52\x01" in bodies(peer)[0]


@pytest.mark.parametrize("state", [Rejected(), Rejected(Error("app:bad", "not wanted"))])
def test_outcomes_that_end_as_dead_letters(state: Any) -> None:
    gateway, peer = queue_of("a", durable=True)
    peer.attach_receiver("q", credit=2)
    peer.take()
    peer.dispose(0, state)
    assert gateway.stats("q").depth == 0
    assert gateway.stats("ActiveMQ.DLQ").depth == 1
    peer.attach_receiver("ActiveMQ.DLQ", handle=2, credit=1)
    (payload,) = bodies(peer)
    assert b"x-opt-original-destination" in payload
    assert state.error is None or b"not wanted" in payload


def test_annotations_of_modified_are_merged_for_the_next() -> None:
    gateway, peer = queue_of("a", durable=True)
    peer.attach_receiver("q", 1, credit=10)
    peer.take()
    peer.dispose(0, Modified(message_annotations={Symbol("x-opt-one"): 1, Symbol("x-opt-two"): "old"}))
    (payload,) = bodies(peer)
    assert b"x-opt-one" in payload
    peer.dispose(1, Modified(True, message_annotations={Symbol("x-opt-two"): "new"}))
    gateway.advance(1_000)
    (payload,) = bodies(peer)
    assert payload.endswith(text("a"))
    assert b"x-opt-one" in payload
    assert b"new" in payload
    assert b"old" not in payload
    peer.dispose(2, Modified(message_annotations={Symbol("x-opt-huge"): "x" * 100_000}))
    (payload,) = bodies(peer)
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
    (payload,) = bodies(peer)
    assert b"\xa1\x01a" in payload
    assert (b"\x52\x01" in payload) == bool(count)


def test_accepted_settles() -> None:
    gateway, peer = queue_of("a", "b", "c", durable=True)
    peer.attach_receiver("q", credit=5)
    peer.take()
    peer.dispose(0, Accepted(), last=1)
    assert gateway.stats("q").depth == 1
    assert peer.take() == []
    peer.dispose(0, Accepted(), last=2**32 - 1)  # a hostile range costs what is there
    assert gateway.stats("q").depth == 0


def test_a_state_that_is_no_outcome_changes_nothing() -> None:
    gateway, peer = queue_of("a")
    peer.attach_receiver("q", credit=5)
    peer.take()
    peer.dispose(0, Received(0, 5), settled=False)
    peer.dispose(7, Accepted())
    assert gateway.stats("q").depth == 1
    peer.dispose(0, Accepted())
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


def test_settled_deliveries_are_gone_when_sent() -> None:
    gateway, peer = queue_of("a", "b", durable=True)
    peer.attach_receiver("q", credit=1, snd_settle_mode=1)
    (transfer,) = peer.transfers()
    assert transfer.settled
    assert gateway.stats("q").depth == 1
    peer.dispose(0, Released())
    assert gateway.stats("q").depth == 1


@pytest.mark.parametrize("frame", [Detach(1, True), Detach(1), End(), Close()])
def test_what_was_held_goes_back_uncounted_in_order(frame: Any) -> None:
    gateway, peer = queue_of("a", "b", "c")
    peer.attach_receiver("q", credit=2)
    peer.take()
    peer.send(frame)
    other = gateway.amqp_session()
    other.attach_receiver("q", credit=5)
    payloads = bodies(other)
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
    assert b"\x52\x01" in bodies(other)[0]


# -- attach and detach


def test_a_link_is_answered_as_it_was_asked_for() -> None:
    peer = AmqpGateway().amqp_session()
    source = Source("queue://q", UInt(0), Symbol("link-detach"), capabilities=capabilities("queue"))
    attach = peer.attach_receiver(None, handle=7, name="mine", source=source, snd_settle_mode=0, rcv_settle_mode=0)
    assert (attach.name, attach.role, attach.snd_settle_mode, attach.rcv_settle_mode) == ("mine", False, 0, 0)
    assert attach.source == source
    peer.send(Detach(7, True))
    assert peer.one(Detach) == Detach(attach.handle, True)


def test_only_filters_that_are_done_are_answered() -> None:
    peer = AmqpGateway().amqp_session()
    selector = Described(ULong(0x468C00000004), "a = 1")
    source = Source("q", filter={Symbol("one"): selector, Symbol("two"): Described(Symbol("x:y"), "z")})
    attach = peer.attach_receiver(None, source=source)
    assert attach.source is not None
    assert attach.source.filter == {"one": selector}


@pytest.mark.parametrize(
    ("source", "condition"),
    [
        (Source("no*such,thing"), "amqp:not-found"),
        (Source(), "amqp:invalid-field"),
        (Source("q", filter={Symbol("f"): Described(ULong(0x468C00000004), "a ==== 1")}), "amqp:invalid-field"),
        (Source("q", filter={Symbol("f"): Described(ULong(0x468C00000004), Symbol("a"))}), "amqp:invalid-field"),
        (Source("q", filter={Symbol("f"): "a = 1"}), "amqp:invalid-field"),
        (Source("q?consumer.nothing=1"), "amqp:invalid-field"),
        (Source("x" * 2_000), "amqp:not-found"),
    ],
)
def test_refused_consumers(source: Source, condition: str) -> None:
    peer = AmqpGateway().amqp_session()
    peer.send(Attach("r", 1, True, source=source, target=Target()))
    assert peer.refusal()[0] == condition
    peer.send(Detach(1, True))
    assert peer.take() == []
    peer.attach_receiver("q")


def test_refused_producers() -> None:
    peer = AmqpGateway().amqp_session()
    peer.send(Attach("s", 0, False, source=Source(), initial_delivery_count=0))
    assert peer.refusal()[0] == "amqp:invalid-field"
    peer.send(Attach("s", 1, False, source=Source(), target=Target("a*"), initial_delivery_count=0))
    assert peer.refusal()[0] == "amqp:not-found"


def test_our_handles_stay_below_what_the_peer_takes() -> None:
    peer = AmqpGateway().connect_amqp()
    peer.begin(handle_max=1)
    assert peer.attach_sender("q", handle=5).handle == 0
    assert peer.attach_sender("q", handle=0).handle == 1
    peer.send(Attach("s", 7, False, source=Source(), target=Target("q"), initial_delivery_count=0))
    assert peer.error()[:2] == (End, "amqp:session:handle-in-use")


def test_a_handle_in_use_ends_the_session() -> None:
    peer = AmqpGateway().amqp_session()
    peer.attach_sender("q", handle=3)
    peer.send(Attach("other", 3, False, source=Source(), target=Target("q"), initial_delivery_count=0))
    assert peer.error()[:2] == (End, "amqp:session:handle-in-use")
    peer.send(Detach(3, True))  # dropped: the session has ended for us
    assert peer.take() == []
    peer.send(End())
    peer.begin()


@pytest.mark.parametrize("frame", [Transfer(9, 0, b"t", 0), Detach(9, True), Flow(0, 10, 0, 10, 9)])
def test_an_unknown_handle_ends_the_session(frame: Any) -> None:
    peer = AmqpGateway().amqp_session()
    peer.send(frame)
    assert peer.error()[:2] == (End, "amqp:session:unattached-handle")
    assert not peer.is_closed


def test_more_frames_than_the_incoming_window_end_the_session() -> None:
    gateway = AmqpGateway(amqp=AmqpSettings(incoming_window=4, link_credit=100))
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    with gateway.one_turn():
        for _ in range(5):
            peer.transfer(text("x"))
    end = next(frame for frame in peer.take() if isinstance(frame, End))
    assert end.error is not None
    assert end.error.condition == "amqp:session:window-violation"


def test_the_incoming_window_is_opened_at_half() -> None:
    gateway = AmqpGateway(amqp=AmqpSettings(incoming_window=4, link_credit=100))
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    peer.transfer(text("a"))
    assert [type(frame) for frame in peer.take()] == [Disposition]
    peer.transfer(text("b"))
    flow = next(frame for frame in peer.take() if isinstance(frame, Flow))
    assert (flow.next_incoming_id, flow.incoming_window, flow.handle) == (2, 4, None)


def test_one_frame_too_many_in_a_read_does_not_stop_the_rest() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_session()
    peer.begin(1)
    wire = encode_frame(0, Transfer(9, 0, b"t", 0)) + encode_frame(1, Flow(0, 10, 0, 10, echo=True))
    peer.send_octets(wire)
    assert [type(frame) for frame in peer.take()] == [End, Flow]


def test_a_consumer_may_not_send_on_its_link() -> None:
    peer = AmqpGateway().amqp_session()
    peer.attach_receiver("q", handle=1)
    peer.send(Transfer(1, 0, b"t", 0), text("x"))
    assert peer.error()[:2] == (Detach, "amqp:not-allowed")


def test_a_slow_connection_gets_nothing_more() -> None:
    gateway = AmqpGateway(amqp=AmqpSettings(unread_output_bytes=10_000))
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    peer.publish(*["x" * 3_000] * 10)
    slow = gateway.amqp_session()
    slow.attach_receiver("q")
    slow.is_stuck = True
    slow.credit(1, 10)
    assert len(slow.transfers()) == 4
    slow.drain()
    assert len(slow.transfers()) == 6


def test_a_message_tells_when_it_was_stored_and_the_priority_it_was_sent_with() -> None:
    gateway = AmqpGateway(address("q", enable_ingress_timestamp=True, queue__prioritized_messages=False))
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    peer.transfer(b"\x00\x53\x70\xc0\x04\x02\x40\x50\x09" + text("a"))
    peer.take()
    peer.attach_receiver("q", credit=1)
    stored_ms = gateway.clock.wall_ms()
    peer.take()
    (payload,) = [payload for payload in peer.payloads if b"x-opt-ingress-time" in payload]
    assert stored_ms.to_bytes(8, "big") in payload
    assert b"\x50\x09" in payload[:16]


def test_links_of_a_connection_are_counted() -> None:
    peer = AmqpGateway(amqp=AmqpSettings(link_count=2)).amqp_session()
    peer.attach_receiver("q", 0)
    peer.attach_receiver("q", 1)
    for handle in (2, 3):
        peer.send(Attach(f"link {handle}", handle, True, source=Source("q"), target=Target()))
        condition, text = peer.refusal()
        assert condition == "amqp:resource-limit-exceeded"
        assert "the limit is 2" in text
    peer.send(Attach("link 4", 4, True, source=Source("q"), target=Target()))
    assert peer.error()[:2] == (End, "amqp:resource-limit-exceeded")
