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
from protocols.stomp.session.send_command import BlockedFrame

SUBSCRIPTION_BYTES: Final = 1_792  # memory of a subscription's objects, measured


@mypyc_attr(allow_interpreted_subclasses=True)
class StompSession(FrameInput):
    """A connection for the gateway and the engine.  ``FrameInput`` reads frames, ``MessageOutput`` writes messages."""

    __slots__ = ()

    # -- the gateway's side

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

    def dissolve(self) -> None:
        super().dissolve()
        del self.resolver, self.transactions, self.subscribe, self.send, self.ack

    def shut_down(self) -> None:
        if self.state < LEAVING:
            text = encode(frames.ERROR, [("message", "the gateway is shutting down")], b"", self.version)
            self.end(text, is_lost=False)

    def endpoint_bytes(self) -> int:
        return len(self.unsettled.subscriptions) * SUBSCRIPTION_BYTES

    # -- the engine's side

    def refuse_late(self, late: BlockedFrame | None, error: EngineError) -> None:
        self.refuse(error, None if late is None else late.frame)
        transaction = None if late is None else self.transactions.committing.pop(late.frame, None)
        if transaction is not None:
            self.engine.abort(transaction)

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

    def transaction_bytes(self) -> int:
        return self.transactions.size_bytes()

    def has_transactions(self) -> bool:
        return bool(self.transactions.open)
