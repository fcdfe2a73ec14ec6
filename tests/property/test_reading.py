"""The law of progress: whatever octets come, each step of reading them takes some, asks for more, or ends.

Lines of the gateway's own source are counted, so that a loop without progress fails at once instead of never ending:
in a decoder, in a session, or between sessions and turns.  The decoders' own law is ``stomp_octets.less_than``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslInit, SaslResponse
from protocols.amqp.v1_0.wire.frames.frame_decoder import Decoder as AmqpDecoder
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame, encode_sasl_frame
from protocols.amqp.v1_0.wire.frames.layout import SASL_LAYER, Heartbeat, protocol_header
from protocols.stomp.codec.decoder import Decoder as StompDecoder
from protocols.stomp.codec.frames import SEND, Frame, Head
from protocols.stomp.session.settings import SessionSettings
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer
from tests.support.protocols.amqp_octets import decode_stream
from tests.support.protocols.amqp_strategies import PERFORMATIVES
from tests.support.protocols.amqp_stream import OPENING, frame
from tests.support.protocols.stomp_gateway import Peer
from tests.support.protocols.stomp_octets import decode, pieces
from tests.support.turns.turn_lines import COUNTED

pytestmark = pytest.mark.interpreted

LINES = 200_000  # for a connection with its turns
LINES_OF_AN_OCTET = 200  # measured: 20 to 60


class NoProgressError(BaseException):
    """No part of the gateway catches it."""


@contextmanager
def at_most(lines: int) -> Iterator[None]:
    """Raise NoProgressError once more lines of the gateway's source have run."""
    left = lines

    def line(at: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise NoProgressError(f"more than {lines} lines, the last in {at.f_code.co_qualname}")
        return line

    def call(at: FrameType, event: str, argument: Any) -> Any:
        return line if at.f_code.co_filename.startswith(COUNTED) else None

    earlier = sys.gettrace()
    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(earlier)


def changed(octets: bytes, random: Random) -> bytes:
    """Return a stream with some octets changed, left out, or repeated."""
    stream = bytearray(octets)
    for _ in range(random.choice((0, 0, 1, 3))):
        at = random.randrange(len(stream) + 1)
        kind = random.randrange(3)
        if kind == 0 and at < len(stream):
            stream[at] = random.choice((0, 2, 8, 10, 13, 255, random.randrange(256)))
        elif kind == 1:
            del stream[at : at + random.randrange(40)]
        else:
            stream[at:at] = stream[at : at + random.randrange(40)]
    return bytes(stream)


COMMANDS = st.sampled_from(
    [
        *(b"SEND\ndestination:/queue/q\nreceipt:1\n\nx\0", b"SEND\ndestination:/queue/q\ncontent-length:2\n\nx\0\0"),
        *(b"SUBSCRIBE\nid:1\ndestination:/queue/q\nack:client\n\n\0", b"UNSUBSCRIBE\nid:1\n\n\0", b"ACK\nid:1\n\n\0"),
        *(b"BEGIN\ntransaction:t\n\n\0", b"SEND\ndestination:/queue/q\ntransaction:t\n\n\0", b"NACK\nid:2\n\n\0"),
        *(b"COMMIT\ntransaction:t\nreceipt:3\n\n\0", b"ABORT\ntransaction:t\n\n\0", b"\n", b"\r\n", b"\0"),
        *(b"DISCONNECT\nreceipt:4\n\n\0", b"SEND\r\ndestination:/topic/t\r\n\r\nx\0\r\n", b"JUMP\n\n\0"),
    ]
)
OPENINGS = st.sampled_from(
    [
        *(
            b"CONNECT\naccept-version:1.2\nhost:h\n\n\0",
            b"CONNECT\n\n\0",
            b"STOMP\naccept-version:1.1\nhost:h\n\n\0",
            b"",
        ),
        b"CONNECT\naccept-version:1.2\nhost:h\nlogin:a\npasscode:b\nheart-beat:1,1\n\n\0\n\n",
    ]
)


def feed_stomp(octets: bytes, cut: int, is_checked: bool = False) -> None:
    gateway = AmqpGateway()
    if is_checked:
        gateway.settings = SessionSettings(needs_login=True)
    feed(gateway, gateway.open(), octets, cut)


def feed_amqp(octets: bytes, cut: int) -> None:
    gateway = AmqpGateway()
    feed(gateway, gateway.open_amqp(), octets, cut)


def feed(gateway: AmqpGateway, peer: Peer | AmqpPeer, octets: bytes, cut: int) -> None:
    with at_most(LINES + LINES_OF_AN_OCTET * len(octets)):
        for piece in pieces(octets, cut or len(octets) or 1):
            if not peer.is_closed:
                peer.send_octets(piece)
            if peer.link.credentials and not peer.is_closed:
                peer.link.credentials.clear()
                peer.answer_login(is_allowed=True)
        peer.vanish()
        gateway.advance(1_000)
    assert gateway.broker.clients == {}


@settings(max_examples=60)
@given(OPENINGS, st.lists(COMMANDS, max_size=12), st.integers(0, 40), st.booleans(), st.randoms(use_true_random=False))
def test_stomp_octets_are_taken_or_end(
    opening: bytes, frames: list[bytes], cut: int, is_checked: bool, random: Random
) -> None:
    feed_stomp(changed(opening + b"".join(frames), random), cut, is_checked)


SASL = st.lists(
    st.one_of(
        st.sampled_from(["PLAIN", "ANONYMOUS", "EXTERNAL", "SCRAM-SHA-256", "none"]).flatmap(
            lambda name: st.binary(max_size=12).map(lambda octets: encode_sasl_frame(SaslInit(name, octets)))
        ),
        st.binary(max_size=12).map(lambda octets: encode_sasl_frame(SaslResponse(octets))),
        st.just(protocol_header(SASL_LAYER)),
        st.binary(max_size=20).map(lambda octets: frame(octets, 0, 1)),
        st.just(OPENING),
    ),
    max_size=6,
)


@settings(max_examples=60)
@given(SASL, st.integers(0, 40), st.randoms(use_true_random=False))
def test_sasl_octets_are_taken_or_end(frames: list[bytes], cut: int, random: Random) -> None:
    feed_amqp(changed(protocol_header(SASL_LAYER) + b"".join(frames), random), cut)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(PERFORMATIVES, st.binary(max_size=20)), max_size=10),
    st.integers(0, 40),
    st.randoms(use_true_random=False),
)
def test_amqp_octets_are_taken_or_end(frames: list[tuple[Composite, bytes]], cut: int, random: Random) -> None:
    octets = b"".join(encode_frame(0, performative, payload) for performative, payload in frames)
    feed_amqp(OPENING + changed(octets, random), cut)


def _again(decoder: StompDecoder | AmqpDecoder) -> bool:
    return b"again" in decoder._buffer


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoders that return a frame again and again, once one was announced."""
    stomp, amqp = StompDecoder.next_frame, AmqpDecoder.next_frame

    def next_stomp(decoder: StompDecoder) -> Frame | None:
        if decoder.buffered_bytes() and _again(decoder):
            return Frame(SEND, Head(SEND, {"destination": "/queue/q"}, -1, b""), None, None, b"")
        return stomp(decoder)

    monkeypatch.setattr(StompDecoder, "next_frame", next_stomp)
    monkeypatch.setattr(AmqpDecoder, "next_frame", lambda decoder: Heartbeat() if _again(decoder) else amqp(decoder))


@pytest.mark.usefixtures("stuck")
def test_a_frame_that_takes_no_octets_is_found() -> None:
    with pytest.raises(AssertionError, match="takes no octets"):
        decode(StompDecoder(), b"SEND\nagain\n\n\0")
    with pytest.raises(AssertionError, match="takes no octets"):
        decode_stream(AmqpDecoder(512), b"again")
    opening = b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"
    with pytest.raises(NoProgressError):
        feed_stomp(opening + b"JUMP again\n\n\0", 36)
    with pytest.raises(NoProgressError):
        feed_amqp(OPENING + b"again", len(OPENING))


def test_a_decoder_that_never_returns_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    next_frame_slow = StompDecoder.next_frame_slow

    def spinning(decoder: StompDecoder) -> Frame | None:
        while _again(decoder):
            decoder.partial_number()
        return next_frame_slow(decoder)

    monkeypatch.setattr(StompDecoder, "next_frame_slow", spinning)
    with pytest.raises(NoProgressError):
        feed_stomp(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0JUMP again\n\n\0", 36)
