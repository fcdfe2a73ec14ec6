"""A COMMIT as one batch in the log: sends, schedules and settlements, all of them after a stop or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.features.broker_questions import QuestionQueue
from engine.features.scheduler.delayed_send import Delayed
from engine.sources.composite import Target
from engine.transaction import Transaction
from engine.values.delivery import Delivery
from engine.values.destination import QUEUE, TOPIC
from engine.values.message import Message
from engine.values.refusal import Refusal

if TYPE_CHECKING:
    from engine.broker import Broker


class Commits:
    """Applies transactions to the broker that it is part of."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def apply(self, transaction: Transaction) -> None:
        """Apply a transaction: one batch in the log, closed by a commit record."""
        broker = self._broker
        broker.flush_settlements()  # what was settled outside stays outside
        self._make_again(transaction)
        questions: list[tuple[QuestionQueue, Message]] = []
        broker.begin_batch()
        for destination, message in transaction.sends:
            if destination.is_closed:
                continue  # a temporary one has gone since
            if isinstance(destination, QuestionQueue):
                questions.append((destination, message))
            elif not broker.flow.is_blocked or not broker.flow.discards(destination):
                broker.accept(destination, message)
        if broker.subscriptions.unrouted:
            broker.subscriptions.send_on()
        for delayed, message in transaction.scheduled:
            broker.scheduler.add(delayed, message)
        broker.settling.acknowledge(transaction.accepted)
        for refusal, deliveries in _by_refusal(transaction.refused):
            broker.redelivery.refuse_all(deliveries, refusal)
        broker.flush_settlements()
        broker.commit_batch()
        for queue, question in questions:
            broker.copies.answer(queue, question)

    def _make_again(self, transaction: Transaction) -> None:
        """Make what the transaction sends to and was deleted meanwhile; what is confirmed must not be lost."""
        for index, (destination, message) in enumerate(transaction.sends):
            if destination.is_closed and destination.kind in (QUEUE, TOPIC):
                target = self._made(destination)
                message.destination_id = target.destination_id
                transaction.sends[index] = (target, message)
        for index, (delayed, message) in enumerate(transaction.scheduled):
            if any(part.is_closed for part in delayed.parts):
                there = [
                    self._made(part) for part in delayed.parts if not part.is_closed or part.kind in (QUEUE, TOPIC)
                ]
                if there:
                    transaction.scheduled[index] = (Delayed(there, delayed.plan), message)
        # What was for nothing but temporary destinations that are gone goes with them.
        transaction.scheduled = [one for one in transaction.scheduled if _is_there(one[0])]

    def _made(self, target: Target) -> Target:
        destinations = self._broker.destinations
        if not target.is_closed:
            return target
        return destinations.own_queue(target.name) if target.kind == QUEUE else destinations.own_topic(target.name)


def _is_there(delayed: Delayed) -> bool:
    """Say whether there is anything that a message may go to later."""
    return not all(part.is_closed for part in delayed.parts)


def _by_refusal(refused: list[tuple[Delivery, Refusal]]) -> list[tuple[Refusal, list[Delivery]]]:
    """Put together what was refused one after the other in the same way."""
    found: list[tuple[Refusal, list[Delivery]]] = []
    for delivery, refusal in refused:
        if found and found[-1][0] is refusal:
            found[-1][1].append(delivery)
        else:
            found.append((refusal, [delivery]))
    return found
