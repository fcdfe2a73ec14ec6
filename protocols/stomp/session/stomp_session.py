"""One STOMP connection: frames in, operations on the engine, octets out.  STOMP 1.0, 1.1, 1.2.

Source: docs/reference/stomp.md.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from config.model import ConnectionDefaults
from engine.values.errors import EngineError
from protocols.errors import LoginRefused, TimedOut
from protocols.peer_times import TICK_ENDING_MS
from protocols.session.states import DISCONNECTING, LEAVING, is_open
from protocols.stomp.codec import frames
from protocols.stomp.codec.encoder import encode
from protocols.stomp.session.frame_input import FrameInput

SUBSCRIPTION_BYTES: Final = 1_792  # memory of a subscription's objects, measured


@mypyc_attr(allow_interpreted_subclasses=True)
class StompSession(FrameInput):
    """A connection for the gateway and the engine.  ``FrameInput`` reads frames, ``MessageOutput`` writes messages."""

    __slots__ = ()

    # -- the gateway's side

    def receive_data(self, octets: bytes, now_ms: int) -> None:
        self.now_ms = now_ms
        self.times.received_ms = now_ms
        if self.state < DISCONNECTING:
            self.decoder.receive_data(octets)
            self.share.begin()
            self.read_frames()

    def end_turn(self, offset: int, confirmed_offset: int) -> bytes:
        outbox = self.outbox
        receipts = self.receipts
        if (receipts.has_logged or receipts.parts or receipts.earlier) and not self.is_refusing:
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
            self.times.sent_ms = self.now_ms
        return octets

    def is_owing(self) -> bool:
        return not self.receipts.is_idle()

    def login_failed(self) -> None:
        self.fail(LoginRefused("login and passcode match no user"))

    def tick(self, now_ms: int) -> int:
        if self.state == DISCONNECTING and now_ms >= self.disconnect_by_ms:
            self.now_ms = now_ms
            addresses = ", ".join(sorted(self.blocked.addresses))
            self.fail(self.too_late(f"frames that wait for {addresses}"), self.blocked.waiting[-1].frame)
            return TICK_ENDING_MS
        return super().tick(now_ms)

    def time_out(self, fault: str) -> None:
        self.fail(TimedOut(fault))

    def keep_alive(self) -> bytes:
        return b"\n" if is_open(self.state) else b""

    def protocol_name(self) -> str:
        return "stomp"

    def fault_words(self, text: str) -> bytes:
        return encode(frames.ERROR, [("message", text)], b"", self.version)

    def drop_output(self) -> None:
        super().drop_output()
        self.receipts.drop()

    def dissolve(self) -> None:
        super().dissolve()
        self.receipts.forget()
        del self.resolver, self.transactions, self.subscribe, self.send, self.ack

    def shut_down(self) -> None:
        if self.state < LEAVING:
            text = encode(frames.ERROR, [("message", "the gateway is shutting down")], b"", self.version)
            self.end(text, is_lost=False)

    def endpoint_bytes(self) -> int:
        return len(self.unsettled.subscriptions) * SUBSCRIPTION_BYTES

    # -- the engine's side

    def release_owed(self, offset: int) -> bool:
        return self.receipts.release(offset)

    def refuse_waiting(self, uri: str, error: EngineError) -> None:
        late = self.blocked.late_for(uri)
        self.refuse(error, None if late is None else late.frame)
        if self.state >= LEAVING or late is None:
            return
        transaction = self.transactions.committing.pop(late.frame, None)
        if transaction is not None:
            self.engine.abort(transaction)
        self.take_blocked([one for one in self.blocked.take_all() if one is not late])

    def rights_changed(self) -> None:
        if not self.is_ending:
            self.decoder.forget_heads()
            self.resolver.scheduled.clear()

    def describe(self) -> dict[str, str]:
        terms = self.handshake.terms
        return {"address": self.socket.peer(), "client_id": terms.client_id, "login": terms.login}

    def connection_defaults(self) -> ConnectionDefaults:
        return self.handshake.terms.defaults

    # -- the steps

    def held(self) -> tuple[int, int, int]:
        # A WebSocket is here until its first message shows the protocol.
        under_way = self.decoder.buffered_bytes() + self.socket.gathered_bytes()
        return under_way, self.transactions.size_bytes(), self.blocked.size_bytes

    def has_transactions(self) -> bool:
        return bool(self.transactions.open)
