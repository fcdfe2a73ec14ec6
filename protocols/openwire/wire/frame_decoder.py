"""Octets of a connection -> frames.

frame   size(4, without itself)  type(1)  fields
"""

from __future__ import annotations

from io import BytesIO
from typing import Final

from protocols.errors import FrameError, FrameTooLarge
from protocols.openwire.errors import MessageTooLarge
from protocols.openwire.wire.messages import MESSAGE_CLASSES
from protocols.session.frame_source import FrameSource

SIZE: Final = 4
SKIPPED_MAX: Final = 1024 * 1024 * 1024  # octets of a message that is too large and skipped
HEADER_BYTES: Final = 6  # type, commandId, responseRequired
COMMAND_BYTES_MAX: Final = 512 * 1024  # of a command that is no message; six strings of the greatest size fit
GATHERED_FROM: Final = 64 * 1024  # octets of a frame whose parts are not copied again with each read


class FrameDecoder(FrameSource):
    """frame_max: octets of a frame without its size.  command_max: of one that is no message."""

    __slots__ = ("frame_max", "command_max", "_buffer", "_at", "_number", "_gathered", "_missing", "_skipped")

    def __init__(self, frame_max: int, command_max: int | None = None) -> None:
        self.frame_max = frame_max
        self.command_max = frame_max if command_max is None else command_max
        self._buffer = b""
        self._at = 0
        self._number = 1
        self._gathered: BytesIO | None = None  # of a large frame, without its size
        self._missing = 0
        self._skipped = 0  # octets to come of a message that is refused

    def receive_data(self, octets: bytes) -> None:
        if self._skipped:
            octets, self._skipped = octets[self._skipped :], max(0, self._skipped - len(octets))
        if self._gathered is not None and self._missing:
            self._gathered.write(octets[: self._missing])
            octets, self._missing = octets[self._missing :], max(0, self._missing - len(octets))
        self._buffer = self._buffer[self._at :] + octets if self._at < len(self._buffer) else octets
        self._at = 0

    def next_frame(self) -> bytes | None:
        """Return the next frame without its size, None for "more octets please".

        Raises: MessageTooLarge for a message that it skips; FrameError, FrameTooLarge: it accepts nothing more then.
        """
        if self._gathered is not None:
            return None if self._missing else self._take_gathered(self._gathered)
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
            self._refuse(start, size)
            return None
        end = start + size
        if size > self.command_max and len(buffer) > start and buffer[start] not in MESSAGE_CLASSES:
            self.drop()
            raise FrameTooLarge(f"a command that is no message has {size} octets, the limit is {self.command_max}")
        if len(buffer) < end:
            if size >= GATHERED_FROM and len(buffer) > start:
                self._gather(buffer[start:], size)
            return None
        self._number += 1
        self._at = end
        if end == len(buffer):
            self._buffer = b""
            self._at = 0
        return buffer[start:end]

    def buffered_bytes(self) -> int:
        gathered = 0 if self._gathered is None else self._gathered.tell()
        return gathered + len(self._buffer) - self._at

    def partial_number(self) -> int:
        """Return the number of the frame that is not complete, 0 for none."""
        return self._number if self._skipped or self.buffered_bytes() else 0

    def drop(self) -> None:
        self._buffer = b""
        self._at = 0
        self._gathered = None
        self._missing = 0
        self._skipped = 0

    def _refuse(self, start: int, size: int) -> None:
        """Refuse a frame beyond the limit, whose octets begin at ``start``.

        A client with a connection that it makes again would send a message again and again if the connection ended.
        """
        head = self._buffer[start : start + HEADER_BYTES]
        words = f"a frame announces {size} octets, the limit is {self.frame_max}"
        if size > SKIPPED_MAX or (head and head[0] not in MESSAGE_CLASSES):
            self.drop()
            raise FrameTooLarge(words)
        if len(head) < HEADER_BYTES:
            return
        came = self._buffer[start:]
        self._skipped = max(0, size - len(came))
        self._buffer = came[size:]
        self._at = 0
        raise MessageTooLarge(words, head)

    def _gather(self, beginning: bytes, size: int) -> None:
        self._gathered = BytesIO()
        self._gathered.write(beginning)
        self._missing = size - len(beginning)
        self._buffer = b""
        self._at = 0

    def _take_gathered(self, gathered: BytesIO) -> bytes:
        self._gathered = None
        self._number += 1
        return gathered.getvalue()
