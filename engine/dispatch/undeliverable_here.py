"""Messages that a consumer will not have again: AMQP's undeliverable-here.

Such a delivery is in no view; it waits with each consumer of its queue that may have it, and whoever's turn comes first
takes it.  A consumer that closes takes its exclusions with it, and so does the end of the gateway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.backlog.waiting_deliveries import order_of
from engine.values.delivery import GONE, READY, Delivery

if TYPE_CHECKING:
    from engine.consumers.consumer import Consumer
    from engine.dispatch.seat import Seat

SWEEP_COUNT: Final = 256  # exclusions, or twice those that were left; then deliveries that are gone are forgotten


class Exclusions:
    """by_order: place in the queue -> (delivery, numbers of the consumers that will not have it).

    by_consumer: number of a consumer -> the places in ``by_order`` that name it.
    newcomers: consumers that have come since.  looking: those of them that look through all now; unseen: what they have
    not seen yet, the last first.
    """

    __slots__ = ("by_order", "by_consumer", "sweep_at", "newcomers", "looking", "unseen")

    def __init__(self) -> None:
        self.by_order: dict[int, tuple[Delivery, set[int]]] = {}
        self.by_consumer: dict[int, dict[int, None]] = {}
        self.sweep_at = SWEEP_COUNT
        self.newcomers: list[Seat] = []
        self.looking: list[Seat] = []
        self.unseen: list[tuple[Delivery, set[int]]] = []

    def add(self, delivery: Delivery, consumer: Consumer) -> None:
        order = order_of(delivery)
        self.by_order.setdefault(order, (delivery, set()))[1].add(consumer.consumer_id)
        self.by_consumer.setdefault(consumer.consumer_id, {})[order] = None
        if len(self.by_order) >= self.sweep_at:
            self._sweep()

    def _sweep(self) -> None:
        self.by_order = {order: one for order, one in self.by_order.items() if one[0].state != GONE}
        self.by_consumer.clear()
        for order, (_, consumers) in self.by_order.items():
            for number in consumers:
                self.by_consumer.setdefault(number, {})[order] = None
        self.sweep_at = max(SWEEP_COUNT, 2 * len(self.by_order))

    def holds(self, delivery: Delivery) -> bool:
        """Say whether somebody will not have ``delivery``."""
        return order_of(delivery) in self.by_order

    def excludes(self, delivery: Delivery, consumer: Consumer) -> bool:
        one = self.by_order.get(order_of(delivery))
        return one is not None and consumer.consumer_id in one[1]

    def has_unseen(self) -> bool:
        """Say whether somebody has come that has not seen all of them."""
        if not self.unseen:
            self.looking = self.newcomers
            if self.looking:
                self.newcomers = []
                self.unseen = list(self.by_order.values())
                self.unseen.reverse()
        return bool(self.unseen)

    def forget(self, consumer: Consumer) -> list[Delivery]:
        """Forget what a consumer that has closed would not have; return what everybody may have again and waits."""
        free: list[Delivery] = []
        for order in self.by_consumer.pop(consumer.consumer_id, {}):
            delivery, consumers = self.by_order[order]
            consumers.discard(consumer.consumer_id)
            if not consumers:
                del self.by_order[order]
                if delivery.state == READY:
                    free.append(delivery)
        return free

    def keep_from(self, consumer: Consumer) -> bool:
        """Say whether something waits that ``consumer`` will not have."""
        return any(self.by_order[order][0].state == READY for order in self.by_consumer.get(consumer.consumer_id, {}))
