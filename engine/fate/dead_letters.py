"""When a message becomes a dead letter: after its last attempt, at once if it is rejected, or if nobody takes it.

By default its last attempt is the seventh delivery, the first and six more (config.redelivery_policy).  It goes to
ActiveMQ.DLQ unless the policy of its destination (config.dead_letter_policy) names another.  What expires takes the
same road, to the expiry destination.  engine.fate.dead_letter_move makes the new message.

Source: ActiveMQ DeadLetterStrategy; docs/reference/semantics.md, "Dead letters".
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.consumers.consumer import Consumer, consumer_of
from engine.consumers.turn_steps import DEAD_LETTER_STEPS
from engine.dispatch.dispatcher import Dispatcher
from engine.fate.dead_letter_move import DeadLetterMove
from engine.fate.failure_history import policy_of
from engine.sources.observer import Observer
from engine.sources.queue import Queue, queue_of
from engine.sources.topics.topic import Topic
from engine.values.delivery import EXHAUST, Delivery, Refusal, advance
from engine.values.destination import QUEUE, is_topic
from engine.values.message import PERSISTENT, Message
from engine.values.outcomes import CAUSE_EXHAUSTED, CAUSE_EXPIRED, CAUSE_NAMES, DEAD_LETTERED, DROPPED, EXPIRED


@dataclass(slots=True, eq=False)
class DeadLetters(Observer):
    """Decides which messages leave their queue for a dead-letter or expiry destination."""

    dispatcher: Dispatcher
    moves: DeadLetterMove

    def __post_init__(self) -> None:
        self.moves.observers.append(self)

    def gives_up(self, delivery: Delivery, refusal: Refusal) -> bool:
        """Say whether this negative answer would make the message a dead letter."""
        mode = refusal.mode or consumer_of(delivery).queue.settings.nack
        if mode == "redeliver":
            return policy_of(delivery).is_exhausted(delivery.failed_attempts + 1)
        return mode == "dead-letter"

    def lost_by(self, consumer: Consumer, blamed: list[Delivery]) -> list[Delivery]:
        """Return which of the messages that a lost connection is blamed for are given up.

        Without a sign of the client, an acknowledgement or a window of 1, it may never have seen any of them.
        """
        if not (consumer.furthest_tag > 0 or consumer.window.allowed() == 1):
            return []
        policy = policy_of(blamed[0])
        return [one for one in blamed if policy.is_exhausted(one.failed_attempts)]

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
        self.moves.move(delivery, place, cause, text, DROPPED if place is None else DEAD_LETTERED)

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
        source = self.moves.source(delivery)
        place = source.settings.expiry_destination(is_topic(source.kind), source.name, queue.feed.subscriber)
        if place == (False, queue.name) and queue.kind == QUEUE:
            place = None  # it has expired on the expiry destination itself
        if place is not None and not self._is_kept(delivery):
            place = None
        self.moves.move(delivery, place, CAUSE_EXPIRED, text, EXPIRED)

    def send_on(self) -> None:
        """Dead-letter published messages that nobody takes, in the batch of their send."""
        for topic, message in self.moves.relocation.publication.take_unrouted():
            self._send_on(topic, message)

    # -- the steps

    def _send_on(self, topic: Topic, message: Message) -> None:
        """Send a message that nobody takes to the dead-letter destination of its topic, if there is one."""
        settings = topic.settings
        if not (settings.dead_letters.process_non_persistent or message.flags & PERSISTENT):
            return
        place = settings.dead_letter_destination(True, topic.name, None)
        if place is not None:
            self.moves.send_on(topic, message, place)

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
        source = self.moves.source(delivery)
        subscriber = queue_of(delivery.lane).feed.subscriber
        return source.settings.dead_letter_destination(is_topic(source.kind), source.name, subscriber)

    def _is_kept(self, delivery: Delivery) -> bool:
        policy = queue_of(delivery.lane).settings.dead_letters
        return policy.process_non_persistent or bool(delivery.message.flags & PERSISTENT)
