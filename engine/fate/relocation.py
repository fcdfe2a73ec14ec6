"""The move of a message to another destination: append there and settle at the old place, both or neither."""

from __future__ import annotations

from dataclasses import dataclass

from engine.backlog.context import Context
from engine.consumers.consumer import consumer_of
from engine.consumers.settlement_log import SettlementLog
from engine.sources.queue import Queue, queue_of
from engine.sources.topics.topic import Topic
from engine.sources.topics.topic_publication import TopicPublication
from engine.values.delivery import Delivery
from engine.values.message import Message
from engine.values.stored import DELIVERY_COUNT_MAX, Range


@dataclass(slots=True, eq=False)
class Relocation:
    """Moves messages; the engine's own moves wait for no gate (docs/reference/semantics.md, "Full addresses")."""

    context: Context
    settlements: SettlementLog
    publication: TopicPublication

    def move(
        self, delivery: Delivery, target: Queue | Topic | None, moved: Message | None, outcome: int, cause: int
    ) -> None:
        """Settle ``delivery``, which is GONE already, and append ``moved`` to ``target`` if there is one."""
        context = self.context
        queue = queue_of(delivery.lane)
        message = delivery.message
        is_stored = queue.is_logged and message.queue_offset >= 0
        context.begin_batch()
        record_id = (
            0 if delivery.consumer is None or not is_stored else self.settlements.record_of(consumer_of(delivery))
        )
        if moved is not None and target is not None:
            self._append(target, moved)
        if is_stored:
            attempts = min(delivery.failed_attempts, DELIVERY_COUNT_MAX)
            ranges = [Range(message.priority, message.queue_offset, 1, attempts, message.size, (message.size,))]
            context.store.settle(queue.destination_id, record_id, outcome, cause, ranges)
        if moved is not None and target is not None:
            self._hand_on(target, moved)
        context.commit_batch()
        queue.depth -= 1
        if not is_stored:
            context.memory.release(message)
            return
        context.memory.unload(message)
        if queue.account is not None:
            queue.account.leave(message.size)

    def append(self, target: Queue | Topic, moved: Message) -> None:
        """Append ``moved`` to ``target``, without anything to settle at its origin."""
        self._append(target, moved)
        self._hand_on(target, moved)

    def _append(self, target: Queue | Topic, moved: Message) -> None:
        if target.intake is not None:
            target.intake.mark(moved)
        if self.publication.joins and isinstance(target, Topic):
            self.publication.join_now(target, 0)
        self.context.store.append(moved)

    def _hand_on(self, target: Queue | Topic, moved: Message) -> None:
        if isinstance(target, Queue):
            target.enqueue(moved)
            target.mark_dirty()
        else:
            self.publication.publish(target, moved, 0)
