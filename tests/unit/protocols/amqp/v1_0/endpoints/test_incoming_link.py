"""Links that a client sends on: credit, transfers in frames, what is answered, and what ends the link."""

from __future__ import annotations

import pytest

from config.matching import BOTH, Pattern
from config.permissions import EVERYBODY, Permission, PermissionMap
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted, Rejected
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Detach, Disposition, Flow, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from tests.support.engine.engine_world import address
from tests.support.protocols.amqp_gateway import AmqpGateway, queue_of, text


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


def test_a_durable_message_is_accepted_once_it_is_durable() -> None:
    gateway = AmqpGateway()
    gateway.syncs = False
    peer = gateway.amqp_sender("q")
    durable = peer.transfer(text("a", durable=True))
    assert peer.take() == []
    other = peer.transfer(text("b"))
    assert peer.one(Disposition).first == other
    gateway.syncs = True
    gateway.sync()
    assert peer.one(Disposition) == Disposition(True, durable, None, True, Accepted())


def test_dispositions_of_a_turn_are_joined() -> None:
    gateway, peer = queue_of()
    with gateway.one_turn():
        for number in range(5):
            peer.transfer(text(number, durable=number == 3))
    assert [(one.first, one.last) for one in peer.take() if isinstance(one, Disposition)] == [
        (0, 2),
        (4, None),
        (3, None),
    ]


def test_second_mode_leaves_settling_to_the_producer() -> None:
    peer = AmqpGateway().amqp_session()
    assert peer.attach_sender("q", rcv_settle_mode=1).rcv_settle_mode == 1
    delivery_id = peer.transfer(text("a", durable=True))
    assert peer.one(Disposition) == Disposition(True, delivery_id, None, False, Accepted())
    peer.send(Disposition(False, delivery_id, None, True, Accepted()))
    assert peer.take() == []


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
    assert peer.connection.producers.multi_transfers.held_bytes == 0


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
    gateway, peer = queue_of()
    peer.send(Transfer(0, 0, b"t", message_format, False), payload)
    disposition = peer.one(Disposition)
    assert isinstance(disposition.state, Rejected)
    assert disposition.state.error is not None
    assert disposition.state.error.condition == condition
    peer.delivery_id = 1
    peer.publish("sound")
    assert gateway.stats("q").depth == 1


def test_a_relay_goes_by_each_message() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_sender(None)
    to_a = b"\x00\x53\x73\xc0\x06\x03\x40\x40\xa1\x01a"
    to_topic = b"\x00\x53\x72\xc1\x13\x02\xa3\x0ex-opt-jms-dest\x51\x01" + to_a
    peer.transfer(to_a)
    peer.transfer(to_topic)
    assert all(one.state == Accepted() for one in peer.take() if isinstance(one, Disposition))
    assert gateway.depth("a") == 1
    assert gateway.topic_there("a").enqueued_count == 1
    peer.transfer(text("nowhere"))
    state = peer.one(Disposition).state
    assert isinstance(state, Rejected)


def test_a_closed_gate_holds_credit_back() -> None:
    gateway, peer = queue_of(amqp=AmqpSettings(link_credit=2), memory_limit_bytes=20_000)
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
    _, peer = queue_of(memory_limit_bytes=10_000)
    for _ in range(4):
        peer.transfer(text("x" * 4_000))
    assert peer.connection.is_blocked()
    peer.send(Detach(0, True))
    assert not peer.connection.is_blocked()


def test_full_addresses_that_fail_reject_the_message() -> None:
    entry = address("q", **{"full.max_size_bytes": 5_000, "full.address_full_policy": "FAIL"})
    peer = AmqpGateway(entry).amqp_sender("q")
    states = []
    for _ in range(4):
        peer.transfer(text("x" * 3_000))
        states += [type(frame.state) for frame in peer.take() if isinstance(frame, Disposition)]
    assert states[0] is Accepted
    assert states[-1] is Rejected


def test_a_delivery_whose_transfers_never_end_ends_its_link() -> None:
    gateway, peer = queue_of(amqp=AmqpSettings(delivery_time_ms=5_000))
    peer.attach_sender("q", 1)
    payload = text("x" * 200)
    for number in range(8):
        peer.send(Transfer(0, 0 if number == 0 else None, b"t", 0, more=True), payload[number : number + 1])
        if number % 2 == 0:
            peer.send(Transfer(1, 1 + number, b"u", 0, True, True), payload[:100])
        else:
            peer.send(Transfer(1, more=False), payload[100:])
        if number < 5:
            assert peer.take() == [], "each transfer is in time"
        gateway.advance(1_000)
    kind, condition, words = peer.error()
    assert (kind, condition) == (Detach, "amqp:resource-limit-exceeded")
    assert words == "the transfers of a delivery took longer than 5000 ms"
    assert not peer.connection.producers.multi_transfers.by_link, "the other link's deliveries came to their end"
    assert peer.connection.producers.multi_transfers.held_bytes == 0


def test_a_delivery_has_its_time_anew_when_we_read_again() -> None:
    gateway, peer = queue_of(amqp=AmqpSettings(delivery_time_ms=5_000, idle_time_ms=0))
    payload = text("x")
    peer.send(Transfer(0, 0, b"t", 0, True, True), payload[:1])
    peer.is_stuck = True
    peer.connection.output_written(True)
    gateway.advance(60_000)
    peer.drain()
    gateway.advance(4_000)
    assert peer.take() == []
    peer.send(Transfer(0, more=False), payload[1:])
    gateway.advance(60_000)
    assert peer.take() == []


def of_writers(pattern: str) -> PermissionMap:
    """Return permissions by which only writers may send there."""
    everybody, writers = frozenset((EVERYBODY,)), frozenset(("writers",))

    def granted(where: str, senders: frozenset[str]) -> Permission:
        return Permission(Pattern.parse(where), BOTH, {"read": everybody, "write": senders, "create": everybody})

    return PermissionMap([granted(">", everybody), granted(pattern, writers)])


def test_a_link_ends_once_its_user_may_not_send_any_more() -> None:
    writers = frozenset(("writers",))
    gateway = AmqpGateway(permissions=of_writers(">"))
    peer = gateway.amqp_session()
    peer.connection.groups = writers
    for handle, target in enumerate(("q", "topic://t", "queue://a,topic://b")):
        peer.attach_sender(target, handle)
    peer.attach_sender(None, 3)
    peer.attach_receiver("q", 4)
    peer.connection.rights_changed()
    gateway.settle()
    assert peer.take() == [], "all is allowed still"
    peer.connection.groups = frozenset()
    peer.connection.rights_changed()
    gateway.settle()
    detached = peer.take()
    assert [frame.handle for frame in detached if isinstance(frame, Detach)] == [0, 1, 2]
    assert {frame.error.condition for frame in detached if isinstance(frame, Detach) and frame.error} == {
        "amqp:unauthorized-access"
    }


def test_a_peer_is_read_again_if_the_link_that_filled_what_waits_ends() -> None:
    full = address("full", full__address_full_policy="BLOCK", full__max_size_messages=1)
    settings = AmqpSettings(block_park_bytes=1_000)
    gateway = AmqpGateway(full, permissions=of_writers("full"), amqp=settings)
    peer = gateway.amqp_session()
    peer.connection.groups = frozenset(("writers",))
    peer.attach_sender("queue://full,queue://a", 0)
    peer.attach_sender("b", 1)
    for _ in range(2):
        peer.transfer(text("x" * 600))
    assert not peer.link.is_reading
    peer.transfer(text("y"), 1)
    peer.connection.groups = frozenset()
    peer.connection.rights_changed()
    gateway.settle()
    assert peer.link.is_reading
    assert [gateway.stats(name).depth for name in "ab"] == [1, 1]
