"""ACK and NACK: the deliveries that they name, their effect, and their confirmation."""

from __future__ import annotations

from engine.api import EngineApi
from engine.consumers.consumer import CLIENT, INDIVIDUAL, Consumer
from engine.values.delivery import AS_THE_ADDRESS_SAYS, IN_FLIGHT, Delivery
from protocols.stomp.codec.frames import ACK, Frame
from protocols.stomp.codec.versions import VERSION_1_0
from protocols.stomp.errors import InvalidHeader
from protocols.stomp.mapping.dialects import Dialect
from protocols.stomp.mapping.nack_options import refusal_in
from protocols.stomp.session.receipts import Receipts
from protocols.stomp.session.transactions import Transactions
from protocols.stomp.session.unsettled import Unsettled


class AckCommand:
    """version: of the connection, once it is open.  by_ack: deliveries by the ``ack`` header of 1.2.

    accepted: deliveries that the latest ACKs name; the engine settles them together, which costs far less.
    """

    __slots__ = ("engine", "unsettled", "by_ack", "transactions", "receipts", "dialect", "version", "accepted")

    def __init__(
        self, engine: EngineApi, unsettled: Unsettled, transactions: Transactions, receipts: Receipts, dialect: Dialect
    ) -> None:
        self.engine = engine
        self.unsettled = unsettled
        self.by_ack = unsettled.by_ack
        self.transactions = transactions
        self.receipts = receipts
        self.dialect = dialect
        self.version = VERSION_1_0
        self.accepted: list[Delivery] = []

    def take(self, frame: Frame, is_last: bool) -> None:
        """Take an ACK or NACK, in each version's form.  is_last: of its read.  Raises: InvalidHeader, EngineError."""
        key = frame.id or b""
        delivery = self.by_ack.get(key)
        if delivery is None:
            self._take_other(frame)
            return
        consumer = delivery.consumer
        assert isinstance(consumer, Consumer), "an unsettled delivery is with a consumer"
        is_single = consumer.ack_mode == INDIVIDUAL or len(consumer.ledger) == 1
        if not is_single or frame.command != ACK or delivery.state != IN_FLIGHT:
            self._settle(frame, None, consumer, delivery)
        else:
            del self.by_ack[key]
            if frame.receipt is None:
                if consumer.queue.is_logged:
                    self.receipts.has_unlogged = True
                if is_last and not self.accepted:
                    self.engine.acknowledge_unconfirmed(delivery)
                else:
                    self.accepted.append(delivery)
                return
            self.settle_accepted()
            self.engine.acknowledge(delivery)
        self._confirm(frame, consumer)

    def settle_accepted(self) -> None:
        """Settle ``accepted``: before any other frame takes effect, and after the last frame of a read."""
        if self.accepted:
            self.engine.acknowledge_all(self.accepted, is_confirmed=False)
            self.accepted.clear()

    def _take_other(self, frame: Frame) -> None:
        """Settle deliveries that another header than the ``ack`` of 1.2 names, or within a transaction."""
        delivery = self.unsettled.find(frame, self.version, self.dialect.is_ack_exact)
        if delivery is None:
            self.receipts.confirm(frame)
            return
        consumer = delivery.consumer
        assert isinstance(consumer, Consumer), "an unsettled delivery is with a consumer"
        name = frame.head.headers.get("transaction")
        if name is not None:
            self._settle(frame, name, consumer, delivery)
            self.receipts.confirm(frame)  # accepted into the transaction: it waits for nothing
            return
        is_single = consumer.ack_mode == INDIVIDUAL or len(consumer.ledger) == 1
        if is_single and frame.command == ACK and frame.receipt is None and delivery.state == IN_FLIGHT:
            self.unsettled.forget([delivery])
            if consumer.queue.is_logged:
                self.receipts.has_unlogged = True
            self.accepted.append(delivery)
            return
        self._settle(frame, None, consumer, delivery)
        self._confirm(frame, consumer)

    def _confirm(self, frame: Frame, consumer: Consumer) -> None:
        if consumer.queue.is_logged:
            self.receipts.has_logged = True
        if frame.receipt is not None:
            self.receipts.parts.append(frame.receipt)

    def _settle(self, frame: Frame, name: str | None, consumer: Consumer, delivery: Delivery) -> None:
        """The general form: cumulative modes, NACK, transactions."""
        self.settle_accepted()
        is_ack = frame.command == ACK
        dialect = self.dialect
        if delivery.state != IN_FLIGHT:
            is_cumulative = is_ack and consumer.ack_mode == CLIENT
            if is_cumulative and name is not None and self.transactions.named(name).has_accepted(delivery):
                return  # the ACK of a later message, in the same transaction, covers this one
            raise InvalidHeader("this message was acknowledged before, in a transaction that is still open")
        covered = [delivery] if dialect.is_nack_single and not is_ack else consumer.covered(delivery)
        if not is_ack:
            who = consumer.shown_by()
            if who:
                raise InvalidHeader(f"NACK names a message of a {who}; a {who} takes no messages, and may only ACK")
        if name is not None:
            transaction = self.transactions.named(name)
            if is_ack:
                transaction.add_accepted(covered)
            else:
                transaction.add_refused(covered, refusal_in(frame.head.headers, dialect.nack))
            return
        refusal = AS_THE_ADDRESS_SAYS if is_ack else refusal_in(frame.head.headers, dialect.nack)
        self.unsettled.forget(covered)
        if is_ack:
            self.engine.acknowledge_all(covered)
        else:
            self.engine.refuse_all(covered, refusal)
