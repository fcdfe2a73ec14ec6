"""The shape that every protocol adapter has, seen from the gateway, and what it asks of the gateway in return."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr

from engine.ports.client import Client


@mypyc_attr(allow_interpreted_subclasses=True)
class Link(ABC):
    """The socket of one connection, as its adapter sees it.  Rare effects only; octets are fetched by the turn."""

    @abstractmethod
    def touch(self) -> None:
        """Have ``ProtocolConnection.end_turn`` called at the end of this turn."""

    @abstractmethod
    def authenticate(self, login: str, passcode: str) -> None:
        """Check credentials on a worker thread; ``ProtocolConnection.authenticated`` gets the answer."""

    @abstractmethod
    def login_proved(self, login: str, is_right: bool) -> None:
        """Count a login whose proof has been looked at (SCRAM); ``authenticated`` gets the answer in its turn."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Read nothing more until ``resume_reading``."""

    @abstractmethod
    def resume_reading(self) -> None: ...

    @abstractmethod
    def look_soon(self) -> None:
        """Have ``ProtocolConnection.tick`` called soon: the peers have agreed on what time asks for."""

    @abstractmethod
    def warn(self, text: str) -> None:
        """Tell the operator; ``text`` holds no credentials and no bodies."""

    def conversion_failed(self, text: str) -> None:
        """Tell the operator that a message leaves unconverted because of a defect of ours."""
        self.warn(text)

    def take_fault(self, error: Exception) -> bool:
        """Take a defect of ours that showed while the engine was calling the adapter; return whether that is all.

        True: the engine can go on, and the connection ends with this turn.  False: ``error`` is to be raised again.
        error: as it was caught where the engine's call came in.
        """
        return False

    def unread_bytes(self) -> int:
        """Return how much output the peer has not taken and the system does not hold."""
        return 0

    def cut_off(self) -> None:
        """End the connection with what the peer has not read; its session has ended, or ends in this turn."""
        return None

    def identity(self) -> str:
        """Return the user that the peer's TLS certificate names, "" for none."""
        return ""

    def frames_dropped(self, count: int) -> None:
        """Tell the operator that ``count`` unconfirmed frames, which waited at a gate, went with the connection."""
        self.warn(f"{count} unconfirmed frames that waited at a gate went with the connection")

    @abstractmethod
    def peer(self) -> str:
        """Return the address of the other end, ``host:port``."""


def host_of(peer: str) -> str:
    """Return the host of an address ``host:port``."""
    return peer.rpartition(":")[0]


@mypyc_attr(allow_interpreted_subclasses=True)
class ProtocolConnection(Client):
    """One connection: octets in, operations on the engine, octets out.  No sockets, no clock but what is passed in.

    is_ending: nothing more is read; only then is there a sense in asking ``is_finished``.
    out_bytes: of the messages that ``end_turn`` is to return.
    """

    __slots__ = ("is_ending", "out_bytes")

    def __init__(self) -> None:
        super().__init__()
        self.out_bytes = 0
        self.is_ending = False

    @abstractmethod
    def receive_data(self, octets: bytes, now_ms: int) -> None:
        """Take what one read brought; ``now_ms`` is monotonic.  Never raises for bad input."""

    @abstractmethod
    def end_turn(self, offset: int, confirmed_offset: int) -> bytes:
        """Return all octets that may leave now.

        offset: what confirmations of this turn wait for.  confirmed_offset: what has come true already.
        """

    @abstractmethod
    def output_written(self, is_paused: bool) -> None:
        """The octets of ``end_turn`` are with the transport; ``is_paused``: it wants no more for now.

        Called where that changes something: if it wants no more, or ``is_output_full``.
        """

    @abstractmethod
    def is_finished(self) -> bool:
        """Say whether the connection is to be closed once its octets have left."""

    @abstractmethod
    def authenticated(self, is_allowed: bool) -> None:
        """Take the answer to ``Link.authenticate``."""

    @abstractmethod
    def tick(self, now_ms: int) -> int:
        """Do what time asks for (heart-beats, limits); return the milliseconds until the next tick.

        now_ms: monotonic; all that had reached the socket by then has been received.
        """

    @abstractmethod
    def is_blocked(self) -> bool:
        """Say whether frames wait at a gate that a client which hangs up takes back: they are not confirmed."""

    @abstractmethod
    def input_ended(self) -> None:
        """The peer sends no more but may still read: finish once what it is owed has left."""

    @abstractmethod
    def fault_words(self, text: str) -> bytes:
        """Return what the peer is told last where a defect of ours ends the connection, b"" if it can be told nothing.

        What was to leave in this turn does not.
        """

    @abstractmethod
    def connection_lost(self) -> None:
        """The socket is gone."""

    @abstractmethod
    def shut_down(self) -> None:
        """The gateway stops: say so, release what can be released, finish."""
