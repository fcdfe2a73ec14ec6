"""The common part of fake clients of all protocols: the gateway's socket to them, turn by turn, without a real one."""

from __future__ import annotations

from typing import Protocol

from protocols.connection import ProtocolConnection
from tests.support.fakes import FakeLink, VirtualClock


class Turns(Protocol):
    """The gateway that a peer is connected to."""

    clock: VirtualClock

    def settle(self) -> None:
        """End turns until no work is left."""


class SocketPeer:
    """A client, and the gateway's socket to it.

    octets: received and not taken.  is_closed: the gateway has closed, or the peer has gone.
    largest_write: the most octets that a turn has sent.
    is_stuck: the transport accepts no more octets (they still count as sent).  unread: not read by the gateway yet.
    """

    def __init__(self, turns: Turns, link: FakeLink, connection: ProtocolConnection) -> None:
        self._turns = turns
        self._connection = connection
        self.link = link
        self.next_tick_ms = turns.clock.now_ms
        self.octets = b""
        self.largest_write = 0
        self.is_closed = False
        self.is_stuck = False
        self.unread: list[bytes] = []

    # -- the client's side

    def send_octets(self, octets: bytes) -> None:
        """Send; octets wait outside while the gateway does not read."""
        self.unread.append(octets)
        self._read()
        self._turns.settle()

    def vanish(self) -> None:
        """Cut the connection."""
        if not self.is_closed:
            self.is_closed = True
            self._connection.share.lose()
        self._turns.settle()

    def answer_login(self, *, is_allowed: bool) -> None:
        self._connection.authenticated(is_allowed)
        self._read()
        self._turns.settle()

    def drain(self) -> None:
        """The transport accepts octets again."""
        self.is_stuck = False
        self._connection.output_written(False)
        self._turns.settle()

    # -- the gateway's side, as in gateway.connections.connection

    def flush(self, offset: int, confirmed_offset: int) -> None:
        if not self.link.is_touched:
            return
        self.link.is_touched = False
        if self.is_closed:
            return
        octets = self._connection.end_turn(offset, confirmed_offset)
        if octets:
            self.octets += octets
            self.largest_write = max(self.largest_write, len(octets))
            self._connection.output_written(self.is_stuck)
        self._read()
        if self._connection.is_finished():
            self.is_closed = True
            self._connection.connection_lost()

    def tick(self, now_ms: int) -> None:
        if not self.is_closed and (self.link.wants_tick or self.next_tick_ms <= now_ms):
            self.link.wants_tick = False
            self.next_tick_ms = now_ms + self._connection.tick(now_ms)

    def _read(self) -> None:
        while self.unread and self.link.is_reading and not self.is_closed:
            self._connection.receive_data(self.unread.pop(0), self._turns.clock.now_ms)
