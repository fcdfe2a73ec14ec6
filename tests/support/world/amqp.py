"""A simulated client that speaks AMQP 1.0: frames into a connection, cut anywhere, answers decoded from its octets.

Each delivery is confirmed by its own disposition.  As for STOMP, only the connection knows which messages and commits
wait at a gate, so the client examines its parking place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from engine.consumers.consumer import INDIVIDUAL
from engine.values.destination import QUEUE, SUBSCRIPTION, TOPIC
from engine.values.options import ReplayStart
from protocols.amqp.v1_0.endpoints.connection import AmqpConnection
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.composite_codec import encode_composite
from protocols.amqp.v1_0.wire.composites.delivery_states import (
    Accepted,
    Declared,
    Modified,
    Rejected,
    Released,
    State,
    TransactionalState,
)
from protocols.amqp.v1_0.wire.composites.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
)
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator, Declare, Discharge
from protocols.amqp.v1_0.wire.frames.frame_decoder import Decoder
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, protocol_header
from protocols.amqp.v1_0.wire.types.value_decoder import decode
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, Timestamp, UByte, UInt, ULong
from tests.support.protocols.amqp_gateway import NoUsers
from tests.support.world.bodies import Violation, data_section, read_body
from tests.support.world.clients import Held, PeerSubscription, PeerTransaction, durable_name
from tests.support.world.link import Parked, SocketPeer
from tests.support.world.views import Committed, CreditSubscriber, Fact, Place, Sent, Subscriber

if TYPE_CHECKING:
    from tests.support.world.world import World

SETTINGS: Final = AmqpSettings(
    idle_time_ms=0, connect_time_ms=1 << 40, link_credit=20, block_park_bytes=1 << 20, block_park_max_bytes=1 << 30
)
COORDINATOR: Final = 0
FRAME_BYTES: Final = 100_000  # octets of a payload: the gateway takes frames of 131,072
COLOUR: Final = "blue: \\ dark"  # as STOMP clients send and expect it
VALUE_SECTION: Final = b"\x00\x53\x77"
HEADER, APPLICATION_PROPERTIES, DATA, VALUE = 0x70, 0x74, 0x75, 0x77
# The outcomes of a consumer besides accepted, and the engine's word for each.
REFUSALS: Final[tuple[tuple[State, str], ...]] = (
    (Released(), "requeue"),
    (Modified(False), "requeue"),
    (Modified(True), "redeliver"),
    (Modified(True), "redeliver"),
    (Rejected(), "dead-letter"),
)


@dataclass(slots=True, eq=False)
class _Asked:
    """A delivery of ours without an outcome yet.  facts: promised by the outcome, None before it was taken."""

    label: str
    facts: list[Fact] | None = None
    committed: Committed | None = None
    declared: PeerTransaction | None = None


@dataclass(slots=True, eq=False)
class _Sender:
    handle: int
    credit: int = 0
    sent: int = 0


@dataclass(slots=True, eq=False)
class _Receiver:
    """credit: granted by the client when less than half of it is left.  seen: transfers that have come."""

    handle: int
    subscription: PeerSubscription
    credit: int
    seen: int = 0
    chunks: list[bytes] = field(default_factory=list)


class AmqpPeer(SocketPeer):
    """One session on a connection."""

    is_credited = True

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.connection: AmqpConnection = AmqpConnection(
            world.broker, self.link, SETTINGS, NoUsers(), world.clock.now_ms
        )
        self.decoder = Decoder(1 << 31)
        self.frame_size = self.chance.choice((512, 4_096, 1 << 20))
        self.senders: dict[tuple[int, str], _Sender] = {}
        self.by_handle: dict[int, _Sender] = {}
        self.receivers: dict[int, _Receiver] = {}
        self.detached: dict[int, _Receiver] = {}
        self.asked: dict[int, _Asked] = {}
        self.settling: dict[int, tuple[str, list[Fact]]] = {}  # deliveries to us that the gateway must settle second
        self.committing: dict[str, PeerTransaction] = {}
        self.has_left = False
        self.attaching: dict[str, Fact] = {}  # durable subscriptions whose attach has not been answered, by link name
        self.leaving: dict[int, list[Fact]] = {}  # what the answer to a detach confirms, by handle
        self._next_handle = 1
        self._next_delivery = 0
        self.write_octets(protocol_header(AMQP_LAYER))
        self._write(Open(f"a{number}", max_frame_size=self.frame_size))
        self._write(Begin(None, 0, 1 << 30, 1 << 30))
        self._write(Attach("txn", COORDINATOR, False, source=Source(), target=Coordinator(), initial_delivery_count=0))

    # -- octets out

    def _write(self, performative: Composite, payload: bytes = b"") -> None:
        self.write_octets(encode_frame(0, performative, payload))

    def _transfer(self, handle: int, payload: bytes, is_settled: bool, state: State | None = None) -> int:
        """Send one message in a number of frames that the seed chooses; return its delivery-id."""
        number = self._next_delivery
        self._next_delivery += 1
        cuts = 1 if handle == COORDINATOR else self.chance.choice((1, 1, 2, 3))
        size = min(len(payload) // cuts + 1, FRAME_BYTES)
        pieces = [payload[start : start + size] for start in range(0, len(payload), size)]
        for place, piece in enumerate(pieces):
            more = place + 1 < len(pieces)
            self._write(Transfer(handle, number, b"%d" % number, 0, is_settled, more, state=state), piece)
        return number

    def _grant(self, receiver: _Receiver) -> None:
        """Grant credit, replacing earlier credit."""
        model = receiver.subscription.subscriber
        assert isinstance(model, CreditSubscriber)
        model.credit = receiver.credit
        self._write(Flow(0, 1 << 30, 0, 1 << 30, receiver.handle, receiver.seen, receiver.credit))

    def _top_up(self) -> None:
        for receiver in self.receivers.values():
            model = receiver.subscription.subscriber
            assert isinstance(model, CreditSubscriber)
            if model.credit <= receiver.credit // 2:
                self._grant(receiver)

    # -- actions of the client

    def act(self) -> None:
        self._top_up()
        super().act()

    def take_all(self) -> None:
        super().take_all()
        self._top_up()

    def _send(self, sent: Sent, body: bytes, transaction: PeerTransaction | None, wants_receipt: bool) -> None:
        sender = self._sender(sent.kind, sent.name)
        if sender.credit <= 0:
            return  # it is never accepted
        sender.credit -= 1
        sender.sent += 1
        sent.expires_ms = 0
        section = data_section(body)
        payload = _sections(sent) + section
        if transaction is not None and isinstance(transaction.handle, bytes):
            transaction.model.sends.append(sent)
            number = self._transfer(sender.handle, payload, not wants_receipt, TransactionalState(transaction.handle))
            if wants_receipt:
                self.asked[number] = _Asked(f"send {sent.uid} in {transaction.name}", [])
            return
        number = self._transfer(sender.handle, payload, not wants_receipt)
        asked = _Asked(f"send {sent.uid}")
        if wants_receipt:
            self.asked[number] = asked

        def taken() -> None:
            asked.facts = self.oracle.accept(sent)
            self.facts.extend(asked.facts)

        self.take(Parked(taken, section, b""))

    def _sender(self, kind: int, name: str) -> _Sender:
        sender = self.senders.get((kind, name))
        if sender is None:
            sender = self.senders[kind, name] = self.by_handle[self._next_handle] = _Sender(self._next_handle)
            self._next_handle += 1
            target = Target(name, capabilities=[_capability(kind)])
            self._write(
                Attach(f"to {name}", sender.handle, False, source=Source(), target=target, initial_delivery_count=0)
            )
        return sender

    def is_parked(self, parked: Parked) -> bool:
        if parked.name:
            return any(one.name == parked.name for one in self.connection.producers.transactions.waiting)
        return any(one.message.body == parked.body for one in self.connection.producers.blocked.waiting)

    def new_subscriber(self, kind: int, name: str, ack_mode: int, prefetch: int) -> Subscriber:
        return self.oracle.subscribe(kind, name, INDIVIDUAL, prefetch, is_credited=True)

    def _subscribe(self, subscription: PeerSubscription) -> None:
        subscription.ack_mode = INDIVIDUAL
        view = subscription.subscriber.view
        handle = self._next_handle
        self._next_handle += 1
        receiver = _Receiver(handle, subscription, max(1, subscription.subscriber.prefetch))
        subscription.handle = receiver
        self.receivers[handle] = receiver
        name = subscription.key
        source = Source(view.name, capabilities=[_capability(view.kind)])
        replay = subscription.subscriber.replay
        if replay is not None:
            source.filter = {Symbol("from"): _filter(replay.start)}
        if view.kind == SUBSCRIPTION:
            name = f"{durable_name(view.name)}|{handle}"
            sharing: list[str] = [Symbol(one) for one in ("topic", "shared", "global")]
            source = Source(view.name, UInt(2), Symbol("never"), capabilities=sharing)
            self.attaching[name] = Fact("opened", SUBSCRIPTION, view.name, 0)
            self.facts.append(self.attaching[name])
        second = self.chance.choice((0, 1))
        self._write(Attach(name, handle, True, rcv_settle_mode=second, source=source, target=Target()))
        if self.chance.random() < 0.8:
            self._grant(receiver)

    def _settle(
        self,
        subscription: PeerSubscription,
        held: Held,
        covered: list[Place],
        is_ack: bool,
        transaction: PeerTransaction | None,
        wants_receipt: bool,
    ) -> None:
        number = held.handle
        assert isinstance(number, int), "the handle is the delivery-id"
        if transaction is not None and isinstance(transaction.handle, bytes):
            self._write(Disposition(True, number, None, True, TransactionalState(transaction.handle, Accepted())))
            self.settled(subscription, covered, True, transaction)
            return
        outcome, mode = (Accepted(), "") if is_ack else self.chance.choice(REFUSALS)
        start = len(self.facts)
        self._write(Disposition(True, number, None, not wants_receipt, outcome))
        self.settled(subscription, covered, is_ack, None, mode)
        if wants_receipt:
            self.settling[number] = (f"settle {held.place.uid}", self.facts[start:])

    def _begin(self, transaction: PeerTransaction) -> None:
        number = self._transfer(COORDINATOR, VALUE_SECTION + encode_composite(Declare()), False)
        self.asked[number] = _Asked(f"declare {transaction.name}", [], declared=transaction)

    def commit(self, transaction: PeerTransaction) -> None:
        name = transaction.handle
        if not isinstance(name, bytes):
            return  # the gateway has not sent its txn-id yet
        self.world.note(f"{self.number} commits {transaction.name}")
        del self.transactions[transaction.name]
        self.committing[transaction.name] = transaction
        number = self._transfer(COORDINATOR, VALUE_SECTION + encode_composite(Discharge(name, False)), False)
        asked = self.asked[number] = _Asked(f"commit {transaction.name}")

        def taken() -> None:
            del self.committing[transaction.name]
            start = len(self.facts)
            asked.committed = self.committed(transaction)
            asked.facts = self.facts[start:]

        self.take(Parked(taken, b"", name))

    def abort(self, transaction: PeerTransaction) -> None:
        if isinstance(transaction.handle, bytes):
            super().abort(transaction)

    def _abort(self, transaction: PeerTransaction) -> None:
        name = transaction.handle
        assert isinstance(name, bytes)
        number = self._transfer(COORDINATOR, VALUE_SECTION + encode_composite(Discharge(name, True)), False)
        self.asked[number] = _Asked(f"abort {transaction.name}", [])
        self._roll_back(transaction)

    def _roll_back(self, transaction: PeerTransaction) -> None:
        """Return messages acknowledged in it to their queue: AMQP's consumers have forgotten them."""
        gone = {id(place) for place in transaction.model.accepted}
        for subscription in self.subscriptions.values():
            subscription.held = [one for one in subscription.held if id(one.place) not in gone]
        self.oracle.roll_back(transaction.model)

    def _unsubscribe(self, subscription: PeerSubscription) -> None:
        receiver = subscription.handle
        assert isinstance(receiver, _Receiver)
        del self.receivers[receiver.handle]
        self.detached[receiver.handle] = receiver
        is_kept = subscription.subscriber.view.kind == SUBSCRIPTION
        if is_kept:
            self.leaving[receiver.handle] = self.facts[:]
        self._write(Detach(receiver.handle, None if is_kept else True))
        self.oracle.close(subscription.subscriber, is_lost=False)

    def disconnect(self) -> None:
        self.world.note(f"{self.number} disconnects")
        self.is_leaving = True
        if self.chance.random() < 0.5:
            self._write(End())
        self._write(Close())
        self._end(is_lost=False)
        self.has_left = True

    def lose(self) -> None:
        self.world.note(f"{self.number} is lost")
        self.connection.share.lose()
        self.is_lost = self.is_leaving = True
        self._look_whether_lost()

    def _look_whether_lost(self) -> None:
        """The engine loses the client after the frames that waited for steps: gates may have opened for others."""
        if self.is_lost and not self.is_closed and self.connection.client_number not in self.world.broker.clients:
            self._end(is_lost=True)
            self.asked.clear()
            self.settling.clear()

    def _end(self, is_lost: bool) -> None:
        for transaction in [*self.transactions.values(), *self.committing.values()]:
            self._roll_back(transaction)
        self.transactions.clear()
        self.committing.clear()
        self.parked.clear()
        self.detached.update(self.receivers)
        self.receivers.clear()
        self.ended(is_lost)
        self.is_closed = True

    # -- octets in

    def turn_ended(self) -> None:
        super().turn_ended()
        self._look_whether_lost()

    def read_octets(self, octets: bytes) -> None:
        self.decoder.receive_data(octets)
        while (frame := self.decoder.next_frame()) is not None:
            self._read(frame)

    def _read(self, frame: Composite) -> None:
        if isinstance(frame, Transfer):
            self._read_transfer(frame, self.decoder.payload)
        elif isinstance(frame, Disposition):
            self._read_disposition(frame)
        elif isinstance(frame, Flow):
            if frame.handle in self.by_handle:
                sender = self.by_handle[frame.handle]
                sender.credit = (frame.delivery_count or 0) + (frame.link_credit or 0) - sender.sent
        elif isinstance(frame, Close):
            if frame.error is not None or not self.has_left:
                raise Violation(f"connection {self.number} is closed: {frame.error}")
            self._left()
        elif isinstance(frame, End):
            if frame.error is not None or not self.has_left:
                raise Violation(f"the session of connection {self.number} is ended: {frame.error}")
            self.confirm_facts("end", self.facts)
        elif isinstance(frame, Attach):
            if frame.name in self.attaching:
                self.confirm_facts(f"attach {frame.name}", [self.attaching.pop(frame.name)])
        elif isinstance(frame, Detach):
            if frame.error is not None or frame.handle not in self.detached:
                raise Violation(f"a link of connection {self.number} is detached: {frame.error}")
            del self.detached[frame.handle]
            self.confirm_facts(f"detach {frame.handle}", self.leaving.pop(frame.handle, []))

    def _left(self) -> None:
        """Take the answer to close, which confirms everything that was taken before it."""
        self.confirm_facts("close", self.facts)
        self.asked.clear()
        self.settling.clear()

    def _read_disposition(self, frame: Disposition) -> None:
        for number in range(frame.first, (frame.first if frame.last is None else frame.last) + 1):
            if frame.role:
                self._read_outcome(number, frame.state)
            elif number in self.settling:
                self.confirm_facts(*self.settling.pop(number))
            else:
                raise Violation(f"connection {self.number} did not ask for the settlement of delivery {number}")

    def _read_outcome(self, number: int, state: State | None) -> None:
        asked = self.asked.pop(number, None)
        if asked is None:
            raise Violation(f"connection {self.number} does not wait for the outcome of delivery {number}")
        outcome = state.outcome if isinstance(state, TransactionalState) else state
        if asked.declared is not None and isinstance(outcome, Declared):
            asked.declared.handle = outcome.txn_id
        elif not isinstance(outcome, Accepted):
            raise Violation(f"{asked.label} of connection {self.number} is answered {state}")
        if asked.facts is None:
            raise Violation(f"{asked.label} is confirmed on connection {self.number} while it waits at a gate")
        if asked.committed is not None:
            asked.committed.is_confirmed = True
        self.confirm_facts(asked.label, asked.facts)

    def confirm_facts(self, label: str, facts: list[Fact]) -> None:
        """Note that the client has seen a confirmation of exactly these."""
        self.world.note(f"{self.number} sees {label}")
        self.world.confirmed(facts)

    def _read_transfer(self, frame: Transfer, payload: bytes) -> None:
        receiver = self.receivers.get(frame.handle) or self.detached.get(frame.handle)
        if receiver is None:
            raise Violation(f"a transfer on handle {frame.handle}, which is not attached")
        receiver.chunks.append(payload)
        if frame.more:
            return
        whole = b"".join(receiver.chunks)
        receiver.chunks.clear()
        receiver.seen += 1
        body, failed, is_first, colour = _read_sections(whole)
        if frame.handle not in self.receivers:
            self._check_late(receiver.subscription, read_body(body))
            return
        if colour != COLOUR:
            raise Violation(f"application-property colour became {colour!r}")
        subscription = receiver.subscription
        place = self.received(subscription, body, "", not is_first, failed + 1)
        assert frame.delivery_id is not None
        subscription.held.append(Held(place, frame.delivery_id))

    def _check_late(self, subscription: PeerSubscription, uid: int) -> None:
        """Check a message after a detach: a topic hands over at once, so messages already on their way still arrive."""
        if subscription.subscriber.view.kind != TOPIC:
            raise Violation(f"message {uid} comes to link {subscription.key}, which was detached")

    def is_at_rest(self) -> bool:
        return not self.asked and not self.settling and not self.parked


def _filter(start: ReplayStart) -> Described:
    """Return the filter for the start of a replay."""
    if start.time_ms is not None:
        return Described(Symbol("penstock:from-time"), Timestamp(start.time_ms))
    if start.entry is not None:
        return Described(Symbol("rabbitmq:stream-offset-spec"), ULong(start.entry))
    return Described(Symbol("penstock:from-offset"), start.place)


def _capability(kind: int) -> str:
    return Symbol("queue" if kind == QUEUE else "topic")


def _sections(sent: Sent) -> bytes:
    """Return everything of a message but its body."""
    header = Described(ULong(HEADER), [sent.is_persistent, UByte(sent.priority)])
    properties = Described(ULong(APPLICATION_PROPERTIES), {"colour": COLOUR})
    return encode(header) + encode(properties)


def _read_sections(octets: bytes) -> tuple[bytes, int, bool, object]:
    """Return body, failed deliveries, whether no consumer had it before, and the colour of a message."""
    at = 0
    found: dict[int, Any] = {}
    while at < len(octets):
        section, at = decode(octets, at)
        assert isinstance(section, Described)
        found[int(section.descriptor)] = section.value
    header = [*found.get(HEADER, []), None, None, None, None, None]
    body = found[DATA] if DATA in found else found[VALUE]
    body = body.encode() if isinstance(body, str) else bytes(body)
    is_first = header[3] is not False
    return body, header[4] or 0, is_first, found.get(APPLICATION_PROPERTIES, {}).get("colour")
