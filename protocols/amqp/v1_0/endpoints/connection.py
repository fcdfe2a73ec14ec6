"""One AMQP 1.0 connection: octets in, operations on the engine, octets out.  Source: AMQP 1.0 part 2, 2.3 and 2.4."""

from __future__ import annotations

from typing import Final

from config.model import ConnectionDefaults
from engine.broker import Broker
from engine.consumers.consumer import Consumer
from engine.values.delivery import IN_FLIGHT, Delivery
from engine.values.errors import DATA_FAULTS, EngineError, PenstockError
from engine.values.message import Message
from protocols.amqp.sasl import Credentials
from protocols.amqp.v1_0.endpoints.blocked_transfers import BlockedTransfers
from protocols.amqp.v1_0.endpoints.confirmations import Confirmations
from protocols.amqp.v1_0.endpoints.handshake import (
    AWAITING_HEADER,
    AWAITING_OPEN,
    CHANNEL_MAX,
    CHECKING,
    ENDING,
    FRAME_SIZE_LEAST,
    LOGGING_IN,
    OPEN,
    Opening,
)
from protocols.amqp.v1_0.endpoints.idle_time_out import IdleTimes
from protocols.amqp.v1_0.endpoints.incoming_link import IncomingLink
from protocols.amqp.v1_0.endpoints.outgoing_link import OutgoingLink
from protocols.amqp.v1_0.endpoints.session import AmqpSession
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.endpoints.transactions import Transactions
from protocols.amqp.v1_0.mapping.outcomes import RELEASED_TO_OTHERS
from protocols.amqp.v1_0.wire.composite import Composite, Error
from protocols.amqp.v1_0.wire.errors import (
    DeliveryTooSlow,
    Forced,
    FramingError,
    IllegalState,
    NotAllowed,
    SessionError,
    TimedOut,
    error_of,
)
from protocols.amqp.v1_0.wire.frame_decoder import Decoder
from protocols.amqp.v1_0.wire.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.frame_size import fitted_frame
from protocols.amqp.v1_0.wire.frames import (
    AMQP_LAYER,
    HEARTBEAT_OCTETS,
    SASL_LAYER,
    Heartbeat,
    ProtocolHeader,
    protocol_header,
)
from protocols.amqp.v1_0.wire.performatives import Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer
from protocols.amqp.v1_0.wire.scanner import Scanner
from protocols.connection import ProtocolConnection
from protocols.holding import holding_words
from protocols.peer_socket import PeerSocket
from protocols.peer_times import TICK_ENDING_MS

DELIVERY_OVERHEAD_BYTES: Final = 64
TICK_DRAINING_MS: Final = 20


class AmqpConnection(ProtocolConnection):
    """channels: sessions by the peer's channel; own_channels: ours in use.

    short_links: producers that wait for room in a full address to be granted credit.
    name_bytes: of the names of its links.
    gathering: links with a delivery of which more transfers are to come, and since when; the oldest first.
    last_words: what the connection ends with; late_words: the same where what is owed was not confirmed in time.
    """

    __slots__ = (
        "broker",
        "settings",
        "credentials",
        "decoder",
        "scanner",
        "state",
        "opening",
        "login_name",
        "container_id",
        "channels",
        "own_channels",
        "peer_frame_size",
        "peer_channel_max",
        "transactions",
        "blocked",
        "short_links",
        "partial_bytes",
        "name_bytes",
        "gathering",
        "out",
        "is_socket_full",
        "settling",
        "too_large",
        "confirmations",
        "last_words",
        "late_words",
        "ending_deadline_ms",
        "idle",
        "now_ms",
    )

    def __init__(
        self, broker: Broker, socket: PeerSocket, settings: AmqpSettings, credentials: Credentials, now_ms: int
    ) -> None:
        super().__init__(socket, settings.unread_output_bytes)
        self.broker = broker
        self.settings = settings
        self.credentials = credentials
        self.decoder = Decoder(settings.max_frame_size)
        self.scanner = Scanner()
        self.state = AWAITING_HEADER
        self.opening = Opening(self)
        self.login_name = ""
        self.container_id = ""
        self.channels: dict[int, AmqpSession] = {}
        self.own_channels: dict[int, AmqpSession] = {}
        self.peer_frame_size = FRAME_SIZE_LEAST
        self.peer_channel_max = CHANNEL_MAX
        self.transactions = Transactions(self)
        self.blocked = BlockedTransfers(self)
        self.short_links: dict[IncomingLink, None] = {}
        self.partial_bytes = 0
        self.name_bytes = 0
        self.gathering: dict[IncomingLink, int] = {}
        self.out = self.outbox.parts
        self.is_socket_full = False
        self.settling: list[Delivery] = []
        self.too_large: list[Delivery] = []
        self.confirmations = Confirmations(broker, self.out)
        self.last_words = b""
        self.late_words = b""
        self.ending_deadline_ms = 0
        self.idle = IdleTimes(settings, now_ms)
        self.now_ms = now_ms
        broker.connect(self)

    # -- the gateway's side

    def receive_data(self, octets: bytes, now_ms: int) -> None:
        self.now_ms = now_ms
        self.idle.received_ms = now_ms
        if self.state == ENDING:
            return
        self.decoder.receive_data(octets)
        self._read_frames()

    def end_turn(self, offset: int, confirmed_offset: int) -> bytes:
        out = self.out
        outcomes = b""
        if self.settling:
            self._settle_sent()
        if self.too_large:
            self._put_back()
        if self.channels:
            for session in self.channels.values():
                outcomes += session.end_turn(out)
        confirmations = self.confirmations
        if outcomes or confirmations.owed or confirmations.is_answering:
            confirmations.end_turn(outcomes, offset, confirmed_offset)
            if confirmations.owed:
                self.broker.store_events.await_confirmation(self)
        if self.is_holding and self.state != ENDING:
            held_bytes = sum(self._held())
            self.is_holding = held_bytes > self.name_bytes or bool(self.transactions.open)
            self.broker.holdings.count(self, held_bytes)
        if self.last_words:
            if not confirmations.owed:
                out.append(self.last_words)
                self.last_words = b""
            elif self.now_ms >= self.ending_deadline_ms:
                out.append(self.late_words)
                self.last_words = b""
        octets = self.outbox.take()
        if octets:
            self.idle.sent_ms = self.now_ms
        return octets

    def output_written(self, is_paused: bool) -> None:
        was_full = self.is_socket_full
        self.is_socket_full = is_paused
        if was_full and not is_paused:
            self.idle.reading_resumed(self.now_ms)  # who takes nothing is not read either
        self._apply_output()

    def is_finished(self) -> bool:
        return self.state == ENDING and (
            (not self.confirmations.owed and not self.out and not self.last_words)
            or self.now_ms >= self.ending_deadline_ms > 0
        )

    def authenticated(self, is_allowed: bool) -> None:
        if self.state != CHECKING:
            return
        self.socket.resume_reading()
        self.opening.checked(is_allowed)
        self._read_frames()

    def tick(self, now_ms: int) -> int:
        self.now_ms = now_ms
        if self.state == ENDING:
            self.touch()
            return TICK_ENDING_MS
        idle = self.idle
        is_open = self.state == OPEN
        is_read_paused = self.blocked.is_reading_paused or self.is_socket_full
        fault = idle.fault(now_ms, is_open, is_read_paused)
        if fault:
            self._fail(TimedOut(fault))
            return TICK_ENDING_MS
        if self.gathering and not is_read_paused:
            self._give_up_deliveries(now_ms)
        if is_open and idle.must_send(now_ms) and not self.out and not self.is_socket_full:
            self.out.append(HEARTBEAT_OCTETS)
            self.touch()
        if any(session.draining for session in self.channels.values()):
            self.touch()
            return TICK_DRAINING_MS
        return idle.interval_ms(is_open, now_ms)

    def is_blocked(self) -> bool:
        return bool(self.blocked.waiting)

    def pause_reading(self) -> None:
        if not self.blocked.is_reading_paused:
            self.blocked.is_reading_paused = True
            self.socket.pause_reading()

    def input_ended(self) -> None:
        if self.state in (CHECKING, ENDING):
            return
        self.end(b"", is_lost=True)

    def fault_words(self, text: str) -> bytes:
        return encode_frame(0, Close(Error("amqp:internal-error", text))) if self.state == OPEN else b""

    def connection_lost(self) -> None:
        self.state = ENDING
        self.is_ending = True
        self._let_go(is_lost=True)

    def shut_down(self) -> None:
        if self.state == OPEN:
            self._fail(Forced("the gateway is shutting down"))
        elif self.state != ENDING:
            self.end(b"", is_lost=False)

    def count_name(self, size_bytes: int) -> None:
        """Take note of a link that has come, or, with a size below 0, gone."""
        self.name_bytes += size_bytes
        self.is_holding = True

    def _held(self) -> tuple[int, int, int, int]:
        """Return the octets of messages under way, of transactions, of what waits at a gate, and of links' names."""
        return self.partial_bytes, self.transactions.size_bytes(), self.blocked.size_bytes, self.name_bytes

    # -- the engine's side

    def give_up(self, error: EngineError) -> None:
        try:
            if self.state != ENDING:
                self._fail(error)
            if self.unread_bytes:
                self.socket.cut_off()
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise

    def holding(self) -> str:
        return holding_words(*self._held())

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        try:
            link = consumer.adapter
            assert isinstance(link, OutgoingLink), "a consumer of this connection has a link"
            outbox = self.outbox
            size_bytes = outbox.size_bytes + link.session.deliver(link, delivery) + DELIVERY_OVERHEAD_BYTES
            outbox.size_bytes = size_bytes
            if size_bytes > outbox.limit_bytes:
                self.is_output_full = True
            if not outbox.is_touched:
                outbox.touch()
        except DATA_FAULTS as error:
            if not self.socket.take_fault(error):
                raise

    def deliver_settled(self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int) -> None:
        raise AssertionError("consumers of AMQP links settle each delivery")

    def release_confirmations(self, offset: int) -> bool:
        try:
            is_owed = self.confirmations.release(offset)
            self.touch()
            return is_owed
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise
            return False

    def admit(self) -> None:
        try:
            self._admit()
        except DATA_FAULTS as error:
            if not self.socket.take_fault(error):
                raise

    def _admit(self) -> None:
        self.broker.sender = self.client_number
        self.blocked.admit()
        short_links = self.short_links
        self.short_links = {}
        for link in short_links:
            link.is_short = False
            link.grant()
        self.transactions.admit()
        if self.blocked.may_read_again():
            self.idle.reading_resumed(self.now_ms)
            self.socket.resume_reading()
            self._read_frames()
        self.touch()

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        try:
            self.blocked.waited_too_long(uri, error)
            self.transactions.waited_too_long(uri, error)
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise

    def expel(self, consumer: Consumer, error: EngineError, with_connection: bool) -> None:
        try:
            link = consumer.adapter
            assert isinstance(link, OutgoingLink), "a consumer of this connection has a link"
            if with_connection:
                self._fail(error)
            else:
                link.detach(error)
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise

    def connection_defaults(self) -> ConnectionDefaults:
        return self.settings.defaults

    def describe(self) -> dict[str, str]:
        return {"address": self.socket.peer(), "client_id": self.container_id, "login": self.login_name}

    # -- what sessions and links ask for

    def send(self, octets: bytes) -> None:
        """Send a begin, attach, detach or end, or what belongs to a session or link whose own has not left."""
        self.confirmations.send(octets)
        if not self.outbox.is_touched:
            self.outbox.touch()

    def send_fitted(self, channel: int, frame: Composite) -> None:
        """Send one of these in a frame that the peer takes.  Raises: FrameSizeTooSmall."""
        self.send(fitted_frame(channel, frame, self.peer_frame_size))

    def send_at_once(self, octets: bytes) -> None:
        """Send a flow of what the peer knows already."""
        self.out.append(octets)
        if not self.outbox.is_touched:
            self.outbox.touch()

    def touch(self) -> None:
        self.outbox.touch()

    def leave_to_others(self, delivery: Delivery) -> None:
        """Put back, for other consumers, what its link may not send; the engine is in the middle of handing it over."""
        self.too_large.append(delivery)

    def settle_at_end(self, delivery: Delivery) -> None:
        """Settle a delivery that is gone when sent; the engine is in the middle of handing it over."""
        self.settling.append(delivery)

    def end_session(self, session: AmqpSession, end: End) -> None:
        """Send ``end`` behind all outcomes of a session that has let go of its links; it stands for all before it."""
        outcomes = session.end_turn(self.out)
        self.confirmations.stand_for_all()
        self.send(outcomes + fitted_frame(session.channel, end, self.peer_frame_size))

    # -- frames

    def _read_frames(self) -> None:
        self.broker.sender = self.client_number  # here, for frames also wait for a password or for room
        while self._read_until_error():  # a loop, for each of many sessions may end by an error in one read
            pass

    def _read_until_error(self) -> bool:
        """Take what frames there are; return whether a session has ended by an error, and others have more."""
        is_session_over = False
        decoder = self.decoder
        channels = self.channels
        blocked = self.blocked
        session: AmqpSession | None = None
        try:
            while not blocked.is_reading_paused and (self.state == OPEN or self.state not in (ENDING, CHECKING)):
                frame = decoder.next_frame()
                if frame is None:
                    break
                session = channels.get(decoder.channel)
                if isinstance(frame, Transfer):
                    if session is None:
                        self.unexpected(frame)
                    elif not session.is_ending:
                        session.transfer(frame, decoder.payload)
                elif isinstance(frame, Disposition):
                    if session is None:
                        self.unexpected(frame)
                    elif not session.is_ending:
                        session.disposition(frame)
                elif isinstance(frame, Flow) and session is not None:
                    if not session.is_ending:
                        session.flow(frame)
                else:
                    self._take_rare(frame, session)
        except SessionError as error:
            if session is None:
                self._fail(error)
            else:
                session.end(error)
                is_session_over = True
        except PenstockError as error:
            self._fail(error)
        number = decoder.partial_number()
        if number != self.idle.partial_number:
            self.idle.frame_seen(number, self.now_ms)
        if not self.outbox.is_touched:
            self.outbox.touch()
        return is_session_over

    def _take_rare(self, frame: Composite, session: AmqpSession | None) -> None:
        state = self.state
        if isinstance(frame, ProtocolHeader):
            self.opening.header(frame)
        elif isinstance(frame, Heartbeat):
            return
        elif state == LOGGING_IN:
            self.opening.sasl(frame)
        elif state == AWAITING_OPEN and isinstance(frame, Open):
            self.opening.open(frame)
        elif state != OPEN:
            self.unexpected(frame)
        elif isinstance(frame, Begin):
            self._begin(frame)
        elif isinstance(frame, Close):
            self._close(frame)
        elif session is None or isinstance(frame, Open):
            self.unexpected(frame)
        elif isinstance(frame, End):
            self._end_session(session)
        elif session.is_ending:
            return
        elif isinstance(frame, Attach):
            session.attach(frame)
        elif isinstance(frame, Detach):
            session.detach(frame)
        else:
            self.unexpected(frame)

    def unexpected(self, frame: Composite) -> None:
        """Raises: FramingError for a channel that we do not take (2.7.1), IllegalState."""
        if self.state == OPEN and self.decoder.channel > self.settings.channel_max:
            raise FramingError(
                f"{frame.NAME} on channel {self.decoder.channel}; allowed is up to {self.settings.channel_max}"
            )
        raise IllegalState(f"{frame.NAME} on channel {self.decoder.channel} is not expected now")

    def _begin(self, frame: Begin) -> None:
        peer_channel = self.decoder.channel
        if peer_channel > self.settings.channel_max:
            self.unexpected(frame)
        if frame.remote_channel is not None:
            raise IllegalState("begin answers a session that we have not begun")
        if peer_channel in self.channels:
            raise IllegalState(f"begin on channel {peer_channel}, which is in use")
        channel = peer_channel
        if channel > self.peer_channel_max or channel in self.own_channels:
            channel = 0
            while channel in self.own_channels:
                channel += 1
            if channel > self.peer_channel_max:
                raise NotAllowed(
                    f"begin on channel {peer_channel} cannot be answered: all channels up to the peer's channel-max "
                    f"{self.peer_channel_max} are in use"
                )
        session = AmqpSession(self, channel, peer_channel, frame)
        self.channels[peer_channel] = session
        self.own_channels[channel] = session
        self.confirmations.hold(session)
        self.send(encode_frame(channel, session.begin_answer()))

    def _end_session(self, session: AmqpSession) -> None:
        del self.channels[session.peer_channel]
        del self.own_channels[session.channel]
        if session.is_ending:
            return
        self.broker.leave(session.close())
        self.end_session(session, End())

    def _close(self, frame: Close) -> None:
        if frame.error is not None:
            self.socket.warn(f"closed by its peer: {frame.error.condition}: {(frame.error.description or '')[:200]}")
        self.confirmations.stand_for_all()
        self.end(encode_frame(0, Close()), is_lost=False)
        late = TimedOut(f"what came before close is not on the disk after {self.settings.ending_time_ms} ms")
        self.late_words = encode_frame(0, Close(error_of(late)))

    # -- the steps

    def _settle_sent(self) -> None:
        settling = self.settling
        self.settling = []
        for delivery in settling:
            if delivery.state == IN_FLIGHT:
                self.broker.acknowledge_unconfirmed(delivery)

    def _give_up_deliveries(self, now_ms: int) -> None:
        """Detach the links on which a delivery has not come to its end in time."""
        limit_ms = self.settings.delivery_time_ms
        for link, since_ms in list(self.gathering.items()):
            if now_ms - max(since_ms, self.idle.resumed_ms) < limit_ms:
                return
            link.detach(DeliveryTooSlow(f"the transfers of a delivery took longer than {limit_ms} ms"))

    def _put_back(self) -> None:
        """Let go of what was too large for its link, with the credit that it took."""
        broker = self.broker
        too_large = self.too_large
        self.too_large = []
        for delivery in too_large:
            consumer = delivery.consumer
            if delivery.state == IN_FLIGHT and consumer is not None:
                broker.refuse(delivery, RELEASED_TO_OTHERS)
                broker.grant(consumer, consumer.window.room() + 1)

    def _apply_output(self) -> None:
        if self.is_socket_full or self.outbox.size_bytes > self.outbox.limit_bytes:
            self.is_output_full = True
        elif self.is_output_full:
            self.broker.output_drained(self)

    def _fail(self, error: PenstockError) -> None:
        """Close the connection because of an error; before open there is nothing that could say so but a header."""
        self.socket.warn(f"{error.condition}: {str(error)[:300]}")
        if self.state == OPEN:
            self.end(fitted_frame(0, Close(error_of(error)), self.peer_frame_size), is_lost=False)
        elif self.state == AWAITING_OPEN:
            self.opening.refuse(error)
        elif self.state == AWAITING_HEADER and isinstance(error, FramingError):
            self.end(protocol_header(SASL_LAYER if self.settings.needs_login else AMQP_LAYER), is_lost=False)
        else:
            self.end(b"", is_lost=False)

    def end(self, last_words: bytes, is_lost: bool) -> None:
        """Read nothing more; ``last_words`` leave behind what is owed, or at the deadline."""
        if self.state == ENDING:
            return
        self._let_go(is_lost)
        self.state = ENDING
        self.is_ending = True
        self.last_words = self.late_words = last_words
        self.ending_deadline_ms = self.now_ms + self.settings.ending_time_ms
        self.touch()

    def _let_go(self, is_lost: bool) -> None:
        self.transactions.close_all()
        dropped = len(self.blocked.take_all())
        if dropped:
            self.socket.frames_dropped(dropped)
        for session in self.channels.values():
            session.close()
        self.broker.disconnect(self, is_lost)
