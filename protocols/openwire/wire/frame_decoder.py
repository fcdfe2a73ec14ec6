"""Octets of a connection -> frames.

frame   size(4, without itself)  type(1)  fields
"""

from __future__ import annotations

from typing import Final

from protocols.openwire.errors import FrameError, FrameTooLarge

SIZE: Final = 4


class FrameDecoder:
    """frame_max: octets of a frame without its size."""

    __slots__ = ("frame_max", "_buffer", "_at", "_number")

    def __init__(self, frame_max: int) -> None:
        self.frame_max = frame_max
        self._buffer = b""
        self._at = 0
        self._number = 1

    def receive_data(self, octets: bytes) -> None:
        self._buffer = self._buffer[self._at :] + octets if self._at < len(self._buffer) else octets
        self._at = 0

    def next_frame(self) -> bytes | None:
        """Return the next frame without its size, None for "more octets please".

        Raises: FrameError, FrameTooLarge; the decoder accepts nothing more then.
        """
        buffer = self._buffer
        at = self._at
        start = at + SIZE
        if len(buffer) < start:
            return None
        size = int.from_bytes(buffer[at:start], "big", signed=True)
        if size <= 0:
            self.drop()
            raise FrameError(f"a frame announces {size} octets; allowed are 1 to {self.frame_max}")
        if size > self.frame_max:  # refused before waiting: never buffer what is not taken
            self.drop()
            raise FrameTooLarge(f"a frame announces {size} octets, the limit is {self.frame_max}")
        end = start + size
        if len(buffer) < end:
            return None
        self._number += 1
        self._at = end
        if end == len(buffer):
            self._buffer = b""
            self._at = 0
        return buffer[start:end]

    def buffered_bytes(self) -> int:
        return len(self._buffer) - self._at

    def partial_number(self) -> int:
        """Return the number of the frame that is not complete, 0 for none."""
        return self._number if self.buffered_bytes() else 0

    def drop(self) -> None:
        """Forget what is buffered."""
        self._buffer = b""
        self._at = 0
