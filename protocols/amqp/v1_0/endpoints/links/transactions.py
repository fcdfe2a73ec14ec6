"""Local transactions of a connection, and the operations held back for them.  Source: AMQP 1.0 part 4.

    declare                 declared(txn-id)
    transfer, disposition   transactional-state(txn-id, ...): held back until discharge
    discharge               accepted once the commit is durable, or rejected; with fail: rolled back

Deliveries that a rolled-back transaction had settled return to their places, each counted as an attempt, and are
delivered again, because the client has forgotten them.  Where the address or the URI sets a delay, they wait as failed
deliveries do.  Deliveries that the client has not settled stay with it (4.4.2).
"""

from __future__ import annotations

from typing import Final

from engine.open_transaction import Transaction
from engine.sources.composite import Destination
from engine.values import gates
from engine.values.delivery import IN_FLIGHT, Delivery
from engine.values.errors import DuplicateId, EngineError, TransactionError
from engine.values.message import Message
from protocols.amqp.v1_0.endpoints.connection_endpoint import ConnectionEndpoint
from protocols.amqp.v1_0.endpoints.links.link import SessionEndpoint
from protocols.amqp.v1_0.endpoints.links.target_link import TargetLink
from protocols.amqp.v1_0.mapping.outcomes import refusal_of
from protocols.amqp.v1_0.wire.composites.delivery_states import ACCEPTED, State, TransactionalState
from protocols.amqp.v1_0.wire.composites.transaction_types import Discharge
from protocols.amqp.v1_0.wire.errors import RolledBack, UnknownTransaction
from protocols.input_share import COMMITTED_STEPS

UNDONE_STEPS: Final = 4  # for each action of a transaction: the client may settle the same deliveries again


class OpenTransaction:
    """spoiled: why it can only be rolled back, "" if it can be committed.

    unsettled: outcomes in it, by session and delivery-id, that we must settle after the discharge.
    """

    __slots__ = ("transaction", "spoiled", "unsettled", "owner")

    def __init__(self, transaction: Transaction, owner: TargetLink) -> None:
        self.transaction = transaction
        self.spoiled = ""
        self.unsettled: dict[tuple[SessionEndpoint, int], State] = {}
        self.owner = owner


class WaitingCommit:
    """A commit that waits at a gate."""

    __slots__ = ("link", "delivery_id", "name", "one")

    def __init__(self, link: TargetLink, delivery_id: int, name: bytes, one: OpenTransaction) -> None:
        self.link = link
        self.delivery_id = delivery_id
        self.name = name
        self.one = one


class Transactions:
    """Open transactions of one connection, by txn-id."""

    __slots__ = ("connection", "producer_gates", "open", "waiting", "_next")

    def __init__(self, connection: ConnectionEndpoint) -> None:
        self.connection = connection
        self.producer_gates = connection.engine.producer_gates
        self.open: dict[bytes, OpenTransaction] = {}
        self.waiting: list[WaitingCommit] = []
        self._next = 1

    def declare(self, owner: TargetLink) -> bytes:
        """Raises: TransactionError."""
        limits = self.connection.settings.transaction_limits
        limits.check_open(len(self.open) + len(self.waiting))
        name = self._next.to_bytes(8, "big")
        self._next += 1
        self.open[name] = OpenTransaction(Transaction(self.connection, name.hex(), limits), owner)
        self.connection.is_holding = True
        return name

    def find(self, name: bytes) -> OpenTransaction:
        """Raises: UnknownTransaction."""
        one = self.open.get(name)
        if one is None:
            raise UnknownTransaction(f"transaction {name.hex()[:64]} is not open on this connection")
        return one

    def size_bytes(self) -> int:
        """Return the octets of the messages of all of them."""
        size = sum(one.transaction.memory_bytes() for one in self.open.values())
        return size + sum(one.one.transaction.memory_bytes() for one in self.waiting)

    def spoil(self, name: bytes, reason: str) -> None:
        """Allow only a rollback of a transaction: its client does not wait for the outcome of each send."""
        one = self.find(name)
        one.spoiled = one.spoiled or reason

    def send(
        self,
        link: TargetLink,
        delivery_id: int,
        is_settled: bool,
        state: TransactionalState,
        destination: Destination,
        message: Message,
    ) -> None:
        """Hold back one message of a producer.  Raises: UnknownTransaction."""
        one = self.find(state.txn_id)
        try:
            self.connection.engine.send_in(one.transaction, destination, message)
        except EngineError as error:
            one.spoiled = one.spoiled or str(error)
            link.reject(delivery_id, is_settled, error, state.txn_id)
            return
        link.answer(delivery_id, is_settled, TransactionalState(state.txn_id, ACCEPTED))

    def dispose(
        self,
        session: SessionEndpoint,
        number: int,
        delivery: Delivery,
        name: bytes,
        outcome: State | None,
        is_settled: bool,
    ) -> None:
        """Hold back the outcome of one delivery.  Raises: UnknownTransaction, TransactionError."""
        one = self.find(name)
        refusal = refusal_of(outcome, delivery)
        if refusal is None:
            one.transaction.add_accepted([delivery])
        else:
            one.transaction.add_refused([delivery], refusal)
        if is_settled:
            del session.unsettled[number]
        else:
            assert outcome is not None, "what is not settled has an outcome"
            one.unsettled[session, number] = outcome

    def check_same(self, session: SessionEndpoint, number: int, name: bytes) -> None:
        """End the control link of a transaction that is given a delivery which another one has (4.4.2).

        Raises: UnknownTransaction.
        """
        one = self.find(name)
        if (session, number) not in one.unsettled:
            one.owner.detach(RolledBack(f"the outcome of delivery {number} is in another transaction"))

    def discharge(self, link: TargetLink, delivery_id: int, discharge: Discharge) -> None:
        name = discharge.txn_id
        one = self.open.pop(name, None)
        if one is None:
            unknown = UnknownTransaction(f"transaction {name.hex()[:64]} is not open on this connection")
            link.reject(delivery_id, False, unknown)
            return
        is_undone = discharge.fail or bool(one.spoiled)
        self._charge(UNDONE_STEPS if is_undone else COMMITTED_STEPS, one)
        if discharge.fail:
            self._roll_back(one)
            link.answer(delivery_id, False, ACCEPTED)
        elif one.spoiled:
            self._roll_back(one)
            link.reject(delivery_id, False, TransactionError(f"the transaction was rolled back: {one.spoiled}"))
        else:
            self._commit(WaitingCommit(link, delivery_id, name, one))

    def admit(self) -> None:
        """A gate has opened: try the waiting commits again."""
        for one in self.waiting[:]:
            if one in self.waiting:  # otherwise it has ended with its link, which a refused one has ended
                self.waiting.remove(one)  # if it still waits, it is put at the end
                self._commit(one)

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        """Refuse the first commit that waits for room in the destination ``uri``; the next one waits from now on."""
        for one in self.waiting:
            if any(destination.uri() == uri for destination, _ in one.one.transaction.sends):
                self.waiting.remove(one)
                self._refuse(one, error)
                return

    def close_all(self, owner: TargetLink | None = None) -> None:
        """Roll back the open transactions of ``owner``, or all."""
        for name, one in list(self.open.items()):
            if owner is None or one.owner is owner:
                del self.open[name]
                if owner is not None:
                    self._charge(UNDONE_STEPS, one)
                self._roll_back(one)
        kept = []
        for waiting in self.waiting:
            if owner is None or waiting.link is owner:
                self._roll_back(waiting.one)
            else:
                kept.append(waiting)
        self.waiting = kept

    def _commit(self, waiting: WaitingCommit) -> None:
        engine = self.connection.engine
        if waiting.link.is_gone():
            self._roll_back(waiting.one)
            return
        transaction = waiting.one.transaction
        try:
            gate, destination = engine.commit_refusal(transaction)
        except EngineError as error:  # the policy of an address is FAIL
            self._refuse(waiting, error)
            return
        if gate != gates.OPEN and destination is not None:
            self.waiting.append(waiting)
            self.producer_gates.waits.park(self.connection, gate, destination)
            return
        engine.commit(transaction)
        _settle(waiting.one.unsettled)
        waiting.link.answer(waiting.delivery_id, False, ACCEPTED, is_logged=True)

    def _refuse(self, waiting: WaitingCommit, error: EngineError) -> None:
        self._roll_back(waiting.one)
        is_logged = isinstance(error, DuplicateId)  # the work that it reports as done may not be durable yet
        waiting.link.reject(waiting.delivery_id, False, error, is_logged=is_logged)

    def _roll_back(self, one: OpenTransaction) -> None:
        engine = self.connection.engine
        held = one.transaction.enlisted()
        engine.abort(one.transaction)
        kept = {session.unsettled.get(number) for session, number in one.unsettled}
        engine.roll_back([delivery for delivery in held if _is_with_a_link(delivery) and delivery not in kept])

    def _charge(self, steps: int, one: OpenTransaction) -> None:
        self.connection.share.charge(steps * one.transaction.action_count)


def _settle(unsettled: dict[tuple[SessionEndpoint, int], State]) -> None:
    """Settle the outcomes of a committed transaction, those of one disposition together."""
    rows: list[tuple[SessionEndpoint, State, list[int]]] = []
    for (session, number), outcome in unsettled.items():
        session.unsettled.pop(number, None)
        if rows and rows[-1][0] is session and rows[-1][1] is outcome:
            rows[-1][2].append(number)
        else:
            rows.append((session, outcome, [number]))
    for session, outcome, numbers in rows:
        session.settle_logged(numbers, outcome)


def _is_with_a_link(delivery: Delivery) -> bool:
    consumer = delivery.consumer
    return delivery.state == IN_FLIGHT and consumer is not None and consumer.adapter is not None
