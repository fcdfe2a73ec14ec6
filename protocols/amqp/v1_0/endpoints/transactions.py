"""Local transactions: the coordinator link, and what a connection has open.  Source: AMQP 1.0 part 4.

    declare                 declared(txn-id)
    transfer, disposition   transactional-state(txn-id, ...): held back until discharge
    discharge               accepted once the commit is durable, or rejected; with fail: rolled back

What a rolled-back transaction had acknowledged goes back to its place, counted as an attempt, and is delivered anew:
the client has settled and forgotten it.  It waits as a failed delivery does where its address or URI sets a delay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.sources.composite import Destination
from engine.transaction import Transaction
from engine.values import gates
from engine.values.delivery import IN_FLIGHT, Delivery
from engine.values.errors import EngineError, PenstockError, TransactionError
from engine.values.message import Message
from protocols.amqp.v1_0.endpoints.link import MASK, Link
from protocols.amqp.v1_0.endpoints.outgoing_link import OutgoingLink
from protocols.amqp.v1_0.mapping.outcomes import refusal_of
from protocols.amqp.v1_0.wire.composite_codec import read_composite
from protocols.amqp.v1_0.wire.delivery_states import ACCEPTED, Accepted, Declared, Rejected, TransactionalState
from protocols.amqp.v1_0.wire.errors import (
    DecodeError,
    LinkError,
    SentSettled,
    TransferLimitExceeded,
    UnknownTransaction,
    error_of,
)
from protocols.amqp.v1_0.wire.performatives import Flow, Transfer
from protocols.amqp.v1_0.wire.scanner import Scanner
from protocols.amqp.v1_0.wire.sections import VALUE
from protocols.amqp.v1_0.wire.transaction_types import TRANSACTION_CODES, Declare, Discharge

if TYPE_CHECKING:
    from protocols.amqp.v1_0.endpoints.connection import AmqpConnection
    from protocols.amqp.v1_0.endpoints.incoming_link import IncomingLink
    from protocols.amqp.v1_0.endpoints.session import AmqpSession
    from protocols.amqp.v1_0.wire.termini import Source

CAPABILITIES: Final = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")
COORDINATOR_CREDIT: Final = 100


class Open:
    """One open transaction.  spoiled: why it can only be rolled back, "" if it can be committed.

    unsettled: deliveries acknowledged in it that the peer wants settled by us, after the discharge.
    """

    __slots__ = ("transaction", "spoiled", "unsettled", "owner")

    def __init__(self, transaction: Transaction, owner: CoordinatorLink) -> None:
        self.transaction = transaction
        self.spoiled = ""
        self.unsettled: list[tuple[AmqpSession, int]] = []
        self.owner = owner


class Waiting:
    """A commit that waits at a gate."""

    __slots__ = ("link", "delivery_id", "name", "one")

    def __init__(self, link: CoordinatorLink, delivery_id: int, name: bytes, one: Open) -> None:
        self.link = link
        self.delivery_id = delivery_id
        self.name = name
        self.one = one


class Transactions:
    """What one connection has open, by txn-id."""

    __slots__ = ("connection", "open", "waiting", "_next")

    def __init__(self, connection: AmqpConnection) -> None:
        self.connection = connection
        self.open: dict[bytes, Open] = {}
        self.waiting: list[Waiting] = []
        self._next = 1

    def declare(self, owner: CoordinatorLink) -> bytes:
        """Raises: TransactionError."""
        limits = self.connection.settings.transaction_limits
        if len(self.open) + len(self.waiting) >= limits.open_count:
            raise TransactionError(f"{limits.open_count} transactions are open on this connection, which is the limit")
        name = self._next.to_bytes(8, "big")
        self._next += 1
        self.open[name] = Open(Transaction(self.connection, name.hex(), limits), owner)
        self.connection.is_holding = True
        return name

    def find(self, name: bytes) -> Open:
        """Raises: UnknownTransaction."""
        one = self.open.get(name)
        if one is None:
            raise UnknownTransaction(f"transaction {name.hex()[:64]} is not open on this connection")
        return one

    def size_bytes(self) -> int:
        """Return what the messages of all of them take."""
        size = sum(one.transaction.held_bytes() for one in self.open.values())
        return size + sum(one.one.transaction.held_bytes() for one in self.waiting)

    def spoil(self, name: bytes, reason: str) -> None:
        """Let a transaction only be rolled back: its client does not wait for the outcome of each of its sends."""
        one = self.find(name)
        one.spoiled = one.spoiled or reason

    def send(
        self,
        link: IncomingLink,
        delivery_id: int,
        is_settled: bool,
        state: TransactionalState,
        destination: Destination,
        message: Message,
    ) -> None:
        """Hold back one message of a producer.  Raises: UnknownTransaction."""
        one = self.find(state.txn_id)
        try:
            self.connection.broker.send_in(one.transaction, destination, message)
        except EngineError as error:
            one.spoiled = one.spoiled or str(error)
            link.reject(delivery_id, is_settled, error, state.txn_id)
            return
        link.answer(delivery_id, is_settled, TransactionalState(state.txn_id, ACCEPTED))

    def dispose(
        self, session: AmqpSession, number: int, delivery: Delivery, state: TransactionalState, is_settled: bool
    ) -> None:
        """Hold back the outcome of one delivery.  Raises: UnknownTransaction, TransactionError."""
        one = self.find(state.txn_id)
        refusal = None if state.outcome is None else refusal_of(state.outcome, delivery)
        if refusal is None:
            one.transaction.add_accepted([delivery])
        else:
            one.transaction.add_refused([delivery], refusal)
        if is_settled:
            del session.unsettled[number]
        else:
            one.unsettled.append((session, number))

    def discharge(self, link: CoordinatorLink, delivery_id: int, discharge: Discharge) -> None:
        name = discharge.txn_id
        one = self.open.pop(name, None)
        if one is None:
            link.reject(
                delivery_id, UnknownTransaction(f"transaction {name.hex()[:64]} is not open on this connection")
            )
            return
        if discharge.fail:
            self._roll_back(one)
            link.answer(delivery_id, ACCEPTED, False)
        elif one.spoiled:
            self._roll_back(one)
            link.reject(delivery_id, TransactionError(f"the transaction was rolled back: {one.spoiled}"))
        else:
            self._commit(Waiting(link, delivery_id, name, one))

    def admit(self) -> None:
        """A gate has opened: try the commits again that waited."""
        for _ in range(len(self.waiting)):  # what waits still is put behind
            self._commit(self.waiting.pop(0))

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        """Refuse the commits that waited for room in the destination ``uri``."""
        for one in self.waiting[:]:
            if any(destination.uri() == uri for destination, _ in one.one.transaction.sends):
                self.waiting.remove(one)
                self._refuse(one, error)

    def close_all(self, owner: CoordinatorLink | None = None) -> None:
        """Roll back what ``owner`` has open, or everything."""
        for name, one in list(self.open.items()):
            if owner is None or one.owner is owner:
                del self.open[name]
                self._roll_back(one)
        kept = []
        for waiting in self.waiting:
            if owner is None or waiting.link is owner:
                self._roll_back(waiting.one)
            else:
                kept.append(waiting)
        self.waiting = kept

    def _commit(self, waiting: Waiting) -> None:
        broker = self.connection.broker
        if waiting.link.is_detaching:
            self._roll_back(waiting.one)
            return
        transaction = waiting.one.transaction
        try:
            gate, destination = broker.commit_refusal(transaction)
        except EngineError as error:  # an address fails what it has no room for
            self._refuse(waiting, error)
            return
        if gate != gates.OPEN and destination is not None:
            self.waiting.append(waiting)
            broker.flow.park(self.connection, gate, destination)
            return
        broker.commit(transaction)
        for session, number in waiting.one.unsettled:
            session.unsettled.pop(number, None)
            session.settle_logged(number, ACCEPTED)
        waiting.link.answer(waiting.delivery_id, ACCEPTED, True)

    def _refuse(self, waiting: Waiting, error: EngineError) -> None:
        self._roll_back(waiting.one)
        waiting.link.reject(waiting.delivery_id, error)

    def _roll_back(self, one: Open) -> None:
        broker = self.connection.broker
        held = one.transaction.held()
        broker.abort(one.transaction)
        for session, number in one.unsettled:
            session.unsettled.pop(number, None)
        for delivery in held:
            consumer = delivery.consumer
            if delivery.state == IN_FLIGHT and consumer is not None and isinstance(consumer.adapter, OutgoingLink):
                broker.roll_back(delivery)


class CoordinatorLink(Link):
    """The peer declares and discharges on it.

    can_reject: the source takes the outcome rejected; else what fails ends the link (4.2, 4.3).
    """

    __slots__ = ("credit", "can_reject")

    def __init__(self, session: AmqpSession, name: str, handle: int, peer_handle: int, source: Source | None) -> None:
        super().__init__(session, name, handle, peer_handle)
        self.credit = 0
        outcomes = None if source is None else source.outcomes
        self.can_reject = outcomes is None or Rejected.NAME in outcomes

    def grant(self) -> None:
        self.credit = COORDINATOR_CREDIT
        self._tell_credit()

    def flow(self, flow: Flow) -> None:
        if flow.echo:
            self._tell_credit()

    def _tell_credit(self) -> None:
        self.session.send_link_flow(self, self.credit, 0, False)

    def take(self, transfer: Transfer, payload: bytes) -> None:
        """Raises: LinkError, UnknownTransaction."""
        if self.credit <= 0:
            raise TransferLimitExceeded(f"the coordinator's link {self.name[:200]!r} has no credit left")
        self.delivery_count = (self.delivery_count + 1) & MASK
        self.credit -= 1
        if self.credit <= COORDINATOR_CREDIT // 2:
            self.grant()
        delivery_id = transfer.delivery_id
        if delivery_id is None or transfer.more:
            raise LinkError("a message to the coordinator lacks its delivery-id, or comes in several frames")
        if transfer.settled:
            raise SentSettled("a message to the coordinator is settled; its outcome must be taken (4.2, 4.3)")
        transactions = self.session.connection.transactions
        try:
            request = _request(payload)
            if isinstance(request, Declare):
                if request.global_id is not None:
                    raise TransactionError("declare has a global-id; only local transactions are supported")
                self.answer(delivery_id, Declared(transactions.declare(self)), False)
            else:
                transactions.discharge(self, delivery_id, request)
        except (DecodeError, EngineError) as error:
            self.reject(delivery_id, error)

    def answer(self, delivery_id: int, state: Accepted | Declared, is_logged: bool) -> None:
        self.session.confirm_state(delivery_id, state, True, is_logged)

    def reject(self, delivery_id: int, error: PenstockError) -> None:
        if self.can_reject:
            self.session.confirm_state(delivery_id, Rejected(error_of(error)), True, False)
        else:
            self.detach(error)

    def end(self) -> None:
        self.close(False, False)

    def close(self, is_lost: bool, is_closing: bool) -> None:
        self.session.connection.transactions.close_all(self)


def _request(payload: bytes) -> Declare | Discharge:
    """Return what the body of a message to the coordinator says.  Raises: DecodeError."""
    body = Scanner().scan(payload).body
    if body[:3] != bytes((0, 0x53, VALUE)):
        raise DecodeError("a message to the coordinator has no amqp-value")
    request, _ = read_composite(body, 3, TRANSACTION_CODES)
    assert isinstance(request, (Declare, Discharge)), "the codes allow nothing else"
    return request
