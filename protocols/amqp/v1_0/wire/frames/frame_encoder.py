"""Frames to octets; frames that are sent for each message are encoded directly."""

from __future__ import annotations

from struct import Struct
from typing import Final

from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.composite_codec import encode_composite
from protocols.amqp.v1_0.wire.composites.delivery_states import ACCEPTED, ACCEPTED_LIST0, State
from protocols.amqp.v1_0.wire.composites.performatives import Disposition
from protocols.amqp.v1_0.wire.frames.layout import FRAME_HEADER, HEADER_BYTES
from protocols.amqp.v1_0.wire.frames.transfer_octets import transfer_head

_TRANSFER_HEAD: Final = transfer_head
_DISPOSITION_ONE: Final = Struct(">IBBH6sBBIBB")
_DISPOSITION_RANGE: Final = Struct(">IBBH6sBBIBIB")
_FLOW: Final = Struct(">IBBH6sBIBIBIBI")
_LINK_FLOW: Final = Struct(">IBBH6s" + 8 * "BI" + "BB")
_TRUE: Final = 0x41
_FALSE: Final = 0x42
_UINT: Final = 0x70
_WHOLE: Final = b"\x43\x42\x42"  # of a transfer: format 0, neither settled nor more to come


def encode_frame(channel: int, performative: Composite, payload: bytes = b"") -> bytes:
    body = encode_composite(performative)
    return FRAME_HEADER.pack(HEADER_BYTES + len(body) + len(payload), 2, 0, channel) + body + payload


def encode_sasl_frame(performative: Composite) -> bytes:
    body = encode_composite(performative)
    return FRAME_HEADER.pack(HEADER_BYTES + len(body), 2, 1, 0) + body


def encode_accepted(channel: int, is_receiver: bool, first: int, last: int) -> bytes:
    """Return a disposition: settled, accepted."""
    role = _TRUE if is_receiver else _FALSE
    if first == last:
        return (
            _DISPOSITION_ONE.pack(26, 2, 0, channel, b"\x00\x53\x15\xc0\x0d\x05", role, _UINT, first, 0x40, _TRUE)
            + ACCEPTED_LIST0
        )
    return (
        _DISPOSITION_RANGE.pack(30, 2, 0, channel, b"\x00\x53\x15\xc0\x11\x05", role, _UINT, first, _UINT, last, _TRUE)
        + ACCEPTED_LIST0
    )


def encode_accepted_ranges(channel: int, numbers: list[int]) -> bytes:
    """Return dispositions for ``numbers``, ranges joined."""
    if len(numbers) == 1:
        return encode_accepted(channel, True, numbers[0], numbers[0])
    return b"".join([encode_accepted(channel, True, first, last) for first, last in _ranges(numbers)])


def encode_settled_ranges(channel: int, numbers: list[int], state: State) -> bytes:
    """Return the dispositions of a sender that settles ``numbers`` with their outcome, ranges joined."""
    return b"".join([encode_disposition(channel, False, first, last, True, state) for first, last in _ranges(numbers)])


def _ranges(numbers: list[int]) -> list[tuple[int, int]]:
    if numbers == [*range(numbers[0], numbers[0] + len(numbers))]:  # nearly all
        return [(numbers[0], numbers[-1])]
    ranges: list[tuple[int, int]] = []
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != ((last + 1) & 0xFFFFFFFF):
            ranges.append((first, last))
            first = number
        last = number
    ranges.append((first, last))
    return ranges


def encode_disposition(
    channel: int, is_receiver: bool, first: int, last: int, settled: bool, state: State | None
) -> bytes:
    if settled and state is ACCEPTED:
        return encode_accepted(channel, is_receiver, first, last)
    return encode_frame(channel, Disposition(is_receiver, first, None if first == last else last, settled, state))


def encode_session_flow(
    channel: int, next_incoming_id: int, incoming_window: int, next_outgoing_id: int, outgoing_window: int
) -> bytes:
    return _FLOW.pack(
        34,
        2,
        0,
        channel,
        b"\x00\x53\x13\xc0\x15\x04",
        _UINT,
        next_incoming_id,
        _UINT,
        incoming_window,
        _UINT,
        next_outgoing_id,
        _UINT,
        outgoing_window,
    )


def encode_link_flow(
    channel: int,
    next_incoming_id: int,
    incoming_window: int,
    next_outgoing_id: int,
    outgoing_window: int,
    handle: int,
    delivery_count: int,
    link_credit: int,
    available: int,
    is_draining: bool,
) -> bytes:
    return _LINK_FLOW.pack(
        56,
        2,
        0,
        channel,
        b"\x00\x53\x13\xc0\x2b\x0a",
        _UINT,
        next_incoming_id,
        _UINT,
        incoming_window,
        _UINT,
        next_outgoing_id,
        _UINT,
        outgoing_window,
        _UINT,
        handle,
        _UINT,
        delivery_count,
        _UINT,
        link_credit,
        _UINT,
        available,
        _TRUE if is_draining else _FALSE,
        _FALSE,
    )


class TransferHead:
    """Octets in front of a payload: for one link, only size, delivery-id and tag change.

    The tag is the delivery-id in four octets: unique among unsettled deliveries.
    """

    __slots__ = ("_middle", "size")

    def __init__(self, channel: int, handle: int) -> None:
        if handle == 0:
            number = b"\x43"
        elif handle < 256:
            number = bytes((0x52, handle))
        else:
            number = b"\x70" + handle.to_bytes(4, "big")
        # Behind the list's size: count, handle, 5 of the delivery-id, 6 of the tag, format, settled, more.
        fields = bytes((1 + len(number) + 5 + 6 + 3, 6)) + number
        self._middle = b"\x02\x00" + channel.to_bytes(2, "big") + b"\x00\x53\x14\xc0" + fields + b"\x70"
        self.size = 4 + len(self._middle) + 4 + 6 + len(_WHOLE)

    def encode(self, payload_bytes: int, delivery_id: int, settled: bool, more: bool) -> bytes:
        flags = _WHOLE
        if settled or more:
            flags = bytes((0x43, _TRUE if settled else _FALSE, _TRUE if more else _FALSE))
        return _TRANSFER_HEAD(self.size + payload_bytes, self._middle, delivery_id, flags)
