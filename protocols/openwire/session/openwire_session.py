"""One OpenWire connection: commands in, operations on the engine, octets out.  Versions 9 to 12.

Source: docs/reference/openwire.md.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from config.model import ConnectionDefaults
from engine.consumers.consumer import Consumer
from engine.values.errors import ConnectionForced, EngineError
from protocols.connection import holding_words
from protocols.openwire.errors import TimedOut
from protocols.openwire.session.command_input import CommandInput
from protocols.openwire.session.states import (
    AUTHENTICATING,
    AUTHENTICATING_LAST,
    HANG_UP,
    LEAVING,
    LOSE,
    NEGOTIATING,
    PAUSED,
    is_open,
)
from protocols.openwire.wire.commands import ConnectionControl, DestinationInfo, KeepAliveInfo
from protocols.openwire.wire.commands import ConnectionError as ConnectionErrorCommand
from protocols.openwire.wire.identities import Throwable
from protocols.openwire.wire.writer import encode
from protocols.peer_times import NO_FRAME, TICK_ENDING_MS

CONSUMER_BYTES: Final = 1_500  # memory of a consumer's objects, and about that of a producer's


@mypyc_attr(allow_interpreted_subclasses=True)
class OpenWireSession(CommandInput):
    """A connection for the gateway, the engine and its peers.

    ``CommandInput`` reads commands, ``MessageOutput`` writes messages.
    """

    __slots__ = ()

    # -- the gateway's side

    def receive_data(self, octets: bytes, now_ms: int) -> None:
        self.now_ms = now_ms
        self.inactivity.received_ms = now_ms
        if self.state < LEAVING:
            self.decoder.receive_data(octets)
            self.read_frames()

    def end_turn(self, offset: int, confirmed_offset: int) -> bytes:
        outbox = self.outbox
        responses = self.responses
        if self.pulls.waiting and self.pulls.is_due(self.now_ms):
            self.pulls.finish(self.now_ms)
        if (responses.has_logged or responses.parts) and not self.is_refusing:
            responses.end_turn(offset, confirmed_offset)
        if responses.owed and not self.is_awaiting:
            self.store_events.await_confirmation(self)
        if self.is_ending:
            words = self.ending.take_words(self.now_ms, bool(responses.owed) or self.is_refusing)
            if words:
                outbox.parts.append(words)
        elif self.is_holding:
            self.count_held()
        octets = outbox.take()
        if octets:
            self.inactivity.sent_ms = self.now_ms
        return octets

    def output_written(self, is_paused: bool) -> None:
        if is_paused:
            self.hold_output()
        elif self.outbox.parts:  # of a large message, a piece has left
            self.hold_output()
            self.outbox.touch()
        elif self.is_output_full:
            self.inactivity.reading_resumed(self.now_ms)  # a peer that reads nothing is not read either
            self.engine.output_drained(self)

    def is_finished(self) -> bool:
        if self.state < LEAVING:
            return False
        is_owed = not self.responses.is_idle() or self.is_refusing or bool(self.outbox.parts)
        return self.ending.is_over(self.now_ms, is_owed)

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

    def tick(self, now_ms: int) -> int:
        self.now_ms = now_ms
        state = self.state
        if state >= LEAVING:
            self.outbox.touch()
            return TICK_ENDING_MS
        inactivity = self.inactivity
        is_read = state < PAUSED and not self.is_output_full and not self.share.is_waiting
        fault = inactivity.fault(now_ms, is_open(state), not is_read)
        if fault:
            self.fail(TimedOut(fault))
            return TICK_ENDING_MS
        outbox = self.outbox
        if state != NEGOTIATING and inactivity.must_send(now_ms) and not outbox.parts and not self.is_output_full:
            outbox.parts.append(encode(KeepAliveInfo(), self.terms.version))
            outbox.touch()
        if self.pulls.waiting:
            if self.pulls.is_due(now_ms):
                outbox.touch()
            return self.pulls.next_ms(now_ms, inactivity.interval_ms(is_open(state), now_ms))
        return inactivity.interval_ms(is_open(state), now_ms)

    def is_blocked(self) -> bool:
        return bool(self.blocked.waiting) and not self.share.is_waiting

    def input_ended(self) -> None:
        if self.share.ends_later():
            return
        before = self.state
        self.move(HANG_UP)
        if self.state == LEAVING and before != LEAVING:
            self.leave(is_lost=True)

    def protocol_name(self) -> str:
        return "openwire"

    def fault_words(self, text: str) -> bytes:
        if self.state == NEGOTIATING:
            return b""
        exception = Throwable(f"{self.terms.package}.JMSException", text)
        return encode(ConnectionErrorCommand(exception=exception), self.terms.version)

    def hold_output(self) -> None:
        self.is_output_full = True

    def drop_output(self) -> None:
        super().drop_output()
        self.responses.drop()

    def count_held(self) -> None:
        held_bytes = sum(self._held())
        is_partial = self.inactivity.partial_number != NO_FRAME
        self.is_holding = held_bytes > 0 or is_partial or bool(self.transactions.open)
        self.holdings.count(self, held_bytes + self.subscribed_bytes())

    def connection_lost(self) -> None:
        self.move(LOSE)
        self.let_go(is_lost=True)

    def shut_down(self) -> None:
        if self.state < LEAVING:
            words = b"" if self.state == NEGOTIATING else encode(ConnectionControl(close=True), self.terms.version)
            self.end(words, is_lost=False)

    def endpoint_bytes(self) -> int:
        return (len(self.receivers.open) + len(self.producers.open)) * CONSUMER_BYTES

    # -- the engine's side

    def holding(self) -> str:
        return holding_words(*self._held(), 0, self.subscribed_bytes(), self.outbox.settled_bytes)

    def release_owed(self, offset: int) -> bool:
        return self.responses.release(offset)

    def send_waiting(self) -> None:
        self.take_blocked(self.blocked.take_all())

    def refuse_waiting(self, uri: str, error: EngineError) -> None:
        waiting = self.blocked.waiting
        late = next((one for one in waiting if uri in one.addresses), waiting[0] if waiting else None)
        if late is None:
            return
        if late.transaction is not None:
            self.transactions.committing.remove(late.transaction)
            self.engine.abort(late.transaction)
        self.answer(error, late.info.command_id, late.info.response_required)
        if self.state < LEAVING:
            self.take_blocked([one for one in self.blocked.take_all() if one is not late])

    def end_consumer(self, consumer: Consumer, error: EngineError) -> bool:
        return False

    def rights_changed(self) -> None:
        self.send.forget_targets()

    def describe(self) -> dict[str, str]:
        introduction = self.introduction
        return {
            "address": self.socket.peer(),
            "client_id": introduction.client_id,
            "login": introduction.login,
        }

    def connection_defaults(self) -> ConnectionDefaults:
        return self.settings.defaults

    # -- the side of other connections

    def advise(self, info: DestinationInfo) -> None:
        if not self.is_ending:
            self.temporaries.advise(info)

    def taken_over(self) -> None:
        if not self.is_ending:
            self.fail(ConnectionForced("the client has connected again under the same connectionId"))

    # -- the steps

    def _held(self) -> tuple[int, int, int]:
        """Return the octets of commands under way, of transactions, and of messages that wait at a gate."""
        under_way = self.decoder.buffered_bytes() + self.socket.gathered_bytes()
        return under_way, self.transactions.size_bytes(), self.blocked.size_bytes
