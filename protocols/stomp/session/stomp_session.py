"""One STOMP connection: frames in, operations on the engine, octets out.  docs/reference/stomp.md."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from config.model import ConnectionDefaults
from engine.broker import Broker
from engine.consumers.consumer import Consumer
from engine.limits.blocked_producer import BlockLimit
from engine.values.errors import DATA_FAULTS, EngineError, PenstockError
from protocols.blocked_sends import BlockedSends
from protocols.ending import Ending
from protocols.holding import holding_words
from protocols.peer_socket import PeerSocket, host_of
from protocols.peer_times import NO_FRAME, TICK_ENDING_MS
from protocols.stomp.codec import frames
from protocols.stomp.codec.decoder import Decoder
from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.frames import ACK, SEND, Frame
from protocols.stomp.codec.versions import VERSION_1_0
from protocols.stomp.errors import InvalidHeader, LoginRefused, TimedOut, UnexpectedFrame
from protocols.stomp.mapping.error_frame import error_frame
from protocols.stomp.session.ack_command import AckCommand
from protocols.stomp.session.blocked_frames import BlockedFrame
from protocols.stomp.session.handshake import Handshake
from protocols.stomp.session.heart_beat import HeartBeat
from protocols.stomp.session.message_output import MessageOutput
from protocols.stomp.session.receipts import Receipts
from protocols.stomp.session.send_command import SendCommand
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.states import (
    ADMIT,
    AUTHENTICATING,
    AUTHENTICATING_LAST,
    CHECK,
    CONNECTING,
    DISCONNECTING,
    FAIL,
    HANG_UP,
    LEAVE,
    LEAVING,
    LOSE,
    OPEN,
    PAUSE,
    PAUSED,
    RESUME,
    WAIT,
    advance,
    is_open,
)
from protocols.stomp.session.subscribe_command import SubscribeCommand
from protocols.stomp.session.transactions import Transactions
from protocols.stomp.session.unsettled import Unsettled


@mypyc_attr(allow_interpreted_subclasses=True)
class StompSession(MessageOutput):
    """state: see states.py.  subscribe, send, ack: the ways that frames take.

    disconnect_by_ms: until then a DISCONNECT may wait behind frames at a gate.
    """

    __slots__ = (
        "settings",
        "decoder",
        "state",
        "receipts",
        "unsettled",
        "transactions",
        "blocked",
        "subscribe",
        "send",
        "ack",
        "handshake",
        "heart_beat",
        "ending",
        "disconnect_by_ms",
        "now_ms",
    )

    def __init__(self, broker: Broker, socket: PeerSocket, settings: SessionSettings, now_ms: int) -> None:
        super().__init__(broker, socket, settings.unread_output_bytes, settings.converter)
        dialect = settings.dialect
        self.settings = settings
        self.decoder = Decoder(settings.frame_limits.before_login(), dialect.is_lenient)
        self.state = CONNECTING
        self.receipts = Receipts(broker, self.outbox.parts)
        self.unsettled = Unsettled(self.by_ack, *broker.id_prefixes())
        self.transactions = Transactions(self, settings.transaction_limits)
        limit = BlockLimit(settings.block_park_bytes, settings.block_park_max_bytes)
        self.blocked: BlockedSends[BlockedFrame] = BlockedSends(broker, self, limit)
        self.handshake = Handshake(socket, settings)
        self.subscribe = SubscribeCommand(
            broker, self, socket, settings, self.handshake.terms, self.resolver, self.unsettled, self.receipts
        )
        self.send = SendCommand(
            broker, self, settings, self.resolver, self.blocked, self.transactions, self.unsettled, self.receipts
        )
        self.ack = AckCommand(broker, self.unsettled, self.transactions, self.receipts, dialect)
        self.heart_beat = HeartBeat(settings, self.handshake.terms, now_ms)
        self.ending = Ending()
        self.disconnect_by_ms = 0
        self.now_ms = now_ms
        broker.connect(self)

    # -- the gateway's side

    def receive_data(self, octets: bytes, now_ms: int) -> None:
        self.now_ms = now_ms
        self.heart_beat.received_ms = now_ms
        if self.state < DISCONNECTING:
            self.decoder.receive_data(octets)
            self._read_frames()

    def end_turn(self, offset: int, confirmed_offset: int) -> bytes:
        outbox = self.outbox
        receipts = self.receipts
        if receipts.has_logged or receipts.receipts or receipts.earlier:
            receipts.end_turn(offset, confirmed_offset)
        if receipts.owed:
            self.broker.store_events.await_confirmation(self)
        if self.state >= LEAVING:
            words = self.ending.take_words(self.now_ms, bool(receipts.owed))
            if words:
                outbox.parts.append(words)
        elif self.is_holding:
            self._count_held()
        octets = outbox.take()
        if octets:
            self.heart_beat.sent_ms = self.now_ms
        return octets

    def output_written(self, is_paused: bool) -> None:
        if is_paused:
            self.is_output_full = True
        elif self.is_output_full:
            self.heart_beat.reading_resumed(self.now_ms)  # who takes nothing is not read either
            self.broker.output_drained(self)

    def is_finished(self) -> bool:
        if self.state < LEAVING:
            return False
        return self.ending.is_over(self.now_ms, not self.receipts.is_idle() or bool(self.outbox.parts))

    def authenticated(self, is_allowed: bool) -> None:
        state = self.state
        if state != AUTHENTICATING and state != AUTHENTICATING_LAST:
            return
        self.socket.resume_reading()
        if is_allowed:
            try:
                self._open()
            except EngineError as error:
                self._fail(error, self.handshake.frame)
                return
            self._read_frames()
            if state == AUTHENTICATING_LAST:
                self.input_ended()
        else:
            self._fail(LoginRefused("login and passcode are not those of a user"), None)

    def tick(self, now_ms: int) -> int:
        self.now_ms = now_ms
        state = self.state
        if state >= LEAVING:
            self.outbox.touch()
            return TICK_ENDING_MS
        if state == DISCONNECTING and now_ms >= self.disconnect_by_ms:
            addresses = ", ".join(sorted(self.blocked.addresses))
            self._fail(self._too_late(f"frames that wait for {addresses}"), self.blocked.waiting[-1].frame)
            return TICK_ENDING_MS
        heart_beat = self.heart_beat
        is_read = state < PAUSED and not self.is_output_full
        fault = heart_beat.fault(now_ms, is_open(state), not is_read)
        if fault:
            self._fail(TimedOut(fault), None)
            return TICK_ENDING_MS
        outbox = self.outbox
        if is_open(state) and heart_beat.must_send(now_ms) and not outbox.parts and not self.is_output_full:
            outbox.parts.append(b"\n")
            outbox.touch()
        return heart_beat.interval_ms(is_open(state), now_ms)

    def is_blocked(self) -> bool:
        # Who said DISCONNECT has left in order, and need not stay until the gate opens.
        return bool(self.blocked.waiting) and self.state != DISCONNECTING

    def input_ended(self) -> None:
        before = self.state
        self._move(HANG_UP)
        if self.state == LEAVING and before != LEAVING:
            self._leave(None, is_lost=True)

    def fault_words(self, text: str) -> bytes:
        return encode(frames.ERROR, [("message", text)], b"", self.version)

    def connection_lost(self) -> None:
        self._move(LOSE)
        self._let_go(is_lost=True)

    def shut_down(self) -> None:
        if self.state < LEAVING:
            text = encode(frames.ERROR, [("message", "the gateway is shutting down")], b"", self.version)
            self._end(text, is_lost=False)

    # -- the engine's side

    def give_up(self, error: EngineError) -> None:
        try:
            if self.state < LEAVING:
                self._fail(error, None)
            if self.unread_bytes:
                self.socket.cut_off()
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise

    def holding(self) -> str:
        return holding_words(*self._held(), 0)

    def release_confirmations(self, offset: int) -> bool:
        try:
            is_owed = self.receipts.release(offset)
            self.outbox.touch()
            return is_owed
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise
            return False

    def admit(self) -> None:
        try:
            self._take_blocked(self.blocked.take_all())
        except DATA_FAULTS as error:
            if not self.socket.take_fault(error):
                raise

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        try:
            waiting = self.blocked.waiting
            late = next((one for one in waiting if uri in one.addresses), waiting[0] if waiting else None)
            self._refuse(error, None if late is None else late.frame)
            if self.state >= LEAVING or late is None:
                return
            transaction = self.transactions.committing.pop(late.frame, None)
            if transaction is not None:
                self.broker.abort(transaction)
            self._take_blocked([one for one in self.blocked.take_all() if one is not late])
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise

    def expel(self, consumer: Consumer, error: EngineError, with_connection: bool) -> None:
        try:
            self._fail(error, None)  # STOMP has no frame that ends one subscription
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise

    def describe(self) -> dict[str, str]:
        terms = self.handshake.terms
        return {"address": self.socket.peer(), "client_id": terms.client_id, "login": terms.login}

    def connection_defaults(self) -> ConnectionDefaults:
        return self.subscribe.defaults

    # -- frames

    def pause_reading(self) -> None:
        if self.state == OPEN:
            self._move(PAUSE)
            self.socket.pause_reading()

    def _read_frames(self) -> None:
        self.broker.sender = self.client_number  # here, for frames also wait for a password or for room
        decoder = self.decoder
        frame: Frame | None = None
        while True:
            try:
                while self.state == OPEN:
                    frame = None  # what the decoder itself refuses has no receipt
                    frame = decoder.next_frame()
                    if frame is None:
                        break
                    command = frame.command
                    if command == ACK:
                        self.ack.take(frame)
                        if decoder.is_drained:  # a consumer that takes one at a time: one read brings one ACK
                            break
                    elif command == SEND:
                        self.send.take(frame)
                        if decoder.is_drained:  # so does a producer that waits for each receipt
                            frame.body = b""  # the decoder has it still, and an idle connection is not to keep a body
                            break
                    else:
                        self._take_rare(frame)
                else:
                    if self.state == CONNECTING:
                        frame = None
                        frame = decoder.next_frame()
                        if frame is not None:
                            self._connect(frame)
                            continue
                break
            except PenstockError as error:
                self._refuse(error, frame)
        if not decoder.is_drained or self.heart_beat.partial_number != NO_FRAME:
            number = decoder.partial_number()
            if number != self.heart_beat.partial_number:
                self.heart_beat.frame_seen(number, self.now_ms)
                self.is_holding = True
        if not self.outbox.is_touched:
            self.outbox.touch()

    def _take_blocked(self, waiting: list[BlockedFrame]) -> None:
        """Try again what waited, in order; what must still wait is parked again."""
        self.broker.sender = self.client_number  # a timer may have begun this turn
        for one in waiting:
            if self.state >= LEAVING:
                break
            frame = one.frame
            try:
                if frame.command == SEND:
                    self.send.take(frame)
                else:
                    self._take_rare(frame)
            except PenstockError as error:
                self._refuse(error, frame)
        if self.state == PAUSED and self.blocked.is_low():
            self._move(RESUME)
            self.heart_beat.reading_resumed(self.now_ms)
            self.socket.resume_reading()
            self._read_frames()
        self.outbox.touch()

    def _take_rare(self, frame: Frame) -> None:
        command = frame.command
        if command == frames.NACK:
            self.ack.take(frame)
        elif command == frames.SUBSCRIBE:
            self.subscribe.subscribe(frame)
        elif command == frames.UNSUBSCRIBE:
            self.subscribe.unsubscribe(frame)
        elif command == frames.BEGIN:
            self.transactions.begin(frame)
            self.receipts.confirm(frame)
        elif command == frames.COMMIT:
            self.send.commit(frame)
        elif command == frames.ABORT:
            self.broker.abort(self.transactions.take(frame))
            self.receipts.confirm(frame)
        elif command == frames.DISCONNECT:
            self._disconnect(frame)
        else:
            name = frames.NAMES[command].decode()
            raise UnexpectedFrame(f"{name} is not expected from a connected client")

    def _connect(self, frame: Frame) -> None:
        self.subscribe.defaults = self.handshake.take(frame)
        terms = self.handshake.terms
        if self.handshake.has_proved_login or not self.settings.needs_login:
            self._open()
        else:
            self._move(CHECK)
            self.socket.pause_reading()
            self.socket.authenticate(terms.login, terms.passcode)

    def _open(self) -> None:
        """Raises: EngineError."""
        settings = self.settings
        terms = self.handshake.terms
        terms.passcode = ""
        if settings.needs_login:  # a login that nobody checked proves nothing
            self.groups = settings.groups.get(terms.login, self.groups)
            self.user = terms.login
        is_sole = settings.dialect.is_client_id_sole
        self.broker.introduce(self, host_of(self.socket.peer()), terms.client_id, is_sole)
        self.outbox.parts.append(self.handshake.answer(str(self.client_number)))
        self.speak(terms.version)
        self.decoder.version = terms.version
        self.decoder.limits = settings.frame_limits
        self.ack.version = terms.version
        self._move(ADMIT)
        self.socket.look_soon()

    def _disconnect(self, frame: Frame) -> None:
        if self.blocked.waiting:
            if self.state == OPEN:
                self._move(WAIT)
                self.disconnect_by_ms = self.now_ms + self.settings.disconnect_time_ms
            self.blocked.add(BlockedFrame(frame, [], 0))
            return
        self.receipts.confirm(frame)
        self._move(LEAVE)
        self._leave(frame, is_lost=False)

    # -- the steps

    def _move(self, event: int) -> None:
        self.state = advance(self.state, event)
        self.is_ending = self.state >= LEAVING

    def _held(self) -> tuple[int, int, int]:
        """Return the octets of frames under way, of transactions, and of frames that wait at a gate."""
        return self.decoder.buffered_bytes(), self.transactions.size_bytes(), self.blocked.size_bytes

    def _count_held(self) -> None:
        held_bytes = sum(self._held())
        is_partial = self.heart_beat.partial_number != NO_FRAME
        self.is_holding = held_bytes > 0 or is_partial or bool(self.transactions.open)
        self.broker.holdings.count(self, held_bytes)

    def _refuse(self, error: PenstockError, frame: Frame | None) -> None:
        """Answer with ERROR; the connection ends, but for a request that only asked for the wrong thing under 1.0, or
        in a dialect that keeps it.
        """
        is_kept = self.version == VERSION_1_0 or self.settings.dialect.keeps_connection
        if is_kept and isinstance(error, EngineError | InvalidHeader) and is_open(self.state):
            self.receipts.add_error(error_frame(error, frame, self.version))
        else:
            self._fail(error, frame)

    def _fail(self, error: PenstockError, frame: Frame | None) -> None:
        self.socket.warn(f"{error.condition}: {error}")
        self._end(error_frame(error, frame, self.version), is_lost=True)

    def _end(self, error: bytes, is_lost: bool) -> None:
        """Finish with an ERROR that waits, for a bounded time, for the confirmations before it."""
        self._move(FAIL)
        self.ending.begin(error, error, self.now_ms + self.settings.ending_time_ms)
        self._let_go(is_lost)
        self.outbox.touch()

    def _leave(self, frame: Frame | None, is_lost: bool) -> None:
        """Finish once everything that came is confirmed; DISCONNECT is ``frame``, or the client has closed its side."""
        late = error_frame(self._too_late("the store to take what came before it"), frame, self.version)
        self.ending.begin(b"", late, self.now_ms + self.settings.disconnect_time_ms)
        self._let_go(is_lost)
        self.outbox.touch()

    def _too_late(self, waited_for: str) -> TimedOut:
        return TimedOut(f"the end of this connection waited {self.settings.disconnect_time_ms} ms for {waited_for}")

    def _let_go(self, is_lost: bool) -> None:
        """Abort what is open and give back what is held."""
        self.transactions.abort_all(self.broker)
        dropped = len(self.blocked.take_all())
        if dropped:
            self.socket.frames_dropped(dropped)
        self.broker.disconnect(self, is_lost)
        self.unsettled.clear()
        self.decoder.drop()
