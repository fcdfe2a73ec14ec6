"""One STOMP connection: frames in, operations on the engine, octets out.  STOMP 1.0, 1.1, 1.2 (wire/stomp.md)."""

from __future__ import annotations

from typing import Final

from engine import gates
from engine.broker import Broker
from engine.consumer import ACK_MODES, INDIVIDUAL, Consumer
from engine.delivery import IN_FLIGHT, Delivery
from engine.destination import QUEUE
from engine.errors import EngineError, LimitReached, PenstockError, TransactionError
from engine.message import NOT_LOGGED, PLAIN, Message
from engine.message import STOMP as STOMP_ENCODING
from engine.options import SubscribeOptions
from engine.queue import Queue
from engine.topic import Topic
from engine.transaction import Transaction
from protocols.connection import Link, ProtocolConnection
from protocols.stomp import frames
from protocols.stomp.codec import VERSION_1_0, VERSION_1_1, VERSION_1_2, Decoder, encode
from protocols.stomp.confirmations import Confirmations
from protocols.stomp.errors import (
    InvalidHeader,
    LoginRefused,
    ParkedTooMuch,
    TimedOut,
    UnexpectedFrame,
    UnsupportedVersion,
    message_for,
)
from protocols.stomp.frames import Frame
from protocols.stomp.handshake import VERSIONS, Terms, connected_headers, negotiate
from protocols.stomp.heartbeat import Heartbeat
from protocols.stomp.mapping import SendTarget, message_octets, send_target, split_destination, subscription_options
from protocols.stomp.parking import Parking
from protocols.stomp.settings import SessionSettings
from protocols.stomp.subscription import Subscription

# States.
AWAITING_CONNECT: Final = 0
AUTHENTICATING: Final = 1
OPEN: Final = 2
ENDING: Final = 3  # nothing more is read; what is owed still leaves

DELIVERY_OVERHEAD_BYTES: Final = 64


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
        "out_bytes",
        "out_limit",
        "is_touched",
        "confirmations",
        "subscriptions",
        "unsettled",
        "next_ack",
        "transactions",
        "committing",
        "parking",
        "heartbeat",
        "ending_error",
        "ending_deadline_ms",
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
        self.decoder = Decoder(settings.frame_limits.before_login())
        self.state = AWAITING_CONNECT
        self.version = VERSION_1_0
        self.terms = Terms()
        self.out: list[bytes] = []
        self.out_bytes = 0
        self.out_limit = settings.unread_output_bytes
        self.is_touched = False
        self.confirmations = Confirmations(broker)
        self.subscriptions: dict[str, Subscription] = {}
        self.unsettled: dict[bytes, Delivery] = {}
        self.next_ack = 1
        self.transactions: dict[str, Transaction] = {}
        self.committing: dict[Frame, Transaction] = {}  # by their COMMIT, which is parked
        self.parking = Parking(settings.block_park_bytes, settings.block_park_max_bytes)
        self.heartbeat = Heartbeat(settings, now_ms)
        self.ending_error = b""
        self.ending_deadline_ms = 0
        self.now_ms = now_ms
        self.connect_frame: Frame | None = None
        self.is_input_ended = False
        self.id_prefix, self.serial_prefix = broker.id_prefixes()
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
        confirmations = self.confirmations
        confirmed = confirmations.end_turn(offset, confirmed_offset)
        if confirmations.owed:
            self.broker.store_events.await_confirmation(self)
        out = self.out
        if confirmed:
            out.append(confirmed)
        if self.ending_error and (not confirmations.owed or self.now_ms >= self.ending_deadline_ms):
            out.append(self.ending_error)
            self.ending_error = b""
        if not out:
            return b""
        octets = b"".join(out)
        out.clear()
        self.heartbeat.sent_ms = self.now_ms
        return octets

    def output_written(self, is_paused: bool) -> None:
        self.out_bytes = 0
        if is_paused:
            self.is_output_full = True
        elif self.is_output_full:
            self.heartbeat.reading_resumed(self.now_ms)  # who takes nothing is not read either
            self.broker.output_drained(self)

    def is_finished(self) -> bool:
        return (
            self.state == ENDING and not self.confirmations.owed and not self.confirmations.turn and not self.out
        ) or (self.ending_deadline_ms > 0 and self.now_ms >= self.ending_deadline_ms)

    def authenticated(self, is_allowed: bool) -> None:
        if self.state != AUTHENTICATING:
            return
        self.link.resume_reading()
        if is_allowed:
            self._open()
            self._read_frames()
            if self.is_input_ended:
                self.input_ended()
        else:
            self._fail(LoginRefused("login and passcode are not those of a user"), None)

    def tick(self, now_ms: int) -> int:
        self.now_ms = now_ms
        if self.state == ENDING:
            self._touch()
            return 100
        heartbeat = self.heartbeat
        fault = heartbeat.fault(now_ms, self.state == OPEN, self.parking.is_reading_paused or self.is_output_full)
        if fault:
            self._fail(TimedOut(fault), None)
            return 100
        if self.state == OPEN and heartbeat.must_send(now_ms) and not self.out and not self.is_output_full:
            self.out.append(b"\n")
            self._touch()
        return heartbeat.interval_ms(self.state == OPEN)

    def is_blocked(self) -> bool:
        # Who said DISCONNECT has left in order, and need not stay until the gate opens.
        return bool(self.parking.parked) and not self.parking.is_disconnecting

    def input_ended(self) -> None:
        self.is_input_ended = True
        if self.state in (AUTHENTICATING, ENDING) or self.parking.is_disconnecting:
            return
        self.state = ENDING
        self.ending_deadline_ms = 0
        self._let_go(is_lost=True)
        self._touch()

    def connection_lost(self) -> None:
        self.state = ENDING
        self._let_go(is_lost=True)

    def shut_down(self) -> None:
        if self.state != ENDING:
            text = encode(frames.ERROR, [("message", "the gateway is shutting down")], b"", self.version)
            self._end(text, is_lost=False)

    # -- the engine's side

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        subscription = consumer.adapter
        assert isinstance(subscription, Subscription), "a consumer of this session has a subscription"
        message = delivery.message
        octets = message.wire
        if octets is None or self.version != VERSION_1_2:
            octets = self._message_octets(message, consumer.queue)
        out = self.out
        if self.version == VERSION_1_2:
            number = self.next_ack
            self.next_ack = number + 1
            key = b"%d" % number
            self.unsettled[key] = delivery
            if delivery.is_redelivered:
                out.append(
                    b"%back:%b\nredelivered:true\nJMSXDeliveryCount:%d\n"
                    % (subscription.prefix, key, delivery.failed_attempts + 1)
                )
            else:
                out.append(b"%back:%b\n" % (subscription.prefix, key))
        else:
            key = self.broker.message_id(message).encode()
            subscription.unsettled[key] = delivery
            out.append(subscription.prefix)
            if delivery.is_redelivered:
                out.append(b"redelivered:true\nJMSXDeliveryCount:%d\n" % (delivery.failed_attempts + 1))
        delivery.key = key
        out.append(octets)
        self.out_bytes += len(octets) + DELIVERY_OVERHEAD_BYTES
        if self.out_bytes > self.out_limit:
            self.is_output_full = True
        if not self.is_touched:
            self._touch()

    def deliver_settled(self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int) -> None:
        subscription = consumer.adapter
        assert isinstance(subscription, Subscription), "a consumer of this session has a subscription"
        octets = message.wire
        if octets is None or self.version != VERSION_1_2:
            octets = self._message_octets(message, consumer.queue)
        out = self.out
        out.append(subscription.prefix)
        if is_redelivered:
            out.append(b"redelivered:true\nJMSXDeliveryCount:%d\n" % delivery_count)
        out.append(octets)
        self.out_bytes += len(octets) + DELIVERY_OVERHEAD_BYTES
        if self.out_bytes > self.out_limit:
            self.is_output_full = True
        if not self.is_touched:
            self._touch()

    def release_confirmations(self, offset: int) -> bool:
        self.confirmations.release(offset, self.out)
        self._touch()
        return bool(self.confirmations.owed)

    def admit(self) -> None:
        parking = self.parking
        for frame in parking.take_all():
            self._take(frame)
        if parking.is_reading_paused and not parking.is_disconnecting and parking.parked_bytes < parking.park_bytes:
            parking.is_reading_paused = False
            self.heartbeat.reading_resumed(self.now_ms)
            self.link.resume_reading()
            self._read_frames()
        self._touch()

    def describe(self) -> dict[str, str]:
        return {"address": self.link.peer(), "client_id": self.terms.client_id, "login": self.terms.login}

    # -- frames

    def _read_frames(self) -> None:
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
                    if command == frames.SEND:
                        self._send(frame)
                    elif command == frames.ACK:
                        self._acknowledge(frame)
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
        self.heartbeat.frame_seen(decoder.has_partial(), self.now_ms)
        if not self.is_touched:
            self._touch()

    def _take(self, frame: Frame) -> None:
        """Take one frame that was parked."""
        if self.state != OPEN:
            return
        try:
            if frame.command == frames.SEND:
                self._send(frame)
            else:
                self._take_rare(frame)
        except PenstockError as error:
            self._refuse(error, frame)

    def _take_rare(self, frame: Frame) -> None:
        command = frame.command
        if command == frames.NACK:
            self._acknowledge(frame)
        elif command == frames.SUBSCRIBE:
            self._subscribe(frame)
        elif command == frames.UNSUBSCRIBE:
            self._unsubscribe(frame)
        elif command == frames.BEGIN:
            self._begin(frame)
        elif command == frames.COMMIT:
            self._commit(frame)
        elif command == frames.ABORT:
            self._abort(frame)
        elif command == frames.DISCONNECT:
            self._disconnect(frame)
        else:
            name = frames.NAMES[command].decode()
            raise UnexpectedFrame(f"{name} is not expected from a connected client")

    def _connect(self, frame: Frame) -> None:
        if frame.command != frames.CONNECT and frame.command != frames.STOMP:
            name = frames.NAMES[frame.command].decode()
            raise UnexpectedFrame(f"the first frame is {name}; allowed are CONNECT and STOMP")
        self.terms = negotiate(frame.head.headers)
        self.connect_frame = frame
        if self.settings.needs_login:
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
        headers = connected_headers(terms, self.settings.server, str(self.client_number), frame.head.headers)
        if frame.receipt is not None:
            headers.append(("receipt-id", frame.receipt.decode()))
        self.connect_frame = None
        self.out.append(encode(frames.CONNECTED, headers, b"", terms.version))
        self.version = terms.version
        self.decoder.version = terms.version
        self.decoder.limits = self.settings.frame_limits
        self.heartbeat.terms = terms
        self.state = OPEN

    def _send(self, frame: Frame) -> None:
        head = frame.head
        target = head.mapped
        if not isinstance(target, SendTarget):
            name = head.headers.get("transaction")
            if name is not None:
                self._transaction(name)
            target = send_target(head, self.broker, self.settings.default_persistent)
            head.mapped = target
        message = Message(
            target.destination_id,
            STOMP_ENCODING,
            target.flags,
            target.priority,
            target.tag_hash,
            target.group_hash,
            target.expires_ms,
            b"",
            target.block,
            frame.body,
        )
        destination = target.destination
        if target.transaction is not None:
            self._transaction(target.transaction).add_send(destination, message)
        elif self.parking.parked and destination.uri() in self.parking.addresses:
            self._park(frame, destination, gates.OPEN)
            return
        else:
            gate = self.broker.send(destination, message)
            if gate != gates.OPEN:
                self._park(frame, destination, gate)
                return
            if target.is_persistent:
                self.confirmations.has_logged = True
        receipt = frame.receipt
        if receipt is not None:
            self.confirmations.turn.append(b"RECEIPT\nreceipt-id:%b\n\n\0\n" % receipt)

    def _acknowledge(self, frame: Frame) -> None:
        """ACK or NACK, in each version's form."""
        key = frame.id
        name: str | None = None
        if key is not None and self.version == VERSION_1_2:
            delivery = self.unsettled.get(key)
        else:
            delivery = None
            name = frame.head.headers.get("transaction")
        if delivery is None:
            delivery = self._find(frame)
            if delivery is None:
                self._confirm(frame)
                return
        consumer = delivery.consumer
        assert consumer is not None, "an unsettled delivery is with a consumer"
        is_single = consumer.ack_mode == INDIVIDUAL or len(consumer.ledger) == 1
        if is_single and name is None and frame.command == frames.ACK:
            if delivery.state != IN_FLIGHT:
                raise InvalidHeader("this message was acknowledged before, in a transaction that is still open")
            subscription = consumer.adapter
            assert isinstance(subscription, Subscription), "a consumer of this session has a subscription"
            del subscription.unsettled[delivery.key]
            self.broker.acknowledge(delivery)
        else:
            self._settle(frame, name, consumer, delivery)
            if name is not None:
                self._confirm(frame)  # accepted into the transaction: nothing to wait for
                return
        if consumer.queue.is_logged:
            self.confirmations.has_logged = True
        receipt = frame.receipt
        if receipt is not None:
            self.confirmations.turn.append(b"RECEIPT\nreceipt-id:%b\n\n\0\n" % receipt)

    def _settle(self, frame: Frame, name: str | None, consumer: Consumer, delivery: Delivery) -> None:
        """The general form: cumulative modes, NACK, transactions."""
        covered = self.broker.covered(delivery)
        if delivery.state != IN_FLIGHT or not covered:
            raise InvalidHeader("this message was acknowledged before, in a transaction that is still open")
        is_ack = frame.command == frames.ACK
        if name is not None:
            transaction = self._transaction(name)
            if is_ack:
                transaction.add_accepted(covered)
            else:
                transaction.add_refused(covered)
            return
        self._forget(covered)
        for one in covered:
            if is_ack:
                self.broker.acknowledge(one)
            else:
                self.broker.refuse(one)

    def _find(self, frame: Frame) -> Delivery | None:
        """Return what an ACK or NACK names; None if there is nothing to acknowledge (automatic mode)."""
        headers = frame.head.headers
        wanted = headers.get("id") if frame.id is None else frame.id.decode()
        if wanted is None or self.version != VERSION_1_2:
            wanted = headers.get("message-id", wanted)
        if wanted is None:
            required = "id" if self.version == VERSION_1_2 else "message-id"
            raise InvalidHeader(f"{frames.NAMES[frame.command].decode()} needs a header {required}")
        key = wanted.encode()
        named = headers.get("subscription")
        has_automatic = False
        for subscription in self.subscriptions.values():
            if named is not None and subscription.key != named:
                continue
            found = subscription.unsettled.get(key)
            if found is not None:
                return found
            has_automatic = has_automatic or subscription.is_automatic
        if self.version == VERSION_1_2:
            # stomp-php's generic dialect answers with the message-id.
            offset, serial = self._parse_message_id(wanted)
            for delivery in self.unsettled.values() if offset >= 0 or serial >= 0 else ():
                message = delivery.message
                if message.log_offset != offset or (offset < 0 and message.serial != serial):
                    continue
                consumer = delivery.consumer
                if consumer is not None and (named is None or consumer.name == named):
                    return delivery
        if has_automatic and frame.command == frames.ACK and wanted.startswith("ID:"):
            return None
        raise InvalidHeader(
            f"{frames.NAMES[frame.command].decode()} names {wanted[:200]!r}, which is not an unacknowledged message "
            "of this connection"
        )

    def _parse_message_id(self, text: str) -> tuple[int, int]:
        """Return log offset and serial that a message-id of this store names, -1 for what it does not."""
        for prefix, is_serial in ((self.serial_prefix, True), (self.id_prefix, False)):
            digits = text.removeprefix(prefix)
            if text.startswith(prefix) and digits.isascii() and digits.isdigit() and len(digits) <= 19:
                return (NOT_LOGGED, int(digits)) if is_serial else (int(digits), -1)
        return NOT_LOGGED, -1

    def _subscribe(self, frame: Frame) -> None:
        headers = frame.head.headers
        name = headers.get("destination")
        if name is None:
            raise InvalidHeader("SUBSCRIBE needs a header destination")
        id_header = headers.get("id")
        if id_header is None and self.version != VERSION_1_0:
            raise InvalidHeader("SUBSCRIBE needs a header id")
        key = name if id_header is None else id_header
        if key in self.subscriptions:
            raise InvalidHeader(f"subscription {key[:200]!r} is there already on this connection")
        ack = headers.get("ack", "auto")
        if ack not in ACK_MODES:
            raise InvalidHeader(f"ack is {ack[:80]!r}; allowed are {', '.join(ACK_MODES)}")
        most = self.settings.subscription_count
        if len(self.subscriptions) >= most:
            raise LimitReached(f"{most} subscriptions are open on this connection, which is the limit")
        kind, rest, options = split_destination(name)
        prefetch, warnings = subscription_options(headers, options, kind, self.settings.is_strict)
        destination = self.broker.destinations.queue(rest) if kind == QUEUE else self.broker.destinations.topic(rest)
        for warning in warnings:
            self.link.warn(warning)
        consumer = self.broker.subscribe(self, destination, SubscribeOptions(ACK_MODES[ack], prefetch, key))
        subscription = Subscription(consumer, key, id_header, name.partition("?")[0], self.version, self.unsettled)
        consumer.adapter = subscription
        self.subscriptions[key] = subscription
        confirmations = self.confirmations
        receipt = frame.receipt
        if receipt is None:
            self.broker.start(consumer)
        elif confirmations.is_settled(self.broker.store.confirmed_offset()):
            # Nothing that it would have to wait for: it leaves before the first MESSAGE.
            self.out.append(_receipt(receipt))
            self.broker.start(consumer)
        else:
            confirmations.turn.append(_receipt(receipt))
            confirmations.turn_held.append(consumer)

    def _unsubscribe(self, frame: Frame) -> None:
        headers = frame.head.headers
        key = headers.get("id")
        if key is None and self.version == VERSION_1_0:
            key = headers.get("destination")
        if key is None:
            raise InvalidHeader("UNSUBSCRIBE needs a header id")
        subscription = self.subscriptions.pop(key, None)
        if subscription is None:
            raise InvalidHeader(f"UNSUBSCRIBE names {key[:200]!r}, which is not a subscription of this connection")
        self._forget(list(subscription.consumer.ledger.values()))
        self.broker.unsubscribe(subscription.consumer, is_lost=False)
        self._confirm(frame)

    def _begin(self, frame: Frame) -> None:
        name = self._transaction_header(frame)
        if name in self.transactions:
            raise TransactionError(f"transaction {name[:200]!r} is open already")
        limits = self.settings.transaction_limits
        if len(self.transactions) + len(self.committing) >= limits.open_count:
            raise TransactionError(f"{limits.open_count} transactions are open on this connection, which is the limit")
        self.transactions[name] = Transaction(self, name, limits)
        self._confirm(frame)

    def _commit(self, frame: Frame) -> None:
        name = self._transaction_header(frame)
        transaction = self.committing.pop(frame, None)
        if transaction is None:
            transaction = self._transaction(name)
            del self.transactions[name]  # while its COMMIT waits, the client may begin another one of that name
        addresses = self.parking.addresses
        gate, destination = self.broker.flow.commit_refusal(transaction)
        if gate == gates.OPEN and addresses:
            for sent_to, _ in transaction.sends:
                if sent_to.uri() in addresses:
                    destination = sent_to
                    break
        if destination is not None:
            self.committing[frame] = transaction
            self._park(frame, destination, gate)
            self.parking.addresses.update(sent_to.uri() for sent_to, _ in transaction.sends)
            return
        self._forget(transaction.accepted + transaction.refused)
        self.broker.commit(transaction)
        self.confirmations.has_logged = True
        self._confirm(frame)

    def _abort(self, frame: Frame) -> None:
        name = self._transaction_header(frame)
        transaction = self._transaction(name)
        del self.transactions[name]
        self.broker.abort(transaction)
        self._confirm(frame)

    def _disconnect(self, frame: Frame) -> None:
        if self.parking.parked:
            self.parking.add_disconnect(frame)
            return
        self._confirm(frame)
        self.state = ENDING
        self.ending_deadline_ms = 0
        self._let_go(is_lost=False)

    # -- the steps

    def _touch(self) -> None:
        if not self.is_touched:
            self.is_touched = True
            self.link.touch()

    def _confirm(self, frame: Frame) -> None:
        if frame.receipt is not None:
            self.confirmations.turn.append(_receipt(frame.receipt))

    def _message_octets(self, message: Message, queue: Queue) -> bytes:
        if message.wire is not None and self.version == VERSION_1_1 and message.flags & PLAIN:
            return message.wire
        return message_octets(message, self.version, self.id_prefix, self.serial_prefix, not queue.is_logged)

    def _forget(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            consumer = delivery.consumer
            assert consumer is not None, "an unsettled delivery is with a consumer"
            subscription = consumer.adapter
            assert isinstance(subscription, Subscription), "a consumer of this session has a subscription"
            subscription.unsettled.pop(delivery.key, None)

    def _transaction_header(self, frame: Frame) -> str:
        name = frame.head.headers.get("transaction")
        if name is None:
            raise InvalidHeader(f"{frames.NAMES[frame.command].decode()} needs a header transaction")
        return name

    def _transaction(self, name: str) -> Transaction:
        transaction = self.transactions.get(name)
        if transaction is None:
            raise TransactionError(f"transaction {name[:200]!r} is not open on this connection")
        return transaction

    def _park(self, frame: Frame, destination: Queue | Topic, gate: int) -> None:
        """Let a frame wait for its gate, and stop reading a connection that sends on regardless."""
        parking = self.parking
        committing = self.committing.get(frame)
        parking.add(frame, destination.uri(), 0 if committing is None else committing.size_bytes)
        if gate != gates.OPEN:
            self.broker.flow.park(self, gate, destination)
        if self.subscriptions or self.unsettled:
            if parking.parked_bytes > parking.park_max_bytes:
                raise ParkedTooMuch(
                    f"{parking.parked_bytes} octets of messages wait for {destination.uri()}, which takes nothing now; "
                    f"the limit for a connection that also receives is {parking.park_max_bytes}"
                )
        elif parking.parked_bytes >= parking.park_bytes and not parking.is_reading_paused:
            parking.is_reading_paused = True
            self.link.pause_reading()

    def _refuse(self, error: PenstockError, frame: Frame | None) -> None:
        """Answer with ERROR; the connection ends, but under 1.0 for a request that only asked for the wrong thing."""
        if isinstance(error, EngineError | InvalidHeader) and self.version == VERSION_1_0 and self.state == OPEN:
            self.confirmations.turn.append(self._error_frame(error, frame))
        else:
            self._fail(error, frame)

    def _fail(self, error: PenstockError, frame: Frame | None) -> None:
        self.link.warn(f"{error.condition}: {error}")
        self._end(self._error_frame(error, frame), is_lost=True)

    def _end(self, error_frame: bytes, is_lost: bool) -> None:
        """Finish with an ERROR that waits, for a bounded time, for the confirmations before it."""
        self.state = ENDING
        self.ending_error = error_frame
        self.ending_deadline_ms = self.now_ms + self.settings.ending_time_ms
        self._let_go(is_lost)
        self._touch()

    def _let_go(self, is_lost: bool) -> None:
        """Abort what is open and give back what is held."""
        for transaction in [*self.transactions.values(), *self.committing.values()]:
            self.broker.abort(transaction)
        self.transactions.clear()
        self.committing.clear()
        dropped = len(self.parking.take_all())
        if dropped:
            self.link.frames_dropped(dropped)
        self.broker.disconnect(self, is_lost)
        self.subscriptions.clear()
        self.unsettled.clear()

    def _error_frame(self, error: PenstockError, frame: Frame | None) -> bytes:
        headers = [("message", message_for(error)), ("condition", error.condition), ("content-type", "text/plain")]
        if isinstance(error, UnsupportedVersion):
            headers.append(("version", ",".join(VERSIONS)))
        body = str(error).encode()
        headers.append(("content-length", str(len(body))))
        octets = encode(frames.ERROR, headers, body, self.version)
        if frame is not None and frame.receipt is not None:
            # The receipt as it stood on the wire is escaped already.
            octets = octets.replace(b"\n", b"\nreceipt-id:" + frame.receipt + b"\n", 1)
        return octets


def _receipt(receipt: bytes) -> bytes:
    return b"RECEIPT\nreceipt-id:%b\n\n\0\n" % receipt
