"""Links: one direction of messages between the peer and a node.  ``IncomingLink`` brings, ``OutgoingLink`` takes.

Link state (transport 2.6.7): delivery-count counts the deliveries that the sender has begun, link-credit how many more
it may begin; both ends compute with 32 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from engine import gates
from engine.consumer import Consumer
from engine.delivery import Delivery
from engine.errors import EngineError, PenstockError
from engine.message import AMQP_1_0, KEYED, PERSISTENT, Message
from engine.queue import Queue
from engine.topic import Topic
from protocols.amqp.v1_0.addresses import JMS_DESTINATION_KINDS, target_of
from protocols.amqp.v1_0.encoder import TransferHead, encode_frame
from protocols.amqp.v1_0.errors import (
    DecodeError,
    InvalidField,
    LinkError,
    MessageSizeExceeded,
    NotImplementedHere,
    TransferLimitExceeded,
    error_of,
)
from protocols.amqp.v1_0.mapping import outgoing_sections
from protocols.amqp.v1_0.performatives import Detach, Flow, Transfer
from protocols.amqp.v1_0.sections import Scanned, split_annotations, split_header
from protocols.amqp.v1_0.states import ACCEPTED, Rejected, State, TransactionalState

if TYPE_CHECKING:
    from protocols.amqp.v1_0.session import AmqpSession

MASK: Final = 0xFFFFFFFF

JMS_DESTINATION: Final = "x-opt-jms-dest"

# What asks for a delivery later, or again and again (AMQP JMS mapping; ActiveMQ's scheduler).
DELAY_PREFIX: Final = b"x-opt-delivery-"
DELIVERY_TIME: Final = "x-opt-delivery-time"
DELAYS: Final = (
    DELIVERY_TIME,
    "x-opt-delivery-delay",
    "x-opt-delivery-repeat",
    "x-opt-delivery-period",
    "x-opt-delivery-cron",
)

# Gates that open by themselves soon: a drain waits for what is behind them.
_MAY_STILL_COME: Final = frozenset((gates.OPEN, gates.PAGING, gates.SOCKET_PAUSED, gates.RATE))


class Link:
    """handle: ours; peer_handle: what the peer calls it.

    is_detaching: we have said detach, and drop what comes until the peer has.
    """

    __slots__ = ("session", "name", "handle", "peer_handle", "is_detaching", "delivery_count")

    def __init__(self, session: AmqpSession, name: str, handle: int, peer_handle: int) -> None:
        self.session = session
        self.name = name
        self.handle = handle
        self.peer_handle = peer_handle
        self.is_detaching = False
        self.delivery_count = 0

    def take(self, transfer: Transfer, payload: bytes) -> None:
        """Take one transfer frame."""
        raise NotImplementedHere(f"link {self.name[:200]!r} goes the other way: the peer receives on it")

    def flow(self, flow: Flow) -> None:
        """Take the peer's view of the link."""

    def settled(self, delivery_id: int) -> None:
        """The peer has settled a delivery that it sent."""

    def close(self, is_lost: bool, is_closing: bool) -> None:
        """Let go of everything.  is_closing: the peer wants the terminus gone, not only the link."""

    def detach(self, error: PenstockError) -> None:
        """End the link because of an error; its terminus stays."""
        self.is_detaching = True
        self.close(False, False)
        self.session.connection.send(encode_frame(self.session.channel, Detach(self.handle, True, error_of(error))))


class IncomingLink(Link):
    """A producer of the peer.

    destination: where its messages go, None for an anonymous relay, where each message says so itself.
    node: the temporary destination that was made for it, and ends with it.
    credit: what the peer may still send.  is_held: a message of it waits at a gate, so nothing more is granted.
    first: the first frame of a delivery of which more frames are to come; chunks: its octets so far.
    """

    __slots__ = ("destination", "credit", "node", "is_held", "is_listed", "first", "chunks", "chunk_bytes", "is_second")

    def __init__(
        self,
        session: AmqpSession,
        name: str,
        handle: int,
        peer_handle: int,
        destination: Queue | Topic | None,
        is_second: bool,
    ) -> None:
        super().__init__(session, name, handle, peer_handle)
        self.destination = destination
        self.node: Queue | Topic | None = None
        self.credit = 0
        self.is_held = False
        self.is_listed = False
        self.first: Transfer | None = None
        self.chunks: list[bytes] = []
        self.chunk_bytes = 0
        self.is_second = is_second

    def take(self, transfer: Transfer, payload: bytes) -> None:
        session = self.session
        if self.first is None:
            credit = self.credit - 1
            if credit < 0:
                raise TransferLimitExceeded(f"link {self.name[:200]!r} has no credit left")
            self.credit = credit
            self.delivery_count = (self.delivery_count + 1) & MASK
            if credit <= session.credit_low and not self.is_listed:
                self.is_listed = True
                session.low_links.append(self)
        if transfer.more or self.first is not None or transfer.aborted:
            whole = self._gather(transfer, payload)
            if whole is None:
                return
            transfer, payload = whole
        delivery_id = transfer.delivery_id
        if delivery_id is None or transfer.delivery_tag is None:
            raise InvalidField("the first transfer of a delivery lacks its delivery-id or delivery-tag")
        try:
            if transfer.message_format:
                raise NotImplementedHere(f"message-format {transfer.message_format:#x}; allowed is 0")
            connection = session.connection
            scanned = connection.scanner.scan(payload)
            if scanned.has_annotations and DELAY_PREFIX in scanned.headers:
                self._refuse_delay(scanned)
            destination = self.destination
            if destination is None:
                destination = self._relay_destination(scanned)
            message = self._message(destination, scanned)
        except (DecodeError, EngineError, LinkError) as error:
            self._refuse(transfer, delivery_id, error)
            return
        state = transfer.state
        if state is not None and isinstance(state, TransactionalState):
            connection.transactions.send(self, delivery_id, bool(transfer.settled), state, destination, message)
            return
        if self.is_held or connection.parking.holds(destination):
            self.park(delivery_id, bool(transfer.settled), destination, message, gates.OPEN)
            return
        try:
            gate = connection.broker.send(destination, message)
        except EngineError as error:  # the address fails what it has no room for
            self._refuse(transfer, delivery_id, error)
            return
        if gate != gates.OPEN:
            self.park(delivery_id, bool(transfer.settled), destination, message, gate)
            return
        if not transfer.settled:
            self.confirm(delivery_id, message)

    def confirm(self, delivery_id: int, message: Message) -> None:
        """Accept a delivery, once it is durable if it asks for that."""
        session = self.session
        if self.is_second:
            session.confirm_state(delivery_id, ACCEPTED, False, message.log_offset >= 0)
        elif message.log_offset >= 0:
            session.accepted_logged.append(delivery_id)
        else:
            session.accepted_now.append(delivery_id)

    def answer(self, delivery_id: int, is_settled: bool, state: State) -> None:
        """Tell the outcome of a delivery at the end of this turn, unless the peer has settled it."""
        if not is_settled:
            self.session.confirm_state(delivery_id, state, not self.is_second, False)

    def park(self, delivery_id: int, is_settled: bool, destination: Queue | Topic, message: Message, gate: int) -> None:
        """Keep a message that finds its gate shut; nothing more is granted on this link meanwhile."""
        self.is_held = True
        self.session.connection.parking.park(self, delivery_id, is_settled, destination, message, gate)

    def close(self, is_lost: bool, is_closing: bool) -> None:
        self.first = None
        self.chunks = []
        self.credit = 0
        self.session.connection.parking.forget(self)
        if is_closing and self.node is not None:
            self.session.connection.broker.close_temporary(self.node)

    def flow(self, flow: Flow) -> None:
        """The peer tells how far it has come; echo asks what we grant."""
        if flow.echo:
            self.session.send_link_flow(self.handle, self.delivery_count, self.credit, 0, False)

    def grant(self) -> None:
        """Fill up the credit."""
        self.is_listed = False
        if self.is_held or self.is_detaching:
            return
        session = self.session
        self.credit = session.connection.settings.link_credit
        session.send_link_flow(self.handle, self.delivery_count, self.credit, 0, False)

    def _gather(self, transfer: Transfer, payload: bytes) -> tuple[Transfer, bytes] | None:
        """Collect the frames of one delivery; return its first frame and all octets once it is whole."""
        first = self.first
        if first is None:
            self.first = first = transfer
            self.chunk_bytes = 0
        elif transfer.delivery_id is not None and transfer.delivery_id != first.delivery_id:
            raise InvalidField(
                f"a transfer of delivery {transfer.delivery_id} stands inside delivery {first.delivery_id}"
            )
        if transfer.aborted:
            self.first = None
            self.chunks = []
            return None
        if transfer.settled is not None:
            first.settled = transfer.settled
        if transfer.state is not None:
            first.state = transfer.state
        self.chunks.append(payload)
        self.chunk_bytes += len(payload)
        limit = self.session.connection.settings.body_bytes
        if self.chunk_bytes > limit:
            raise MessageSizeExceeded(f"a message of more than {limit} octets (max-message-size)")
        if transfer.more:
            return None
        whole = b"".join(self.chunks)
        self.first = None
        self.chunks = []
        return first, whole

    def _relay_destination(self, scanned: Scanned) -> Queue | Topic:
        """Return where a message on an anonymous relay goes: by its ``to``, and by what JMS says of its kind."""
        if not scanned.to:
            raise InvalidField("a message on a link without a target address needs the property to")
        kind = 0
        if scanned.has_annotations:
            annotations, _ = split_annotations(split_header(scanned.headers)[1])
            kind = JMS_DESTINATION_KINDS.get(annotations.get(JMS_DESTINATION, -1), 0)
        return target_of(self.session.connection, scanned.to, None, kind)

    def _refuse_delay(self, scanned: Scanned) -> None:
        """Refuse what would otherwise be delivered at once, against its sender's word.  Raises: NotImplementedHere."""
        annotations, _ = split_annotations(split_header(scanned.headers)[1])
        due = annotations.get(DELIVERY_TIME)
        is_past = isinstance(due, int) and due <= self.session.connection.broker.wall_ms
        for name in DELAYS:
            if annotations.get(name) and not (name == DELIVERY_TIME and is_past):
                raise NotImplementedHere(f"message-annotation {name}: delayed delivery is not supported")

    def _message(self, destination: Queue | Topic, scanned: Scanned) -> Message:
        expires_ms = scanned.expires_ms
        if expires_ms == 0 and scanned.ttl_ms > 0:
            expires_ms = self.session.connection.broker.wall_ms + scanned.ttl_ms
        subject = scanned.subject
        group_id = scanned.group_id
        return Message(
            destination.destination_id,
            AMQP_1_0,
            (PERSISTENT if scanned.is_durable else 0) | (KEYED if scanned.may_have_keys else 0),
            scanned.priority,
            crc32c(subject.encode()) if subject else 0,
            crc32c(group_id.encode()) if group_id else 0,
            expires_ms,
            b"",
            scanned.headers,
            scanned.body,
        )

    def _refuse(self, transfer: Transfer, delivery_id: int, error: PenstockError) -> None:
        """A bad message fails alone; one that is settled already can only be answered with the link."""
        if transfer.settled:
            self.detach(error)
            return
        rejected = Rejected(error_of(error))
        state = transfer.state
        if isinstance(state, TransactionalState):
            self.session.connection.transactions.spoil(state.txn_id, str(error))
            self.answer(delivery_id, False, TransactionalState(state.txn_id, rejected))
        else:
            self.answer(delivery_id, False, rejected)


class OutgoingLink(Link):
    """A consumer of the peer.

    is_settled: deliveries are gone when sent.  is_draining: the peer has asked to hear when nothing more comes.
    payload_max: octets of a message that fit into one frame.
    durable: client id and name of the durable subscription that a detach leaves and a close ends.
    node: the temporary destination that was made for it, and ends with it.
    """

    __slots__ = ("consumer", "is_settled", "is_draining", "head", "payload_max", "default_outcome", "durable", "node")

    def __init__(
        self,
        session: AmqpSession,
        name: str,
        handle: int,
        peer_handle: int,
        is_settled: bool,
        default_outcome: State | None,
    ) -> None:
        super().__init__(session, name, handle, peer_handle)
        self.consumer: Consumer | None = None
        self.is_settled = is_settled
        self.is_draining = False
        self.head = TransferHead(session.channel, handle)
        self.payload_max = session.connection.peer_frame_size - self.head.size
        self.default_outcome = default_outcome
        self.durable: tuple[str, str] | None = None
        self.node: Queue | Topic | None = None

    def sections(self, message: Message, is_redelivered: bool, failed_attempts: int) -> tuple[bytes, bytes]:
        """Return the octets of a message as it leaves, in two parts."""
        consumer = self.consumer
        assert consumer is not None, "messages come to links with a consumer"
        broker = self.session.connection.broker
        return outgoing_sections(message, is_redelivered, failed_attempts, consumer.queue, broker)

    def flow(self, flow: Flow) -> None:
        session = self.session
        consumer = self.consumer
        if flow.link_credit is not None and consumer is not None:
            # The peer's view of delivery-count may be behind ours: what is on its way is taken off.
            seen = 0 if flow.delivery_count is None else flow.delivery_count
            credit = (seen + flow.link_credit - self.delivery_count) & MASK
            if credit > 0x7FFFFFFF:
                credit = 0  # below zero: it has lowered its credit while messages were on their way
            session.connection.broker.grant(consumer, credit)
        self.is_draining = bool(flow.drain)
        if self.is_draining:
            session.list_draining(self)
        elif flow.echo:
            self.send_flow(False)

    def send_flow(self, is_drained: bool) -> None:
        consumer = self.consumer
        credit = 0 if consumer is None else consumer.window.room()
        available = 0 if consumer is None else min(consumer.queue.depth - consumer.queue.in_flight_count, MASK)
        self.session.send_link_flow(self.handle, self.delivery_count, credit, max(0, available), is_drained)

    def finish_drain(self) -> bool:
        """Use up the credit if nothing can be delivered now; say whether the drain is over.

        What may still come, from the disk or once the socket takes octets again, is waited for.
        """
        consumer = self.consumer
        if not self.is_draining or self.is_detaching or consumer is None:
            return True
        members = [consumer] if consumer.siblings is None else consumer.siblings.members
        if any(one.gate() in _MAY_STILL_COME for one in members):
            return False
        self.delivery_count = (self.delivery_count + consumer.window.room()) & MASK
        self.session.connection.broker.grant(consumer, 0)
        self.send_flow(True)
        self.is_draining = False
        return True

    def close(self, is_lost: bool, is_closing: bool) -> None:
        consumer = self.consumer
        if consumer is None:
            return
        broker = self.session.connection.broker
        self.session.forget(self)
        self.consumer = None
        broker.unsubscribe(consumer, is_lost)
        if is_closing and self.durable is not None:
            broker.delete_subscription(self.session.connection, *self.durable)
        if is_closing and self.node is not None:
            broker.close_temporary(self.node)


class SubscriptionLink(Link):
    """A look at a durable subscription that nobody consumes through it: closing it ends the subscription (JMS)."""

    __slots__ = ("subscription",)

    def __init__(
        self, session: AmqpSession, name: str, handle: int, peer_handle: int, subscription: tuple[str, str]
    ) -> None:
        super().__init__(session, name, handle, peer_handle)
        self.subscription = subscription

    def close(self, is_lost: bool, is_closing: bool) -> None:
        if is_closing:
            connection = self.session.connection
            connection.broker.delete_subscription(connection, *self.subscription)


class Outgoing:
    """A delivery that waits for the session's window; ``sent``: octets of it that have left."""

    __slots__ = ("link", "delivery", "payload", "sent", "delivery_id")

    def __init__(self, link: OutgoingLink, delivery: Delivery, payload: bytes) -> None:
        self.link = link
        self.delivery = delivery
        self.payload = payload
        self.sent = 0
        self.delivery_id = -1
