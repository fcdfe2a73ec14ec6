"""Large messages come and leave in pieces: no turn grows with them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.values.pieces import PIECE_BYTES
from protocols.amqp.v1_0.endpoints.links import coordinator_link, multi_transfers
from protocols.amqp.v1_0.endpoints.links.multi_transfers import MultiTransfer
from protocols.amqp.v1_0.wire.composites.performatives import Begin, Detach, Disposition, Flow, Transfer
from protocols.amqp.v1_0.wire.messages.scanner import Scanner
from protocols.amqp.v1_0.wire.messages.sections import APPLICATION_PROPERTIES
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.outbox import DIVIDED_BYTES
from tests.support.protocols.amqp_gateway import DURABLE, AmqpGateway, AmqpPeer, text

LARGE: bytes = b"large" * PIECE_BYTES
PROPERTIES = b"\x00\x53\x74" + encode({"key": "value"})
WIDE = b"\x00\xa3\x10amqp:data:binary\xb0\x00\x00\x00\x02hi"
MESSAGES = [
    text("body"),
    DURABLE + text("body"),
    DURABLE + PROPERTIES + text("body" * 100),
    PROPERTIES,
    PROPERTIES + WIDE,
    DURABLE + b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x74" + PROPERTIES[3:] + WIDE + WIDE,
    b"",
]


def send_in_frames(peer: AmqpPeer, octets: bytes, size: int = 100_000) -> None:
    """Send one delivery in transfers of that size."""
    for at in range(0, len(octets), size):
        more = at + size < len(octets)
        part = octets[at : at + size]
        peer.send(Transfer(0, 0, b"t", 0, more=more) if at == 0 else Transfer(0, more=more), part)


@given(st.sampled_from(MESSAGES), st.integers(1, 60))
def test_a_message_in_transfers_is_the_same_as_in_one(octets: bytes, size: int) -> None:
    one = MultiTransfer(Transfer(0), 0, 1_000)
    for at in range(0, len(octets), size):
        one.add(octets[at : at + size])
    headers, body = bytes(one.headers), one.body.getvalue()
    assert headers + body == octets
    whole = Scanner().scan(octets)
    found = Scanner().scan_apart(headers, body)
    assert (found.headers, found.body, found.flags) == (whole.headers, whole.body, whole.flags)


def test_the_sections_before_the_body_have_a_limit() -> None:
    peer = AmqpGateway().amqp_sender("q")
    many = {"key": "x" * multi_transfers.HEADERS_BYTES_MOST}
    send_in_frames(peer, bytes((0, 0x53, APPLICATION_PROPERTIES)) + encode(many) + text("body"))
    kind, condition, words = peer.error()
    assert (kind, condition) == (Detach, "amqp:link:message-size-exceeded")
    assert words == f"a message with more than {multi_transfers.HEADERS_BYTES_MOST} octets before its body"


def test_a_request_to_the_coordinator_has_a_limit() -> None:
    peer = AmqpGateway().amqp_session()
    peer.attach_coordinator(handle=0)
    send_in_frames(peer, text("x" * coordinator_link.REQUEST_BYTES_MOST), 10_000)
    assert peer.error()[:2] == (Detach, "amqp:link:message-size-exceeded")


@pytest.mark.parametrize("address", ["q", None])  # on an anonymous link a message needs the property to
def test_no_body_is_kept_once_its_message_was_taken(address: str | None) -> None:
    peer = AmqpGateway().amqp_sender(address)
    scanner = peer.connection.producers.scanner
    for header in (b"", DURABLE):
        for _ in range(2):
            peer.transfer(header + text("x" * 100))
    peer.take()
    kept = [scanner._bare, *scanner._simple.values()]
    assert [one.body for one in kept] == [b""] * len(kept)


def test_a_stomp_message_leaves_in_pieces_with_what_follows_it() -> None:
    gateway = AmqpGateway()
    peer = gateway.connect()
    peer.send("SUBSCRIBE", id="s", destination="/queue/q", ack="client")
    sender = gateway.connect()
    for body in (LARGE, b"second"):
        sender.send("SEND", body, destination="/queue/q")
    peer.send("BEGIN", transaction="t", receipt="r")
    large, second, receipt = peer.take()
    assert (large.body, second.body) == (LARGE, b"second")
    assert receipt["receipt-id"] == "r"
    assert PIECE_BYTES <= peer.largest_write <= DIVIDED_BYTES


def test_a_stuck_stomp_client_gets_the_rest_once_it_reads() -> None:
    gateway = AmqpGateway()
    peer = gateway.connect()
    peer.is_stuck = True
    peer.send("SUBSCRIBE", id="s", destination="/queue/q", ack="auto")
    gateway.connect().send("SEND", LARGE, destination="/queue/q")
    assert len(peer.octets) <= DIVIDED_BYTES
    assert peer.session.unread_now() >= len(LARGE) - DIVIDED_BYTES
    peer.drain()
    (large,) = peer.take()
    assert large.body == LARGE
    assert peer.session.unread_now() == 0


def test_a_client_that_ends_gets_the_rest_first() -> None:
    gateway = AmqpGateway()
    peer = gateway.connect()
    gateway.connect().send("SEND", LARGE, destination="/queue/q")
    peer.send("SUBSCRIBE", id="s", destination="/queue/q", ack="auto")
    peer.send("DISCONNECT", receipt="bye")
    large, receipt = peer.take()
    assert large.body == LARGE
    assert receipt["receipt-id"] == "bye"
    assert peer.is_closed


@pytest.mark.parametrize("is_settled", [False, True])
def test_an_amqp_message_leaves_in_pieces(is_settled: bool) -> None:
    gateway = AmqpGateway()
    sender = gateway.amqp_sender("q")
    octets = text(LARGE.decode())
    send_in_frames(sender, octets)
    peer = gateway.connect_amqp(max_frame_size=50_000)
    peer.begin(incoming_window=1_000)
    peer.attach_receiver("q", credit=1, snd_settle_mode=1 if is_settled else 0)
    parts = []
    transfers = []
    for frame in peer.take():
        if isinstance(frame, Transfer):
            transfers.append(frame)
    parts += [payload for payload in peer.payloads if payload]
    assert b"".join(parts) == octets
    assert [one.more for one in transfers] == [True] * (len(transfers) - 1) + [False]
    assert peer.largest_write <= DIVIDED_BYTES
    assert gateway.stats("q").depth == (0 if is_settled else 1)


def test_a_message_that_is_settled_when_sent_stays_until_its_last_frame() -> None:
    gateway = AmqpGateway()
    send_in_frames(gateway.amqp_sender("q"), text(LARGE.decode()))
    peer = gateway.amqp_session()
    peer.attach_receiver("q", snd_settle_mode=1)
    peer.is_stuck = True
    peer.credit(1, 1)
    assert peer.transfers()[-1].more
    assert gateway.stats("q").depth == 1
    peer.vanish()
    assert gateway.stats("q").in_flight == 0
    assert gateway.stats("q").depth == 1


def test_two_sessions_get_their_messages_in_turn() -> None:
    gateway = AmqpGateway()
    for queue in ("a", "b"):
        send_in_frames(gateway.amqp_sender(queue), text(LARGE.decode()))
    peer = gateway.connect_amqp()
    for channel, queue in enumerate(("a", "b")):
        peer.send(Begin(None, 0, 1_000, 1_000), channel=channel)
        peer.take()
        peer.attach_receiver(queue, channel=channel)
    for channel in range(2):
        peer.send(Flow(0, 1_000_000, 0, 1_000, 1, 0, 1), channel=channel)
    frames = peer.take()
    ends = [one for one in frames if isinstance(one, Transfer) and not one.more]
    assert len(ends) == 2
    assert not [one for one in frames if isinstance(one, Disposition)]


def test_a_stomp_message_comes_to_amqp_without_a_copy() -> None:
    gateway = AmqpGateway()
    gateway.connect().send("SEND", LARGE, destination="/queue/q")
    peer = gateway.amqp_session()
    peer.attach_receiver("q", credit=1)
    transfers = peer.take()
    assert b"".join(peer.payloads).endswith(text(LARGE.decode())[3:])
    assert transfers


def test_an_idle_connection_keeps_nothing_of_its_last_read() -> None:
    peer = AmqpGateway().amqp_sender("q")
    peer.transfer(text("x" * 100_000))
    decoder = peer.connection.decoder
    assert (decoder.payload, decoder._buffer) == (b"", b"")


def test_settled_output_that_is_held_back_counts_in_the_memory_of_connections() -> None:
    gateway = AmqpGateway()
    peer = gateway.connect()
    session = peer.session
    peer.send("SUBSCRIBE", id="s", destination="/queue/q", ack="auto")
    flush = peer.flush

    def hold_back(offset: int, confirmed_offset: int) -> None:
        if peer.link.is_touched:  # as the gateway does while the output of others fills the budget
            peer.link.is_touched = False
            session.output_written(True)

    peer.flush = hold_back  # type: ignore[method-assign]
    gateway.connect().send("SEND", LARGE, destination="/queue/q")
    assert session.held_bytes >= len(LARGE)
    assert "output that waits for others" in session.holding()
    peer.flush = flush  # type: ignore[method-assign]
    peer.link.is_touched = True
    gateway.settle()
    (large,) = peer.take()
    assert large.body == LARGE
    assert session.held_bytes == 0
