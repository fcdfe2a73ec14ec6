"""The output of a connection in one turn, in every protocol: collected up to a limit, until the turn ends."""

from __future__ import annotations

from protocols.peer_socket import PeerSocket


class Outbox:
    """parts: octets to be sent with this turn, in order.

    size_bytes: of the messages among them; beyond ``limit_bytes`` the connection is full (``Client.is_output_full``).
    is_touched: the gateway knows that there may be output.
    """

    __slots__ = ("socket", "parts", "size_bytes", "limit_bytes", "is_touched")

    def __init__(self, socket: PeerSocket, limit_bytes: int) -> None:
        self.socket = socket
        self.parts: list[bytes] = []
        self.size_bytes = 0
        self.limit_bytes = limit_bytes
        self.is_touched = False

    def touch(self) -> None:
        """Put this connection on the list for the turn's end."""
        if not self.is_touched:
            self.is_touched = True
            self.socket.touch()

    def take(self) -> bytes:
        """Return all octets, at the end of a turn."""
        self.is_touched = False
        parts = self.parts
        if not parts:
            return b""
        octets = b"".join(parts)
        parts.clear()
        self.size_bytes = 0
        return octets
