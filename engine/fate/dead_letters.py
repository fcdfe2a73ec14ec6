"""Messages that are given up: their new place, the record of their origin, and the move itself.

engine.fate.redelivery gives a message up: by default after seven deliveries, the first and six more, or at once if it
is rejected.  It goes to ActiveMQ.DLQ unless the policy of its destination (config.dead_letter_policy) names another.

Source: ActiveMQ DeadLetterStrategy; headers of Artemis; docs/reference/semantics.md, "Dead letters".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.backlog.context import Context
from engine.backlog.intake import without_marks
from engine.consumers.turn_steps import DEAD_LETTER_STEPS
from engine.dispatch.dispatcher import Dispatcher
from engine.fate.failure_history import history_with, policy_of
from engine.fate.relocation import Relocation
from engine.sources.observer import Observer
from engine.sources.queue import Queue, queue_of
from engine.sources.registry import Destinations
from engine.sources.topics.topic import Topic
from engine.values.delivery import EXHAUST, Delivery, advance
from engine.values.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC, is_topic
from engine.values.message import DEAD_LETTER, ORIGINAL_DESTINATION, PERSISTENT, PLAIN, Message, annotation, later_ms
from engine.values.outcomes import CAUSE_EXHAUSTED, CAUSE_EXPIRED, CAUSE_NAMES, DEAD_LETTERED, DROPPED, EXPIRED

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
class DeadLetters(Observer):
    """Moves messages out of a queue that no consumer could process, or that have expired."""

    context: Context
    destinations: Destinations
    dispatcher: Dispatcher
    relocation: Relocation
    observers: list[Observer]

    def __post_init__(self) -> None:
        self.observers.append(self)

    def is_last_resort(self, delivery: Delivery) -> bool:
        """Say whether the delivery already is on the queue that it would be moved to.

        It stays there and waits, because it has no other place and no confirmed message may be lost (ActiveMQ drops
        it).
        """
        queue = queue_of(delivery.lane)
        return queue.kind == QUEUE and self._place(delivery) == (False, queue.name)

    def give_up(self, delivery: Delivery, cause: int, words: str) -> None:
        """Move the message to the dead-letter destination; without one, drop and count it."""
        queue = queue_of(delivery.lane)
        queue.fates.dead_lettered_count += 1
        delivery.state = advance(delivery.state, EXHAUST)
        place = self._place(delivery)
        text = self._failure(delivery, cause, words)
        self._move(delivery, place, cause, text, DROPPED if place is None else DEAD_LETTERED)

    def queue_ended(self, queue: Queue) -> None:
        expired = self.dispatcher.expired
        self.dispatcher.expired = [one for one in expired if queue_of(one.lane) is not queue]
        for delivery in expired:
            if queue_of(delivery.lane) is queue:
                self.expire(delivery)

    def bury_expired(self) -> None:
        """Settle expired messages that move to an expiry destination, as many as this turn has steps for."""
        steps = self.dispatcher.steps
        count = max(0, -(-steps.left // DEAD_LETTER_STEPS))
        expired = self.dispatcher.expired
        self.dispatcher.expired = expired[count:]
        for delivery in expired[:count]:
            steps.left -= DEAD_LETTER_STEPS
            self.expire(delivery)
        if self.dispatcher.expired:
            steps.need_a_turn()

    def expire(self, delivery: Delivery) -> None:
        """Settle an expired message; it moves to the expiry destination if there is one."""
        queue = queue_of(delivery.lane)
        text = f"Message Expired. Expiration:{delivery.message.expires_ms}"
        source = self._source(delivery)
        place = source.settings.expiry_destination(is_topic(source.kind), source.name, queue.feed.subscriber)
        if place == (False, queue.name) and queue.kind == QUEUE:
            place = None  # it has expired on the expiry destination itself
        if place is not None and not self._is_kept(delivery):
            place = None
        self._move(delivery, place, CAUSE_EXPIRED, text, EXPIRED)

    def send_on(self) -> None:
        """Dead-letter published messages that nobody takes, in the batch of their send."""
        for topic, message in self.relocation.publication.take_unrouted():
            self._send_on(topic, message)

    # -- the steps

    def _send_on(self, topic: Topic, message: Message) -> None:
        """Send a message that nobody takes to the dead-letter destination of its topic, if there is one."""
        settings = topic.settings
        if not (settings.dead_letters.process_non_persistent or message.flags & PERSISTENT):
            return
        target = self._target(settings.dead_letter_destination(True, topic.name, None))
        if target is None:
            return
        topic.fates.dead_lettered_count += 1
        self.relocation.append(target, self._unrouted(topic, message, target))

    def _failure(self, delivery: Delivery, cause: int, words: str) -> str:
        """Return in words why a message is given up."""
        text = f"{CAUSE_NAMES[cause]}: delivery {delivery.failed_attempts} failed"
        if cause == CAUSE_EXHAUSTED:
            policy = policy_of(delivery)
            text = f"{text}, the redelivery policy allows {policy.maximum_redeliveries} redeliveries"
        return f"{text}; {words}" if words else text

    def _place(self, delivery: Delivery) -> tuple[bool, str] | None:
        """Return (whether it is a topic, its name) of the new place, None if the message is dropped."""
        if not self._is_kept(delivery):
            return None
        source = self._source(delivery)
        subscriber = queue_of(delivery.lane).feed.subscriber
        return source.settings.dead_letter_destination(is_topic(source.kind), source.name, subscriber)

    def _source(self, delivery: Delivery) -> Queue | Topic:
        """Return the destination the message was sent to, which a wildcard subscription does not name."""
        return self.destinations.by_id.get(delivery.message.destination_id, queue_of(delivery.lane))

    def _is_kept(self, delivery: Delivery) -> bool:
        policy = queue_of(delivery.lane).settings.dead_letters
        return policy.process_non_persistent or bool(delivery.message.flags & PERSISTENT)

    def _target(self, place: tuple[bool, str] | None) -> Queue | Topic | None:
        if place is None:
            return None
        goes_to_topic, name = place
        return self.destinations.own_topic(name) if goes_to_topic else self.destinations.own_queue(name)

    def _move(self, delivery: Delivery, place: tuple[bool, str] | None, cause: int, text: str, outcome: int) -> None:
        queue = queue_of(delivery.lane)
        for observer in self.observers:
            observer.dead(queue, delivery.message, outcome == EXPIRED)
        target = self._target(place)
        moved = None if target is None else self._moved(delivery, target, cause, text)
        self.relocation.move(delivery, target, moved, outcome, cause)

    def _moved(self, delivery: Delivery, target: Queue | Topic, cause: int, text: str) -> Message:
        """Return the new message: persistent, without its expiry, with origin and history in annotations."""
        queue = queue_of(delivery.lane)
        source = self._source(delivery)
        identity = self.context.message_id(delivery.message)
        lines = self._origin_lines(
            delivery.message, identity, source, queue.feed.subscriber, text, delivery.failed_attempts
        )
        return self._dead(delivery.message, source, target, lines + self._failure_lines(delivery, cause))

    def _dead(self, message: Message, origin: Queue | Topic, target: Queue | Topic, lines: list[bytes]) -> Message:
        expiration_ms = origin.settings.dead_letters.expiration_ms
        return Message(
            target.destination_id,
            message.encoding,
            (without_marks(message.flags) | PERSISTENT | DEAD_LETTER) & ~PLAIN,
            message.jms_priority(),
            message.tag_hash,
            message.group_hash,
            later_ms(self.context.wall_ms, expiration_ms) if expiration_ms > 0 else 0,
            b"".join(lines) + message.annotations,
            message.headers,
            message.body,
        )

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
