"""Applies a COMMIT as one batch in the log: after a stop all of its sends, schedules and settlements exist, or none."""

from __future__ import annotations

from dataclasses import dataclass

from engine.acceptance import Acceptance
from engine.backlog.context import Context
from engine.consumers.settlement_log import SettlementLog
from engine.dispatch.dispatcher import Dispatcher
from engine.fate.redelivery import Redelivery
from engine.features.broker_questions import Questions
from engine.features.duplicate_ids import DuplicateIds
from engine.features.message_copies import MessageCopies
from engine.features.scheduler.delayed_send import Delayed
from engine.features.scheduler.scheduler import Scheduler
from engine.limits.producer_gates import ProducerGates
from engine.open_transaction import Transaction
from engine.sources.composite import Composite, Destination, Target
from engine.sources.identified import Identified
from engine.sources.queue import QuestionQueue
from engine.sources.topics.topic import Topic
from engine.values.delivery import IN_FLIGHT, Delivery, Refusal
from engine.values.destination import QUEUE, TOPIC
from engine.values.message import Message


@dataclass(slots=True, eq=False)
class Commits:
    """Gathers what transactions send, and applies or undoes them."""

    _context: Context
    _producer_gates: ProducerGates
    _acceptance: Acceptance
    _settlements: SettlementLog
    _dispatcher: Dispatcher
    _redelivery: Redelivery
    _copies: MessageCopies
    _questions: Questions
    _scheduler: Scheduler
    _duplicate_ids: DuplicateIds

    def send_in(self, transaction: Transaction, destination: Destination, message: Message) -> None:
        """Add a send that ``transaction`` makes at its COMMIT.

        Raises: TransactionError past its limits; InvalidDestination for a temporary destination that is gone.
        """
        if isinstance(destination, Identified):
            inner = destination.inner
            if not isinstance(inner, Composite):
                message.destination_id = inner.destination_id
            transaction.count_identified(destination)
            before = len(transaction.sends)
            self.send_in(transaction, inner, message)
            copies = [copy for _, copy in transaction.sends[before:]]
            transaction.identified.append((destination, copies or [message]))
        elif isinstance(destination, Delayed):
            self._scheduler.require_room(transaction.scheduled_count + len(destination.parts))
            transaction.add_scheduled(destination, message)
        elif destination.is_indirect is True:
            transaction.add_sends(self._copies.expand(destination, message))
        else:
            transaction.add_send(destination, message)

    def refusal(self, transaction: Transaction) -> tuple[int, Target | None]:
        """Return the gate that holds the COMMIT back, and the destination it is about.

        Raises: AddressFull, LimitReached, DuplicateId if it can never be applied; the caller then aborts it.
        """
        self._duplicate_ids.require_new(transaction.identified)
        if transaction.scheduled_count:  # others may have scheduled since
            self._scheduler.require_room(transaction.scheduled_count)
        return self._producer_gates.commit_refusal(transaction)

    def abort(self, transaction: Transaction) -> None:
        """Drop the sends and undo the acknowledgements; the messages stay delivered and count no attempt."""
        for delivery in transaction.undo():
            if delivery.state != IN_FLIGHT:
                self._redelivery.release_enlisted(delivery)

    def apply(self, transaction: Transaction) -> None:
        """Apply a transaction: one batch in the log, closed by a commit record."""
        self._settlements.flush()  # earlier settlements are not part of the batch
        self._make_again(transaction)
        questions: list[tuple[QuestionQueue, Message]] = []
        self._context.begin_batch()
        publication = self._acceptance.publication
        publication.begin_transaction()
        for destination, message in transaction.sends:
            if destination.is_closed:
                continue  # a temporary destination that has gone
            if isinstance(destination, QuestionQueue):
                questions.append((destination, message))
            elif not self._producer_gates.is_blocked or not self._producer_gates.discards(destination):
                if isinstance(destination, Topic):
                    publication.charge_batch(destination)
                self._acceptance.accept(destination, message)
        publication.end_transaction()
        self._acceptance.send_on()
        for delayed, message in transaction.scheduled:
            assert isinstance(delayed, Delayed), "a scheduled send has a delay"
            self._scheduler.add(delayed, message)
        for identified, copies in transaction.identified:
            if not self._duplicate_ids.is_known(identified.key):  # since it was prepared, somebody may have sent it
                self._duplicate_ids.add(identified.key, any(copy.log_offset >= 0 for copy in copies))
        self._dispatcher.acknowledge_all(transaction.accepted)
        for refusal, deliveries in _by_refusal(transaction.refused):
            self._redelivery.refuse_all(deliveries, refusal)
        self._settlements.flush()
        self._context.commit_batch()
        for queue, question in questions:
            self._questions.answer(queue, question)

    def _make_again(self, transaction: Transaction) -> None:
        """Recreate destinations of the transaction that were deleted meanwhile; confirmed messages must not be lost."""
        for index, (destination, message) in enumerate(transaction.sends):
            if destination.is_closed and destination.kind in (QUEUE, TOPIC):
                target = self._copies.there(destination, is_owed=True)
                message.destination_id = target.destination_id
                transaction.sends[index] = (target, message)
        for index, (delayed, message) in enumerate(transaction.scheduled):
            assert isinstance(delayed, Delayed), "a scheduled send has a delay"
            if any(part.is_closed for part in delayed.parts):
                there = [
                    self._copies.there(part, is_owed=True)
                    for part in delayed.parts
                    if not part.is_closed or part.kind in (QUEUE, TOPIC)
                ]
                if there:
                    transaction.scheduled[index] = (Delayed(there, delayed.plan), message)
        # Schedules only for temporary destinations that are gone are dropped with them.
        transaction.scheduled = [one for one in transaction.scheduled if _is_there(one[0])]


def _is_there(delayed: Composite) -> bool:
    """Say whether any destination is left for a scheduled message."""
    return not all(part.is_closed for part in delayed.parts)


def _by_refusal(refused: list[tuple[Delivery, Refusal]]) -> list[tuple[Refusal, list[Delivery]]]:
    """Group consecutive deliveries that were refused in the same way."""
    found: list[tuple[Refusal, list[Delivery]]] = []
    for delivery, refusal in refused:
        if found and found[-1][0] is refusal:
            found[-1][1].append(delivery)
        else:
            found.append((refusal, [delivery]))
    return found
