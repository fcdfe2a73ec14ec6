"""The life of a connection with one session, from its first frame to its end; in STOMP and OpenWire."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from mypy_extensions import mypyc_attr

from engine.api import EngineApi
from engine.limits.parked_producers import BlockLimit
from engine.values.errors import PenstockError
from protocols.connection import ProtocolConnection
from protocols.ending import Ending
from protocols.peer_socket import PeerSocket
from protocols.session.states import (
    AUTHENTICATING,
    AUTHENTICATING_LAST,
    FAIL,
    HANG_UP,
    LEAVING,
    LOSE,
    advance,
)
from protocols.session.turn_confirmations import TurnConfirmations


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """unread_output_bytes: for the socket.  block: for what waits at gates.

    failing_ms, leaving_ms: for owed confirmations, before the last words of an error, and after the client's goodbye.
    """

    unread_output_bytes: int
    block: BlockLimit
    failing_ms: int
    leaving_ms: int


@mypyc_attr(allow_interpreted_subclasses=True)
class SessionLifecycle(ProtocolConnection):
    """state: of ``states``; transitions: its table.  confirmations: the protocol's own."""

    __slots__ = ("limits", "transitions", "state", "ending", "confirmations")

    confirmations: TurnConfirmations  # the protocol makes them, from the outbox

    def __init__(
        self,
        engine: EngineApi,
        socket: PeerSocket,
        limits: SessionLimits,
        transitions: dict[tuple[int, int], int],
        state: int,
        now_ms: int,
    ) -> None:
        super().__init__(engine, socket, limits.unread_output_bytes, now_ms)
        self.limits = limits
        self.transitions = transitions
        self.state = state
        self.share.stop(not self.is_taking())
        self.ending = Ending()

    def move(self, event: int) -> None:
        self.state = advance(self.transitions, self.state, event)
        self.share.stop(not self.is_taking())
        self.is_ending = self.state >= LEAVING

    def authenticated(self, is_allowed: bool) -> None:
        state = self.state
        if state != AUTHENTICATING and state != AUTHENTICATING_LAST:
            return
        self.share.resume_reading()
        if not is_allowed:
            self.login_failed()
            return
        self.open()
        if self.state >= LEAVING:
            return
        self.read_frames()
        if state == AUTHENTICATING_LAST:
            self.input_ended()

    def input_ended(self) -> None:
        if self.share.ends_later():
            return
        before = self.state
        self.move(HANG_UP)
        if self.state == LEAVING and before != LEAVING:
            self.leave(self.late_words(), is_lost=True)

    def lose(self) -> None:
        self.move(LOSE)
        self.let_go(is_lost=True)

    def end(self, words: bytes, is_lost: bool) -> None:
        """Finish with ``words``, b"" for none, which wait a limited time for the confirmations before them."""
        self.move(FAIL)
        self.ending.begin(words, words, self.now_ms + self.limits.failing_ms)
        self.let_go(is_lost)
        self.outbox.touch()

    def leave(self, late_words: bytes, is_lost: bool) -> None:
        """Finish once everything is confirmed, or with ``late_words`` if that takes too long."""
        self.ending.begin(b"", late_words, self.now_ms + self.limits.leaving_ms)
        self.let_go(is_lost)
        self.outbox.touch()

    def is_finished(self) -> bool:
        if self.state < LEAVING:
            return False
        is_owed = not self.confirmations.is_idle() or self.is_refusing or bool(self.outbox.parts)
        return self.ending.is_over(self.now_ms, is_owed)

    def release_owed(self, offset: int) -> bool:
        return self.confirmations.release(offset)

    def drop_output(self) -> None:
        super().drop_output()
        self.confirmations.drop()

    def dissolve(self) -> None:
        super().dissolve()
        self.confirmations.forget()

    # -- the protocol's own part

    @abstractmethod
    def is_taking(self) -> bool:
        """Say whether the state lets frames be taken one after the other."""

    @abstractmethod
    def read_frames(self) -> None:
        """Take the frames that have come, as far as state and share allow."""

    @abstractmethod
    def open(self) -> None:
        """Admit a client whose login is right; if the engine refuses it, the connection fails."""

    @abstractmethod
    def fail(self, error: PenstockError) -> None:
        """End the connection with an error as its last words."""

    @abstractmethod
    def login_failed(self) -> None:
        """Refuse a client whose login is wrong."""

    @abstractmethod
    def late_words(self) -> bytes:
        """Return the last octets for a client that hangs up, if its confirmations take too long."""

    @abstractmethod
    def let_go(self, is_lost: bool) -> None:
        """Abort open transactions, return unsettled deliveries, and leave the engine."""
