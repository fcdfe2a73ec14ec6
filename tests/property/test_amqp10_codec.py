"""Laws of the AMQP 1.0 codec: what is written is read, cuts do not matter, the fast ways agree with the clear one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted
from protocols.amqp.v1_0.wire.composites.performatives import TRANSFER, Disposition, Flow, Transfer
from protocols.amqp.v1_0.wire.errors import AmqpError, DecodeError
from protocols.amqp.v1_0.wire.frames.frame_decoder import Decoder
from protocols.amqp.v1_0.wire.frames.frame_encoder import (
    TransferHead,
    encode_accepted,
    encode_frame,
    encode_link_flow,
    encode_session_flow,
)
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, HEARTBEAT_OCTETS, protocol_header
from protocols.amqp.v1_0.wire.types.value_decoder import decode, decode_plain
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Byte, Int, Symbol, Timestamp, UByte, UInt
from tests.support.protocols.amqp_octets import decode_stream, shape
from tests.support.protocols.amqp_strategies import DISPOSITIONS, FLOWS, PERFORMATIVES, TRANSFERS, UINTS, VALUES

CHANNELS = st.integers(0, 65535)
FRAMES = st.tuples(CHANNELS, PERFORMATIVES, st.binary(max_size=40))
HEADER = protocol_header(AMQP_LAYER)


def wire_of(frame: tuple[int, Composite, bytes]) -> bytes:
    channel, performative, payload = frame
    return encode_frame(channel, performative, payload if performative.CODE == TRANSFER else b"")


@given(VALUES)
def test_a_value_that_is_written_is_read(value: Any) -> None:
    octets = encode(value)
    read, end = decode(octets)
    assert end == len(octets)
    assert shape(read) == shape(value)


@given(st.binary(max_size=60))
def test_any_octets_are_a_value_or_an_error(octets: bytes) -> None:
    try:
        value, end = decode(octets)
    except DecodeError:
        return
    assert 0 < end <= len(octets)
    assert shape(decode(encode(value))[0]) == shape(value)


PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=5),
    st.integers(-128, 127).map(Byte),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    st.integers(-(2**63), 2**63 - 1).map(Timestamp),
    st.sampled_from([UInt(0), UByte(9), Symbol("s"), UInt(7)]),
)
PLAIN_WIRES = st.one_of(st.lists(PLAIN, max_size=8), st.dictionaries(PLAIN, PLAIN, max_size=4), st.binary(max_size=9))


@given(PLAIN_WIRES.map(encode), st.integers(0, 60), st.integers(0, 255), st.booleans())
@example(b"\xc0\x02\x01\x51", 60, 0, False)
def test_plain_values_are_read_as_any_other(wire: bytes, at: int, octet: int, is_cut: bool) -> None:
    damaged = wire[:at] if is_cut else wire[:at] + bytes([octet]) + wire[at + 1 :]
    for octets in (wire, damaged):
        if octets:
            assert outcome_of(decode_plain, octets) == outcome_of(decode, octets)


def outcome_of(read: Callable[[bytes, int], tuple[Any, int]], octets: bytes) -> Any:
    try:
        value, end = read(octets, 0)
    except DecodeError as error:
        return str(error)
    return shape(value), end


@given(FRAMES)
def test_a_frame_that_is_written_is_read(frame: tuple[int, Composite, bytes]) -> None:
    channel, performative, payload = frame
    outcome = decode_stream(Decoder(2**20), HEADER + wire_of(frame))
    assert outcome.error is None
    (_, seen) = outcome.frames
    assert seen.channel == channel
    assert seen.frame == performative
    assert seen.payload == (payload if performative.CODE == TRANSFER else b"")


@given(st.lists(st.one_of(FRAMES.map(wire_of), st.just(HEARTBEAT_OCTETS)), max_size=6), st.integers(1, 40))
def test_cut_points_do_not_matter(wires: list[bytes], cut_size: int) -> None:
    stream = HEADER + b"".join(wires)
    whole = decode_stream(Decoder(2**20), stream)
    assert len(whole.frames) == 1 + len(wires)
    assert decode_stream(Decoder(2**20), stream, cut_size) == whole


@given(st.lists(st.one_of(TRANSFERS, DISPOSITIONS, FLOWS), max_size=4), st.binary(max_size=8), st.data())
def test_fast_and_clear_ways_agree(frames: list[Composite], payload: bytes, data: st.DataObject) -> None:
    stream = HEADER + b"".join(wire_of((1, frame, payload)) for frame in frames)
    assert decode_stream(Decoder(2**20), stream) == decode_stream(Decoder(2**20), stream, is_slow=True)
    if frames:
        at = data.draw(st.integers(len(HEADER), len(stream) - 1))
        broken = bytearray(stream)
        broken[at] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from(b"\x40\x41\x42\x43\x52\x70\xa0\xb0")))
        fast = decode_stream(Decoder(2**20), bytes(broken))
        assert fast == decode_stream(Decoder(2**20), bytes(broken), is_slow=True)


@given(
    st.lists(st.tuples(st.integers(300, 2**32 - 1), st.binary(min_size=3, max_size=5)), min_size=2, max_size=5),
    st.tuples(st.sampled_from([0, 5]), st.sampled_from([None, True, False]), st.sampled_from([None, False])),
    st.data(),
)
def test_transfers_like_the_last_one_are_read_as_any_other(
    numbers: list[tuple[int, bytes]], shared: tuple[int, bool | None, bool | None], data: st.DataObject
) -> None:
    handle, settled, more = shared
    stream = HEADER
    for delivery_id, tag in numbers:
        stream += encode_frame(1, Transfer(handle, delivery_id, tag, 0, settled, more), b"payload")
    clear = decode_stream(Decoder(2**20), stream, is_slow=True)
    assert decode_stream(Decoder(2**20), stream) == clear
    assert len(clear.frames) == 1 + len(numbers)
    broken = bytearray(stream)
    at = data.draw(st.integers(len(HEADER), len(stream) - 1))
    broken[at] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from(b"\x40\x41\x42\x43\x52\x70\xa0\xb0")))
    fast = decode_stream(Decoder(2**20), bytes(broken))
    assert fast == decode_stream(Decoder(2**20), bytes(broken), is_slow=True)


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 1, 2]), st.integers(256, 2**32 - 1), st.integers(256, 2**32 - 1)),
        min_size=2,
        max_size=6,
    ),
    st.integers(1, 40),
    st.data(),
)
def test_dispositions_like_the_last_one_are_read_as_any_other(
    ranges: list[tuple[int, int, int]], cut_size: int, data: st.DataObject
) -> None:
    stream = HEADER
    for channel, first, last in ranges:
        stream += encode_frame(channel, Disposition(True, first, last, True, Accepted()))
        stream += encode_frame(channel, Transfer(0, first, b"tag", 0), b"payload")
    clear = decode_stream(Decoder(2**20), stream, is_slow=True)
    assert decode_stream(Decoder(2**20), stream) == clear
    assert decode_stream(Decoder(2**20), stream, cut_size) == clear
    assert len(clear.frames) == 1 + 2 * len(ranges)
    broken = bytearray(stream)
    at = data.draw(st.integers(len(HEADER), len(stream) - 1))
    broken[at] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from(b"\x40\x41\x42\x43\x52\x70\xa0\xb0")))
    fast = decode_stream(Decoder(2**20), bytes(broken))
    assert fast == decode_stream(Decoder(2**20), bytes(broken), is_slow=True)


@example(role=True, first=3, last=3)
@given(role=st.booleans(), first=UINTS, last=UINTS)
def test_accepted_in_short_is_accepted_in_full(role: bool, first: int, last: int) -> None:
    outcome = decode_stream(Decoder(512), HEADER + encode_accepted(7, role, first, last), is_slow=True)
    expected = Disposition(role, first, None if first == last else last, True, Accepted())
    assert outcome.frames[1].frame == expected


@given(st.tuples(CHANNELS, UINTS, UINTS, UINTS, UINTS, UINTS, UINTS, UINTS, UINTS, st.booleans()))
def test_flows_in_short_are_flows_in_full(numbers: Any) -> None:
    outcome = decode_stream(
        Decoder(512), HEADER + encode_link_flow(*numbers) + encode_session_flow(*numbers[:5]), is_slow=True
    )
    link_fields = [*numbers[1:], False]
    assert outcome.frames[1].frame == Flow(*link_fields)
    assert outcome.frames[2].frame == Flow(*numbers[1:5])
    assert outcome.frames[1].channel == outcome.frames[2].channel == numbers[0]


@given(CHANNELS, UINTS, UINTS, st.booleans(), st.booleans(), st.binary(max_size=20))
def test_transfers_in_short_are_transfers_in_full(
    channel: int, handle: int, delivery_id: int, settled: bool, more: bool, payload: bytes
) -> None:
    octets = TransferHead(channel, handle).encode(len(payload), delivery_id, settled, more) + payload
    outcome = decode_stream(Decoder(2**20), HEADER + octets, is_slow=True)
    seen = outcome.frames[1]
    tag = delivery_id.to_bytes(4, "big")
    assert seen.frame == Transfer(handle, delivery_id, tag, 0, settled, more)
    assert (seen.channel, seen.payload) == (channel, payload)


@given(st.binary(max_size=80), st.integers(1, 9))
def test_any_stream_ends_in_frames_or_an_error(octets: bytes, cut_size: int) -> None:
    decoder = Decoder(512)
    decode_stream(decoder, HEADER + octets, cut_size)
    assert decoder.buffered_bytes() <= 512 + cut_size
    try:
        decoder.next_frame()
    except AmqpError:
        assert decoder.buffered_bytes() == 0
