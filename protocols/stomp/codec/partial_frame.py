"""A frame that comes in parts: its head, then its body."""

from __future__ import annotations

from io import BytesIO
from typing import Final

from protocols.errors import FrameError, FrameTooLarge
from protocols.stomp.codec.frame_limits import FrameLimits
from protocols.stomp.codec.head_parser import NUL_IN_HEAD, check_command, line_too_long, too_many_headers

# A head is searched in pieces of this size, so that heads that end in CR LF cost no scan of a whole read.
PIECE_BYTES: Final = 4096

_ORD_LF: Final = 10
_ORD_CR: Final = 13


class PartialHead:
    """The beginning of a head, with its end once it is whole.

    lines: line ends in ``octets``.  size: where the head ends and its empty line begins, -1 until it is whole.
    """

    __slots__ = ("octets", "lines", "size")

    def __init__(self) -> None:
        self.octets = bytearray()
        self.lines = 0
        self.size = -1

    def clear(self) -> None:
        self.octets = bytearray()
        self.lines = 0
        self.size = -1

    def take(self, buffer: bytes, position: int, limits: FrameLimits) -> int:
        """Take octets of ``buffer`` from ``position`` on until the head is whole; return the place after them.

        Raises: FrameError for a head that cannot become valid, before more of it is kept.
        """
        octets = self.octets
        while position < len(buffer):
            seen = len(octets)
            piece = buffer[position : position + PIECE_BYTES]
            octets += piece
            end = find_head_end(octets, max(seen - 2, 0), len(octets))  # it may have begun in the previous piece
            if end >= 0:
                after = end + end_size(octets, end)
                del octets[after:]
                self.size = end
                return position + after - seen
            position += len(piece)
            self._check(seen, limits)
        return position

    def _check(self, seen: int, limits: FrameLimits) -> None:
        """Refuse a head that cannot become valid, before more of it is kept.

        seen: how much of it was checked before.
        """
        octets = self.octets
        if self.lines == 0:
            line_end = octets.find(b"\n", seen)
            line = bytes(octets if line_end < 0 else octets[:line_end])
            check_command(line, line_end >= 0, limits)
        if octets.find(b"\0", seen) >= 0:
            raise FrameError(NUL_IN_HEAD)
        lines = self.lines
        self.lines += octets.count(b"\n", seen)
        if self.lines - 1 > limits.header_count:
            raise FrameTooLarge(too_many_headers(limits))
        if len(octets) <= limits.header_line_bytes:
            return
        start = octets.rfind(b"\n", 0, seen) + 1
        while start < len(octets):
            end = octets.find(b"\n", start)
            size = (len(octets) if end < 0 else end) - start
            # A CR is no part of the line, if a LF follows it or may still follow.
            if size > limits.header_line_bytes and end >= 0 and octets[end - 1] == _ORD_CR:
                size -= 1
            if lines > 0 and size > limits.header_line_bytes + (1 if end < 0 else 0):
                raise FrameTooLarge(line_too_long(lines, limits))
            if end < 0:
                return
            lines += 1
            start = end + 1


class PartialBody:
    """The beginning of a body.  size: octets of it that came, whether they are kept or only counted.

    octets: gathered without a copy at the end, so that no turn grows with the body.
    """

    __slots__ = ("octets", "size")

    def __init__(self) -> None:
        self.octets = BytesIO()
        self.size = 0

    def clear(self) -> None:
        self.octets = BytesIO()
        self.size = 0

    def add(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self.octets.write(chunk)

    def skip(self, size: int) -> None:
        """Count the octets after the head of a frame that cannot have a body against the limit; do not keep them."""
        self.size += size

    def take(self, last: bytes) -> bytes:
        """Return the whole body, of which ``last`` is the end."""
        self.octets.write(last)
        body = self.octets.getvalue()
        self.clear()
        return body


def find_head_end(octets: bytes | bytearray, start: int, stop: int) -> int:
    """Return where the first LF LF or LF CR LF begins, or -1."""
    end = octets.find(b"\n\n", start, stop)
    end_crlf = octets.find(b"\n\r\n", start, end + 1 if end >= 0 else stop)
    return end if end_crlf < 0 else end_crlf


def end_size(octets: bytes | bytearray, end: int) -> int:
    """Return the size of the line ends at ``end``, which ``find_head_end`` has found: LF LF or LF CR LF."""
    return 2 if octets[end + 1] == _ORD_LF else 3
