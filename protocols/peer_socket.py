"""The gateway as a protocol adapter sees it: the socket of its connection."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from mypy_extensions import mypyc_attr


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """A user whose login was checked.

    ends_s: since 1970, None for never.  is_external: the configuration does not have the user, and a token names the
    groups.
    """

    user: str
    groups: frozenset[str]
    ends_s: float | None = None
    is_external: bool = False


@mypyc_attr(allow_interpreted_subclasses=True)
class PeerSocket:
    """The socket of one connection, as its adapter sees it.  Rare effects only; octets are fetched by the turn."""

    @abstractmethod
    def touch(self) -> None:
        """Have ``ProtocolConnection.end_turn`` called at the end of this turn."""

    @abstractmethod
    def authenticate(self, login: str, passcode: str) -> None:
        """Check credentials on a worker thread; ``ProtocolConnection.authenticated`` gets the result."""

    @abstractmethod
    def login_proved(self, login: str, is_right: bool) -> None:
        """Count a login whose proof has been checked (SCRAM); ``authenticated`` gets the result in its turn."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Read nothing more until ``resume_reading``."""

    @abstractmethod
    def resume_reading(self) -> None: ...

    @abstractmethod
    def tick_soon(self) -> None:
        """Have ``ProtocolConnection.tick`` called soon: the peers have agreed on intervals."""

    @abstractmethod
    def warn(self, text: str) -> None:
        """Log a line for the operator; ``text`` holds no credentials and no bodies."""

    def conversion_failed(self, text: str) -> None:
        """Log that a message is sent unconverted because of a defect of ours."""
        self.warn(text)

    def audit(self, user: str, action: str, target: str, is_denied: bool) -> None:
        """Note in the audit log what a user has managed, or was denied."""
        return None

    def take_fault(self, error: Exception) -> bool:
        """Handle a defect of ours in a call of the engine; return whether the engine can go on.

        True: only the connection ends, with this turn.  False: the caller must raise ``error`` again.
        error: as it was caught in the method that the engine called.
        """
        return False

    def unread_bytes(self) -> int:
        """Return how much output is neither read by the peer nor in the system's buffers."""
        return 0

    def gathered_bytes(self) -> int:
        """Return how many octets of input its carrier (a WebSocket) gathers, until it hands them over in one piece."""
        return 0

    def cut_off(self) -> None:
        """End the connection and drop unread output; its session has ended, or ends in this turn."""
        return None

    def identity(self) -> str:
        """Return the user that the peer's TLS certificate names, "" for none."""
        return ""

    def logged_in(self) -> LoggedIn | None:
        """Return the user of the last check that ``authenticated`` was called for; None if nothing was checked."""
        return None

    def frames_dropped(self, count: int) -> None:
        """Log that ``count`` unconfirmed frames, which waited at a gate, were lost with the connection."""
        frames = "1 unconfirmed frame" if count == 1 else f"{count} unconfirmed frames"
        self.warn(f"lost with the connection: {frames} that waited at a gate")

    @abstractmethod
    def peer(self) -> str:
        """Return the address of the other end, ``host:port``."""


def host_of(peer: str) -> str:
    """Return the host of an address ``host:port``."""
    return peer.rpartition(":")[0]
