"""The move of one message to another destination: appended there and settled where it was, both or neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.sources.queue import Queue
from engine.sources.topic import Topic
from engine.values.delivery import Delivery
from engine.values.message import Message
from engine.values.stored import DELIVERY_COUNT_MAX, Range

if TYPE_CHECKING:
    from engine.broker import Broker


def relocate(
    broker: Broker, delivery: Delivery, target: Queue | Topic | None, moved: Message | None, outcome: int, cause: int
) -> None:
    """Settle ``delivery``, which is GONE already, and append ``moved`` to ``target``; None for both just settles it.

    The engine's own moves wait for no gate (docs/reference/semantics.md, "Full addresses").
    """
    queue = delivery.lane.queue
    message = delivery.message
    is_stored = queue.is_logged and message.queue_offset >= 0
    broker.begin_batch()
    record_id = 0 if delivery.consumer is None or not is_stored else broker.record_of(delivery.consumer)
    if moved is not None and target is not None:
        _append(broker, target, moved)
    if is_stored:
        attempts = min(delivery.failed_attempts, DELIVERY_COUNT_MAX)
        ranges = [Range(message.priority, message.queue_offset, 1, attempts, message.size, (message.size,))]
        broker.store.settle(queue.destination_id, record_id, outcome, cause, ranges)
    if moved is not None and target is not None:
        _hand_on(broker, target, moved)
    broker.commit_batch()
    queue.depth -= 1
    if not is_stored:
        broker.memory.release(message)
        return
    broker.memory.unload(message)
    if queue.account is not None:
        queue.account.leave(message.size)


def append_moved(broker: Broker, target: Queue | Topic, moved: Message) -> None:
    """Append ``moved`` to ``target``, where nothing of where it comes from is to be settled."""
    _append(broker, target, moved)
    _hand_on(broker, target, moved)


def _append(broker: Broker, target: Queue | Topic, moved: Message) -> None:
    if target.intake is not None:
        target.intake.mark(moved)
    if broker.subscriptions.joins and isinstance(target, Topic):
        broker.subscriptions.join_now(target)
    broker.store.append(moved)


def _hand_on(broker: Broker, target: Queue | Topic, moved: Message) -> None:
    if isinstance(target, Queue):
        target.enqueue(moved)
        target.mark_dirty()
    else:
        broker.subscriptions.publish(target, moved, 0)
        if broker.subscriptions.unrouted:
            broker.subscriptions.send_on()
