"""Who may send how much: session windows, credit near the limit of an address, deadlines (transport 2.5.6, 2.6.7)."""

from __future__ import annotations

from typing import Any

import pytest

from engine.values import gates
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted, Rejected
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Detach, Disposition, Flow
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from tests.support.engine.engine_world import address
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, queue_of, text

BODY = text("x" * 990)  # 998 octets with what it stands in


def to(name: str) -> bytes:
    """Return the properties of a message to a queue, for a relay."""
    text_of_name = b"\x40\x40\xa1" + bytes([len(name)]) + name.encode()
    return b"\x00\x53\x73\xc0" + bytes([len(text_of_name) + 1]) + b"\x03" + text_of_name


def reason(peer: AmqpPeer) -> str:
    """Return why a producer waits."""
    return peer.gateway.broker.inspect().blocked_producers.get(peer.connection.client_number, "")


def accept(peer: AmqpPeer, count: int) -> None:
    """Send messages to q that are accepted."""
    for _ in range(count):
        peer.transfer(to("q") + BODY)
        assert peer.one(Disposition).state == Accepted()


def blocking(limit_bytes: int, threshold: int = -1, timeout_ms: int = 0, **options: Any) -> AmqpGateway:
    entry = address(
        "q",
        full__max_size_bytes=limit_bytes,
        full__address_full_policy="BLOCK",
        full__max_size_bytes_reject_threshold=threshold,
        full__block_timeout_ms=timeout_ms,
    )
    return AmqpGateway(entry, **options)


def granted(peer: AmqpPeer, address: str | None = "q", handle: int = 0) -> int:
    """Attach a producer; return the credit that it gets."""
    peer.send(Attach(f"s{handle}", handle, False, source=Source(), target=Target(address), initial_delivery_count=0))
    attach, flow = peer.take()
    assert isinstance(attach, Attach), attach
    assert isinstance(flow, Flow), flow
    assert flow.link_credit is not None
    return flow.link_credit


# -- windows of sessions


def test_a_shut_session_holds_only_itself() -> None:
    _, peer = queue_of()
    peer.begin(1)
    peer.attach_receiver("q", 1)
    peer.attach_receiver("q", 1, channel=1)
    peer.send(Flow(0, 1, 0, 100, 1, 0, 10))  # one frame, then it is shut
    peer.send(Flow(0, 100, 0, 100, 1, 0, 10), channel=1)
    channels = []
    for body in range(6):
        peer.transfer(text(body))
        peer.take()
        channels += [channel for channel, payload in zip(peer.channels, peer.payloads, strict=True) if payload]
    assert channels == [0, 1, 1, 1, 1, 1] or channels == [1, 0, 1, 1, 1, 1]


def test_no_link_of_a_shut_session_takes_messages_from_others() -> None:
    gateway = AmqpGateway()
    sender = gateway.amqp_sender("a", 0)
    sender.attach_sender("b", 1)
    peer = gateway.connect_amqp("shut")
    peer.begin(incoming_window=1)
    peer.attach_receiver("a", 1)
    peer.attach_receiver("b", 2)
    for handle in (1, 2):
        peer.send(Flow(0, 1, 0, 100, handle, 0, 10))
    sender.transfer(text("fills the window"), 0)
    assert len(peer.transfers()) == 1
    sender.transfer(text("for somebody else"), 1)
    (consumer,) = gateway.queue("b").consumers.values()
    assert consumer.gate() == gates.SESSION_WINDOW
    other = gateway.amqp_session(container="other")
    other.attach_receiver("b", credit=1)
    assert len(other.transfers()) == 1


def test_settling_does_not_open_a_shut_window() -> None:
    _, peer = queue_of("a", "b", "c")
    peer.attach_receiver("q", 1)
    peer.send(Flow(0, 1, 3, 100, 1, 0, 10))
    assert len(peer.transfers()) == 1
    peer.dispose(0, Accepted())
    assert peer.take() == []
    peer.send(Flow(1, 100, 3, 100, 1, 1, 1))  # of the credit only one is left
    assert len(peer.transfers()) == 1


def test_a_drain_waits_for_the_window_and_is_then_answered() -> None:
    _, peer = queue_of("a", "b")
    peer.attach_receiver("q", 1)
    peer.send(Flow(0, 1, 2, 100, 1, 0, 10, drain=True))
    assert len(peer.transfers()) == 1
    peer.send(Flow(1, 100, 2, 100))
    _, flow = peer.take()
    assert isinstance(flow, Flow)
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (10, 0, True)


# -- credit of producers


def test_an_address_without_a_limit_grants_all() -> None:
    assert granted(AmqpGateway().amqp_session()) == 1_000


def test_as_much_is_granted_as_there_is_room_for() -> None:
    peer = blocking(10_000).amqp_session()
    assert granted(peer) == 9, "10,000 octets hold 9 messages of 1,024"


def test_a_full_address_takes_credit_back_and_accepts_what_was_granted() -> None:
    gateway = blocking(4_000)
    peer = gateway.amqp_session()
    assert granted(peer) == 3
    queue = gateway.queue("q")
    seen: list[int | None] = []
    accepted = 0
    for _ in range(12):
        peer.transfer(BODY)
        frames = peer.take()
        accepted += sum(isinstance(one, Disposition) and one.state == Accepted() for one in frames)
        seen += [one.link_credit for one in frames if isinstance(one, Flow)]
        if seen and seen[-1] == 0:
            break
    assert queue.depth == accepted, "nothing is parked"
    assert 4_000 < queue.account.used_bytes < 7_000  # type: ignore[union-attr]
    assert not peer.connection.is_blocked()
    assert gateway.reasons(peer.connection)[0].startswith("credit: queue://q holds")


def test_credit_comes_back_with_room_and_is_topped_up_then() -> None:
    gateway = blocking(4_000)
    peer = gateway.amqp_session()
    granted(peer)
    flows: list[Flow] = []
    while not flows or flows[-1].link_credit:
        peer.transfer(BODY)
        flows += [one for one in peer.take() if isinstance(one, Flow)]
    consumer = gateway.amqp_session(container="consumer")
    consumer.attach_receiver("q", credit=100)
    consumer.take()
    consumer.dispose(0, Accepted(), last=100)
    for _ in range(20):  # each use of the last credit is answered with more
        flow = next(one for one in reversed(peer.take()) if isinstance(one, Flow))
        assert flow.link_credit
        for _ in range(flow.link_credit):
            peer.transfer(BODY)
        consumer.dispose(0, Accepted(), last=1_000)
        consumer.take()


def test_a_producer_that_comes_to_a_full_address_gets_no_credit() -> None:
    gateway = blocking(2_000)
    first = gateway.amqp_session(container="first")
    first.attach_sender("q")
    for _ in range(3):
        first.transfer(BODY)
    assert granted(gateway.amqp_session(container="second")) == 0


def test_beyond_the_threshold_also_what_was_granted_is_rejected() -> None:
    gateway = blocking(2_000, threshold=3_500)
    senders = [gateway.amqp_session(container=str(number)) for number in range(5)]
    assert [granted(sender) for sender in senders] == [1] * 5
    states = []
    for sender in senders:
        sender.transfer(BODY)
        states += [one.state for one in sender.take() if isinstance(one, Disposition)]
    assert states[:4] == [Accepted()] * 4
    refused = states[4]
    assert isinstance(refused, Rejected)
    assert refused.error is not None
    assert refused.error.condition == "amqp:resource-limit-exceeded"
    assert "max-size-bytes-reject-threshold 3500" in (refused.error.description or "")


def test_a_relay_parks_what_finds_its_address_full_and_the_deadline_rejects_it() -> None:
    gateway = blocking(1_200, timeout_ms=500)
    peer = gateway.amqp_session()
    granted(peer, None)
    accept(peer, 2)
    peer.transfer(to("q") + BODY)
    assert peer.take() == []
    gateway.advance(600)
    frames = peer.take()
    (refused,) = [one.state for one in frames if isinstance(one, Disposition)]
    assert isinstance(refused, Rejected)
    assert refused.error is not None
    assert refused.error.condition == "amqp:resource-limit-exceeded"
    assert "block-timeout-ms" in (refused.error.description or "")
    assert not peer.is_closed


@pytest.mark.parametrize("is_one_link", [True, False])
def test_each_message_that_waits_has_a_deadline_of_its_own(is_one_link: bool) -> None:
    gateway = blocking(1_200, timeout_ms=500)
    peer = gateway.amqp_sender(None)
    accept(peer, 2)
    other = 0 if is_one_link else 1
    if other:
        peer.attach_sender(None, other)
    first = peer.transfer(to("q") + BODY)
    gateway.advance(400)
    second = peer.transfer(to("q") + BODY, other)
    third = peer.transfer(to("q") + BODY, other)
    gateway.advance(100)
    assert [one.first for one in peer.take() if isinstance(one, Disposition)] == [first]
    gateway.advance(500)
    assert [one.first for one in peer.take() if isinstance(one, Disposition)] == [second]
    gateway.subscriber("/queue/q", "auto")
    (accepted,) = [one for one in peer.take() if isinstance(one, Disposition)]
    assert (accepted.first, accepted.state) == (third, Accepted())


def test_what_waits_behind_a_message_goes_on_at_its_deadline() -> None:
    gateway = blocking(1_200, timeout_ms=500)
    peer = gateway.amqp_sender(None)
    accept(peer, 2)
    refused = peer.transfer(to("q") + BODY)
    behind = peer.transfer(to("other") + BODY)
    assert peer.take() == []
    gateway.advance(500)
    outcomes = {one.first: type(one.state) for one in peer.take() if isinstance(one, Disposition)}
    assert outcomes == {refused: Rejected, behind: Accepted}


@pytest.mark.parametrize("is_settled", [False, True])
def test_a_peer_is_read_again_at_the_deadline_of_what_it_has_sent(is_settled: bool) -> None:
    gateway = blocking(1_200, timeout_ms=500, amqp=AmqpSettings(block_park_bytes=3_000))
    peer = gateway.amqp_sender(None)
    peer.attach_sender("other", 1)
    accept(peer, 2)
    for _ in range(3):
        peer.transfer(to("q") + BODY, settled=is_settled)
    assert not peer.link.is_reading
    peer.transfer(BODY, 1)
    assert gateway.stats("other").depth == 0
    gateway.advance(1_000)
    assert peer.link.is_reading
    assert gateway.stats("other").depth == 1


def test_the_deadline_of_several_settled_transfers_ends_their_link_once() -> None:
    gateway = blocking(1_200, timeout_ms=500)
    peer = gateway.amqp_sender(None)
    for _ in range(4):
        peer.transfer(to("q") + BODY, settled=True)
    peer.take()
    gateway.advance(1_000)
    (detach,) = [frame for frame in peer.take() if isinstance(frame, Detach)]
    assert detach.error is not None
    assert detach.error.condition == "amqp:resource-limit-exceeded"


# -- the rate of a producer


@pytest.mark.parametrize("target", ["q", "queue://q,queue://copy", None])
def test_a_producer_sends_so_many_a_second_and_the_rest_waits_in_order(target: str | None) -> None:
    gateway = AmqpGateway(address("q", flow__producer_max_rate_per_second=2))
    peer, other = gateway.amqp_sender(target), gateway.amqp_sender("q")
    for body in range(5):
        peer.transfer((b"" if target else to("q")) + text(body))
    assert gateway.stats("q").depth == 2
    assert reason(peer) == "rate: queue://q takes 2 messages a second (producer-max-rate)"
    other.publish("other")
    gateway.advance(999)
    assert gateway.stats("q").depth == 3
    gateway.advance(1)
    assert gateway.stats("q").depth == 5
    gateway.advance(1_000)
    assert gateway.stats("q").depth == 6
    assert reason(peer) == ""
    assert not peer.is_closed


def test_what_waits_for_room_does_not_use_up_its_second() -> None:
    limits = {"full__max_size_messages": 1, "full__address_full_policy": "BLOCK"}
    gateway = AmqpGateway(address("q", flow__producer_max_rate_per_second=1, **limits))
    peer = gateway.amqp_sender(None)
    gateway.connect().publish("/queue/q", b"first")
    peer.transfer(to("q") + BODY)
    assert "address-full" in reason(peer)
    receiver = gateway.subscriber("/queue/q", "auto")
    assert len(receiver.bodies()) == 2
    assert reason(peer) == ""
