"""Octets to frames.  No sockets, no clock, no meaning of any performative.

There are two ways to a performative.  ``composite_codec.read_composite`` is the clear one and knows every rule.
Transfers, dispositions and flows in the shape that real clients send them are read by position, without building a
value for each field; a frame that differs anywhere goes the clear way.  The results are the same (a property test
says so).  What comes again and again, a transfer or a disposition with the octets of the last one but for its numbers
and its tag, is known by its beginning, frame header and all.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from protocols.amqp.v1_0.wire.composite import Composite
from protocols.amqp.v1_0.wire.composite_codec import FRAME_CODES, SASL_CODES, read_composite
from protocols.amqp.v1_0.wire.delivery_states import ACCEPTED, ACCEPTED_LIST0
from protocols.amqp.v1_0.wire.errors import AmqpError, DecodeError, FramingError
from protocols.amqp.v1_0.wire.frames import FRAME_HEADER, HEADER_BYTES, SASL_LAYER, Heartbeat, ProtocolHeader
from protocols.amqp.v1_0.wire.performatives import TRANSFER, Disposition, Flow, Transfer
from protocols.peer_times import NO_FRAME

_TRANSFER_HEAD: Final = b"\x00\x53\x14\xc0"
_DISPOSITION_HEAD: Final = b"\x00\x53\x15\xc0"
_FLOW_HEAD: Final = b"\x00\x53\x13\xc0"
_ACCEPTED_LIST8: Final = b"\x00\x53\x24\xc0\x01\x00"
_HEARTBEAT: Final = Heartbeat()
# A receiver's disposition behind its descriptor and list code: settled, accepted, four octets for first and last.
_RANGE: Final = Struct(">4sIBI5s")
_RANGE_BYTES: Final = 18
_RANGE_HEAD: Final = b"\x11\x05\x41\x70"
_RANGE_TAIL: Final = b"\x41\x00\x53\x24\x45"
_RANGE_NUMBERS: Final = Struct(">IBI5s")
_RANGE_FRAME_BYTES: Final = HEADER_BYTES + len(_DISPOSITION_HEAD) + _RANGE_BYTES
_NEVER: Final = b"no transfer begins so"
_EXPECT_HEADER: Final = -1
_DEAD: Final = -2


class Decoder:
    """Frames out of one connection's octets, in whatever pieces they come.  Either end of the wire.

    Call ``next_frame`` until it returns None after each ``receive_data``.  The first thing is a protocol header, and
    the layer it names is what follows; ``expect_header`` has the next layer begin.  ``channel`` and ``payload`` belong
    to the frame returned last, and so does a transfer that is a whole delivery, and a receiver's disposition that
    accepts: the next one like it is the same object.
    max_frame_size: octets of a frame that is taken; a larger one is refused unread.
    begun_count: frames that came, or are coming, in several reads; it tells one partial frame from the next.
    After an error every call raises it again and further octets are dropped.
    """

    __slots__ = (
        "max_frame_size",
        "begun_count",
        "channel",
        "payload",
        "_layer",
        "_buffer",
        "_position",
        "_partial",
        "_is_continued",
        "_needed",
        "_error",
        "_alike",
        "_alike_head",
        "_alike_tail",
        "_same_head",
        "_same_tag",
        "_same_payload_at",
        "_same_bytes",
        "_same_channel",
        "_range",
        "_range_head",
        "_range_channel",
    )

    def __init__(self, max_frame_size: int) -> None:
        self.max_frame_size = max_frame_size
        self.channel = 0
        self.payload = b""
        self.begun_count = 0
        self._layer = _EXPECT_HEADER
        self._buffer = b""
        self._position = 0
        self._partial = bytearray()
        self._is_continued = False  # the buffer begins with what was partial
        self._needed = 0
        self._error: AmqpError | None = None
        # The last whole transfer, what stands in front of its delivery-id, and behind its tag.
        self._alike: Transfer | None = None
        self._alike_head = _NEVER
        self._alike_tail = b""
        # The same with the frame header: size and tag have as many octets as those of the last one.
        self._same_head = _NEVER
        self._same_tag = b""
        self._same_payload_at = 0
        self._same_bytes = 0
        self._same_channel = 0
        # The last disposition of a receiver that accepts, and what stands in front of its numbers.
        self._range = Disposition(True, 0, 0, True, ACCEPTED)
        self._range_head = _NEVER
        self._range_channel = 0

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
        """Take a protocol header next: the SASL layer has ended."""
        self._layer = _EXPECT_HEADER
        self._same_head = self._range_head = _NEVER

    def buffered_bytes(self) -> int:
        return len(self._buffer) - self._position + len(self._partial)

    def has_partial(self) -> bool:
        """Say whether a frame has begun that has not ended."""
        return bool(self._partial)

    def partial_number(self) -> int:
        """Return a number of its own for the frame that has begun and not ended, NO_FRAME for none."""
        return self.begun_count if self._partial else NO_FRAME

    def next_frame(self) -> Composite | None:
        """Return the next frame, None for "more octets please".  Raises: FramingError, DecodeError."""
        buffer = self._buffer
        start = self._position
        if buffer.startswith(self._same_head, start):
            id_at = start + len(self._same_head)
            after = start + self._same_payload_at
            tag_end = after - len(self._alike_tail)
            end = start + self._same_bytes
            alike = self._alike
            if (
                end <= len(buffer)
                and alike is not None
                and buffer.startswith(self._same_tag, id_at + 4)
                and buffer.startswith(self._alike_tail, tag_end)
            ):
                self._position = end
                self.channel = self._same_channel
                alike.delivery_id = int.from_bytes(buffer[id_at : id_at + 4], "big")
                alike.delivery_tag = buffer[id_at + 6 : tag_end]
                self.payload = buffer[after:end]
                return alike
        elif buffer.startswith(self._range_head, start) and len(buffer) - start >= _RANGE_FRAME_BYTES:
            first, code, last, tail = _RANGE_NUMBERS.unpack_from(buffer, start + len(self._range_head))
            if code == 0x70 and tail == _RANGE_TAIL:
                self._position = start + _RANGE_FRAME_BYTES
                self.channel = self._range_channel
                self.payload = b""
                disposition = self._range
                disposition.first = first
                disposition.last = last
                return disposition
        return self._next(True)

    def next_frame_slow(self) -> Composite | None:
        """Do the same without the fast ways."""
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
        if size > left:
            self._keep(size)
            return None
        end = start + size
        at = start + 4 * words
        self._position = end
        self.channel = channel
        if is_fast:
            head = buffer[at : at + 4]
            if head == _TRANSFER_HEAD:
                if buffer.startswith(self._alike_head, at):
                    alike = self._transfer_alike(at, end)
                    if alike is not None:
                        return alike
                transfer = self._transfer(at + 4, end)
                if transfer is not None:
                    return transfer
            elif head == _DISPOSITION_HEAD:
                disposition = self._disposition(at + 4, end)
                if disposition is not None:
                    return disposition
            elif head == _FLOW_HEAD:
                flow = self._flow(at + 4, end)
                if flow is not None:
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
        self.payload = body[after:]
        if self.payload and frame.CODE != TRANSFER:
            raise DecodeError(f"{len(self.payload)} octets stand behind {frame.NAME}; only a transfer has a payload")
        return frame

    # -- the fast ways: None where anything is not as expected

    def _transfer(self, at: int, end: int) -> Transfer | None:
        """Read handle, delivery-id, delivery-tag, message-format, and perhaps settled and more."""
        buffer = self._buffer
        start = at - 4
        try:
            after = at + 1 + buffer[at]
            count = buffer[at + 1]
            if after > end or count < 4 or count > 6:
                return None
            at += 2
            code = buffer[at]
            if code == 0x43:
                handle = 0
                at += 1
            elif code == 0x52:
                handle = buffer[at + 1]
                at += 2
            else:
                return None
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
                return None
            if buffer[at] != 0xA0:
                return None
            tag_end = at + 2 + buffer[at + 1]
            tag = buffer[at + 2 : tag_end]
            if buffer[tag_end] != 0x43:
                return None
            at = tag_end + 1
            settled: bool | None = None
            more: bool | None = None
            if count > 4:
                code = buffer[at]
                at += 1
                if code == 0x41 or code == 0x42:
                    settled = code == 0x41
                elif code != 0x40:
                    return None
                if count > 5:
                    code = buffer[at]
                    at += 1
                    if code == 0x41 or code == 0x42:
                        more = code == 0x41
                    elif code != 0x40:
                        return None
            if at != after:
                return None
        except IndexError:
            return None
        self.payload = buffer[after:end]
        transfer = Transfer(handle, delivery_id, tag, 0, settled, more)
        if not more and id_code == 0x70:
            self._alike = transfer
            self._alike_head = buffer[start:id_at]
            self._alike_tail = buffer[tag_end:after]
            self._learn(start, id_at, after, end)
        return transfer

    def _learn(self, start: int, id_at: int, after: int, end: int) -> None:
        """Remember the whole beginning of a transfer whose performative begins at ``start``."""
        frame_at = start - HEADER_BYTES
        self._same_head = self._buffer[frame_at:id_at]
        self._same_tag = self._buffer[id_at + 4 : id_at + 6]
        self._same_payload_at = after - frame_at
        self._same_bytes = end - frame_at
        self._same_channel = self.channel

    def _transfer_alike(self, at: int, end: int) -> Transfer | None:
        """Read a transfer like the last one: only the delivery-id and the octets of the tag differ."""
        buffer = self._buffer
        id_at = at + len(self._alike_head)
        alike = self._alike
        assert alike is not None, "a head belongs to a transfer"
        tag_at = id_at + 6
        after = at + 5 + buffer[at + 4]
        tag_end = after - len(self._alike_tail)
        if after > end or buffer[tag_end:after] != self._alike_tail:
            return None
        if buffer[id_at + 4] != 0xA0 or buffer[id_at + 5] != tag_end - tag_at:
            return None
        alike.delivery_id = int.from_bytes(buffer[id_at : id_at + 4], "big")
        alike.delivery_tag = buffer[tag_at:tag_end]
        self.payload = buffer[after:end]
        self._learn(at, id_at, after, end)
        return alike

    def _disposition(self, at: int, end: int) -> Disposition | None:
        """Read role, first, last, settled and the state accepted."""
        buffer = self._buffer
        if end - at == _RANGE_BYTES:
            head, lowest, code, highest, tail = _RANGE.unpack_from(buffer, at)
            if head == _RANGE_HEAD and code == 0x70 and tail == _RANGE_TAIL:
                self.payload = b""
                self._range_head = buffer[at - HEADER_BYTES - 4 : at + 4]
                self._range_channel = self.channel
                return Disposition(True, lowest, highest, True, ACCEPTED)
        try:
            count = buffer[at + 1]
            if at + 1 + buffer[at] != end or count < 5 or count > 6:
                return None
            code = buffer[at + 2]
            if code != 0x41 and code != 0x42:
                return None
            role = code == 0x41
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
            code = buffer[at]
            if code != 0x41 and code != 0x42:
                return None
            settled = code == 0x41
            at += 1
            batchable: bool | None = None
            state_end = end
            if count == 6:
                code = buffer[end - 1]
                if code == 0x41 or code == 0x42:
                    batchable = code == 0x41
                elif code != 0x40:
                    return None
                state_end -= 1
            octets = buffer[at:state_end]
            if octets != ACCEPTED_LIST0 and octets != _ACCEPTED_LIST8:
                return None
        except IndexError:
            return None
        self.payload = b""
        return Disposition(role, first, last, settled, ACCEPTED, batchable)

    def _flow(self, at: int, end: int) -> Flow | None:
        """Read the numbers in front, then drain and echo."""
        buffer = self._buffer
        try:
            count = buffer[at + 1]
            if at + 1 + buffer[at] != end or count < 4 or count > 10:
                return None
            at += 2
            numbers: list[int | None] = [None, None, None, None, None, None, None, None]
            for index in range(min(count, 8)):
                code = buffer[at]
                if code == 0x70:
                    numbers[index] = int.from_bytes(buffer[at + 1 : at + 5], "big")
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
            drain: bool | None = None
            echo: bool | None = None
            if count > 8:
                code = buffer[at]
                at += 1
                if code == 0x41 or code == 0x42:
                    drain = code == 0x41
                elif code != 0x40:
                    return None
                if count > 9:
                    code = buffer[at]
                    at += 1
                    if code == 0x41 or code == 0x42:
                        echo = code == 0x41
                    elif code != 0x40:
                        return None
            if at != end:
                return None
        except IndexError:
            return None
        next_incoming_id, incoming_window, next_outgoing_id, outgoing_window = numbers[:4]
        if incoming_window is None or next_outgoing_id is None or outgoing_window is None:
            return None
        handle, delivery_count, link_credit, available = numbers[4:]
        self.payload = b""
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

    # -- the steps

    def _rare(self, left: int) -> Composite | None:
        """Take a protocol header, or say again why nothing more is taken, or wait for a frame's header."""
        if self._error is not None:
            raise self._error
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
            error = FramingError(f"a protocol header begins with {octets[:4]!r}, not with b'AMQP'")
            self._die(error)
            raise error

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
        """Keep what there is of something that will have ``size`` octets, in a place that grows cheaply."""
        if self._position > 0 or not self._is_continued:
            self.begun_count += 1  # else its header has become whole, and the frame is the same
        self._partial += self._buffer[self._position :]
        self._needed = size
        self._buffer = b""
        self._position = 0

    def _die(self, error: AmqpError) -> None:
        self._error = error
        self._layer = _DEAD
        self._same_head = self._range_head = _NEVER
        self._buffer = b""
        self._position = 0
        self._partial = bytearray()
