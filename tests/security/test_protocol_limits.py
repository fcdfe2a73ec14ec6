"""What the protocols promise their peers, at the wire of the real process."""

from __future__ import annotations

import base64
import os

import pytest

from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
)
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.stomp.codec.frames import ERROR, MESSAGE
from tests.support.hostile.hostile_peers import Hostiles, Peer, frame
from tests.support.protocols.amqp_gateway import text

LEAST = 512  # the smallest max-frame-size that a peer may have (AMQP 1.0 part 2, 2.4.1)
LONG = "n" * 400


def frame_sizes(octets: bytes) -> list[int]:
    sizes = []
    while octets:
        sizes.append(int.from_bytes(octets[:4], "big"))
        octets = octets[sizes[-1] :]
    return sizes


def test_no_frame_is_larger_than_its_peer_takes(hostile: Hostiles) -> None:
    peer = hostile.amqp(max_frame_size=LEAST)
    peer.send(
        Attach(LONG, 0, True, source=Source("plain.small"), target=Target()),
        Attach("refused", 1, True, source=Source("honest.kept"), target=Target()),
        Attach("selector", 2, True, source=Source("plain.x?consumer.nonsense=" + LONG), target=Target()),
        Detach(0, True),
        End(),
        Close(),
    )
    sizes = frame_sizes(peer.read_all())
    assert len(sizes) >= 4
    assert max(sizes) <= LEAST


def test_a_link_gets_nothing_larger_than_it_takes(hostile: Hostiles) -> None:
    peer = hostile.amqp()
    peer.send(
        Attach("s", 0, False, source=Source(), target=Target("plain.sized"), initial_delivery_count=0),
        Attach("r", 1, True, source=Source("plain.sized"), target=Target(), max_message_size=1_000),
        Flow(0, 1_000, 0, 1_000, 1, 0, 10),
    )
    for number, size in enumerate((5_000, 10)):
        peer.write(encode_frame(0, Transfer(0, number, b"%d" % number, 0, True), text("x" * size)))
    came = peer.wait_for(Transfer)
    assert isinstance(came, Transfer) and came.delivery_id == 0
    assert len(bytes(peer.payload())) < 1_000
    peer.send(Disposition(True, 0, None, True))
    hostile.empty("plain.sized")


@pytest.mark.parametrize(
    ("said", "allowed"),
    [
        ([(16, Begin(None, 0, 100, 100))], "15"),  # channel-max
        ([(0, Attach("s", 64, False, source=Source(), target=Target("q"), initial_delivery_count=0))], "63"),
        (
            [
                (0, Attach("s", 0, False, source=Source(), target=Target("plain.1"), initial_delivery_count=0)),
                (0, Transfer(0, 0, b"t" * 33, 0, True)),
            ],
            "32",
        ),
    ],
    ids=["channel-max", "handle-max", "delivery-tag"],
)
def test_what_the_gateway_allows_it_keeps(said: list[tuple[int, Composite]], allowed: str, hostile: Hostiles) -> None:
    peer = hostile.amqp()
    peer.write(b"".join(encode_frame(channel, one, b"") for channel, one in said))
    end = peer.wait_for(Close, End, Detach)
    assert isinstance(end, (Close, End, Detach)) and end.error is not None
    assert allowed in str(end.error.description)


def test_an_idle_time_out_that_cannot_be_kept_is_refused(hostile: Hostiles) -> None:
    end = hostile.amqp(idle_time_out=100).first
    assert isinstance(end, Close) and end.error is not None
    assert "100" in str(end.error.description)


def test_a_coordinator_answers_echo_and_gives_credit(hostile: Hostiles) -> None:
    peer = hostile.amqp()
    peer.send(Attach("t", 0, False, source=Source(), target=Coordinator(), initial_delivery_count=0))
    granted = peer.wait_for(Flow)
    assert isinstance(granted, Flow) and (granted.link_credit or 0) > 0
    peer.send(Flow(0, 100, 0, 100, 0, 0, 0, echo=True))
    answer = peer.wait_for(Flow)
    assert isinstance(answer, Flow) and answer.handle == 0


# -- STOMP


def test_an_ack_by_message_id_that_two_subscriptions_have_names_one(hostile: Hostiles) -> None:
    peer = hostile.stomp("1.1")
    for number in "12":
        peer.write(frame("SUBSCRIBE", id=number, destination="/topic/plain.twice", ack="client", receipt=number))
        peer.answer()
    peer.write(frame("SEND", b"x", destination="/topic/plain.twice"))
    ids = {peer.next_frame().head.headers["message-id"] for _ in "12"}
    peer.write(b"ACK\nmessage-id:%b\n\n\0" % ids.pop().replace(":", "\\c").encode())
    assert ids == set() and peer.answer().command == ERROR


def test_one_s_own_temporary_destination_comes_back_by_its_name(hostile: Hostiles) -> None:
    peer = hostile.stomp()
    peer.write(frame("SUBSCRIBE", id="1", destination="/temp-queue/mine"))
    peer.write(frame("SEND", b"x", destination="/temp-queue/mine", **{"reply-to": "/temp-queue/mine"}))
    message = peer.next_frame()
    assert message.command == MESSAGE
    assert (message.head.headers["destination"], message.head.headers["reply-to"]) == ("/temp-queue/mine",) * 2


@pytest.mark.parametrize("header", ["priority:10", "expires:-5"])
def test_what_is_out_of_range_is_said_so(header: str, hostile: Hostiles) -> None:
    peer = hostile.stomp()
    peer.write(b"SEND\ndestination:/topic/plain.1\n" + header.encode() + b"\n\n\0")
    assert peer.refusal()[0] == "invalid-option"


@pytest.mark.parametrize("octets", [b"CONNECT\naccept-version:1.2\nhost:h\n\n\0", b"\n\n", b"\x16\x03\x01"])
def test_a_websocket_of_amqp_answers_nothing_else(octets: bytes, hostile: Hostiles) -> None:
    peer = hostile.http()
    upgrade(peer)
    peer.write(websocket_message(octets))
    said = peer.read_all()
    assert b"CONNECTED" not in said
    assert b"AMQP" in said


def upgrade(peer: Peer) -> None:
    key = base64.b64encode(os.urandom(16)).decode()
    peer.write(
        f"GET /amqp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: amqp\r\n\r\n".encode()
    )
    assert b" 101 " in peer.read()


def websocket_message(octets: bytes) -> bytes:
    """Return a binary message of a client, masked by nothing (RFC 6455, 5.2)."""
    assert len(octets) < 126
    return bytes((0x82, 0x80 | len(octets), 0, 0, 0, 0)) + octets
