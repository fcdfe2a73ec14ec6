"""One AMQP 1.0 connection: octets in, operations on the engine, octets out.  Source: AMQP 1.0 part 2, 2.3 and 2.4."""

from __future__ import annotations

from typing import Final

from config.model import ConnectionDefaults
from engine.api import EngineApi
from engine.consumers.consumer import Consumer
from engine.values.delivery import Delivery
from engine.values.errors import DATA_FAULTS, EngineError, PenstockError
from engine.values.message import Message
from protocols.amqp.sasl import Credentials
from protocols.amqp.v1_0.endpoints.attach import LinkFactory
from protocols.amqp.v1_0.endpoints.channels import Channels
from protocols.amqp.v1_0.endpoints.connection_endpoint import ConnectionEndpoint
from protocols.amqp.v1_0.endpoints.dispositions import Dispositions
from protocols.amqp.v1_0.endpoints.handshake import Handshake
from protocols.amqp.v1_0.endpoints.incoming_frames import IncomingFrames
from protocols.amqp.v1_0.endpoints.links.outgoing_link import OutgoingLink
from protocols.amqp.v1_0.endpoints.links.producers import Producers
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.endpoints.states import CHECKING, CLOSE_SENT, HDR_EXCH, LOGIN_DUE, OPENED, START, UNREAD
from protocols.amqp.v1_0.wire.composites.composite import Error, error_of
from protocols.amqp.v1_0.wire.composites.performatives import Close
from protocols.amqp.v1_0.wire.errors import Forced, FramingError, TimedOut
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.frames.frame_size import fitted_frame
from protocols.amqp.v1_0.wire.frames.layout import HEARTBEAT_OCTETS
from protocols.connection import holding_words
from protocols.outbox import DELIVERY_OVERHEAD_BYTES
from protocols.peer_socket import PeerSocket
from protocols.peer_times import TICK_ENDING_MS

SESSION_BYTES: Final = 1_408  # memory of a session's objects, measured
TICK_DRAINING_MS: Final = 20


class AmqpConnection(ConnectionEndpoint):
    """A connection as the gateway and the engine see it.  incoming: takes the frames of its peer."""

    __deletable__ = ("handshake", "producers", "channels", "incoming")
    __slots__ = ("handshake", "producers", "channels", "incoming", "is_socket_full")

    def __init__(
        self, engine: EngineApi, socket: PeerSocket, settings: AmqpSettings, credentials: Credentials, now_ms: int
    ) -> None:
        super().__init__(engine, socket, settings, now_ms)
        self.handshake = Handshake(self, credentials)
        self.producers = Producers(self)
        dispositions = Dispositions(engine, self.producers.transactions)
        self.channels = Channels(self, LinkFactory(self, self.producers), dispositions)
        self.incoming = IncomingFrames(self, self.handshake, self.channels)
        self.is_socket_full = False
        engine.connect(self)

    # -- the gateway's side

    def receive_data(self, octets: bytes, now_ms: int) -> None:
        self.now_ms = now_ms
        self.idle.received_ms = now_ms
        if not self.is_ending:
            self.decoder.receive_data(octets)
            self.share.begin()
            self.incoming.read()

    def end_turn(self, offset: int, confirmed_offset: int) -> bytes:
        outcomes = b""
        if self.is_due:
            self.is_due = False
            for session in self.channels.mapped.values():
                outcomes += session.end_turn(self.out)
        confirmations = self.confirmations
        if self.is_refusing:
            confirmations.kept += outcomes
        elif outcomes or confirmations.is_due or confirmations.kept:
            confirmations.end_turn(outcomes, offset, confirmed_offset)
        if confirmations.owed and not self.is_awaiting:
            self.store_events.await_confirmation(self)
        if self.is_ending:
            words = self.ending.take_words(self.now_ms, bool(confirmations.owed) or self.is_refusing)
            if words:
                self.out.append(words)
        elif self.is_holding:
            self.count_held()
        octets = self.outbox.take()
        if octets:
            self.idle.sent_ms = self.now_ms
        return octets

    def output_written(self, is_paused: bool) -> None:
        was_full = self.is_socket_full
        self.is_socket_full = is_paused
        if was_full and not is_paused:
            self.idle.reading_resumed(self.now_ms)  # a peer that reads nothing is not read either
        if is_paused or self.outbox.size_bytes > self.outbox.limit_bytes:
            self.hold_output()
        elif self.out:  # of large output, a piece has left
            self.hold_output()
            self.outbox.touch()
        elif self.is_output_full and not self.channels.send_on():
            self.engine.output_drained(self)
            if not self.is_output_full:
                self.channels.output_changed()

    def is_finished(self) -> bool:
        is_owed = bool(self.confirmations.owed or self.is_refusing or self.out)
        return self.is_ending and self.ending.is_over(self.now_ms, is_owed)

    def authenticated(self, is_allowed: bool) -> None:
        if self.state != CHECKING:
            return
        self.share.resume_reading()
        self.handshake.checked(is_allowed)
        self.incoming.read()

    def tick(self, now_ms: int) -> int:
        self.now_ms = now_ms
        if self.is_ending:
            self.outbox.touch()
            return TICK_ENDING_MS
        idle = self.idle
        is_open = self.state == OPENED
        is_read_paused = self.share.is_paused or self.is_socket_full
        fault = idle.fault(now_ms, is_open, is_read_paused)
        if fault:
            self.fail(TimedOut(fault))
            return TICK_ENDING_MS
        if not is_read_paused:
            self.producers.multi_transfers.give_up(now_ms)
        if is_open and idle.must_send(now_ms) and not self.out and not self.is_socket_full:
            self.send_at_once(HEARTBEAT_OCTETS)
        if self.channels.is_draining():
            self.say_at_end()
            return TICK_DRAINING_MS
        return idle.interval_ms(is_open, now_ms)

    def is_blocked(self) -> bool:
        return bool(self.producers.blocked.waiting) and not self.share.is_waiting

    def pause_reading(self) -> None:
        self.producers.blocked.pause_reading()

    def read_on(self) -> None:
        self.incoming.read()

    def resume_reading(self) -> None:
        if self.state != CHECKING and not self.share.is_stopped:
            self.idle.reading_resumed(self.now_ms)
            self.share.resume_reading()

    def input_ended(self) -> None:
        if not self.share.ends_later() and self.state not in UNREAD:
            self.end(b"", is_lost=True)

    def protocol_name(self) -> str:
        return "amqp"

    def fault_words(self, text: str) -> bytes:
        return encode_frame(0, Close(Error("amqp:internal-error", text))) if self.state == OPENED else b""

    def hold_output(self) -> None:
        if not self.is_output_full:
            self.is_output_full = True
            self.channels.output_changed()

    def count_held(self) -> None:
        *moving, names_bytes, subscribed_bytes = self._held()
        self.is_holding = any(moving) or bool(self.producers.transactions.open)
        self.holdings.count(self, sum(moving) + names_bytes + subscribed_bytes)

    def lose(self) -> None:
        self.state = CLOSE_SENT
        self.is_ending = True
        self.let_go(is_lost=True)

    def dissolve(self) -> None:
        super().dissolve()
        self.confirmations.forget()
        del self.handshake, self.producers, self.channels, self.incoming

    def shut_down(self) -> None:
        if self.state == OPENED:
            self.fail(Forced("the gateway is shutting down"))
        else:
            self.end(b"")

    # -- the engine's side

    def held_words(self) -> str:
        return holding_words(*self._held())

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        try:
            link = consumer.adapter
            assert isinstance(link, OutgoingLink), "a consumer of this connection has a link"
            outbox = self.outbox
            size_bytes = outbox.size_bytes + link.carrier.deliver(link, delivery) + DELIVERY_OVERHEAD_BYTES
            outbox.size_bytes = size_bytes
            if size_bytes > outbox.limit_bytes:
                self.hold_output()
            if not outbox.is_touched:
                outbox.touch()
        except DATA_FAULTS as error:
            if not self.socket.take_fault(error):
                raise

    def deliver_settled(self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int) -> None:
        raise AssertionError("consumers of AMQP links settle each delivery")

    def release_owed(self, offset: int) -> bool:
        return self.confirmations.release(offset)

    def send_waiting(self) -> None:
        self.context.sender = self.client_number
        blocked = self.producers.blocked
        blocked.admit()
        self.producers.transactions.admit()
        if blocked.may_read_again():
            self.resume_reading()
            self.incoming.read()
        self.say_at_end()

    def refuse_waiting(self, uri: str, error: EngineError) -> None:
        self.producers.blocked.waited_too_long(uri, error)
        self.producers.transactions.waited_too_long(uri, error)
        self.send_waiting()  # others of their links have waited behind them, and the peer may be read again

    def end_consumer(self, consumer: Consumer, error: EngineError) -> bool:
        link = consumer.adapter
        assert isinstance(link, OutgoingLink), "a consumer of this connection has a link"
        link.detach(error)
        return True

    def rights_changed(self) -> None:
        if not self.is_ending:
            self.channels.rights_changed()
            self.send_waiting()  # what the ended links had waiting is dropped, so the peer may be read again

    def connection_defaults(self) -> ConnectionDefaults:
        return self.settings.defaults

    def describe(self) -> dict[str, str]:
        return {"address": self.socket.peer(), "client_id": self.container_id, "login": self.login_name}

    def endpoint_bytes(self) -> int:
        return len(self.channels.own) * SESSION_BYTES

    # -- the steps

    def _held(self) -> tuple[int, int, int, int, int]:
        """Return the octets of partial messages and frames, and the other parts for ``holding_words``."""
        under_way, in_transactions, parked = self.producers.held()
        under_way += self.decoder.buffered_bytes() + self.socket.gathered_bytes()
        return (
            under_way,
            in_transactions,
            parked,
            self.name_bytes,
            self.subscribed.size_bytes(self, self.endpoint_bytes()),
        )

    def fail(self, error: PenstockError) -> None:
        """Close the connection because of an error; before open only a protocol header can be sent."""
        if self.is_ending:
            return
        self.socket.warn(f"{error.condition}: {str(error)[:300]}")
        if self.state == OPENED:
            self.end(fitted_frame(0, Close(error_of(error)), self.peer_frame_size))
        elif self.state == HDR_EXCH:
            self.handshake.refuse(error)
        elif self.state in (LOGIN_DUE, START) and isinstance(error, FramingError):
            self.end(self.handshake.wanted_header())
        else:
            self.end(b"")

    def let_go(self, is_lost: bool) -> None:
        self.producers.blocked.drop()
        self.settle_accepted()
        self.producers.transactions.close_all()
        self.channels.close(is_lost)
        self.engine.disconnect(self, is_lost)
