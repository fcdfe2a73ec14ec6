"""Messages that a consumer refuses to get again: AMQP's undeliverable-here.

Such a delivery is in no view.  It waits with each consumer of its queue that may have it, and the first whose turn
comes takes it.  Exclusions end with their consumer, and when the gateway stops.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.backlog.waiting_deliveries import order_of
from engine.consumers.consumer import Consumer
from engine.dispatch.selector_view import Seat
from engine.values.delivery import GONE, READY, Delivery

SWEEP_COUNT: Final = (
    256  # with this many exclusions, or twice those left by the last sweep, gone deliveries are removed
)


@dataclass(slots=True, eq=False)
class Exclusions:
    """by_order: place in the queue -> (delivery, numbers of the consumers that refuse it).

    by_consumer: number of a consumer -> the places in ``by_order`` that name it.
    newcomers: consumers that have come since.  examining: newcomers that are examining all exclusions now.
    unseen: exclusions that these have not examined yet, the last first.
    """

    by_order: dict[int, tuple[Delivery, set[int]]] = field(default_factory=dict)
    by_consumer: dict[int, dict[int, None]] = field(default_factory=dict)
    sweep_at: int = SWEEP_COUNT
    newcomers: list[Seat] = field(default_factory=list)
    examining: list[Seat] = field(default_factory=list)
    unseen: list[tuple[Delivery, set[int]]] = field(default_factory=list)

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
        """Say whether a consumer refuses ``delivery``."""
        return order_of(delivery) in self.by_order

    def excludes(self, delivery: Delivery, consumer: Consumer) -> bool:
        one = self.by_order.get(order_of(delivery))
        return one is not None and consumer.consumer_id in one[1]

    def has_unseen(self) -> bool:
        """Say whether a newcomer has not examined all exclusions yet."""
        if not self.unseen:
            self.examining = self.newcomers
            if self.examining:
                self.newcomers = []
                self.unseen = list(self.by_order.values())
                self.unseen.reverse()
        return bool(self.unseen)

    def forget(self, consumer: Consumer) -> list[Delivery]:
        """Forget the exclusions of a closed consumer; return waiting messages that everybody may have again."""
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
        """Say whether a message waits that ``consumer`` refuses."""
        return any(self.by_order[order][0].state == READY for order in self.by_consumer.get(consumer.consumer_id, {}))
