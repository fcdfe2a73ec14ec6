"""One STOMP connection: frames in, operations on the engine, octets out.  STOMP 1.0, 1.1, 1.2.

Source: docs/reference/stomp.md.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from config.model import ConnectionDefaults
from engine.values.errors import EngineError
from protocols.connection import holding_words
from protocols.peer_times import NO_FRAME, TICK_ENDING_MS
from protocols.stomp.codec import frames
from protocols.stomp.codec.encoder import encode
from protocols.stomp.errors import LoginRefused, TimedOut
from protocols.stomp.session.frame_input import FrameInput
from protocols.stomp.session.states import (
    AUTHENTICATING,
    AUTHENTICATING_LAST,
    DISCONNECTING,
    HANG_UP,
    LEAVING,
    LOSE,
    PAUSED,
    is_open,
)

SUBSCRIPTION_BYTES: Final = 1_792  # memory of a subscription's objects, measured


@mypyc_attr(allow_interpreted_subclasses=True)
class StompSession(FrameInput):
    """A connection for the gateway and the engine.  ``FrameInput`` reads frames, ``MessageOutput`` writes messages."""

    __slots__ = ()

    # -- the gateway's side

    def receive_data(self, octets: bytes, now_ms: int) -> None:
        self.now_ms = now_ms
        self.heart_beat.received_ms = now_ms
        if self.state < DISCONNECTING:
            self.decoder.receive_data(octets)
            self.read_frames()

    def end_turn(self, offset: int, confirmed_offset: int) -> bytes:
        outbox = self.outbox
        receipts = self.receipts
        if (receipts.has_logged or receipts.receipts or receipts.earlier) and not self.is_refusing:
            receipts.end_turn(offset, confirmed_offset)
        if receipts.owed and not self.is_awaiting:
            self.store_events.await_confirmation(self)
        if outbox.settled_bytes:
            outbox.settled_bytes = 0  # from here on the socket counts it
            self.is_holding = True
        if self.is_ending:
            words = self.ending.take_words(self.now_ms, bool(receipts.owed) or self.is_refusing)
            if words:
                outbox.parts.append(words)
        elif self.is_holding:
            self.count_held()
        octets = outbox.take()
        if octets:
            self.heart_beat.sent_ms = self.now_ms
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
            self.heart_beat.reading_resumed(self.now_ms)  # a peer that reads nothing is not read either
            self.engine.output_drained(self)

    def is_finished(self) -> bool:
        if self.state < LEAVING:
            return False
        is_owed = not self.receipts.is_idle() or self.is_refusing or bool(self.outbox.parts)
        return self.ending.is_over(self.now_ms, is_owed)

    def authenticated(self, is_allowed: bool) -> None:
        state = self.state
        if state != AUTHENTICATING and state != AUTHENTICATING_LAST:
            return
        self.share.resume_reading()
        if is_allowed:
            try:
                self.open()
            except EngineError as error:
                self.fail(error, self.handshake.frame)
                return
            self.read_frames()
            if state == AUTHENTICATING_LAST:
                self.input_ended()
        else:
            self.fail(LoginRefused("login and passcode match no user"))

    def tick(self, now_ms: int) -> int:
        self.now_ms = now_ms
        state = self.state
        if state >= LEAVING:
            self.outbox.touch()
            return TICK_ENDING_MS
        if state == DISCONNECTING and now_ms >= self.disconnect_by_ms:
            addresses = ", ".join(sorted(self.blocked.addresses))
            self.fail(self.too_late(f"frames that wait for {addresses}"), self.blocked.waiting[-1].frame)
            return TICK_ENDING_MS
        heart_beat = self.heart_beat
        is_read = state < PAUSED and not self.is_output_full and not self.share.is_waiting
        fault = heart_beat.fault(now_ms, is_open(state), not is_read)
        if fault:
            self.fail(TimedOut(fault))
            return TICK_ENDING_MS
        outbox = self.outbox
        if is_open(state) and heart_beat.must_send(now_ms) and not outbox.parts and not self.is_output_full:
            outbox.parts.append(b"\n")
            outbox.touch()
        return heart_beat.interval_ms(is_open(state), now_ms)

    def is_blocked(self) -> bool:
        # A client that sent DISCONNECT has left in order, and need not stay until the gate opens.
        return bool(self.blocked.waiting) and self.state != DISCONNECTING and not self.share.is_waiting

    def input_ended(self) -> None:
        if self.share.ends_later():
            return
        before = self.state
        self.move(HANG_UP)
        if self.state == LEAVING and before != LEAVING:
            self.leave(None, is_lost=True)

    def protocol_name(self) -> str:
        return "stomp"

    def fault_words(self, text: str) -> bytes:
        return encode(frames.ERROR, [("message", text)], b"", self.version)

    def hold_output(self) -> None:
        self.is_output_full = True

    def drop_output(self) -> None:
        super().drop_output()
        self.receipts.drop()

    def count_held(self) -> None:
        held_bytes = sum(self._held())
        is_partial = self.heart_beat.partial_number != NO_FRAME
        held_bytes += self.outbox.settled_bytes
        self.is_holding = held_bytes > 0 or is_partial or bool(self.transactions.open)
        self.holdings.count(self, held_bytes + self.subscribed_bytes())

    def connection_lost(self) -> None:
        self.move(LOSE)
        self.let_go(is_lost=True)

    def shut_down(self) -> None:
        if self.state < LEAVING:
            text = encode(frames.ERROR, [("message", "the gateway is shutting down")], b"", self.version)
            self.end(text, is_lost=False)

    def endpoint_bytes(self) -> int:
        return len(self.unsettled.subscriptions) * SUBSCRIPTION_BYTES

    # -- the engine's side

    def holding(self) -> str:
        return holding_words(*self._held(), 0, self.subscribed_bytes(), self.outbox.settled_bytes)

    def release_owed(self, offset: int) -> bool:
        return self.receipts.release(offset)

    def send_waiting(self) -> None:
        self.take_blocked(self.blocked.take_all())

    def refuse_waiting(self, uri: str, error: EngineError) -> None:
        waiting = self.blocked.waiting
        late = next((one for one in waiting if uri in one.addresses), waiting[0] if waiting else None)
        self.refuse(error, None if late is None else late.frame)
        if self.state >= LEAVING or late is None:
            return
        transaction = self.transactions.committing.pop(late.frame, None)
        if transaction is not None:
            self.engine.abort(transaction)
        self.take_blocked([one for one in self.blocked.take_all() if one is not late])

    def describe(self) -> dict[str, str]:
        terms = self.handshake.terms
        return {"address": self.socket.peer(), "client_id": terms.client_id, "login": terms.login}

    def connection_defaults(self) -> ConnectionDefaults:
        return self.subscribe.defaults

    # -- the steps

    def _held(self) -> tuple[int, int, int]:
        """Return the octets of frames under way, of transactions, and of frames that wait at a gate."""
        # A WebSocket is here until its first message shows the protocol.
        under_way = self.decoder.buffered_bytes() + self.socket.gathered_bytes()
        return under_way, self.transactions.size_bytes(), self.blocked.size_bytes
