"""Links on which the peer sends.

Credit: an address that may hold anything grants ``link-credit`` messages, topped up at half.  One that BLOCKs when it
is full grants as much as it has room for, and takes credit back once it is full; what the peer sent meanwhile, because
it had been granted, is accepted all the same, up to max-size-bytes-reject-threshold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from engine.backlog.address_account import BLOCK
from engine.features.scheduler.delayed_send import delayed
from engine.sources.composite import Composite, Destination
from engine.sources.queue import Queue
from engine.sources.topic import Topic
from engine.values import gates
from engine.values.errors import AddressFull, EngineError, PenstockError
from engine.values.message import AMQP_1_0, KEYED, PERSISTENT, Message
from engine.values.wall_time import later_ms
from protocols.amqp.v1_0.endpoints.attach_fields import DELIVERY_TAG_MOST, RCV_SETTLE_MODE_MOST
from protocols.amqp.v1_0.endpoints.blocked_transfers import BlockedTransfer
from protocols.amqp.v1_0.endpoints.confirmations import waits
from protocols.amqp.v1_0.endpoints.link import MASK, Link
from protocols.amqp.v1_0.mapping.addresses import JMS_DESTINATION_KINDS, target_of
from protocols.amqp.v1_0.mapping.delayed_delivery import plan_in
from protocols.amqp.v1_0.wire.delivery_states import ACCEPTED, Rejected, State, TransactionalState
from protocols.amqp.v1_0.wire.errors import (
    DecodeError,
    InvalidField,
    LinkError,
    MessageSizeExceeded,
    NotImplementedHere,
    PartialTooMuch,
    TransferLimitExceeded,
    error_of,
)
from protocols.amqp.v1_0.wire.performatives import Flow, Transfer
from protocols.amqp.v1_0.wire.scanner import Scanned
from protocols.amqp.v1_0.wire.sections import split_annotations, split_header
from protocols.broker_headers import JMS_DESTINATION

if TYPE_CHECKING:
    from protocols.amqp.v1_0.endpoints.session import AmqpSession

UNSETTLED: Final = 0  # snd-settle-mode
SETTLED: Final = 1

ASSUMED_MESSAGE_BYTES: Final = 1_024  # of a producer that has sent nothing yet


class IncomingLink(Link):
    """A producer of the peer.

    destination: where its messages go, None for an anonymous relay, where each message says so itself.
    node: the temporary destination that was made for it, and ends with it.
    producer: its number among those that advisories tell of; 0 for none.
    credit: what the peer may still send.  withdrawn: so much of it was taken back, which it may not have known yet.
    credit_low: once that is left, more is granted.  is_held: a message of it waits at a gate, so nothing more is.
    limited: the destination, if its address may be full and BLOCK then; None for any other.
    message_bytes: of the message that was taken last, 0 before.  is_short: it waits for room to be granted more.
    first: the first frame of a delivery of which more frames are to come; partial: its octets so far.
    is_second: deliveries are settled by the peer first, but for those in ``firsts``, which said otherwise.
    can_reject: the source takes the outcome rejected.
    is_presettled, is_unsettled: all deliveries are settled when sent, or none.
    """

    __slots__ = (
        "destination",
        "credit",
        "withdrawn",
        "credit_low",
        "limited",
        "message_bytes",
        "is_short",
        "node",
        "producer",
        "is_held",
        "is_listed",
        "first",
        "partial",
        "can_reject",
        "is_second",
        "firsts",
        "is_presettled",
        "is_unsettled",
        "size_most",
    )

    def __init__(
        self,
        session: AmqpSession,
        name: str,
        handle: int,
        peer_handle: int,
        destination: Destination | None,
        is_second: bool,
        snd_settle_mode: int | None,
        outcomes: list[str] | None,
    ) -> None:
        super().__init__(session, name, handle, peer_handle)
        self.destination = destination
        self.node: Queue | Topic | None = None
        self.producer = 0
        self.credit = 0
        self.withdrawn = 0
        self.credit_low = 0
        self.limited = _limited(destination)
        self.message_bytes = 0
        self.is_short = False
        self.is_held = False
        self.is_listed = False
        self.first: Transfer | None = None
        self.partial = bytearray()
        self.is_second = is_second
        self.can_reject = outcomes is None or Rejected.NAME in outcomes
        self.firsts: set[int] = set()
        self.is_presettled = snd_settle_mode == SETTLED
        self.is_unsettled = snd_settle_mode == UNSETTLED
        self.size_most = session.connection.settings.body_bytes

    def take(self, transfer: Transfer, payload: bytes) -> None:
        session = self.session
        if self.first is None:
            credit = self.credit - 1
            if credit < 0:
                raise TransferLimitExceeded(f"link {self.name[:200]!r} has no credit left")
            self.credit = credit
            self.delivery_count = (self.delivery_count + 1) & MASK
            if credit <= self.credit_low and not self.is_listed:
                self.is_listed = True
                session.low_links.append(self)
        if transfer.more or self.first is not None or transfer.aborted:
            whole = self._gather(transfer, payload)
            if whole is None:
                return
            transfer, payload = whole
        delivery_id = transfer.delivery_id
        delivery_tag = transfer.delivery_tag
        if delivery_id is None or delivery_tag is None:
            raise InvalidField("the first transfer of a delivery lacks its delivery-id or delivery-tag")
        if len(delivery_tag) > DELIVERY_TAG_MOST:
            raise InvalidField(f"a delivery-tag of {len(delivery_tag)} octets; allowed is up to {DELIVERY_TAG_MOST}")
        settled = transfer.settled is True
        if settled and self.is_unsettled:
            raise InvalidField("a transfer is settled on a link whose snd-settle-mode is unsettled")
        if transfer.rcv_settle_mode is not None and not settled:
            self._take_mode(delivery_id, transfer.rcv_settle_mode)
        if len(payload) > self.size_most:
            raise MessageSizeExceeded(f"a message of {len(payload)} octets; max-message-size is {self.size_most}")
        try:
            if transfer.resume:
                raise NotImplementedHere("a delivery is resumed of which no state was kept; send it anew")
            if transfer.message_format:
                raise NotImplementedHere(f"message-format {transfer.message_format:#x}; allowed is 0")
            connection = session.connection
            scanned = connection.scanner.scan(payload)
            if scanned.user_id:
                connection.broker.access.require_own_name(connection, scanned.user_id.decode("utf-8", "replace"))
            destination = self.destination
            if destination is None:
                destination = self._relay_destination(scanned)
            if scanned.may_be_scheduled:
                destination = self._delayed(destination, scanned)
            message = self._message(destination, scanned)
            if self.limited is not None:
                self.message_bytes = message.size
        except (DecodeError, EngineError, LinkError) as error:
            self._refuse(transfer, delivery_id, error)
            return
        is_settled = settled or self.is_presettled
        state = transfer.state
        if state is not None and isinstance(state, TransactionalState):
            connection.transactions.send(self, delivery_id, is_settled, state, destination, message)
            return
        if self.is_held or (connection.blocked.addresses and connection.blocked.holds(destination)):
            self.park(delivery_id, is_settled, destination, message, gates.OPEN)
            return
        try:
            gate = connection.broker.send(destination, message)
        except EngineError as error:  # the address fails what it has no room for
            self._refuse(transfer, delivery_id, error)
            return
        if gate == gates.ADDRESS_FULL and destination is self.limited and destination.is_indirect is not True:
            if connection.broker.flow.must_reject(destination):
                self._refuse(transfer, delivery_id, _past_threshold(destination))
                return
            self.withhold()
            gate = connection.broker.send_granted(destination, message)
        if gate != gates.OPEN:
            self.park(delivery_id, is_settled, destination, message, gate)
            return
        if not is_settled:
            self.confirm(delivery_id, message)

    def confirm(self, delivery_id: int, message: Message) -> None:
        """Accept a delivery, once it is durable if it asks for that."""
        session = self.session
        if self.is_second and self._settles_second(delivery_id):
            session.confirm_state(delivery_id, ACCEPTED, False, waits(message))
        elif waits(message):
            session.accepted_logged.append(delivery_id)
        else:
            session.accepted_now.append(delivery_id)

    def answer(self, delivery_id: int, is_settled: bool, state: State) -> None:
        """Tell the outcome of a delivery at the end of this turn, unless the peer has settled it."""
        if not is_settled:
            is_second = self.is_second and self._settles_second(delivery_id)
            self.session.confirm_state(delivery_id, state, not is_second, False)

    def reject(self, delivery_id: int, is_settled: bool, error: PenstockError, txn_id: bytes = b"") -> None:
        """Say that a delivery fails: by its outcome, or by the end of the link where there can be none."""
        if is_settled or not self.can_reject:
            self.detach(error)
            return
        rejected = Rejected(error_of(error))
        self.answer(delivery_id, False, TransactionalState(txn_id, rejected) if txn_id else rejected)

    def park(self, delivery_id: int, is_settled: bool, destination: Destination, message: Message, gate: int) -> None:
        """Keep a message that finds its gate shut; nothing more is granted on this link meanwhile."""
        self.is_held = True
        blocked = BlockedTransfer(self, delivery_id, is_settled, destination, message)
        self.session.connection.blocked.park_transfer(blocked, gate)

    def end(self) -> None:
        self.close(False, False)

    def close(self, is_lost: bool, is_closing: bool) -> None:
        self._take_partial()
        self.credit = 0
        self.session.connection.blocked.forget(self)
        connection = self.session.connection
        connection.short_links.pop(self, None)
        if self.producer and self.destination is not None:
            connection.broker.advisories.producer_removed(connection, self.destination, self.producer)
            self.producer = 0
        if is_closing and self.node is not None:
            self.session.connection.broker.close_temporary(self.node)

    def flow(self, flow: Flow) -> None:
        """The peer tells how far it has come; echo asks what we grant."""
        if flow.echo:
            self._tell_credit()

    def grant(self) -> None:
        """Fill up the credit, as far as the address has room."""
        self.is_listed = False
        if self.is_held or self.is_detaching:
            return
        connection = self.session.connection
        granted = connection.settings.link_credit
        if self.limited is not None:
            size_bytes = self.message_bytes or ASSUMED_MESSAGE_BYTES
            granted = connection.broker.flow.producer_credit(self.limited, granted, size_bytes)
            if granted <= 0:
                self.withhold()
                return
        self.is_short = False
        self.credit = max(granted, self.credit if self.withdrawn else 0)
        self.withdrawn = self.credit - granted
        self.credit_low = self.withdrawn + granted // 2
        self._tell_credit()

    def withhold(self) -> None:
        """The address is full: take back what the peer has not used, and grant no more until there is room."""
        if self.is_short:
            return
        assert self.limited is not None, "only an address with a limit can be full"
        self.is_short = True
        connection = self.session.connection
        connection.short_links[self] = None
        connection.broker.flow.withhold(connection, self.limited)
        self.withdrawn = self.credit
        self._tell_credit()

    def _tell_credit(self) -> None:
        told = max(0, self.credit - self.withdrawn)
        self.session.send_link_flow(self, told, 0, False)

    def _take_mode(self, delivery_id: int, mode: int) -> None:
        """Take note of the rcv-settle-mode that one delivery asks for.  Raises: InvalidField."""
        if mode > RCV_SETTLE_MODE_MOST:
            raise InvalidField(f"rcv-settle-mode is {mode}; allowed is 0 to {RCV_SETTLE_MODE_MOST}")
        if mode and not self.is_second:
            raise InvalidField("a transfer has rcv-settle-mode second on a link whose mode is first")
        if not mode and self.is_second:
            self.firsts.add(delivery_id)

    def _settles_second(self, delivery_id: int) -> bool:
        """Say whether the peer settles a delivery first, as it does on such a link unless that said otherwise."""
        if delivery_id in self.firsts:
            self.firsts.discard(delivery_id)
            return False
        return True

    def _check_continued(self, first: Transfer, transfer: Transfer) -> None:
        """Raises: InvalidField where a transfer says something else than the first one of its delivery (2.7.5)."""
        if transfer.delivery_id is not None and transfer.delivery_id != first.delivery_id:
            raise InvalidField(
                f"a transfer of delivery {transfer.delivery_id} stands inside delivery {first.delivery_id}"
            )
        if transfer.delivery_tag is not None and transfer.delivery_tag != first.delivery_tag:
            raise InvalidField(f"the delivery-tag changes inside delivery {first.delivery_id}")
        if transfer.message_format is not None and transfer.message_format != (first.message_format or 0):
            raise InvalidField(
                f"message-format changes from {first.message_format or 0} to {transfer.message_format} inside delivery "
                f"{first.delivery_id}"
            )

    def _gather(self, transfer: Transfer, payload: bytes) -> tuple[Transfer, bytes] | None:
        """Collect the frames of one delivery; return its first frame and all octets once it is whole."""
        first = self.first
        if first is None:
            self.first = first = transfer
            self.session.connection.gathering[self] = self.session.connection.now_ms
        else:
            self._check_continued(first, transfer)
        if transfer.aborted:
            self._take_partial()
            return None
        if transfer.settled is not None:
            first.settled = transfer.settled
        if transfer.state is not None:
            first.state = transfer.state
        if transfer.rcv_settle_mode is not None:
            first.rcv_settle_mode = transfer.rcv_settle_mode
        self.partial += payload
        connection = self.session.connection
        connection.partial_bytes += len(payload)
        connection.is_holding = True
        settings = connection.settings
        if len(self.partial) > settings.body_bytes:
            raise MessageSizeExceeded(f"a message of more than {settings.body_bytes} octets (max-message-size)")
        if connection.partial_bytes > settings.partial_bytes:
            raise PartialTooMuch(
                f"{connection.partial_bytes} octets of messages whose other frames are to come; "
                f"the limit of a connection is {settings.partial_bytes}"
            )
        return None if transfer.more else (first, self._take_partial())

    def _take_partial(self) -> bytes:
        """Return the octets of a delivery that was coming in frames, and forget it."""
        octets = bytes(self.partial)
        self.session.connection.partial_bytes -= len(octets)
        self.session.connection.gathering.pop(self, None)
        self.first = None
        self.partial = bytearray()
        return octets

    def _relay_destination(self, scanned: Scanned) -> Destination:
        """Return where a message on an anonymous relay goes: by its ``to``, and by what JMS says of its kind."""
        if not scanned.to:
            raise InvalidField("a message on a link without a target address needs the property to")
        kind = 0
        if scanned.has_annotations:
            annotations, _ = split_annotations(split_header(scanned.headers)[1])
            said = annotations.get(JMS_DESTINATION)
            kind = JMS_DESTINATION_KINDS.get(said, 0) if isinstance(said, int) else 0
        connection = self.session.connection
        return target_of(connection.broker, connection, scanned.to, None, kind)

    def _delayed(self, destination: Destination, scanned: Scanned) -> Destination:
        """Return where a message goes that may ask for a later delivery; what says so is taken out of it.

        Raises: InvalidOption, InvalidDestination.
        """
        broker = self.session.connection.broker
        plan, scanned.headers = plan_in(scanned.headers, broker.scheduler.limits, broker.wall_ms)
        return destination if plan is None else delayed(destination, plan)

    def _message(self, destination: Destination, scanned: Scanned) -> Message:
        expires_ms = scanned.expires_ms
        if expires_ms == 0 and scanned.ttl_ms > 0:
            expires_ms = later_ms(self.session.connection.broker.wall_ms, scanned.ttl_ms)
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
        """A bad message fails alone, and spoils the transaction that it is of."""
        state = transfer.state
        txn_id = b""
        if isinstance(state, TransactionalState):
            txn_id = state.txn_id
            self.session.connection.transactions.spoil(txn_id, str(error))
        self.reject(delivery_id, self.is_presettled or bool(transfer.settled), error, txn_id)


def _limited(destination: Destination | None) -> Queue | Topic | None:
    """Return a destination whose producers wait when it is full."""
    if destination is None or isinstance(destination, Composite):
        return None
    account = destination.account
    return destination if account is not None and account.action == BLOCK else None


def _past_threshold(destination: Queue | Topic) -> AddressFull:
    account = destination.account
    assert account is not None, "what is full has a limit"
    return AddressFull(
        f"{account.describe()}, more than max-size-bytes-reject-threshold {account.reject_bytes}: "
        "also what was granted before is rejected"
    )
