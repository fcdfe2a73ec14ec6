"""The gateway as a protocol adapter sees it: the socket of its connection."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class PeerSocket:
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
        self.warn(f"{count} unconfirmed frames that waited at a gate were lost with the connection")

    @abstractmethod
    def peer(self) -> str:
        """Return the address of the other end, ``host:port``."""


def host_of(peer: str) -> str:
    """Return the host of an address ``host:port``."""
    return peer.rpartition(":")[0]
