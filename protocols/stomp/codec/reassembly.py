"""Octets to frames by the complete rules of STOMP 1.0, 1.1 and 1.2.  No sockets, no clock, no meaning of headers.

    stream  = *( EOL / NUL ) *( frame *( EOL / NUL ) )
    frame   = command EOL *( name ":" value EOL ) EOL body NUL
    EOL     = [CR] LF                                            CR is taken in every version

It keeps a partial frame and refuses invalid ones.  ``Decoder`` adds fast paths for the most common frames of real
clients.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Final

from protocols.errors import FrameError, FrameTooLarge
from protocols.peer_times import NO_FRAME
from protocols.session.frame_source import FrameSource
from protocols.stomp.codec.frame_limits import FrameLimits
from protocols.stomp.codec.frames import BODIED, SEND, Frame, Head
from protocols.stomp.codec.head_parser import HeadParser
from protocols.stomp.codec.partial_frame import PIECE_BYTES, PartialBody, PartialHead, end_size, find_head_end
from protocols.stomp.codec.versions import VERSION_1_0, VERSION_1_1, VERSION_1_2

# States of the decoder.
BETWEEN: Final = 0  # the buffer begins with a frame, or with octets allowed between frames
_HEAD: Final = 1  # ``_partial_head`` holds the beginning of a head
_SIZED_BODY: Final = 2  # ``_partial_body`` holds the beginning of a body with a content-length
_OPEN_BODY: Final = 3  # the same, ending at the first NUL
_DEAD: Final = 4

FILLER: Final = b"\n\r\0"  # between frames; a CR also alone, as stomp-php skips it
FILLERS: Final = re.compile(b"[" + FILLER + b"]+")  # a peer may send megabytes of them, and no frame


class Reassembly(FrameSource):
    """Frames out of one connection's octets, in whatever pieces they come.  Either end of the wire.

    Call ``next_frame_slow`` until it returns None after each ``receive_data``.  The session sets ``version`` when the
    peers have agreed on one, before it asks for the frame after CONNECT or CONNECTED, and ``limits`` after a login.
    After an error every call raises it again and drops further octets.
    is_drained: the last frame used up all octets, so that nothing is held; if not, ``next_frame`` knows whether there
    is another.
    begun_count: frames that were or are being read piece by piece; it tells one partial frame from the next.
    is_lenient: headers are read as in ActiveMQ (``HeadParser``).
    """

    __slots__ = (
        "is_drained",
        "begun_count",
        "_parser",
        "_body_max",
        "_state",
        "_buffer",
        "_position",
        "_waiting",
        "_error",
        "_partial_head",
        "_partial_body",
        "_head",
        "_receipt",
        "_id",
        "_length",
    )

    def __init__(self, limits: FrameLimits | None = None, is_lenient: bool = False) -> None:
        limits = limits or FrameLimits()
        self.is_drained = True
        self.begun_count = 0
        self._parser = HeadParser(limits, is_lenient)
        self._body_max = limits.body_bytes
        self._state = BETWEEN
        self._buffer = b""
        self._position = 0
        self._waiting: deque[bytes] = deque()  # reads that came while the buffer still held something
        self._error: FrameError | None = None
        self._partial_head = PartialHead()
        self._partial_body = PartialBody()
        # The frame whose body is being read.
        self._head = Head(SEND, {}, -1, b"")
        self._receipt: bytes | None = None
        self._id: bytes | None = None
        self._length = -1

    @property
    def version(self) -> int:
        """Return 10, 11 or 12; 10 until the session sets it."""
        return self._parser.version

    @version.setter
    def version(self, version: int) -> None:
        assert version in (VERSION_1_0, VERSION_1_1, VERSION_1_2), f"version is {version}"
        self._parser.version = version
        self._forget()

    @property
    def limits(self) -> FrameLimits:
        """Return the limits of a frame; the session may raise them once it knows its peer."""
        return self._parser.limits

    @limits.setter
    def limits(self, limits: FrameLimits) -> None:
        self._parser.limits = limits
        self._body_max = limits.body_bytes
        self._forget()

    def receive_data(self, octets: bytes) -> None:
        if self.is_drained:
            self.is_drained = False
            self._buffer = octets
            return
        if self._position >= len(self._buffer) and not self._waiting:
            self._buffer = octets
            self._position = 0
        else:
            self._waiting.append(octets)
        if self._state == _DEAD:
            self.drop()

    def partial_number(self) -> int:
        """Return a unique number for the frame that has begun and not ended, NO_FRAME for none."""
        return self.begun_count if _HEAD <= self._state <= _OPEN_BODY else NO_FRAME

    def buffered_bytes(self) -> int:
        waiting = sum(len(octets) for octets in self._waiting)
        return len(self._partial_head.octets) + self._partial_body.size + len(self._buffer) - self._position + waiting

    def take_parsed(self) -> int:
        """Return how many octets of heads were parsed since the last call; a head like an earlier one is not."""
        parser = self._parser
        parsed_bytes = parser.parsed_bytes
        parser.parsed_bytes = 0
        return parsed_bytes

    def next_frame_slow(self) -> Frame | None:
        """Return the next frame, or None for "more octets please".

        Raises: FrameError, with what was seen and what is allowed.
        """
        if self._error is not None:
            raise _copy(self._error)
        try:
            while True:
                frame = self._advance()
                if frame is not None:
                    return frame
                self._buffer = self._waiting.popleft() if self._waiting else b""
                self._position = 0
                if not self._buffer and not self._waiting:
                    return None
        except FrameError as error:
            self._error = _copy(error)
            self._state = _DEAD
            self.drop()
            raise

    def drop(self) -> None:
        self._buffer = b""
        self._position = 0
        self._waiting.clear()
        self._partial_head.clear()
        self._partial_body.clear()
        self._forget()

    def _advance(self) -> Frame | None:
        """Go on with the buffer; return a frame, or None when all of it is used up."""
        if self._state == BETWEEN:
            buffer = self._buffer
            fillers = FILLERS.match(buffer, self._position)
            if fillers is not None:
                self._position = fillers.end()
            if self._position == len(buffer):
                return None
            self._state = _HEAD
            self.begun_count += 1
        if self._state == _HEAD and not self._collect_head():
            return None
        return self._collect_body()

    def _collect_head(self) -> bool:
        """Take octets for the head until it is whole; then parse it and return True."""
        buffer = self._buffer
        start = self._position
        partial = self._partial_head
        if not partial.octets:
            end = find_head_end(buffer, start, min(start + PIECE_BYTES, len(buffer)))
            if end >= 0:
                self._position = end + end_size(buffer, end)
                self._open(buffer[start:end], buffer[end : self._position])
                return True
        self._position = partial.take(buffer, start, self._parser.limits)
        if partial.size < 0:
            return False
        octets = bytes(partial.octets)
        self._open(octets[: partial.size], octets[partial.size :])
        partial.clear()
        return True

    def _open(self, octets: bytes, terminator: bytes) -> None:
        """Parse a whole head; its body comes next."""
        parser = self._parser
        head = parser.parse(octets)
        self._head = head
        self._receipt = parser.receipt
        self._id = parser.id
        self._length = head.content_length if head.command in BODIED else -1
        self._state = _SIZED_BODY if self._length >= 0 else _OPEN_BODY
        self._learn(octets, terminator, head)

    def _learn(self, octets: bytes, terminator: bytes, head: Head) -> None:
        """Note a parsed head, in a subclass that keeps heads."""

    def _forget(self) -> None:
        """Forget everything that was parsed under another version or other limits."""

    def _collect_body(self) -> Frame | None:
        buffer = self._buffer
        start = self._position
        size = len(buffer)
        partial = self._partial_body
        is_bodied = self._head.command in BODIED
        if self._state == _SIZED_BODY:
            end = start + self._length - partial.size
            if end < size and buffer[end] != 0:
                raise FrameError(
                    f"the octet after the {self._length} of content-length is {buffer[end]:#04x}, not the NUL that ends"
                    " a frame"
                )
        else:
            end = buffer.find(b"\0", start)
            if end < 0:
                end = size
            if partial.size + end - start > self._body_max:
                raise FrameTooLarge(f"the body is longer than {self._body_max} octets")
        if end >= size:
            if is_bodied:
                partial.add(buffer[start:] if start > 0 else buffer)  # a whole read is not copied
            else:
                partial.skip(size - start)
            self._position = size
            return None
        body = buffer[start:end]
        if partial.size > 0:
            body = partial.take(body)
        self._position = end + 1
        self._state = BETWEEN
        head = self._head
        return Frame(head.command, head, self._receipt, self._id, body if is_bodied else b"")


def _copy(error: FrameError) -> FrameError:
    """Return an error to keep: one that was raised knows the calls that led to it, and so the decoder's session."""
    return type(error)(*error.args)
