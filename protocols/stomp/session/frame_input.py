"""The frames of a STOMP client: the effect of each on the engine and the connection."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from engine.api import EngineApi
from engine.values.errors import DuplicateId, EngineError, PenstockError
from protocols.connection import end_reading
from protocols.errors import FrameError, TimedOut
from protocols.input_share import COMMON_STEPS, FRAMES_AT_ONCE, REFUSED_STEPS
from protocols.peer_socket import PeerSocket, host_of
from protocols.session.states import ADMIT, CHECK, CONNECTING, LEAVE, OPEN, WAIT, is_open
from protocols.stomp.codec import frames
from protocols.stomp.codec.decoder import Decoder
from protocols.stomp.codec.frames import ACK, SEND, Frame
from protocols.stomp.codec.versions import VERSION_1_0
from protocols.stomp.errors import InvalidHeader, UnexpectedFrame
from protocols.stomp.mapping.error_frame import error_frame
from protocols.stomp.session.ack_command import AckCommand
from protocols.stomp.session.handshake import Handshake
from protocols.stomp.session.heart_beat import HeartBeat
from protocols.stomp.session.message_output import MessageOutput
from protocols.stomp.session.receipts import Receipts
from protocols.stomp.session.send_command import BlockedFrame, SendCommand
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.subscribe_command import SubscribeCommand
from protocols.stomp.session.transactions import Transactions
from protocols.stomp.session.unsettled import Unsettled

# Steps of a turn that the frames take besides SEND and ACK.  A step is some 25 lines of Python.
FRAME_STEPS: Final[dict[int, int]] = {
    frames.CONNECT: 30,
    frames.SUBSCRIBE: 25,  # and one for each character of the selector
    frames.UNSUBSCRIBE: 10,
    frames.BEGIN: 4,
    frames.COMMIT: 6,
    frames.ABORT: 6,
    frames.NACK: 6,
    frames.DISCONNECT: 15,
}
UNDONE_STEPS: Final = 4  # for a delivery that a transaction had acknowledged and that its ABORT gives back
PARSED_A_STEP: Final = 8  # octets of a head that is parsed


@mypyc_attr(allow_interpreted_subclasses=True)
class FrameInput(MessageOutput):
    """subscribe, send, ack: handlers of these frames.

    disconnect_by_ms: until then a DISCONNECT may wait behind frames at a gate.
    """

    __deletable__ = ("transactions", "subscribe", "send", "ack")
    __slots__ = (
        "settings",
        "decoder",
        "receipts",
        "unsettled",
        "transactions",
        "subscribe",
        "send",
        "ack",
        "handshake",
        "disconnect_by_ms",
    )

    def __init__(self, engine: EngineApi, socket: PeerSocket, settings: SessionSettings, now_ms: int) -> None:
        handshake = Handshake(socket, settings)
        dialect = settings.dialect
        decoder = Decoder(settings.frame_limits.before_login(), dialect.is_lenient)
        super().__init__(engine, socket, settings, HeartBeat(settings, handshake.terms, now_ms), decoder)
        self.settings = settings
        self.decoder = decoder
        self.confirmations = self.receipts = Receipts(engine, self.outbox.parts)
        self.unsettled = Unsettled(self.by_ack, self.context.readers)
        self.transactions = Transactions(self, settings.transaction_limits)
        self.handshake = handshake
        self.subscribe = SubscribeCommand(
            engine, self, socket, settings, self.handshake.terms, self.resolver, self.unsettled, self.receipts
        )
        self.send = SendCommand(
            engine, self, settings, self.resolver, self.blocked, self.transactions, self.unsettled, self.receipts
        )
        self.ack = AckCommand(engine, self.unsettled, self.transactions, self.receipts, dialect)
        self.disconnect_by_ms = 0
        engine.connect(self)

    # -- frames

    def read_frames(self) -> None:
        self.context.sender = self.client_number  # set here: frames also wait for a password or room
        decoder = self.decoder
        ack = self.ack
        while True:
            try:
                for _ in range(FRAMES_AT_ONCE):
                    if self.share.is_paused and not self._take_first():
                        break
                    frame = decoder.next_frame()
                    if frame is None:
                        break
                    command = frame.command
                    if command == ACK:
                        ack.take(frame, decoder.is_drained)
                        if decoder.is_drained:  # a consumer with one message at a time: one read brings one ACK
                            break
                    elif command == SEND:
                        if ack.accepted:
                            ack.settle_accepted()
                        self.send.take(frame)
                        if decoder.is_drained:  # a producer that waits for each receipt
                            frame.body = b""  # the decoder holds it, and an idle connection keeps no body
                            break
                    else:
                        ack.settle_accepted()
                        self._take_rare(frame)
                        self.share.charge(FRAME_STEPS[command] + decoder.take_parsed() // PARSED_A_STEP)
                else:
                    if not self.share.charge(COMMON_STEPS + decoder.take_parsed() // PARSED_A_STEP):
                        continue
                break
            except PenstockError as error:
                self.refuse(error, None if isinstance(error, FrameError) else frame)  # no frame, no receipt
                if self.share.charge(REFUSED_STEPS):
                    break
        if ack.accepted:
            ack.settle_accepted()
        end_reading(self, self.times, decoder.partial_number())

    def try_again(self, one: BlockedFrame) -> None:
        if one.frame.command == SEND:
            self.send.take(one.frame)
        else:
            self._take_rare(one.frame)

    def refuse_blocked(self, one: BlockedFrame, error: PenstockError) -> None:
        self.refuse(error, one.frame)

    def _take_rare(self, frame: Frame) -> None:
        command = frame.command
        if command == frames.NACK:
            self.ack.take(frame, True)
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
            transaction = self.transactions.take(frame)
            self.share.charge(UNDONE_STEPS * len(transaction.enlisted()))  # the client may acknowledge them again
            self.engine.abort(transaction)
            self.receipts.confirm(frame)
        elif command == frames.DISCONNECT:
            self._disconnect(frame)
        else:
            name = frames.NAMES[command].decode()
            raise UnexpectedFrame(f"{name} is not expected from a connected client")

    def _take_first(self) -> bool:
        """Take the frame that opens the connection, if there is one; return whether others may follow."""
        frame = self.decoder.next_frame() if self.state == CONNECTING else None
        if frame is not None:
            try:
                self._connect(frame)
            except PenstockError as error:
                self.refuse(error, frame)
        return not self.share.is_paused

    def _connect(self, frame: Frame) -> None:
        self.share.charge(FRAME_STEPS[frames.CONNECT])
        self.handshake.take(frame)
        terms = self.handshake.terms
        if self.handshake.has_proved_login or not self.settings.needs_login:
            self.open()
        else:
            self.move(CHECK)
            self.is_holding = True  # the frames behind it wait
            self.socket.pause_reading()
            self.socket.authenticate(terms.login, terms.passcode)

    def open(self) -> None:
        settings = self.settings
        terms = self.handshake.terms
        terms.passcode = ""
        if settings.needs_login:  # an unchecked login proves nothing
            terms.login = self.take_login(terms.login, settings.groups)
        is_sole = settings.dialect.is_client_id_sole
        try:
            self.engine.introduce(self, host_of(self.socket.peer()), terms.client_id, is_sole)
        except EngineError as error:
            self.fail(error, self.handshake.frame)
            return
        self.outbox.parts.append(self.handshake.answer(str(self.client_number)))
        self.speak(terms.version)
        self.decoder.version = terms.version
        self.decoder.limits = settings.frame_limits
        self.ack.version = terms.version
        self.move(ADMIT)
        self.socket.tick_soon()

    def _disconnect(self, frame: Frame) -> None:
        if self.blocked.waiting:
            if self.state == OPEN:
                self.move(WAIT)
                self.disconnect_by_ms = self.now_ms + self.settings.disconnect_time_ms
            self.blocked.add(BlockedFrame(frame, [], 0))
            return
        self.receipts.confirm(frame)
        self.move(LEAVE)
        self.leave(self._late_words(frame), is_lost=False)

    # -- the steps

    def is_taking(self) -> bool:
        return self.state == OPEN  # another loop takes the first frame

    def refuse(self, error: PenstockError, frame: Frame | None) -> None:
        """Answer with ERROR.  The connection ends, unless only the request was wrong and 1.0 or a dialect applies."""
        if isinstance(error, DuplicateId):  # the work that it reports as done may not be durable yet
            self.receipts.has_logged = True
        is_kept = self.version == VERSION_1_0 or self.settings.dialect.keeps_connection
        if is_kept and isinstance(error, EngineError | InvalidHeader) and is_open(self.state):
            self.receipts.add_error(error_frame(error, frame, self.version))
        else:
            self.fail(error, frame)

    def fail(self, error: PenstockError, frame: Frame | None = None) -> None:
        self.socket.warn(f"{error.condition}: {error}")
        words = error_frame(error, frame, self.version)
        if isinstance(error, DuplicateId):
            self.receipts.add_error(words)
            words = b""
        self.end(words, is_lost=True)

    def late_words(self) -> bytes:
        return self._late_words(None)

    def _late_words(self, frame: Frame | None) -> bytes:
        return error_frame(self.too_late("the store to take the frames before it"), frame, self.version)

    def too_late(self, waited_for: str) -> TimedOut:
        return TimedOut(f"the end of this connection waited {self.settings.disconnect_time_ms} ms for {waited_for}")

    def let_go(self, is_lost: bool) -> None:
        self.blocked.drop()
        self.ack.settle_accepted()
        self.transactions.abort_all(self.engine)
        self.engine.disconnect(self, is_lost)
        self.unsettled.clear()
        self.decoder.drop()
