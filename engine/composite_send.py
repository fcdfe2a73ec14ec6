"""What one SEND comes to where its destination stands for several, is asked a question, or delays what is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.features.broker_questions import QuestionQueue, is_management
from engine.features.scheduler.delayed_send import Delayed
from engine.sources.composite import Composite, Destination, Target
from engine.sources.topic import Topic
from engine.values import gates
from engine.values.errors import LimitReached
from engine.values.message import Message

if TYPE_CHECKING:
    from engine.broker import Broker

COMPOSITE_BYTES_MAX: Final = 64 * 1024 * 1024  # of one message, over all the destinations that its sender names


class Copies:
    """Sends for the broker that it is part of, wherever the usual way of one message to one destination is not it."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def send(self, destination: Destination, message: Message) -> int:
        """Send to all that ``destination`` stands for, or to none of them."""
        broker = self._broker
        if isinstance(destination, Delayed):
            return broker.scheduler.take(destination, message)
        sends: list[tuple[Target, Message]] = []
        discarding: list[Target] = []
        for target, copy in self.expand(destination, message):
            gate = broker.flow.refusal(target, copy)
            if gate == gates.OPEN:
                sends.append((target, copy))
            elif gate == gates.DISCARDED:
                discarding.append(target)
            else:
                return gate
        for target in discarding:
            broker.flow.count_dropped(target)
        broker.begin_batch()
        for target, copy in sends:
            if not isinstance(target, QuestionQueue):
                broker.accept(target, copy)
        if broker.subscriptions.unrouted:
            broker.subscriptions.send_on()
        broker.commit_batch()
        for target, copy in sends:
            if isinstance(target, QuestionQueue):
                self.answer(target, copy)
            elif target.is_told:
                broker.advisories.sent(target, copy)
        return gates.OPEN

    def answer(self, queue: QuestionQueue, question: Message) -> None:
        if is_management(queue.name):
            self._broker.management.answer(question)
        else:
            self._broker.statistics.answer(queue, question)

    def expand(self, destination: Destination, message: Message) -> list[tuple[Target, Message]]:
        """Return what sending ``message`` comes to: one message for each destination that it reaches.

        Raises: InvalidDestination if one of them is a temporary destination that is gone; InvalidOption for a question
        that is none; LimitReached for one too many; AccessDenied for one about what its sender may not see.
        """
        assert not isinstance(destination, Delayed), "what is delayed reaches nothing yet"
        if isinstance(destination, Composite):
            size_bytes = message.size * len(destination.parts)
            if size_bytes > COMPOSITE_BYTES_MAX:
                raise LimitReached(
                    f"a message of {message.size} octets to {len(destination.parts)} destinations comes to "
                    f"{size_bytes} octets; allowed are {COMPOSITE_BYTES_MAX} at once"
                )
            found: list[tuple[Target, Message]] = []
            for part in destination.parts:
                found += self.expand(part, message.copy_to(part.destination_id))
            return found
        if destination.is_closed:
            # Whoever sends has kept it from before; by its name it is there again, unless it was a temporary one.
            destination = self._broker.destinations.target(destination.kind, destination.name)
            message.destination_id = destination.destination_id
        if isinstance(destination, QuestionQueue):
            if is_management(destination.name):
                self._broker.management.check(message)
            else:
                self._broker.statistics.check(destination)
        found = [(destination, message)]
        if isinstance(destination, Topic) and destination.copies:
            found += self._broker.virtual_topics.copies(destination, message)
        return found
