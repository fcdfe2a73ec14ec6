"""Transfers, dispositions and flows in the shape that real clients send them, read by position.

A tag is within DELIVERY_TAG_MOST, and a transfer has only the fields up to ``more``.  No value is built for a field.
If anything differs from this shape the result is None, and ``composite_codec.read_composite`` reads the frame.  The
results are the same (a property test checks this).
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from protocols.amqp.v1_0.wire.composites.delivery_states import ACCEPTED, ACCEPTED_LIST0
from protocols.amqp.v1_0.wire.composites.performatives import DELIVERY_TAG_MOST, Disposition, Flow, Transfer
from protocols.amqp.v1_0.wire.frames.layout import HEADER_BYTES

TRANSFER_HEAD: Final = b"\x00\x53\x14\xc0"
DISPOSITION_HEAD: Final = b"\x00\x53\x15\xc0"
FLOW_HEAD: Final = b"\x00\x53\x13\xc0"

_NEVER: Final = b"no frame begins so"  # but a peer may send it: whoever compares with it must check more
_NEVER_BYTES: Final = 1 << 48  # no buffer has so many
_FLAGS: Final[dict[int, bool | None]] = {0x40: None, 0x41: True, 0x42: False}
_ACCEPTED_LIST8: Final = b"\x00\x53\x24\xc0\x01\x00"
# A receiver's disposition after its descriptor and list code: settled, accepted, four octets for first and last.
_RANGE: Final = Struct(">4sIBI5s")
_RANGE_BYTES: Final = 18
_UNPACK_UINT: Final = Struct(">xI").unpack_from
_RANGE_HEAD: Final = b"\x11\x05\x41\x70"
RANGE_TAIL: Final = b"\x41\x00\x53\x24\x45"
RANGE_NUMBERS: Final = Struct(">IBI5s")
RANGE_FRAME_BYTES: Final = HEADER_BYTES + len(DISPOSITION_HEAD) + _RANGE_BYTES


class TransferShape:
    """The octets around delivery-id and tag of the last whole transfer; the next one like it is the same object.

    transfer: the one read last; alike: the last whole delivery.
    performative_head: from the performative's first octet to the delivery-id; head, head_bytes: from the frame's.
    tag_head, tail: in front of the tag's octets, and behind them.
    tail_at, payload_at, frame_bytes: octets from the frame's first one.
    """

    __slots__ = (
        "transfer",
        "alike",
        "performative_head",
        "head",
        "head_bytes",
        "tag_head",
        "tail",
        "tail_at",
        "payload_at",
        "frame_bytes",
        "channel",
    )

    def __init__(self) -> None:
        self.transfer = self.alike = Transfer(0)
        self.performative_head = _NEVER
        self.head = _NEVER
        self.head_bytes = 0
        self.tag_head = b""
        self.tail = b""
        self.tail_at = 0
        self.payload_at = 0
        self.frame_bytes = _NEVER_BYTES
        self.channel = 0

    def forget(self) -> None:
        """Forget all frames: another layer begins."""
        self.head = _NEVER
        self.frame_bytes = _NEVER_BYTES

    def read(self, buffer: bytes, at: int, end: int, channel: int) -> int:
        """Read the transfer whose performative begins at ``at``; return where its payload begins, 0 for none."""
        if buffer.startswith(self.performative_head, at):
            after = self._read_alike(buffer, at, end, channel)
            if after:
                return after
        return self._read(buffer, at, end, channel)

    def _read_alike(self, buffer: bytes, start: int, end: int, channel: int) -> int:
        """Read a transfer like the last one: only the delivery-id and the octets of the tag differ."""
        id_at = start + len(self.performative_head)
        alike = self.alike
        tag_at = id_at + 6
        after = start + 5 + buffer[start + 4]
        tag_end = after - len(self.tail)
        if after > end or buffer[tag_end:after] != self.tail or tag_end - tag_at > DELIVERY_TAG_MOST:
            return 0
        if buffer[id_at + 4] != 0xA0 or buffer[id_at + 5] != tag_end - tag_at:
            return 0
        alike.delivery_id = int.from_bytes(buffer[id_at : id_at + 4], "big")
        alike.delivery_tag = buffer[tag_at:tag_end]
        self.transfer = alike
        self._learn(buffer, start, id_at, after, end, channel)
        return after

    def _read(self, buffer: bytes, start: int, end: int, channel: int) -> int:
        """Read handle, delivery-id, delivery-tag, message-format, and perhaps settled and more."""
        try:
            after = start + 5 + buffer[start + 4]
            count = buffer[start + 5]
            if after > end or count < 4 or count > 6:
                return 0
            at = start + 6
            code = buffer[at]
            if code != 0x43 and code != 0x52:
                return 0
            handle = 0 if code == 0x43 else buffer[at + 1]
            at += 1 if code == 0x43 else 2
            id_code = buffer[at]
            id_at = at + 1
            if id_code == 0x70:
                delivery_id = int.from_bytes(buffer[at + 1 : at + 5], "big")
                at += 5
            elif id_code == 0x52:
                delivery_id = buffer[at + 1]
                at += 2
            elif id_code == 0x43:
                delivery_id = 0
                at += 1
            else:
                return 0
            if buffer[at] != 0xA0 or buffer[at + 1] > DELIVERY_TAG_MOST:
                return 0
            tag_end = at + 2 + buffer[at + 1]
            tag = buffer[at + 2 : tag_end]
            if buffer[tag_end] != 0x43:
                return 0
            settled = _FLAGS[buffer[tag_end + 1]] if count > 4 else None
            more = _FLAGS[buffer[tag_end + 2]] if count > 5 else None
            if tag_end + count - 3 != after:
                return 0
        except (IndexError, KeyError):
            return 0
        self.transfer = Transfer(handle, delivery_id, tag, 0, settled, more)
        if not more and id_code == 0x70:
            self.alike = self.transfer
            self.performative_head = buffer[start:id_at]
            self.tail = buffer[tag_end:after]
            self._learn(buffer, start, id_at, after, end, channel)
        return after

    def _learn(self, buffer: bytes, start: int, id_at: int, after: int, end: int, channel: int) -> None:
        """Remember the whole beginning of a transfer whose performative begins at ``start``."""
        frame_at = start - HEADER_BYTES
        self.head = buffer[frame_at:id_at]
        self.head_bytes = id_at - frame_at
        self.tag_head = buffer[id_at + 4 : id_at + 6]
        self.tail_at = after - len(self.tail) - frame_at
        self.payload_at = after - frame_at
        self.frame_bytes = end - frame_at
        self.channel = channel


class DispositionShape:
    """The last disposition of a receiver that accepts, and the octets in front of its numbers."""

    __slots__ = ("disposition", "head", "head_bytes", "channel")

    def __init__(self) -> None:
        self.disposition = Disposition(True, 0, 0, True, ACCEPTED)
        self.head = _NEVER
        self.head_bytes = 0
        self.channel = 0

    def forget(self) -> None:
        """Forget all frames: another layer begins."""
        self.head = _NEVER
        self.head_bytes = 0  # then the octets of _NEVER itself are no numbers of a range

    def read(self, buffer: bytes, at: int, end: int, channel: int) -> Disposition | None:
        """Read the disposition whose performative begins at ``at``."""
        if end - at == len(DISPOSITION_HEAD) + _RANGE_BYTES:
            head, lowest, code, highest, tail = _RANGE.unpack_from(buffer, at + 4)
            if head == _RANGE_HEAD and code == 0x70 and tail == RANGE_TAIL:
                self.head = buffer[at - HEADER_BYTES : at + 8]
                self.head_bytes = HEADER_BYTES + 8
                self.channel = channel
                return Disposition(True, lowest, highest, True, ACCEPTED)
        return _read_disposition(buffer, at + 4, end)


def _read_disposition(buffer: bytes, at: int, end: int) -> Disposition | None:
    """Read role, first, last, settled and the state accepted."""
    try:
        count = buffer[at + 1]
        if at + 1 + buffer[at] != end or count < 5 or count > 6:
            return None
        role = _FLAGS[buffer[at + 2]]
        code = buffer[at + 3]
        if code == 0x70:
            first = int.from_bytes(buffer[at + 4 : at + 8], "big")
            at += 8
        elif code == 0x52:
            first = buffer[at + 4]
            at += 5
        elif code == 0x43:
            first = 0
            at += 4
        else:
            return None
        code = buffer[at]
        last: int | None = None
        if code == 0x70:
            last = int.from_bytes(buffer[at + 1 : at + 5], "big")
            at += 5
        elif code == 0x52:
            last = buffer[at + 1]
            at += 2
        elif code == 0x43:
            last = 0
            at += 1
        elif code == 0x40:
            at += 1
        else:
            return None
        settled = _FLAGS[buffer[at]]
        if role is None or settled is None:
            return None
        batchable = _FLAGS[buffer[end - 1]] if count == 6 else None
        octets = buffer[at + 1 : end - (count - 5)]
        if octets != ACCEPTED_LIST0 and octets != _ACCEPTED_LIST8:
            return None
    except (IndexError, KeyError):
        return None
    return Disposition(role, first, last, settled, ACCEPTED, batchable)


def read_flow(buffer: bytes, at: int, end: int) -> Flow | None:
    """Read the flow whose performative begins at ``at``: the numbers in front, then drain and echo."""
    try:
        count = buffer[at + 5]
        if at + 5 + buffer[at + 4] != end or count < 4 or count > 10:
            return None
        at += 6
        numbers: list[int | None] = [None, None, None, None, None, None, None, None]
        for index in range(min(count, 8)):
            code = buffer[at]
            if code == 0x70:
                (numbers[index],) = _UNPACK_UINT(buffer, at)
                at += 5
            elif code == 0x52:
                numbers[index] = buffer[at + 1]
                at += 2
            elif code == 0x43:
                numbers[index] = 0
                at += 1
            elif code == 0x40:
                at += 1
            else:
                return None
        drain = _FLAGS[buffer[at]] if count > 8 else None
        echo = _FLAGS[buffer[at + 1]] if count > 9 else None
        if at + max(0, count - 8) != end:
            return None
    except (IndexError, KeyError, StructError):
        return None
    next_incoming_id, incoming_window, next_outgoing_id, outgoing_window = numbers[:4]
    if incoming_window is None or next_outgoing_id is None or outgoing_window is None:
        return None
    handle, delivery_count, link_credit, available = numbers[4:]
    return Flow(
        next_incoming_id,
        incoming_window,
        next_outgoing_id,
        outgoing_window,
        handle,
        delivery_count,
        link_credit,
        available,
        drain,
        echo,
    )
