"""Links on which the peer sends.

Credit: an address without a limit grants ``link-credit`` messages, topped up at half.  An address with the policy BLOCK
grants as many as it has room for, and takes unused credit back once it is full.  Messages that the peer sent meanwhile
within that credit are still accepted, up to max-size-bytes-reject-threshold.
"""

from __future__ import annotations

from typing import Final

from engine.features.scheduler.cron import SEARCH_STEPS
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import CRON_ANNOTATION, CRON_PROPERTY
from engine.limits.producer_credit import blocking, must_reject, producer_credit
from engine.sources.composite import Composite, Destination, paced_part
from engine.sources.identified import identified
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values import gates
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import AccessDenied, AddressFull, EngineError, PenstockError
from engine.values.message import AMQP_1_0, Message, later_ms
from protocols.amqp.v1_0.endpoints.links.blocked_transfers import BlockedTransfer
from protocols.amqp.v1_0.endpoints.links.link import MASK, SessionEndpoint
from protocols.amqp.v1_0.endpoints.links.producers import Producers
from protocols.amqp.v1_0.endpoints.links.target_link import TargetLink, check_first, check_supported
from protocols.amqp.v1_0.mapping.addresses import JMS_DESTINATION_KINDS, target_of
from protocols.amqp.v1_0.mapping.delayed_delivery import plan_in
from protocols.amqp.v1_0.mapping.duplicate_id import duplicate_id_in
from protocols.amqp.v1_0.wire.composites.delivery_states import TransactionalState
from protocols.amqp.v1_0.wire.composites.performatives import RCV_SETTLE_MODE_MOST, Attach, Transfer
from protocols.amqp.v1_0.wire.errors import (
    DecodeError,
    InvalidField,
    LinkError,
    MessageSizeExceeded,
    TransferLimitExceeded,
)
from protocols.amqp.v1_0.wire.messages.scanner import Scanned
from protocols.amqp.v1_0.wire.messages.sections import split_annotations, split_header
from protocols.broker_headers import JMS_DESTINATION

UNSETTLED: Final = 0  # snd-settle-mode
SETTLED: Final = 1
SECOND: Final = 1  # rcv-settle-mode

ASSUMED_MESSAGE_BYTES: Final = 1_024  # assumed of a producer that has sent nothing yet
NO_TRANSFER: Final = Transfer(0)


class IncomingLink(TargetLink):
    """A producer of the peer.

    destination: of its messages; None for an anonymous relay, where each message names its own.
    node: the temporary destination that was made for it, and ends with it.
    producer: its number in producer advisories; 0 for none.  withdrawn: credit taken back that the peer may have used.
    credit_low: at this credit more is granted.  is_listed: it gets more at the end of the turn.
    limited: the destination, if its address has a limit and the policy BLOCK; None for any other.
    is_paced: a destination may limit the rate of each producer.
    message_bytes: of the last message, 0 before the first.  is_short: it gets more credit once the address has room.
    plain: a transfer that was examined; of the next one like it only the delivery-id needs a look.  The decoder returns
    the same object for that one (``plain_frames``), and its tag is within the limit, too.
    is_presettled, is_unsettled: all deliveries are settled when sent, or none.  is_checked: its login was checked.
    """

    __slots__ = (
        "producers",
        "engine",
        "destination",
        "withdrawn",
        "credit_low",
        "limited",
        "is_paced",
        "message_bytes",
        "is_short",
        "node",
        "producer",
        "is_listed",
        "plain",
        "is_presettled",
        "is_unsettled",
        "is_checked",
    )

    def __init__(
        self,
        session: SessionEndpoint,
        producers: Producers,
        frame: Attach,
        handle: int,
        destination: Destination | None,
        node: Queue | Topic | None,
    ) -> None:
        is_second = frame.rcv_settle_mode == SECOND
        multi_transfers = producers.multi_transfers
        connection = session.connection
        size_most = connection.settings.body_bytes
        super().__init__(session, frame.name, handle, frame.handle, frame.source, multi_transfers, size_most, is_second)
        self.producers = producers
        self.engine = connection.engine
        self.destination = destination
        self.node = node
        self.producer = 0
        self.withdrawn = 0
        self.credit_low = 0
        self.limited = blocking(destination)
        self.is_paced = destination is None or paced_part(destination) is not None
        self.message_bytes = 0
        self.is_short = False
        self.is_listed = False
        self.plain = NO_TRANSFER
        self.is_presettled = frame.snd_settle_mode == SETTLED
        self.is_unsettled = frame.snd_settle_mode == UNSETTLED
        self.is_checked = bool(connection.user)
        self.delivery_count = frame.initial_delivery_count or 0

    def take(self, transfer: Transfer, payload: bytes) -> None:
        session = self.session
        if self.partial is None:
            credit = self.credit - 1
            if credit < 0:
                raise TransferLimitExceeded(f"link {self.name[:200]!r} has no credit left")
            self.credit = credit
            self.delivery_count = (self.delivery_count + 1) & MASK
            if credit <= self.credit_low and not self.is_listed:
                self.is_listed = session.is_due = True
                session.low_links.append(self)
        is_plain = transfer is self.plain
        body = b""
        if not is_plain:
            whole = self._examine(transfer, payload)
            if whole is None:
                return
            transfer, payload, body = whole
        delivery_id = transfer.delivery_id
        assert delivery_id is not None, "a transfer without one is refused"
        producers = self.producers
        try:
            if not is_plain:
                check_supported(transfer)
            scanned = producers.scanner.scan_apart(payload, body) if body else producers.scanner.scan(payload)
            if self.is_checked:
                producers.check_sender(session.connection, scanned)
            destination = self.destination
            if destination is None:
                destination = self._relay_destination(scanned)
            if scanned.may_be_scheduled:
                destination = self._delayed(destination, scanned)
            if scanned.may_be_identified:
                destination = _identified(destination, scanned)
            message = self._message(destination, scanned)
            if self.limited is not None:
                self.message_bytes = message.size
        except (DecodeError, EngineError, LinkError) as error:
            self._refuse(transfer, delivery_id, error)
            return
        is_settled = self.is_presettled or transfer.settled is True
        if not is_plain and isinstance(transfer.state, TransactionalState):
            producers.transactions.send(self, delivery_id, is_settled, transfer.state, destination, message)
            return
        blocked = producers.blocked
        if self.is_waiting or (blocked.addresses and blocked.holds(destination)):
            blocked.park_transfer(BlockedTransfer(self, delivery_id, is_settled, destination, message), gates.OPEN)
            return
        try:
            if self.is_paced:
                gate = blocked.send(destination, message)
            else:
                gate = self.engine.send(destination, message)
        except EngineError as error:  # the policy of the address is FAIL
            self._refuse(transfer, delivery_id, error)
            return
        if gate != gates.OPEN and not self._send_granted(transfer, delivery_id, destination, message, gate):
            return
        if not is_settled:
            self.confirm(delivery_id, message)

    def close(self, is_lost: bool, is_closing: bool) -> None:
        self.drop_partial()
        self.credit = 0
        self.producers.blocked.forget(self)
        connection = self.session.connection
        if self.producer and self.destination is not None:
            self.producers.advisories.producer_removed(connection, self.destination, self.producer)
            self.producer = 0
        if is_closing and self.node is not None:
            self.engine.close_temporary(self.node)

    def grant(self) -> None:
        """Fill up the credit, as far as the address has room."""
        self.is_listed = False
        if self.is_waiting or self.is_gone():
            return
        granted = self.session.connection.settings.link_credit
        if self.limited is not None:
            size_bytes = self.message_bytes or ASSUMED_MESSAGE_BYTES
            granted = producer_credit(self.limited, granted, size_bytes)
            if granted <= 0:
                self.withhold()
                return
        self.is_short = False
        self.credit = max(granted, self.credit if self.withdrawn else 0)
        self.withdrawn = self.credit - granted
        self.credit_low = self.withdrawn + granted // 2
        self.send_credit()

    def room_found(self) -> None:
        self.is_short = False
        self.grant()

    def withhold(self) -> None:
        """The address is full: take unused credit back, and grant no more until there is room."""
        if self.is_short:
            return
        assert self.limited is not None, "only an address with a limit can be full"
        self.is_short = True
        self.producers.blocked.short_links[self] = None
        self.producers.producer_gates.withhold(self.session.connection, self.limited)
        self.withdrawn = self.credit
        self.send_credit()

    def rights_changed(self) -> None:
        destination = self.destination
        access = self.engine.access
        if destination is None or access.is_open:
            return  # a relay asks for each message
        parts = destination.parts if isinstance(destination, Composite) else [destination]
        try:
            for part in parts:
                if part.kind in (QUEUE, TOPIC):
                    access.require(self.session.connection, "write", part.kind, part.name)
        except AccessDenied as error:
            self.detach(error)

    def send_credit(self) -> None:
        credit = max(0, self.credit - self.withdrawn)
        self.session.send_link_flow(self, credit, 0, False)

    # -- the steps

    def _examine(self, transfer: Transfer, payload: bytes) -> tuple[Transfer, bytes, bytes] | None:
        """Return the first transfer of a whole delivery and its octets, None if more are to come.

        The octets are one part, or two of which the second is the body.
        Raises: InvalidField, MessageSizeExceeded, PartialTooMuch.
        """
        body = b""
        is_alone = self.partial is None and not transfer.more and not transfer.aborted
        if not is_alone:
            self.plain = NO_TRANSFER
            whole = self.gather(transfer, payload)
            if whole is None:
                return None
            transfer = whole.first
            payload = bytes(whole.headers)
            body = whole.body.getvalue()
        delivery_id = check_first(transfer)
        if transfer.settled and self.is_unsettled:
            raise InvalidField("a transfer is settled on a link whose snd-settle-mode is unsettled")
        if transfer.rcv_settle_mode is not None and not transfer.settled:
            self._take_mode(delivery_id, transfer.rcv_settle_mode)
        if len(payload) > self.size_most:
            raise MessageSizeExceeded(f"a message of {len(payload)} octets; max-message-size is {self.size_most}")
        is_odd = transfer.rcv_settle_mode is not None or transfer.state is not None
        is_refused = transfer.resume or transfer.message_format
        is_bounded = self.session.connection.settings.max_frame_size <= self.size_most
        self.plain = transfer if is_alone and is_bounded and not is_odd and not is_refused else NO_TRANSFER
        return transfer, payload, body

    def _send_granted(
        self, transfer: Transfer, delivery_id: int, destination: Destination, message: Message, gate: int
    ) -> bool:
        """Send a message at a shut gate if credit was granted for it; return False if it waits or is refused."""
        if gate == gates.ADDRESS_FULL and destination is self.limited and destination.is_indirect is not True:
            if must_reject(destination):
                self._refuse(transfer, delivery_id, _past_threshold(destination))
                return False
            self.withhold()
            gate = self.engine.send_granted(self.session.connection, destination, message)
        if gate == gates.OPEN:
            return True
        is_settled = self.is_presettled or transfer.settled is True
        one = BlockedTransfer(self, delivery_id, is_settled, destination, message)
        self.producers.blocked.park_transfer(one, gate)
        return False

    def _take_mode(self, delivery_id: int, mode: int) -> None:
        """Note the rcv-settle-mode that one delivery asks for.  Raises: InvalidField."""
        if mode > RCV_SETTLE_MODE_MOST:
            raise InvalidField(f"rcv-settle-mode is {mode}; allowed is 0 to {RCV_SETTLE_MODE_MOST}")
        if mode and not self.is_second:
            raise InvalidField("a transfer has rcv-settle-mode second on a link whose mode is first")
        if not mode and self.firsts is not None:
            self.firsts.add(delivery_id)

    def _relay_destination(self, scanned: Scanned) -> Destination:
        """Return the destination of a message on an anonymous relay: its ``to``, of the kind that JMS annotates."""
        if not scanned.to:
            raise InvalidField("a message on a link without a target address needs the property to")
        kind = 0
        if scanned.has_annotations:
            annotations, _ = split_annotations(split_header(scanned.headers)[1])
            said = annotations.get(JMS_DESTINATION)
            kind = JMS_DESTINATION_KINDS.get(said, 0) if isinstance(said, int) else 0
        connection = self.session.connection
        return target_of(self.engine, connection, scanned.to, None, kind)

    def _delayed(self, destination: Destination, scanned: Scanned) -> Destination:
        """Return the destination of a message that may ask for a later delivery; remove that request from it.

        Raises: InvalidOption, InvalidDestination.
        """
        connection = self.session.connection
        headers = scanned.headers
        if CRON_ANNOTATION in headers or CRON_PROPERTY in headers:
            connection.share.charge(SEARCH_STEPS)
        plan, scanned.headers = plan_in(headers, self.producers.schedule_limits, connection.context.wall_ms)
        return destination if plan is None else delayed(destination, plan)

    def _message(self, destination: Destination, scanned: Scanned) -> Message:
        expires_ms = scanned.expires_ms
        if expires_ms == 0 and scanned.ttl_ms > 0:
            expires_ms = later_ms(self.session.connection.context.wall_ms, scanned.ttl_ms)
        body = scanned.body
        scanned.body = b""  # the scanner may keep the others
        return Message(
            destination.destination_id,
            AMQP_1_0,
            scanned.flags,
            scanned.priority,
            scanned.tag_hash,
            scanned.group_hash,
            expires_ms,
            b"",
            scanned.headers,
            body,
        )

    def _refuse(self, transfer: Transfer, delivery_id: int, error: PenstockError) -> None:
        """Reject a bad message: it fails alone, and spoils its transaction."""
        self.producers.scanner.forget()
        state = transfer.state
        txn_id = b""
        if isinstance(state, TransactionalState):
            txn_id = state.txn_id
            self.producers.transactions.spoil(txn_id, str(error))
        self.reject(delivery_id, self.is_presettled or bool(transfer.settled), error, txn_id)


def _identified(destination: Destination, scanned: Scanned) -> Destination:
    """Return the destination of a message that may have a duplicate id.  Raises: InvalidOption, DecodeError."""
    duplicate_id = duplicate_id_in(scanned.headers)
    return destination if duplicate_id is None else identified(destination, duplicate_id)


def _past_threshold(destination: Queue | Topic) -> AddressFull:
    account = destination.account
    assert account is not None, "what is full has a limit"
    return AddressFull(
        f"{account.describe()}, more than max-size-bytes-reject-threshold {account.reject_bytes}: "
        "messages within the granted credit are rejected, too"
    )
