"""Dispositions of a peer about deliveries that it received: outcomes, of one or of a range.

Sources: AMQP 1.0 part 2, 2.7.6; part 3, 3.4.
"""

from __future__ import annotations

from typing import Final

from engine.api import EngineApi
from engine.consumers.consumer import Consumer
from engine.values.delivery import IN_FLIGHT, Delivery
from protocols.amqp.v1_0.endpoints.links.link import MASK, SessionEndpoint
from protocols.amqp.v1_0.endpoints.links.outgoing_link import OutgoingLink
from protocols.amqp.v1_0.endpoints.links.transactions import Transactions
from protocols.amqp.v1_0.mapping.outcomes import is_terminal, refusal_of
from protocols.amqp.v1_0.wire.composites.delivery_states import (
    ACCEPTED,
    Accepted,
    Modified,
    Released,
    TransactionalState,
)
from protocols.amqp.v1_0.wire.composites.performatives import Disposition

HALF: Final = 1 << 31  # of the delivery-ids
NUMBERS_A_STEP: Final = 8  # of delivery-ids that a range is compared with
FREE_NUMBERS: Final = 64  # a range of so many costs no more than other frames
# Steps of a turn for each delivery of a range.
SETTLED_STEPS: Final = 2
ENLISTED_STEPS: Final = 3  # in a transaction
ANNOTATED_STEPS: Final = 12  # with annotations for its message


class Dispositions:
    """Of one connection."""

    __slots__ = ("engine", "dispatcher", "transactions")

    def __init__(self, engine: EngineApi, transactions: Transactions) -> None:
        self.engine = engine
        self.dispatcher = engine.dispatcher
        self.transactions = transactions

    def take(self, session: SessionEndpoint, number: int, delivery: Delivery, disposition: Disposition) -> None:
        """Apply the peer's outcome to one delivery that it received."""
        state = disposition.state
        is_settled = bool(disposition.settled)
        engine = self.engine
        if delivery.state != IN_FLIGHT:  # part of a transaction: its outcome is known already
            if isinstance(state, TransactionalState):
                self.transactions.check_same(session, number, state.txn_id)
            if is_settled:
                session.unsettled.pop(number, None)
            return
        if isinstance(state, Accepted):
            del session.unsettled[number]
            if is_settled:
                engine.acknowledge_unconfirmed(delivery)
            else:
                engine.acknowledge(delivery)
                session.settle_logged([number], ACCEPTED)
            return
        if isinstance(state, TransactionalState):
            outcome = state.outcome
            if not is_terminal(outcome):
                if not is_settled:
                    return
                outcome = _link_of(delivery).default_outcome
            self.transactions.dispose(session, number, delivery, state.txn_id, outcome, is_settled)
            return
        if not is_settled and not is_terminal(state):
            return
        del session.unsettled[number]
        outcome = state if is_terminal(state) else _link_of(delivery).default_outcome
        refusal = refusal_of(outcome, delivery)
        if refusal is None:
            engine.acknowledge(delivery)
        else:
            engine.refuse(delivery, refusal)
        if not is_settled and state is not None:
            session.settle_logged([number], state)

    def take_range(self, session: SessionEndpoint, first: int, last: int, disposition: Disposition) -> None:
        """Apply an outcome to the unsettled deliveries from ``first`` to ``last``."""
        state = disposition.state
        if not disposition.settled and not is_terminal(state) and not isinstance(state, TransactionalState):
            return  # the state "received" reports progress, and changes nothing
        count = ((last - first) & MASK) + 1
        if count > HALF:  # numbers wrap (2.8.10): the range ends before it begins
            return
        if count > FREE_NUMBERS:
            most = min(count, 2 * len(session.unsettled))
            session.connection.share.charge(most // NUMBERS_A_STEP)
        if count <= 2 * len(session.unsettled):
            numbers = [(first + step) & MASK for step in range(count)]
        else:  # a range may be hostile: walk only numbers that exist
            numbers = [number for number in session.unsettled if ((number - first) & MASK) < count]
        if is_terminal(state) and not (isinstance(state, Modified) and state.message_annotations):
            self._take_all(session, numbers, disposition)
            return
        steps = ENLISTED_STEPS if isinstance(state, TransactionalState) else ANNOTATED_STEPS
        session.connection.share.charge(steps * len(numbers))
        for number in numbers:
            delivery = session.unsettled.get(number)
            if delivery is not None:
                self.take(session, number, delivery, disposition)

    def _take_all(self, session: SessionEndpoint, numbers: list[int], disposition: Disposition) -> None:
        """Apply one outcome to all unsettled deliveries among ``numbers``."""
        state = disposition.state
        is_settled = bool(disposition.settled)
        unsettled = session.unsettled
        known = [number for number in numbers if number in unsettled]
        if not is_settled:  # deliveries of a transaction stay until they are settled
            known = [number for number in known if unsettled[number].state == IN_FLIGHT]
        deliveries = [unsettled.pop(number) for number in known]
        if is_settled:
            deliveries = [delivery for delivery in deliveries if delivery.state == IN_FLIGHT]
        if not deliveries:
            return
        session.connection.share.charge(SETTLED_STEPS * len(deliveries))
        if isinstance(state, Accepted | Released):  # dead letters come in the order of their deliveries
            deliveries.sort(key=_consumer_of)
        refusal = refusal_of(state, deliveries[0])
        if refusal is not None:
            self.engine.refuse_all(deliveries, refusal)
        elif is_settled:
            self.dispatcher.acknowledge_all(deliveries)
        else:
            self.engine.acknowledge_all(deliveries)
        if not is_settled and state is not None:
            session.settle_logged(known, state)


def _link_of(delivery: Delivery) -> OutgoingLink:
    consumer = delivery.consumer
    assert isinstance(consumer, Consumer), "an unsettled delivery is with a consumer"
    link = consumer.adapter
    assert isinstance(link, OutgoingLink), "a consumer of this connection has a link"
    return link


def _consumer_of(delivery: Delivery) -> int:
    """Return a number that the deliveries of one consumer share: settling them together costs less."""
    return 0 if delivery.consumer is None else delivery.consumer.consumer_id
