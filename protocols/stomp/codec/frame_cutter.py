"""Cuts the output of a STOMP connection into frames, for a carrier that sends each by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_LF: Final = 0x0A
_CONTENT_LENGTH: Final = b"\ncontent-length:"


def frames_of(octets: bytes) -> Iterator[bytes]:
    """Yield each frame with the LF after it, and each heart-beat.

    octets: of our own encoders: lines end with LF, and no frame is cut off.
    """
    start = 0
    while start < len(octets):
        end = _frame_end(octets, start)
        yield octets[start:end]
        start = end


def _frame_end(octets: bytes, start: int) -> int:
    if octets[start] == _LF:
        return start + 1
    body = octets.index(b"\n\n", start) + 2
    length = octets.find(_CONTENT_LENGTH, start, body)
    if length < 0:
        end = octets.index(b"\0", body) + 1
    else:
        digits = length + len(_CONTENT_LENGTH)
        end = body + int(octets[digits : octets.index(b"\n", digits)]) + 1
    return end + 1 if octets[end : end + 1] == b"\n" else end
