"""Queues that have ended: the messages that wait in them are discarded, some in each turn."""

from __future__ import annotations

from engine.backlog.spiller import Spiller
from engine.consumers.turn_steps import Chore, Steps
from engine.sources.observer import Observers
from engine.sources.queue import Queue, queue_of
from engine.values.delivery import Delivery


class QueueRemains(Chore):
    """The messages left in a queue that has ended; discarding them frees the memory budget."""

    __slots__ = ("deliveries",)

    def __init__(self, deliveries: list[Delivery]) -> None:
        self.deliveries = deliveries

    def go_on(self, steps: Steps) -> bool:
        deliveries = self.deliveries
        count = min(len(deliveries), max(1, steps.left - steps.left_to_others()))
        steps.left -= count
        for _ in range(count):
            delivery = deliveries.pop()
            queue_of(delivery.lane).release(delivery.message)
        return not deliveries


class QueueEnds:
    """starved: queues whose consumers wait because memory is too short to read more for them."""

    __slots__ = ("steps", "spiller", "observers", "starved")

    def __init__(self, steps: Steps, spiller: Spiller | None, observers: Observers, starved: dict[Queue, None]) -> None:
        self.steps = steps
        self.spiller = spiller
        self.observers = observers
        self.starved = starved

    def let_go(self, queue: Queue) -> None:
        """Discard all that waits in a queue that ends; deliveries in flight stay with their consumers.

        Messages that expired in this turn still go the way of expired messages.
        """
        self.observers.queue_ended(queue)
        if queue.selection is not None:
            queue.selection.close()
            queue.selection = None
        left: list[Delivery] = []
        for lane in queue.used_lanes:
            if self.spiller is not None:
                self.spiller.drop(lane)
            left += lane.take_all()
        if left:
            self.steps.take_up(QueueRemains(left))
        self.starved.pop(queue, None)
        queue.mask = 0
        queue.depth = queue.in_flight_count
