"""Unusual sends: to several destinations, as a question to the broker, or delayed."""

from __future__ import annotations

from dataclasses import dataclass

from engine.acceptance import Acceptance
from engine.backlog.context import Context
from engine.features.broker_questions import Questions
from engine.features.duplicate_ids import DuplicateIds
from engine.features.message_copies import MessageCopies
from engine.features.scheduler.delayed_send import Delayed
from engine.features.scheduler.scheduler import Scheduler
from engine.limits.producer_gates import ProducerGates
from engine.sources.composite import Composite, Destination, Target
from engine.sources.identified import Identified
from engine.sources.observer import Observer
from engine.sources.queue import QuestionQueue
from engine.sources.queue_rules import has_send_advisories
from engine.values import gates
from engine.values.message import PERSISTENT, Message


@dataclass(slots=True, eq=False)
class CompositeSend:
    """Sends to all parts of a destination, or to none of them."""

    _context: Context
    _acceptance: Acceptance
    _producer_gates: ProducerGates
    copies: MessageCopies
    _questions: Questions
    _scheduler: Scheduler
    _duplicate_ids: DuplicateIds
    _observers: list[Observer]

    def send(self, destination: Destination, message: Message) -> int:
        """Send ``message``, or return the gate that refuses it.  Raises: what ``MessageCopies.expand`` raises."""
        if isinstance(destination, Identified):
            return self._send_once(destination, message)
        return self._send(destination, message, [])

    def _send(self, destination: Destination, message: Message, accepted: list[Message]) -> int:
        """Send ``message``, and add what it became to ``accepted``; or return the gate that refuses it."""
        if isinstance(destination, Delayed):
            delayed = self._scheduler.opened(destination)
            if not self._scheduler.is_due(delayed):
                accepted.append(message)
                return self._scheduler.take(delayed, message)
            destination = Composite(delayed.parts) if len(delayed.parts) > 1 else delayed.parts[0]
        if not isinstance(destination, Composite):
            message.destination_id = destination.destination_id
            if not destination.is_indirect:
                accepted.append(message)
                return self._acceptance.send(destination, message)
        sends: list[tuple[Target, Message]] = []
        discarding: list[Target] = []
        for target, copy in self.copies.expand(destination, message):
            gate = self._producer_gates.refusal(target, copy)
            if gate == gates.OPEN:
                sends.append((target, copy))
            elif gate == gates.DISCARDED:
                discarding.append(target)
            else:
                return gate
        for target in discarding:
            self._producer_gates.count_dropped(target)
        self._context.begin_batch()
        for target, copy in sends:
            if not isinstance(target, QuestionQueue):
                self._acceptance.accept(target, copy)
        self._acceptance.send_on()
        self._context.commit_batch()
        for target, copy in sends:
            accepted.append(copy)
            if isinstance(target, QuestionQueue):
                self._questions.answer(target, copy)
            elif has_send_advisories(target.settings):
                for observer in self._observers:
                    observer.sent(target, copy)
        return gates.OPEN

    def _send_once(self, identified: Identified, message: Message) -> int:
        """Send a message with an id, unless its address knows the id: then it counts as sent."""
        if self._duplicate_ids.is_known(identified.key):
            self._duplicate_ids.dropped_count += 1
            message.flags |= PERSISTENT  # confirmed once the first one is durable, which may have been logged anyway
            return gates.OPEN
        accepted: list[Message] = []
        self._context.begin_batch()
        try:
            gate = self._send(identified.inner, message, accepted)
            if gate == gates.OPEN:
                self._duplicate_ids.add(identified.key, any(one.log_offset >= 0 for one in accepted))
        finally:
            self._context.commit_batch()
        return gate
