"""A session that is one connection: its input, its times, what waits at a gate, and what it holds meanwhile."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic

from mypy_extensions import mypyc_attr

from engine.api import EngineApi
from engine.values.errors import EngineError, PenstockError
from protocols.blocked_sends import Waiting
from protocols.connection import holding_words
from protocols.peer_socket import PeerSocket
from protocols.peer_times import NO_FRAME, TICK_ENDING_MS, PeerTimes
from protocols.session.blocked_frames import BlockedFrames
from protocols.session.frame_source import FrameSource
from protocols.session.lifecycle import SessionLifecycle, SessionLimits
from protocols.session.states import (
    AUTHENTICATING,
    AUTHENTICATING_LAST,
    DISCONNECTING,
    LEAVING,
    OPEN,
    PAUSE,
    PAUSED,
    RESUME,
    is_open,
)


@mypyc_attr(allow_interpreted_subclasses=True)
class ClientSession(SessionLifecycle, Generic[Waiting]):
    """times: of the peer.  source: its octets.  blocked: what waits at gates."""

    __deletable__ = ("blocked",)
    __slots__ = ("times", "source", "blocked")

    def __init__(
        self,
        engine: EngineApi,
        socket: PeerSocket,
        limits: SessionLimits,
        transitions: dict[tuple[int, int], int],
        state: int,
        times: PeerTimes,
        source: FrameSource,
    ) -> None:
        super().__init__(engine, socket, limits, transitions, state, times.opened_ms)
        self.times = times
        self.source = source
        self.blocked: BlockedFrames[Waiting] = BlockedFrames(self, limits.block)

    # -- input

    def receive_data(self, octets: bytes, now_ms: int) -> None:
        self.now_ms = now_ms
        self.times.received_ms = now_ms
        if self.state < DISCONNECTING:
            self.source.receive_data(octets)
            self.share.begin()
            self.read_frames()

    def pause_reading(self) -> None:
        if self.state == OPEN:
            self.move(PAUSE)
            self.socket.pause_reading()

    def read_on(self) -> None:
        self.read_frames()

    def resume_reading(self) -> None:
        if self.state not in (PAUSED, AUTHENTICATING, AUTHENTICATING_LAST):
            self.times.reading_resumed(self.now_ms)
            self.share.resume_reading()

    def tick(self, now_ms: int) -> int:
        self.now_ms = now_ms
        state = self.state
        outbox = self.outbox
        if state >= LEAVING:
            outbox.touch()
            return TICK_ENDING_MS
        times = self.times
        is_read = state < PAUSED and not self.is_output_full and not self.share.is_waiting
        fault = times.fault(now_ms, is_open(state), not is_read)
        if fault:
            self.time_out(fault)
            return TICK_ENDING_MS
        if times.must_send(now_ms) and not outbox.parts and not self.is_output_full:
            octets = self.keep_alive()
            if octets:
                outbox.parts.append(octets)
                outbox.touch()
        return times.interval_ms(is_open(state), now_ms)

    # -- output

    def end_turn(self, offset: int, confirmed_offset: int) -> bytes:
        confirmations = self.confirmations
        if (confirmations.has_logged or confirmations.parts or confirmations.earlier) and not self.is_refusing:
            confirmations.end_turn(offset, confirmed_offset)
        if confirmations.owed and not self.is_awaiting:
            self.store_events.await_confirmation(self)
        if self.outbox.settled_bytes:
            self.outbox.settled_bytes = 0  # from here on the socket counts it
            self.is_holding = True
        if self.is_ending or self.is_holding:
            if self.is_ending:
                words = self.ending.take_words(self.now_ms, bool(confirmations.owed) or self.is_refusing)
                if words:
                    self.outbox.parts.append(words)
            else:
                self.count_held()
        octets = self.outbox.take()
        if octets:
            self.times.sent_ms = self.now_ms
        return octets

    def output_written(self, is_paused: bool) -> None:
        if is_paused:
            self.hold_output()
            if self.outbox.settled_bytes and not self.is_ending:
                self.count_held()
        elif self.outbox.parts:  # of a large message, a piece has left
            self.hold_output()
            self.outbox.touch()
        elif self.is_output_full:
            self.times.reading_resumed(self.now_ms)  # a peer that reads nothing is not read either
            self.engine.output_drained(self)

    def hold_output(self) -> None:
        self.is_output_full = True

    def charge_form(self, count: int) -> None:
        """Count the steps of a conversion; if the turn has none left, the rest follows in the next one."""
        steps = self.engine.steps
        steps.left -= count
        if steps.left <= 0:
            self.is_output_full = True

    # -- what waits at a gate

    def is_blocked(self) -> bool:
        # A client that sent DISCONNECT has left in order, and need not stay until the gate opens.
        return bool(self.blocked.waiting) and self.state != DISCONNECTING and not self.share.is_waiting

    def send_waiting(self) -> None:
        self.take_blocked(self.blocked.take_all())

    def take_blocked(self, waiting: list[Waiting]) -> None:
        """Try the waiting frames again, in order; park those that must still wait."""
        self.context.sender = self.client_number  # this turn may have begun with a timer
        for one in waiting:
            if self.state >= LEAVING:
                break
            try:
                self.try_again(one)
            except PenstockError as error:
                self.refuse_blocked(one, error)
        if self.state == PAUSED and self.blocked.is_low():
            self.move(RESUME)
            self.resume_reading()
            self.read_frames()
        self.outbox.touch()

    def refuse_waiting(self, uri: str, error: EngineError) -> None:
        late = self.blocked.late_for(uri)
        self.refuse_late(late, error)
        if late is not None and self.state < LEAVING:
            self.take_blocked([one for one in self.blocked.take_all() if one is not late])

    # -- what it holds

    def held(self) -> tuple[int, int, int]:
        """Return the octets of frames under way, of transactions, and of what waits at a gate."""
        # A WebSocket is here until its first message shows the protocol.
        under_way = self.source.buffered_bytes() + self.socket.gathered_bytes()
        return under_way, self.transaction_bytes(), self.blocked.size_bytes

    def count_held(self) -> None:
        held_bytes = sum(self.held()) + self.outbox.settled_bytes
        is_partial = self.times.partial_number != NO_FRAME
        self.is_holding = held_bytes > 0 or is_partial or self.has_transactions()
        self.holdings.count(self, held_bytes + self.subscribed.size_bytes(self, self.endpoint_bytes()))

    def dissolve(self) -> None:
        super().dissolve()
        del self.blocked

    def held_words(self) -> str:
        return holding_words(
            *self.held(), 0, self.subscribed.size_bytes(self, self.endpoint_bytes()), self.outbox.settled_bytes
        )

    # -- the protocol's own part

    @abstractmethod
    def time_out(self, fault: str) -> None:
        """End the connection of a peer that has passed a time limit."""

    @abstractmethod
    def keep_alive(self) -> bytes:
        """Return the octets that show the peer that we are here, b"" if it does not expect them yet."""

    @abstractmethod
    def try_again(self, one: Waiting) -> None:
        """Take a frame that has waited.  Raises: PenstockError."""

    @abstractmethod
    def refuse_blocked(self, one: Waiting, error: PenstockError) -> None:
        """Answer a frame that has waited."""

    @abstractmethod
    def refuse_late(self, late: Waiting | None, error: EngineError) -> None:
        """Answer a frame that has waited too long, and undo what was to follow; None: nothing waits any more."""

    @abstractmethod
    def transaction_bytes(self) -> int:
        """Return the memory of the open transactions."""

    @abstractmethod
    def has_transactions(self) -> bool:
        """Say whether a transaction is open."""
