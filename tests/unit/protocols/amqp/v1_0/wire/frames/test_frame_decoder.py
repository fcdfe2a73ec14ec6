"""Frames: limits, layers, what is refused before it is buffered."""

from __future__ import annotations

import pytest

from protocols.amqp.v1_0.wire.composites.performatives import Close, Open, Transfer
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslOutcome
from protocols.amqp.v1_0.wire.errors import DecodeError, FramingError
from protocols.amqp.v1_0.wire.frames.frame_decoder import Decoder
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame, encode_sasl_frame
from protocols.amqp.v1_0.wire.frames.layout import (
    AMQP_LAYER,
    HEARTBEAT,
    HEARTBEAT_OCTETS,
    SASL_LAYER,
    ProtocolHeader,
    protocol_header,
)
from protocols.amqp.v1_0.wire.frames.plain_frames import _NEVER
from protocols.peer_times import NO_FRAME


def reader(layer: int = AMQP_LAYER, max_frame_size: int = 512) -> Decoder:
    decoder = Decoder(max_frame_size)
    decoder.receive_data(protocol_header(layer))
    assert isinstance(decoder.next_frame(), ProtocolHeader)
    return decoder


def test_layers_follow_each_other_in_one_read() -> None:
    decoder = Decoder(512)
    decoder.receive_data(
        protocol_header(SASL_LAYER)
        + encode_sasl_frame(SaslOutcome(0))
        + protocol_header(AMQP_LAYER)
        + encode_frame(0, Open("me"))
    )
    assert isinstance(decoder.next_frame(), ProtocolHeader)
    assert decoder.next_frame() == SaslOutcome(0)
    decoder.expect_header()
    header = decoder.next_frame()
    assert isinstance(header, ProtocolHeader)
    assert header.layer == AMQP_LAYER
    assert header.is_supported()
    assert decoder.next_frame() == Open("me")
    assert decoder.next_frame() is None


@pytest.mark.parametrize("octets", [b"\x01\x01\x00\x0a", b"\x00\x00\x09\x01", b"\x02\x01\x00\x00"])
def test_other_protocols_are_told_by_their_header(octets: bytes) -> None:
    decoder = Decoder(512)
    decoder.receive_data(b"AMQP" + octets)
    header = decoder.next_frame()
    assert isinstance(header, ProtocolHeader)
    assert not header.is_supported()


@pytest.mark.parametrize("octets", [b"G", b"GET / HTTP", b"AMQ\r", b"CONNECT\n"])
def test_what_is_no_header_is_refused_at_its_first_octet(octets: bytes) -> None:
    decoder = Decoder(512)
    decoder.receive_data(octets)
    with pytest.raises(FramingError, match="not with b'AMQP'"):
        decoder.next_frame()


def test_a_frame_beyond_the_limit_is_refused_before_it_is_buffered() -> None:
    decoder = reader()
    decoder.receive_data((513).to_bytes(4, "big") + b"\x02\x00\x00\x00" + b"x" * 100)
    with pytest.raises(FramingError, match="513 octets; the limit is 512"):
        decoder.next_frame()
    assert decoder.buffered_bytes() == 0
    decoder.receive_data(b"x" * 1000)
    assert decoder.buffered_bytes() == 0
    with pytest.raises(FramingError, match="513 octets"):
        decoder.next_frame()


def test_a_frame_of_the_other_layer_is_refused() -> None:
    decoder = reader(SASL_LAYER)
    decoder.receive_data(encode_frame(0, Open("me")))
    with pytest.raises(FramingError, match="type 0; allowed here is 1"):
        decoder.next_frame()
    decoder = reader()
    decoder.receive_data(encode_sasl_frame(SaslOutcome(0)))
    with pytest.raises(FramingError, match="type 1; allowed here is 0"):
        decoder.next_frame()


@pytest.mark.parametrize("behind", [b"", b"\x70\0\0\0\0" + bytes(64)])
def test_the_octets_that_stand_for_no_frame_learned_yet_are_no_frame(behind: bytes) -> None:
    decoder = reader()
    decoder.receive_data(_NEVER + behind)
    with pytest.raises(FramingError, match="the limit is 512"):
        decoder.next_frame()


def test_a_frame_behind_an_extended_header_teaches_nothing() -> None:
    """Its octets from the eighth before the performative on are no frame."""
    octets = encode_frame(0, Transfer(0, 300, b"t", 0, False), b"payload")
    extended = (len(octets) + 4).to_bytes(4, "big") + b"\x03" + octets[5:8] + b"\x02\0\0\0" + octets[8:]
    decoder = reader()
    decoder.receive_data(extended + extended[4:])
    assert decoder.next_frame() == Transfer(0, 300, b"t", 0, False)
    with pytest.raises(FramingError, match="the limit is 512"):
        decoder.next_frame()


def test_a_transfer_is_no_frame_of_sasl() -> None:
    octets = bytearray(encode_frame(0, Transfer(0, 300, b"t", 0, False), b"payload"))
    octets[5] = 1
    decoder = Decoder(512)
    decoder.receive_data(protocol_header(SASL_LAYER) + octets)
    decoder.next_frame()
    with pytest.raises(DecodeError, match="allowed are amqp:sasl-mechanisms"):
        decoder.next_frame()


def test_an_extended_header_is_skipped() -> None:
    octets = encode_frame(3, Transfer(0, 1, b"t", 0, False), b"payload")
    extended = (len(octets) + 4).to_bytes(4, "big") + b"\x03" + octets[5:8] + b"xxxx" + octets[8:]
    decoder = reader()
    decoder.receive_data(extended)
    assert decoder.next_frame() == Transfer(0, 1, b"t", 0, False)
    assert decoder.payload == b"payload"
    assert decoder.channel == 3


def test_a_heartbeat_may_have_any_channel_and_extended_header() -> None:
    decoder = reader()
    decoder.receive_data(HEARTBEAT_OCTETS + b"\x00\x00\x00\x0c\x03\x00\x00\x09xxxx")
    for _ in range(2):
        frame = decoder.next_frame()
        assert frame is not None
        assert frame.CODE == HEARTBEAT


def test_octets_behind_what_has_no_payload_are_refused() -> None:
    octets = encode_frame(0, Close(), b"more")
    decoder = reader()
    decoder.receive_data(octets)
    with pytest.raises(DecodeError, match="4 octets follow amqp:close:list"):
        decoder.next_frame()


def test_a_partial_frame_is_known() -> None:
    octets = encode_frame(0, Open("me"))
    decoder = reader()
    decoder.receive_data(octets[:5])
    assert decoder.next_frame() is None
    assert decoder.partial_number() != NO_FRAME
    decoder.receive_data(octets[5:] + octets[:-1])
    assert decoder.next_frame() == Open("me")
    assert decoder.next_frame() is None
    assert decoder.partial_number() != NO_FRAME
    decoder.receive_data(octets[-1:])
    assert decoder.next_frame() == Open("me")
    assert decoder.next_frame() is None
    assert decoder.partial_number() == NO_FRAME
