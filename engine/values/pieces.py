"""Octets in pieces: what is written to the log or to a socket in one turn does not grow with a message."""

from __future__ import annotations

from typing import Final

PIECE_BYTES: Final = 1 << 20


class Pieces:
    """Where the next piece of a list of parts begins.

    place: of its first part.  within: octets of that part that earlier pieces had.
    """

    __slots__ = ("place", "within")

    def __init__(self) -> None:
        self.place = 0
        self.within = 0

    def take(self, parts: list[bytes]) -> bytes | memoryview:
        """Return the next piece, at most PIECE_BYTES: some of a large part, or small ones joined."""
        place = self.place
        within = self.within
        part = parts[place]
        if len(part) - within > PIECE_BYTES:
            self.within = within + PIECE_BYTES
            return memoryview(part)[within : self.within]
        size = len(part) - within
        end = place + 1
        while end < len(parts) and size + len(parts[end]) <= PIECE_BYTES:
            size += len(parts[end])
            end += 1
        self.place = end
        self.within = 0
        if end == place + 1:
            return memoryview(part)[within:]
        return part[within:] + b"".join(parts[place + 1 : end])
