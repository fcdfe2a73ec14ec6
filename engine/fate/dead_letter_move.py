"""The move of a dead letter: its new message, with origin and history in headers, replaces the old one.

engine.fate.dead_letters decides when, and where to.

Source: headers of ActiveMQ and Artemis; docs/reference/semantics.md, "Dead letters".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.backlog.context import Context
from engine.backlog.intake import moved
from engine.fate.failure_history import history_with
from engine.fate.relocation import Relocation
from engine.sources.observer import Observer
from engine.sources.queue import Queue, queue_of
from engine.sources.registry import Destinations
from engine.sources.topics.topic import Topic
from engine.values.delivery import Delivery
from engine.values.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC
from engine.values.message import DEAD_LETTER, ORIGINAL_DESTINATION, PERSISTENT, PLAIN, Message, annotation, later_ms
from engine.values.outcomes import CAUSE_EXPIRED, CAUSE_NAMES, EXPIRED

NO_ROUTE: Final = "no-route"
NO_ROUTE_TEXT: Final = "no-route: the topic has no subscription that takes the message"
# A temporary destination ends with its connection: a retry must not make a lasting destination of its name.
PREFIXES: Final = {
    QUEUE: "/queue/",
    TOPIC: "/topic/",
    TEMP_QUEUE: "/remote-temp-queue/",
    TEMP_TOPIC: "/remote-temp-topic/",
}


@dataclass(slots=True, eq=False)
class DeadLetterMove:
    """Moves messages out of a queue that no consumer could process, or that have expired."""

    context: Context
    destinations: Destinations
    relocation: Relocation
    observers: list[Observer]

    def source(self, delivery: Delivery) -> Queue | Topic:
        """Return the destination the message was sent to, which a wildcard subscription does not name."""
        return self.destinations.by_id.get(delivery.message.destination_id, queue_of(delivery.lane))

    def move(self, delivery: Delivery, place: tuple[bool, str] | None, cause: int, text: str, outcome: int) -> None:
        """Settle a message; a new one goes to ``place``, (whether it is a topic, its name), unless that is None."""
        queue = queue_of(delivery.lane)
        for observer in self.observers:
            observer.dead(queue, delivery.message, outcome == EXPIRED)
        target = self._target(place)
        moved = None if target is None else self._moved(delivery, target, cause, text)
        self.relocation.move(delivery, target, moved, outcome, cause)

    def send_on(self, topic: Topic, message: Message, place: tuple[bool, str]) -> None:
        """Send a message that nobody takes to ``place``."""
        target = self._target(place)
        if target is not None:
            topic.fates.dead_lettered_count += 1
            self.relocation.append(target, self._unrouted(topic, message, target))

    # -- the steps

    def _target(self, place: tuple[bool, str] | None) -> Queue | Topic | None:
        if place is None:
            return None
        goes_to_topic, name = place
        return self.destinations.own_topic(name) if goes_to_topic else self.destinations.own_queue(name)

    def _moved(self, delivery: Delivery, target: Queue | Topic, cause: int, text: str) -> Message:
        """Return the new message: persistent, without its expiry, with origin and history in annotations."""
        queue = queue_of(delivery.lane)
        source = self.source(delivery)
        identity = self.context.message_id(delivery.message)
        lines = self._origin_lines(
            delivery.message, identity, source, queue.feed.subscriber, text, delivery.failed_attempts
        )
        return self._dead(delivery.message, source, target, lines + self._failure_lines(delivery, cause))

    def _dead(self, message: Message, origin: Queue | Topic, target: Queue | Topic, lines: list[bytes]) -> Message:
        expiration_ms = origin.settings.dead_letters.expiration_ms
        expires_ms = later_ms(self.context.wall_ms, expiration_ms) if expiration_ms > 0 else 0
        annotations = b"".join(lines) + message.annotations
        return moved(message, target.destination_id, annotations, expires_ms, PERSISTENT | DEAD_LETTER, PLAIN)

    def _unrouted(self, topic: Topic, message: Message, target: Queue | Topic) -> Message:
        lines = self._origin_lines(message, self.context.message_id(message), topic, None, NO_ROUTE_TEXT, 0)
        return self._dead(message, topic, target, [*lines, annotation("dlqCause", NO_ROUTE)])

    def _origin_lines(
        self, message: Message, identity: str, origin: Queue | Topic, subscriber: str | None, text: str, attempts: int
    ) -> list[bytes]:
        """Return the headers that ActiveMQ and Artemis write, so that tools for either can read them.

        identity: JMSMessageID of the message that is given up.
        """
        lines = [
            annotation(ORIGINAL_DESTINATION, PREFIXES[origin.kind] + origin.name),
            annotation("dlqDeliveryFailureCause", text),
            annotation("originalMessageId", identity),
            annotation("originalDeliveryCount", str(attempts)),
            annotation("_AMQ_ORIG_ADDRESS", origin.name),
            annotation("_AMQ_ORIG_QUEUE", subscriber or origin.name),
            annotation("_AMQ_ORIG_MESSAGE_ID", identity),
        ]
        if message.expires_ms:
            lines.append(annotation("originalExpiration", str(message.expires_ms)))
        if not message.flags & PERSISTENT:
            lines.append(annotation("originalDeliveryMode", "NON_PERSISTENT"))
        return lines

    def _failure_lines(self, delivery: Delivery, cause: int) -> list[bytes]:
        """Return headers that no other broker writes: the cause, the first and last failure, and the consumer."""
        if cause == CAUSE_EXPIRED:
            return [annotation("_AMQ_ACTUAL_EXPIRY", str(self.context.wall_ms))]
        lines = [annotation("dlqCause", CAUSE_NAMES[cause])]
        history = history_with(delivery, cause, self.context.wall_ms)
        lines.append(annotation("dlqFirstFailureTime", str(history.first_ms)))
        lines.append(annotation("dlqLastFailureTime", str(history.last_ms)))
        if history.consumer:
            lines.append(annotation("dlqConsumer", history.consumer))
        return lines
