"""Queues that have ended: the messages that wait in them are discarded, some in each turn."""

from __future__ import annotations

from dataclasses import dataclass

from engine.backlog.spilled_blocks import SpilledBlocks
from engine.consumers.turn_steps import Chore, Steps
from engine.sources.observer import Observer
from engine.sources.queue import Queue, queue_of
from engine.values.delivery import Delivery


@dataclass(slots=True, eq=False)
class QueueRemains(Chore):
    """The messages left in a queue that has ended; discarding them frees the memory budget."""

    deliveries: list[Delivery]

    def go_on(self, steps: Steps) -> bool:
        deliveries = self.deliveries
        count = min(len(deliveries), max(1, steps.left - steps.left_to_others()))
        steps.left -= count
        for _ in range(count):
            delivery = deliveries.pop()
            queue_of(delivery.lane).release(delivery.message)
        return not deliveries


@dataclass(slots=True, eq=False)
class QueueEnds:
    """starved: queues whose consumers wait because memory is too short to read more for them."""

    steps: Steps
    spilled: SpilledBlocks | None
    observers: list[Observer]
    starved: dict[Queue, None]

    def discard(self, queue: Queue) -> None:
        """Discard all that waits in a queue that ends; deliveries in flight stay with their consumers.

        Messages that expired in this turn still go the way of expired messages.
        """
        for observer in self.observers:
            observer.queue_ended(queue)
        if queue.selection is not None:
            queue.selection.close()
            queue.selection = None
        left: list[Delivery] = []
        for lane in queue.used_lanes:
            if self.spilled is not None:
                self.spilled.drop_all(lane)
            left += lane.take_all()
        if left:
            self.steps.take_up(QueueRemains(left))
        self.starved.pop(queue, None)
        queue.mask = 0
        queue.depth = queue.in_flight_count + queue.fates.enlisted_count


def release_unsettled(unsettled: list[Delivery]) -> None:
    """Subtract what a consumer held from the memory budget, if its subscription ends with it."""
    for delivery in unsettled:
        queue = queue_of(delivery.lane)
        if queue.selection is not None:
            queue.selection.left(delivery)
        queue.release(delivery.message)


def forget_lanes(queue: Queue) -> None:
    """End the cycles of a queue that has ended with its lanes and its keeper, which would wait for Python's collector.

    A delivery that somebody still holds knows its lane, and by it the queue.
    """
    queue.lanes = [None] * len(queue.lanes)
    queue.used_lanes = []
    queue.extras.keeper = None
