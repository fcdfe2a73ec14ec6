"""Octets to frames.  No sockets, no clock, no meaning of any performative.

A performative is read in one of two ways.  ``composite_codec.read_composite`` is the complete one and knows every rule.
``plain_frames`` reads transfers, dispositions and flows in the shape that real clients send.  A transfer or disposition
that repeats the last one except for its numbers and its tag is recognised by its first octets, frame header included.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.composite_codec import FRAME_CODES, SASL_CODES, read_composite
from protocols.amqp.v1_0.wire.composites.performatives import TRANSFER
from protocols.amqp.v1_0.wire.errors import AmqpError, DecodeError, FramingError
from protocols.amqp.v1_0.wire.frames.layout import FRAME_HEADER, HEADER_BYTES, SASL_LAYER, Heartbeat, ProtocolHeader
from protocols.amqp.v1_0.wire.frames.plain_frames import (
    DISPOSITION_HEAD,
    FLOW_HEAD,
    RANGE_FRAME_BYTES,
    RANGE_NUMBERS,
    RANGE_TAIL,
    TRANSFER_HEAD,
    DispositionShape,
    TransferShape,
    read_flow,
)
from protocols.amqp.v1_0.wire.frames.transfer_octets import alike_id
from protocols.peer_times import NO_FRAME

_ALIKE_ID: Final = alike_id
_HEARTBEAT: Final = Heartbeat()
_EXPECT_HEADER: Final = -1
_DEAD: Final = -2


@dataclass(slots=True, eq=False)
class Decoder:
    """Frames out of one connection's octets, in whatever pieces they come.  Either end of the wire.

    Call ``next_frame`` until it returns None after each ``receive_data``.  A protocol header comes first and names the
    layer of the frames after it; ``expect_header`` begins the next layer.  ``channel`` and ``payload`` belong to the
    frame returned last.  A transfer that is a whole delivery, and a receiver's disposition that accepts, are valid only
    until the next frame, because the next one like it is the same object.
    max_frame_size: octets of a frame that is accepted; a larger one is refused unread.
    begun_count: frames that came, or are coming, in several reads; it tells one partial frame from the next.
    After an error every call raises it again and drops further octets.
    """

    max_frame_size: int
    channel: int = 0
    payload: bytes = b""
    begun_count: int = 0
    _decoded_bytes: int = 0
    _layer: int = _EXPECT_HEADER
    _buffer: bytes = b""
    _position: int = 0
    _partial: bytearray = field(default_factory=bytearray)
    _is_continued: bool = False  # the buffer begins with the partial frame
    _needed: int = 0
    _error: AmqpError | None = None
    _transfer: TransferShape = field(default_factory=TransferShape)
    _disposition: DispositionShape = field(default_factory=DispositionShape)

    def receive_data(self, octets: bytes) -> None:
        if self._layer == _DEAD:
            return
        partial = self._partial
        if not partial:
            self._buffer = octets if self._position >= len(self._buffer) else self._buffer[self._position :] + octets
            self._position = 0
            self._is_continued = False
            return
        partial += octets
        if len(partial) >= self._needed:
            self._is_continued = True
            self._buffer = bytes(partial)
            self._position = 0
            partial.clear()

    def expect_header(self) -> None:
        """Expect a protocol header next: the SASL layer has ended."""
        self._layer = _EXPECT_HEADER
        self._transfer.forget()
        self._disposition.forget()

    def buffered_bytes(self) -> int:
        return len(self._buffer) - self._position + len(self._partial)

    def partial_number(self) -> int:
        """Return a unique number for the frame that has begun and not ended, NO_FRAME for none."""
        return self.begun_count if self._partial else NO_FRAME

    def take_decoded(self) -> int:
        """Return how many octets of performatives were read by the complete rules since the last call."""
        decoded_bytes = self._decoded_bytes
        self._decoded_bytes = 0
        return decoded_bytes

    def next_frame(self) -> Composite | None:
        """Return the next frame, None for "more octets please".  Raises: FramingError, DecodeError."""
        buffer = self._buffer
        start = self._position
        buffered = len(buffer)
        if start == buffered and self._error is None:
            self._buffer = self.payload = b""  # an idle connection does not keep its last read
            self._position = 0
            return None
        shape = self._transfer
        delivery_id = _ALIKE_ID(buffer, start, shape.head, shape.tag_head, shape.tail, shape.tail_at, shape.frame_bytes)
        if delivery_id >= 0:
            end = start + shape.frame_bytes
            self._position = end
            self.channel = shape.channel
            alike = shape.alike
            alike.delivery_id = delivery_id
            alike.delivery_tag = buffer[start + shape.head_bytes + 6 : start + shape.tail_at]
            self.payload = buffer[start + shape.payload_at : end]
            return alike
        if buffer.startswith(self._disposition.head, start) and buffered - start >= RANGE_FRAME_BYTES:
            known = self._disposition
            first, code, last, tail = RANGE_NUMBERS.unpack_from(buffer, start + known.head_bytes)
            if code == 0x70 and tail == RANGE_TAIL:
                self._position = start + RANGE_FRAME_BYTES
                self.channel = known.channel
                self.payload = b""
                disposition = known.disposition
                disposition.first = first
                disposition.last = last
                return disposition
        return self._next(True)

    def next_frame_slow(self) -> Composite | None:
        """Do the same without the fast paths."""
        return self._next(False)

    def _next(self, is_fast: bool) -> Composite | None:
        buffer = self._buffer
        start = self._position
        left = len(buffer) - start
        if left < HEADER_BYTES or self._layer < 0:
            return self._rare(left)
        size, words, kind, channel = FRAME_HEADER.unpack_from(buffer, start)
        if size > self.max_frame_size or size < HEADER_BYTES or words != 2 or kind != (self._layer == SASL_LAYER):
            try:
                self._check(size, words, kind)
            except FramingError as error:
                self._die(error)
                raise
            is_fast = False  # behind an extended header the positions differ
        if size > left:
            self._keep(size)
            return None
        end = start + size
        at = start + 4 * words
        self._position = end
        self.channel = channel
        if is_fast and kind == 0:
            head = buffer[at : at + 4]
            if head == TRANSFER_HEAD:
                after = self._transfer.read(buffer, at, end, channel)
                if after:
                    self.payload = buffer[after:end]
                    return self._transfer.transfer
            elif head == DISPOSITION_HEAD:
                disposition = self._disposition.read(buffer, at, end, channel)
                if disposition is not None:
                    self.payload = b""
                    return disposition
            elif head == FLOW_HEAD:
                flow = read_flow(buffer, at, end)
                if flow is not None:
                    self.payload = b""
                    return flow
        if at == end and self._layer != SASL_LAYER:
            self.payload = b""
            return _HEARTBEAT
        try:
            if at == end:
                raise DecodeError("a SASL frame is empty")  # security 5.3.1: no heartbeats before open
            return self._performative(buffer[at:end])
        except DecodeError as error:
            self._die(error)
            raise

    def _performative(self, body: bytes) -> Composite:
        frame, after = read_composite(body, 0, SASL_CODES if self._layer == SASL_LAYER else FRAME_CODES)
        self._decoded_bytes += after
        self.payload = body[after:]
        if self.payload and frame.CODE != TRANSFER:
            raise DecodeError(f"{len(self.payload)} octets follow {frame.NAME}; only a transfer has a payload")
        return frame

    # -- the steps

    def _rare(self, left: int) -> Composite | None:
        """Take a protocol header, raise the earlier error again, or wait for a frame's header."""
        if self._error is not None:
            raise _copy(self._error)
        if left < HEADER_BYTES:
            if self._layer == _EXPECT_HEADER and left:
                self._check_header(self._buffer[self._position :])
            if left:
                self._keep(HEADER_BYTES)
            return None
        octets = self._buffer[self._position : self._position + HEADER_BYTES]
        self._check_header(octets)
        self._position += HEADER_BYTES
        self._layer = octets[4]
        self.payload = b""
        return ProtocolHeader(octets[4], (octets[5], octets[6], octets[7]))

    def _check_header(self, octets: bytes) -> None:
        if not b"AMQP".startswith(octets[:4]):
            text = f"a protocol header begins with {octets[:4]!r}, not with b'AMQP'"
            self._die(FramingError(text))
            raise FramingError(text)

    def _check(self, size: int, words: int, kind: int) -> None:
        if size > self.max_frame_size:
            raise FramingError(f"a frame of {size} octets; the limit is {self.max_frame_size} (max-frame-size)")
        if size < HEADER_BYTES:
            raise FramingError(f"a frame of {size} octets; its header alone has {HEADER_BYTES}")
        if words < 2 or 4 * words > size:
            raise FramingError(
                f"a data offset of {words} words in a frame of {size} octets; allowed is 2 to {size // 4}"
            )
        expected = 1 if self._layer == SASL_LAYER else 0
        if kind != expected:
            raise FramingError(f"a frame of type {kind}; allowed here is {expected}")

    def _keep(self, size: int) -> None:
        """Keep the octets of a partial frame that will have ``size`` octets, in a buffer that grows cheaply."""
        if self._position > 0 or not self._is_continued:
            self.begun_count += 1  # otherwise its header has become whole, and the frame is the same
        self._partial += self._buffer[self._position :]
        self._needed = size
        self._buffer = b""
        self._position = 0

    def _die(self, error: AmqpError) -> None:
        self._error = _copy(error)
        self._layer = _DEAD
        self._transfer.forget()
        self._disposition.forget()
        self._buffer = b""
        self._position = 0
        self._partial = bytearray()


def _copy(error: AmqpError) -> AmqpError:
    """Return an error to keep: one that was raised knows the calls that led to it, and so the decoder's connection."""
    return type(error)(*error.args)
