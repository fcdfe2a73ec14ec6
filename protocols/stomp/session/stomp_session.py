"""One STOMP connection: frames in, operations on the engine, octets out.  STOMP 1.0, 1.1, 1.2 (docs/stomp.md)."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from config.model import ConnectionDefaults
from engine.broker import Broker
from engine.consumers.consumer import Consumer
from engine.sources.queue import Queue
from engine.values.delivery import Delivery
from engine.values.errors import DATA_FAULTS, EngineError, PenstockError
from engine.values.message import STOMP as STOMP_ENCODING
from engine.values.message import Message
from protocols.connection import Link, ProtocolConnection, host_of
from protocols.holding import holding_words
from protocols.peer_times import NO_FRAME, TICK_ENDING_MS
from protocols.stomp.codec import frames
from protocols.stomp.codec.decoder import Decoder
from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.escapes import escape
from protocols.stomp.codec.frames import Frame
from protocols.stomp.codec.versions import VERSION_1_0, VERSION_1_2
from protocols.stomp.errors import (
    InvalidHeader,
    LoginRefused,
    TimedOut,
    UnexpectedFrame,
)
from protocols.stomp.mapping.connect_options import connection_defaults
from protocols.stomp.mapping.destination_resolver import DestinationResolver
from protocols.stomp.mapping.error_frame import error_frame
from protocols.stomp.mapping.message_octets import message_parts, shared_octets
from protocols.stomp.mapping.reply_to import with_own_reply_to
from protocols.stomp.mapping.send_target import SendTarget
from protocols.stomp.mapping.transformations import transformed
from protocols.stomp.session.ack_command import AckCommand
from protocols.stomp.session.ending import Ending
from protocols.stomp.session.handshake import Terms, connected_headers, negotiate
from protocols.stomp.session.heart_beat import HeartBeat
from protocols.stomp.session.parked_frames import ParkedFrames
from protocols.stomp.session.receipts import Receipts
from protocols.stomp.session.send_command import SendCommand
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.subscribe_command import SubscribeCommand
from protocols.stomp.session.subscription import Subscription
from protocols.stomp.session.transactions import Transactions
from protocols.stomp.session.unsettled import Unsettled

# States.
AWAITING_CONNECT: Final = 0
AUTHENTICATING: Final = 1
OPEN: Final = 2
ENDING: Final = 3  # nothing more is read; what is owed still leaves

DELIVERY_OVERHEAD_BYTES: Final = 256  # of the headers that the gateway writes, rounded up


@mypyc_attr(allow_interpreted_subclasses=True)
class StompSession(ProtocolConnection):
    """Owns the decoder, the subscriptions and what the client is owed."""

    __slots__ = (
        "broker",
        "link",
        "settings",
        "decoder",
        "state",
        "version",
        "terms",
        "out",
        "out_limit",
        "is_touched",
        "confirmations",
        "subscriptions",
        "unsettled",
        "next_ack",
        "transactions",
        "parking",
        "naming",
        "subscribing",
        "sending",
        "acknowledging",
        "heartbeat",
        "ending",
        "now_ms",
        "connect_frame",
        "id_prefix",
        "serial_prefix",
        "is_input_ended",
    )

    def __init__(self, broker: Broker, link: Link, settings: SessionSettings, now_ms: int) -> None:
        super().__init__()
        self.broker = broker
        self.link = link
        self.settings = settings
        self.decoder = Decoder(settings.frame_limits.before_login(), settings.dialect.is_lenient)
        self.state = AWAITING_CONNECT
        self.version = VERSION_1_0
        self.terms = Terms()
        self.out: list[bytes] = []
        self.out_limit = settings.unread_output_bytes
        self.is_touched = False
        self.confirmations = Receipts(broker)
        self.id_prefix = b""  # of message ids, as the version writes them
        self.serial_prefix = b""
        self.subscriptions = Unsettled(settings.subscription_count, *broker.id_prefixes())
        self.unsettled = self.subscriptions.by_ack
        self.next_ack = 1
        self.transactions = Transactions(self, settings.transaction_limits)
        self.parking = ParkedFrames(settings.block_park_bytes, settings.block_park_max_bytes)
        self.naming = DestinationResolver(broker, self, self.subscriptions)
        self.subscribing = SubscribeCommand(
            broker,
            self,
            link,
            settings.is_strict,
            settings.dialect.needs_selector,
            self.naming,
            self.subscriptions,
            self.confirmations,
        )
        self.sending = SendCommand(
            broker,
            self,
            link,
            settings.default_persistent,
            settings.dialect,
            self.naming,
            self.parking,
            self.transactions,
            self.subscriptions,
            self.confirmations,
        )
        self.acknowledging = AckCommand(
            broker, self.subscriptions, self.transactions, self.confirmations, settings.dialect
        )
        self.heartbeat = HeartBeat(settings, now_ms)
        self.ending = Ending()
        self.now_ms = now_ms
        self.connect_frame: Frame | None = None
        self.is_input_ended = False
        broker.connect(self)

    # -- the gateway's side

    def receive_data(self, octets: bytes, now_ms: int) -> None:
        self.now_ms = now_ms
        self.heartbeat.received_ms = now_ms
        if self.state == ENDING or self.parking.is_disconnecting:
            return
        self.decoder.receive_data(octets)
        self._read_frames()

    def end_turn(self, offset: int, confirmed_offset: int) -> bytes:
        self.is_touched = False
        out = self.out
        confirmations = self.confirmations
        if confirmations.has_logged or confirmations.receipts or confirmations.earlier:
            confirmed = confirmations.end_turn(offset, confirmed_offset)
            if confirmed:
                out.append(confirmed)
        if confirmations.owed:
            self.broker.store_events.await_confirmation(self)
        if self.is_holding and self.state != ENDING:
            held_bytes = sum(self._held())
            is_partial = self.heartbeat.partial_number != NO_FRAME
            self.is_holding = held_bytes > 0 or is_partial or bool(self.transactions.open)
            self.broker.holdings.count(self, held_bytes)
        if self.ending.error:
            out.append(self.ending.take_error(self.now_ms, not confirmations.owed))
        if not out:
            return b""
        octets = b"".join(out)
        out.clear()
        self.out_bytes = 0
        self.heartbeat.sent_ms = self.now_ms
        return octets

    def output_written(self, is_paused: bool) -> None:
        if is_paused:
            self.is_output_full = True
        elif self.is_output_full:
            self.heartbeat.reading_resumed(self.now_ms)  # who takes nothing is not read either
            self.broker.output_drained(self)

    def is_finished(self) -> bool:
        if self.state != ENDING:
            return False
        return (self.confirmations.is_idle() and not self.out) or self.ending.is_over(self.now_ms)

    def authenticated(self, is_allowed: bool) -> None:
        if self.state != AUTHENTICATING:
            return
        self.link.resume_reading()
        if is_allowed:
            try:
                self._open()
            except EngineError as error:
                self._fail(error, self.connect_frame)
                return
            self._read_frames()
            if self.is_input_ended:
                self.input_ended()
        else:
            self._fail(LoginRefused("login and passcode are not those of a user"), None)

    def tick(self, now_ms: int) -> int:
        self.now_ms = now_ms
        if self.state == ENDING:
            self._touch()
            return TICK_ENDING_MS
        if self.parking.is_late(now_ms):
            addresses = ", ".join(sorted(self.parking.addresses))
            self._fail(self._too_late(f"frames that wait for {addresses}"), self.parking.parked[-1])
            return TICK_ENDING_MS
        heartbeat = self.heartbeat
        fault = heartbeat.fault(now_ms, self.state == OPEN, self.parking.is_reading_paused or self.is_output_full)
        if fault:
            self._fail(TimedOut(fault), None)
            return TICK_ENDING_MS
        if self.state == OPEN and heartbeat.must_send(now_ms) and not self.out and not self.is_output_full:
            self.out.append(b"\n")
            self._touch()
        return heartbeat.interval_ms(self.state == OPEN, now_ms)

    def is_blocked(self) -> bool:
        # Who said DISCONNECT has left in order, and need not stay until the gate opens.
        return bool(self.parking.parked) and not self.parking.is_disconnecting

    def input_ended(self) -> None:
        self.is_input_ended = True
        if self.state in (AUTHENTICATING, ENDING) or self.parking.is_disconnecting:
            return
        self._leave(None, is_lost=True)

    def fault_words(self, text: str) -> bytes:
        return encode(frames.ERROR, [("message", text)], b"", self.version)

    def connection_lost(self) -> None:
        self.state = ENDING
        self.is_ending = True
        self._let_go(is_lost=True)

    def shut_down(self) -> None:
        if self.state != ENDING:
            text = encode(frames.ERROR, [("message", "the gateway is shutting down")], b"", self.version)
            self._end(text, is_lost=False)

    def _held(self) -> tuple[int, int, int]:
        """Return the octets of frames under way, of transactions, and of frames that wait at a gate."""
        transactions = self.transactions
        return self.decoder.buffered_bytes(), transactions.size_bytes(), self.parking.parked_bytes

    # -- the engine's side

    def give_up(self, error: EngineError) -> None:
        try:
            if self.state != ENDING:
                self._fail(error, None)
            if self.unread_bytes:
                self.link.cut_off()
        except DATA_FAULTS as fault:
            if not self.link.take_fault(fault):
                raise

    def unread_now(self) -> int:
        return self.link.unread_bytes()

    def holding(self) -> str:
        return holding_words(*self._held(), 0)

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        try:
            subscription = consumer.adapter
            assert isinstance(subscription, Subscription), "a consumer of this session has a subscription"
            message = delivery.message
            if not subscription.is_plain:
                message = self._written_for(subscription, message)
            out = self.out
            if self.version == VERSION_1_2:
                number = self.next_ack
                self.next_ack = number + 1
                key = b"%d" % number
                self.unsettled[key] = delivery
                if delivery.is_redelivered:
                    count = delivery.failed_attempts + 1
                    head = subscription.prefix
                    out.append(b"%bredelivered:true\nJMSXDeliveryCount:%d\nack:%b\n" % (head, count, key))
                else:
                    out.append(b"%back:%b\n" % (subscription.first_prefix, key))
            else:
                key = self.broker.message_id(message).encode()
                subscription.unsettled[key] = delivery
                if delivery.is_redelivered:
                    count = delivery.failed_attempts + 1
                    out.append(b"%bredelivered:true\nJMSXDeliveryCount:%d\n" % (subscription.prefix, count))
                else:
                    out.append(subscription.first_prefix)
            delivery.key = key
            if message.wire is not None and self.version == VERSION_1_2:
                out.append(message.wire)
            elif message.encoding == STOMP_ENCODING and message.holders <= 1:
                out += message_parts(message, self.version, self.id_prefix, self.serial_prefix)
            else:
                self._append_message(message, consumer.queue)
            self.out_bytes += message.size + DELIVERY_OVERHEAD_BYTES
            if self.out_bytes > self.out_limit:
                self.is_output_full = True
            if not self.is_touched:
                self.is_touched = True
                self.link.touch()
        except DATA_FAULTS as error:
            if not self.link.take_fault(error):
                raise

    def deliver_settled(self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int) -> None:
        try:
            subscription = consumer.adapter
            assert isinstance(subscription, Subscription), "a consumer of this session has a subscription"
            if not subscription.is_plain:
                message = self._written_for(subscription, message)
            out = self.out
            if is_redelivered:
                out.append(b"%bredelivered:true\nJMSXDeliveryCount:%d\n" % (subscription.prefix, delivery_count))
            else:
                out.append(subscription.first_prefix)
            if message.wire is not None and self.version == VERSION_1_2:
                out.append(message.wire)
            else:
                self._append_message(message, consumer.queue)
            self.out_bytes += message.size + DELIVERY_OVERHEAD_BYTES
            if self.out_bytes > self.out_limit:
                self.is_output_full = True
            if not self.is_touched:
                self._touch()
        except DATA_FAULTS as error:
            if not self.link.take_fault(error):
                raise

    def release_confirmations(self, offset: int) -> bool:
        try:
            self.confirmations.release(offset, self.out)
            self._touch()
            return bool(self.confirmations.owed)
        except DATA_FAULTS as fault:
            if not self.link.take_fault(fault):
                raise
            return False

    def admit(self) -> None:
        try:
            self._take_parked(self.parking.take_all())
        except DATA_FAULTS as error:
            if not self.link.take_fault(error):
                raise

    def _take_parked(self, parked: list[Frame]) -> None:
        """Try again what was parked, in order; what must still wait is parked again."""
        parking = self.parking
        self.broker.sender = self.client_number  # a timer may have begun this turn
        for frame in parked:
            self._take(frame)
        if parking.is_reading_paused and not parking.is_disconnecting and parking.parked_bytes < parking.park_bytes:
            parking.is_reading_paused = False
            self.heartbeat.reading_resumed(self.now_ms)
            self.link.resume_reading()
            self._read_frames()
        self._touch()

    def browse_ended(self, consumer: Consumer) -> None:
        try:
            subscription = consumer.adapter
            assert isinstance(subscription, Subscription), "a consumer of this session has a subscription"
            self.out.append(subscription.end_of_browsing())
            self._touch()
        except DATA_FAULTS as fault:
            if not self.link.take_fault(fault):
                raise

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        try:
            parked = self.parking.parked
            frame = next((one for one in parked if _waits_for(one, uri)), parked[0] if parked else None)
            self._refuse(error, frame)
            if self.state != OPEN or frame is None:
                return
            transaction = self.transactions.committing.pop(frame, None)
            if transaction is not None:
                self.broker.abort(transaction)
            self._take_parked([one for one in self.parking.take_all() if one is not frame])
        except DATA_FAULTS as fault:
            if not self.link.take_fault(fault):
                raise

    def expel(self, consumer: Consumer, error: EngineError, with_connection: bool) -> None:
        try:
            self._fail(error, None)  # STOMP has no frame that ends one subscription
        except DATA_FAULTS as fault:
            if not self.link.take_fault(fault):
                raise

    def describe(self) -> dict[str, str]:
        return {"address": self.link.peer(), "client_id": self.terms.client_id, "login": self.terms.login}

    def connection_defaults(self) -> ConnectionDefaults:
        return self.subscribing.defaults

    # -- frames

    def _read_frames(self) -> None:
        self.broker.sender = self.client_number  # here, for frames also wait for a password or for room
        decoder = self.decoder
        frame: Frame | None = None
        while self.state != ENDING:
            try:
                while self.state == OPEN:
                    frame = None  # what the decoder itself refuses has no receipt
                    frame = decoder.next_frame()
                    if frame is None:
                        break
                    command = frame.command
                    if command == frames.ACK:
                        self.acknowledging.take(frame)
                        if decoder.is_drained:  # a consumer that takes one at a time: one read brings one ACK
                            break
                    elif command == frames.SEND:
                        self.sending.send(frame)
                        if self.parking.is_reading_paused:
                            break
                    else:
                        self._take_rare(frame)
                        if self.parking.is_reading_paused:
                            break
                else:
                    if self.state == AWAITING_CONNECT:
                        frame = None
                        frame = decoder.next_frame()
                        if frame is not None:
                            self._connect(frame)
                            continue
                break
            except PenstockError as error:
                self._refuse(error, frame)
        heartbeat = self.heartbeat
        if not decoder.is_drained or heartbeat.partial_number != NO_FRAME:
            number = decoder.partial_number()
            if number != heartbeat.partial_number:
                heartbeat.frame_seen(number, self.now_ms)
                self.is_holding = True
        if not self.is_touched:
            self.is_touched = True
            self.link.touch()

    def _take(self, frame: Frame) -> None:
        """Take one frame that was parked."""
        if self.state != OPEN:
            return
        try:
            if frame.command == frames.SEND:
                self.sending.send(frame)
            else:
                self._take_rare(frame)
        except PenstockError as error:
            self._refuse(error, frame)

    def _take_rare(self, frame: Frame) -> None:
        command = frame.command
        if command == frames.NACK:
            self.acknowledging.take(frame)
        elif command == frames.SUBSCRIBE:
            self.subscribing.subscribe(frame, self.out)
        elif command == frames.UNSUBSCRIBE:
            self.subscribing.unsubscribe(frame)
        elif command == frames.BEGIN:
            self.transactions.begin(frame)
            self.confirmations.confirm(frame)
        elif command == frames.COMMIT:
            self.sending.commit(frame)
        elif command == frames.ABORT:
            self.broker.abort(self.transactions.take(frame))
            self.confirmations.confirm(frame)
        elif command == frames.DISCONNECT:
            self._disconnect(frame)
        else:
            name = frames.NAMES[command].decode()
            raise UnexpectedFrame(f"{name} is not expected from a connected client")

    def _connect(self, frame: Frame) -> None:
        if frame.command != frames.CONNECT and frame.command != frames.STOMP:
            name = frames.NAMES[frame.command].decode()
            raise UnexpectedFrame(f"the first frame is {name}; allowed are CONNECT and STOMP")
        headers = frame.head.headers
        terms = negotiate(headers)
        defaults, warnings = connection_defaults(headers, self.settings.defaults, self.settings.is_strict)
        terms.client_id = terms.client_id or defaults.client_id
        self.subscribing.defaults = defaults
        self.terms = terms
        for warning in warnings:
            self.link.warn(warning)
        self.connect_frame = frame
        identity = self.link.identity()
        if identity and not terms.login:
            terms.login = identity  # its certificate has been verified
            self._open()
        elif self.settings.needs_login:
            self.state = AUTHENTICATING
            self.link.pause_reading()
            self.link.authenticate(self.terms.login, self.terms.passcode)
        else:
            self._open()

    def _open(self) -> None:
        frame = self.connect_frame
        assert frame is not None, "only a CONNECT opens a session"
        terms = self.terms
        terms.passcode = ""
        user = terms.login if self.settings.needs_login else ""  # a login that nobody checked proves nothing
        self.broker.quotas.enter(self, user, host_of(self.link.peer()))
        self.broker.client_ids.take(self, terms.client_id, self.settings.dialect.is_client_id_sole)
        headers = connected_headers(terms, self.settings.server, str(self.client_number), frame)
        self.connect_frame = None
        self.out.append(encode(frames.CONNECTED, headers, b"", terms.version))
        self.version = terms.version
        id_prefix, serial_prefix = self.broker.id_prefixes()
        self.id_prefix = escape(id_prefix, terms.version)
        self.serial_prefix = escape(serial_prefix, terms.version)
        self.decoder.version = terms.version
        self.decoder.limits = self.settings.frame_limits
        self.heartbeat.terms = terms
        self.subscribing.terms = terms
        self.acknowledging.version = terms.version
        if self.settings.needs_login:
            self.groups = self.settings.groups.get(terms.login, self.groups)
            self.user = terms.login
        self.state = OPEN
        self.link.look_soon()
        self.broker.advisories.connected(self)

    def _disconnect(self, frame: Frame) -> None:
        if self.parking.parked:
            self.parking.add_disconnect(frame, self.now_ms + self.settings.disconnect_time_ms)
            self.is_holding = True
            return
        self.confirmations.confirm(frame)
        self._leave(frame, is_lost=False)

    # -- the steps

    def _touch(self) -> None:
        if not self.is_touched:
            self.is_touched = True
            self.link.touch()

    def _append_message(self, message: Message, queue: Queue) -> None:
        message = self._stomp_form(message)
        if queue.is_logged:
            self.out += message_parts(message, self.version, self.id_prefix, self.serial_prefix)
        else:
            self.out.append(shared_octets(message, self.version, self.id_prefix, self.serial_prefix))

    def _written_for(self, subscription: Subscription, message: Message) -> Message:
        """Return a message as a subscription gets it whose messages do not all leave as they are."""
        aliases = self.naming.aliases
        if subscription.is_mixed:
            subscription.turn_to(message.destination_id, self.broker.destinations, aliases)
        if not aliases and not subscription.form:
            return message
        written = self._stomp_form(message)
        try:
            if subscription.form:
                written = transformed(written, message, subscription.form, self.settings.converter)
            return with_own_reply_to(written, aliases) if aliases else written
        except DATA_FAULTS as error:
            self._tell_unconverted(message, error)
            return written

    def _stomp_form(self, message: Message) -> Message:
        if message.encoding == STOMP_ENCODING:
            return message
        converter = self.settings.converter
        assert converter is not None, "a gateway that takes other protocols has a converter"
        try:
            return converter.stomp_form(message)
        except DATA_FAULTS as error:
            self._tell_unconverted(message, error)
            return converter.raw_form(message)

    def _tell_unconverted(self, message: Message, error: Exception) -> None:
        name = self.broker.message_id(message)
        self.link.conversion_failed(f"{name} leaves as it came: {type(error).__name__}: {error}")

    def _refuse(self, error: PenstockError, frame: Frame | None) -> None:
        """Answer with ERROR; the connection ends, but for a request that only asked for the wrong thing under 1.0, or
        in a dialect that keeps it.
        """
        is_kept = self.version == VERSION_1_0 or self.settings.dialect.keeps_connection
        if is_kept and isinstance(error, EngineError | InvalidHeader) and self.state == OPEN:
            self.confirmations.add_error(error_frame(error, frame, self.version))
        else:
            self._fail(error, frame)

    def _fail(self, error: PenstockError, frame: Frame | None) -> None:
        self.link.warn(f"{error.condition}: {error}")
        self._end(error_frame(error, frame, self.version), is_lost=True)

    def _end(self, error: bytes, is_lost: bool) -> None:
        """Finish with an ERROR that waits, for a bounded time, for the confirmations before it."""
        self.state = ENDING
        self.is_ending = True
        self.ending.fail(error, self.now_ms + self.settings.ending_time_ms)
        self._let_go(is_lost)
        self._touch()

    def _leave(self, frame: Frame | None, is_lost: bool) -> None:
        """Finish once everything that came is confirmed; DISCONNECT is ``frame``, or the client has closed its side."""
        self.state = ENDING
        self.is_ending = True
        error = error_frame(self._too_late("the store to take what came before it"), frame, self.version)
        self.ending.leave(error, self.now_ms + self.settings.disconnect_time_ms)
        self._let_go(is_lost)
        self._touch()

    def _too_late(self, waited_for: str) -> TimedOut:
        return TimedOut(f"the end of this connection waited {self.settings.disconnect_time_ms} ms for {waited_for}")

    def _let_go(self, is_lost: bool) -> None:
        """Abort what is open and give back what is held."""
        self.transactions.abort_all(self.broker)
        dropped = len(self.parking.take_all())
        if dropped:
            self.link.frames_dropped(dropped)
        self.broker.disconnect(self, is_lost)
        self.subscriptions.clear()
        self.decoder.drop()


def _waits_for(frame: Frame, uri: str) -> bool:
    target = frame.head.mapped
    return isinstance(target, SendTarget) and target.destination.uri() == uri
