"""Octets to frames, with fast paths for the most common frames of real clients.

``next_frame`` gives the same results as ``next_frame_slow`` (a property test checks this).  For whole frames in one
read it first tries three fast paths:

1. a SEND like the last one: only the receipt's value and the body's octets differ (``_guess_*``);
2. a SEND whose head, without receipt and content-length, was parsed before (``_heads``);
3. an ACK or NACK with an id, perhaps a receipt, and no other header.
"""

from __future__ import annotations

from typing import Final

from protocols.errors import FrameError
from protocols.stomp.codec.frame_limits import FrameLimits
from protocols.stomp.codec.frame_octets import PLAIN_VALUE, value_between
from protocols.stomp.codec.frames import ACK, NACK, SEND, Frame, Head
from protocols.stomp.codec.head_parser import LENGTH_DIGITS
from protocols.stomp.codec.reassembly import BETWEEN, FILLER, FILLERS, Reassembly

# Limits of the heads that are kept for the fast paths: octets of one, and their number.
_KEPT_HEAD_BYTES: Final = 1024
_KEPT_HEADS: Final = 256

_CONTENT_LENGTH: Final = b"\ncontent-length:"
_RECEIPT: Final = b"\nreceipt:"
_RECEIPT_SIZE: Final = len(_RECEIPT)

_ACK_START: Final = b"ACK\nid:"
_ACK_END: Final = b"\n\n\0"
_ACK_SIZE: Final = len(_ACK_START) + len(_ACK_END)
_VALUE_BETWEEN: Final = value_between

_ORD_CR: Final = 13
_ORD_A: Final = 65
_ORD_N: Final = 78
_ORD_S: Final = 83


class Decoder(Reassembly):
    """Call ``next_frame`` until it returns None after each ``receive_data``.

    The fast paths return the same object for every SEND, and one for every ACK with only an id.  It is valid until the
    next call; ``Frame.kept`` makes a copy that lasts.
    """

    __slots__ = (
        "_value_max",
        "_heads",
        "_known",
        "_known_length",
        "_ack",
        "_nack",
        "_ack_frame",
        "_send_frame",
        "_guess_before",
        "_guess_after",
        "_guess_size",
        "_guess_has_receipt",
        "_guess_head",
        "_guess_length",
    )

    def __init__(self, limits: FrameLimits | None = None, is_lenient: bool = False) -> None:
        super().__init__(limits, is_lenient)
        self._value_max = _value_max(self.limits)
        self._heads: dict[bytes, Head] = {}
        self._known = self._head
        self._known_length = -1
        self._ack = self._parser.ack
        self._nack = self._parser.nack
        self._ack_frame = Frame(ACK, self._ack, None, b"", b"")
        self._send_frame = Frame(SEND, self._head, None, None, b"")
        self._guess_before = b"\0"
        self._guess_after = b""
        self._guess_size = 1
        self._guess_has_receipt = False
        self._guess_head = self._head
        self._guess_length = -1

    def next_frame(self) -> Frame | None:
        """Return the next frame, or None for "more octets please".

        Raises: FrameError, with what was seen and what is allowed.
        """
        if self._state != BETWEEN:
            return self._next_slow()
        buffer = self._buffer
        start = self._position
        size = len(buffer)
        while True:
            if start >= size:
                self._position = size
                if self._waiting:
                    return self._next_slow()
                self._buffer = b""  # an idle connection does not keep its last read
                self._send_frame.body = b""
                self._position = 0
                return None
            octet = buffer[start]
            if octet > _ORD_CR or octet not in FILLER:
                break
            start += 1
            if start < size and buffer[start] in FILLER:
                fillers = FILLERS.match(buffer, start)
                assert fillers is not None
                start = fillers.end()

        if octet == _ORD_S:
            receipt: bytes | None = None
            if self._guess_has_receipt:
                receipt = _VALUE_BETWEEN(buffer, start, self._guess_before, self._guess_after, self._value_max)
                if receipt is None:
                    return self._next_known(start)
                at = start + self._guess_size + len(receipt)
            elif buffer.startswith(self._guess_before, start):
                at = start + self._guess_size
            else:
                return self._next_known(start)
            end = at + self._guess_length if self._guess_length >= 0 else buffer.find(b"\0", at)
            if at <= end < size and buffer[end] == 0 and end - at <= self._body_max:
                frame = self._send_frame
                frame.head = self._guess_head
                frame.receipt = receipt
                frame.body = buffer[at:end]
                end += 1
                if end == size and not self._waiting:
                    self._buffer = b""
                    self._position = 0
                    self.is_drained = True
                else:
                    self._position = end
                return frame
            return self._next_known(start)

        if octet == _ORD_A:
            id_octets = _VALUE_BETWEEN(buffer, start, _ACK_START, _ACK_END, self._value_max)
            if id_octets is not None:
                at = start + _ACK_SIZE + len(id_octets)
                if at == size and not self._waiting:
                    self._buffer = b""
                    self._position = 0
                    self.is_drained = True
                else:
                    self._position = at
                frame = self._ack_frame
                frame.id = id_octets
                return frame
            if buffer.startswith(_ACK_START, start):
                self._position = start
                return self._next_with_id(ACK, start + len(_ACK_START))
        self._position = start
        if octet == _ORD_N and buffer.startswith(b"NACK\nid:", start):
            return self._next_with_id(NACK, start + 8)
        return self._next_slow()

    def _next_slow(self) -> Frame | None:
        self._send_frame.body = b""  # a partial frame is no hot path
        return self.next_frame_slow()

    def _next_with_id(self, command: int, at: int) -> Frame | None:
        """Return the ACK or NACK whose id begins at ``at``, if it has no other header but a receipt."""
        buffer = self._buffer
        id_octets = _VALUE_BETWEEN(buffer, at, b"", b"\n", self._value_max)
        if id_octets is None:
            return self._next_slow()
        head = self._ack if command == ACK else self._nack
        at += len(id_octets)
        if buffer.startswith(_ACK_END, at):
            self._position = at + len(_ACK_END)
            return Frame(command, head, None, id_octets, b"")
        receipt = _VALUE_BETWEEN(buffer, at, _RECEIPT, _ACK_END, self._value_max)
        if receipt is None:
            return self._next_slow()
        self._position = at + _RECEIPT_SIZE + len(receipt) + len(_ACK_END)
        return Frame(command, head, receipt, id_octets, b"")

    def forget_heads(self) -> None:
        """Parse each head anew: what was made of it once (``Head.mapped``) may not hold any more."""
        self._forget()

    def _next_known(self, start: int) -> Frame | None:
        """Return the SEND at ``start`` by way of ``_heads``; parse its head and keep it there if it is new.

        The key is the head without its first receipt line and its first content-length line.  The LF before the latter
        stays: the empty line that this leaves cannot be in any other key.
        """
        buffer = self._buffer
        self._position = start
        if not buffer.startswith(b"SEND\n", start):
            return self._next_slow()
        end = buffer.find(b"\n\n", start, start + _KEPT_HEAD_BYTES)
        if end < 0:
            return self._next_slow()
        octets = buffer[start:end]
        receipt: bytes | None = None
        key, found, rest = octets.partition(_RECEIPT)
        if found:
            receipt, line_end, rest = rest.partition(b"\n")
            if len(receipt) > self._value_max or not (receipt.isalnum() or PLAIN_VALUE.fullmatch(receipt)):
                return self._next_slow()
            if line_end:
                key += b"\n" + rest
        length = -1
        before, found, rest = key.partition(_CONTENT_LENGTH)
        if found:
            digits, line_end, rest = rest.partition(b"\n")
            if not digits.isdigit() or len(digits) > LENGTH_DIGITS:
                return self._next_slow()
            length = int(digits)
            key = before + b"\n\n" + rest if line_end else before + b"\n"
        at = end + 2
        stop = at + length if length >= 0 else buffer.find(b"\0", at)
        if not at <= stop < len(buffer) or buffer[stop] != 0 or stop - at > self._body_max:
            return self._next_slow()  # partial, or wrong
        head = self._heads.get(key)
        if head is None:
            try:
                head = self._parser.parse(octets)
            except FrameError:
                # The slow path raises it again, for good; or it finds no error, if the head ends before, at LF CR LF.
                return self._next_slow()
            if len(self._heads) >= _KEPT_HEADS:
                self._heads.clear()
            self._heads[key] = head
        elif head is self._known and length == self._known_length:
            self._guess(octets, b"\n\n", head, length)  # this has a cost: only for a head twice in a row
        self._known = head
        self._known_length = length
        self._position = stop + 1
        frame = self._send_frame
        frame.head = head
        frame.receipt = receipt
        frame.body = buffer[at:stop]
        return frame

    def _guess(self, octets: bytes, terminator: bytes, head: Head, length: int) -> None:
        """Expect the next SEND to have this head, except for the receipt's value."""
        before, found, rest = octets.partition(_RECEIPT)
        after = b""
        if found:
            before += found
            receipt, line_end, rest = rest.partition(b"\n")
            after = (b"\r" if receipt.endswith(b"\r") else b"") + line_end + rest
            after += terminator
        else:
            before += terminator
        self._guess_before = before
        self._guess_after = after
        self._guess_size = len(before) + len(after)
        self._guess_has_receipt = bool(found)
        self._guess_head = head
        self._guess_length = length

    def _learn(self, octets: bytes, terminator: bytes, head: Head) -> None:
        if head.command == SEND and len(octets) <= _KEPT_HEAD_BYTES:
            self._guess(octets, terminator, head, head.content_length)  # the fast path of peers that send CR LF

    def _forget(self) -> None:
        self._value_max = _value_max(self.limits)
        self._heads.clear()
        self._known = self._head
        self._guess(b"\0", b"", self._head, -1)


def _value_max(limits: FrameLimits) -> int:
    """Return how long an id or a receipt may be on the fast paths, so that its line is within the limit."""
    return min(_KEPT_HEAD_BYTES, limits.header_line_bytes - _RECEIPT_SIZE)
