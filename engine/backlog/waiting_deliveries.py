"""Deliveries in the order of their hand-over; other parts may take some of them first."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from engine.values.delivery import READY, Delivery

_PRIORITY_SHIFT: Final = 96  # above every position


def order_of(delivery: Delivery) -> int:
    """Return a number that orders deliveries: the higher priority first, then the lower position."""
    return ((9 - delivery.lane.priority) << _PRIORITY_SHIFT) + delivery.position


@dataclass(slots=True, eq=False)
class Waiting:
    """References to deliveries, each once.  One that is no longer READY is skipped when its turn comes.

    size_bytes: of all messages referred to, including those that others have taken.
    """

    orders: list[int] = field(default_factory=list)
    by_order: dict[int, Delivery] = field(default_factory=dict)
    size_bytes: int = 0

    def __len__(self) -> int:
        return len(self.orders)

    def push(self, delivery: Delivery) -> None:
        order = order_of(delivery)
        known = self.by_order.get(order)
        if known is None:
            heappush(self.orders, order)
            self.size_bytes += delivery.message.size
        self.by_order[order] = delivery

    def first(self) -> Delivery | None:
        """Return the next delivery without removing it."""
        orders = self.orders
        while orders:
            delivery = self.by_order.get(orders[0])
            if delivery is None:
                heappop(orders)
            elif delivery.state == READY:
                return delivery
            else:
                self.pop()
        return None

    def pop(self) -> Delivery:
        """Remove and return what ``first`` has returned."""
        delivery = self.by_order.pop(heappop(self.orders))
        self.size_bytes -= delivery.message.size
        return delivery

    def remove(self, delivery: Delivery) -> bool:
        """Remove ``delivery``, wherever it is; say whether it was here."""
        order = order_of(delivery)
        if order not in self.by_order:
            return False
        self.size_bytes -= self.by_order.pop(order).message.size
        return True

    def compact(self) -> None:
        """Forget deliveries that others have taken."""
        self.by_order = {order: one for order, one in self.by_order.items() if one.state == READY}
        self.orders = list(self.by_order)
        heapify(self.orders)
        self.size_bytes = sum(one.message.size for one in self.by_order.values())

    def holds_more_than(self, priority: int, count: int, size_bytes: int) -> bool:
        """Say whether more than ``count`` or ``size_bytes`` of one priority is here."""
        found = 0
        found_bytes = 0
        for delivery in self.by_order.values():
            if delivery.lane.priority == priority:
                found += 1
                found_bytes += delivery.message.size
        return found > count or found_bytes > size_bytes

    def take_all(self) -> list[Delivery]:
        """Remove and return all that are READY."""
        taken = [one for one in self.by_order.values() if one.state == READY]
        for delivery in taken:
            del self.by_order[order_of(delivery)]
        self.compact()
        return taken
