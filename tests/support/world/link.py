"""The socket's side of a simulated client: octets into a connection in pieces of any size, answers out of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocols.connection import ProtocolConnection
from protocols.peer_socket import PeerSocket
from tests.support.world.clients import Peer

if TYPE_CHECKING:
    from tests.support.world.world import World


class SimulatedLink(PeerSocket):
    """is_reading: the connection takes octets.  is_touched: it may have output at the end of the turn."""

    def __init__(self, world: World, peer: SocketPeer) -> None:
        self._world = world
        self._peer = peer
        self.is_reading = True
        self.is_touched = False

    def touch(self) -> None:
        self.is_touched = True

    def authenticate(self, login: str, passcode: str) -> None:
        raise AssertionError("nobody logs in here")

    def login_proved(self, login: str, is_right: bool) -> None:
        raise AssertionError("nobody logs in here")

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def tick_soon(self) -> None:
        pass  # the world ticks by itself

    def frames_dropped(self, count: int) -> None:
        self._peer.take_admitted()
        self._peer.parked.clear()
        super().frames_dropped(count)

    def warn(self, text: str) -> None:
        self._world.note(f"warning: {text}")

    def peer(self) -> str:
        return f"sim:{self._peer.number}"


@dataclass(slots=True, eq=False)
class Parked:
    """A message or a commit that the connection keeps at a gate.  name: of the transaction, empty for a message."""

    taken: Callable[[], None]
    body: bytes
    name: str | bytes


class SocketPeer(Peer):
    """A client on a socket.  Its output may still be on the way, whole frames or part of one.

    connection: of the gateway, made by the subclass.
    """

    connection: ProtocolConnection

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.link = SimulatedLink(world, self)
        self.parked: list[Parked] = []
        self.is_paused = False
        self.is_lost = False

    def write_octets(self, octets: bytes) -> None:
        """Send in pieces of any size."""
        while octets:
            size = self.chance.choice((1, 7, 100, 1 << 20))
            self.connection.receive_data(octets[:size], self.world.clock.now_ms)
            octets = octets[size:]

    @abstractmethod
    def read_octets(self, octets: bytes) -> None:
        """Decode the received octets, and examine the frames."""

    @abstractmethod
    def is_parked(self, parked: Parked) -> bool:
        """Say whether the connection keeps it at a gate."""

    def take(self, parked: Parked) -> None:
        """Note that the connection has taken or parked a frame."""
        if self.is_parked(parked):
            self.parked.append(parked)
        else:
            parked.taken()

    def turn_ended(self) -> None:
        self.take_admitted()

    def take_admitted(self) -> None:
        """Take the frames admitted at a gate in this turn, before any of their effects is examined."""
        parked = self.parked
        self.parked = []
        self.oracle.is_unordered = True
        for one in parked:
            self.take(one)
        self.oracle.is_unordered = False

    def flush(self, offset: int, confirmed_offset: int) -> None:
        if not self.link.is_touched or self.is_lost:
            return
        self.link.is_touched = False
        octets = self.connection.end_turn(offset, confirmed_offset)
        self.read_octets(octets)
        if octets:
            self.connection.output_written(self.is_paused)

    def toggle_output(self) -> None:
        """The transport is full, or has room again."""
        self.is_paused = not self.is_paused
        self.connection.output_written(self.is_paused)

    def is_stuck(self) -> bool:
        return not self.link.is_reading
