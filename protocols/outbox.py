"""The output of a connection in one turn, in every protocol: collected up to a limit, until the turn ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.values.pieces import PIECE_BYTES, Pieces
from protocols.peer_socket import PeerSocket

DIVIDED_BYTES: Final = 2 * PIECE_BYTES  # more than what many messages usually have when they fill the limit
DELIVERY_OVERHEAD_BYTES: Final = 256  # counted for each message, so that small ones do not make a long turn


@dataclass(slots=True, eq=False)
class Outbox:
    """parts: octets to be sent with this turn, in order.

    size_bytes: of the messages among them; beyond ``limit_bytes`` the connection is full (``Client.is_output_full``).
    is_touched: the gateway knows that there may be output.
    is_whole: it is never divided.  Otherwise messages beyond DIVIDED_BYTES leave in pieces, one in each turn.
    rest_bytes: of messages of which a piece has left.
    settled_bytes: of messages that are settled already and beyond the limit: nobody else counts them while they wait.
    """

    socket: PeerSocket
    limit_bytes: int
    parts: list[bytes] = field(default_factory=list)
    size_bytes: int = 0
    is_touched: bool = False
    is_whole: bool = False
    rest_bytes: int = 0
    settled_bytes: int = 0
    _pieces: Pieces = field(default_factory=Pieces)

    def touch(self) -> None:
        """Put this connection on the list for the turn's end."""
        if not self.is_touched:
            self.is_touched = True
            self.socket.touch()

    def next_bytes(self) -> int:
        """Return about how much ``take`` returns."""
        return self.size_bytes if self.size_bytes <= DIVIDED_BYTES or self.is_whole else PIECE_BYTES

    def take(self) -> bytes:
        """Return all octets, at the end of a turn, or a piece of them; then ``parts`` keeps the rest."""
        self.is_touched = False
        parts = self.parts
        if not parts:
            return b""
        if self._pieces.within or (self.size_bytes > DIVIDED_BYTES and not self.is_whole):
            return self._take_piece()
        octets = b"".join(parts)
        parts.clear()
        self.size_bytes = self.rest_bytes = 0
        return octets

    def clear(self) -> None:
        """Forget everything."""
        self.is_touched = False
        self.parts.clear()
        self.size_bytes = self.rest_bytes = self.settled_bytes = 0
        self._pieces = Pieces()

    def _take_piece(self) -> bytes:
        pieces = self._pieces
        octets = bytes(pieces.take(self.parts))
        del self.parts[: pieces.place]
        pieces.place = 0
        self.size_bytes = self.rest_bytes = max(0, self.size_bytes - len(octets)) if self.parts else 0
        return octets
