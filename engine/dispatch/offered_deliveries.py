"""Deliveries of a queue with a Selection that may go to anybody again: for which consumers each of them is."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from engine.dispatch.message_groups import Groups
from engine.dispatch.priority_and_exclusive import Turns
from engine.dispatch.selector_index import SelectorIndex
from engine.dispatch.selector_view import Seat, seat_of
from engine.dispatch.undeliverable_here import Exclusions
from engine.sources.queue import Queue
from engine.values.delivery import DELAYED, READY, Delivery


@dataclass(slots=True, eq=False)
class OfferedDeliveries:
    """waiting: deliveries that are READY again and not examined yet; until they are, nothing is handed over.

    delayed_before: deliveries that awaited redelivery before there was a Selection and are not examined yet.
    """

    queue: Queue
    index: SelectorIndex
    groups: Groups
    turns: Turns
    waiting: deque[Delivery] = field(default_factory=deque)
    delayed_before: deque[Delivery] = field(default_factory=deque)

    def examine(self) -> bool:
        """Find the consumers of each; return False if that is too much for this turn."""
        index = self.index
        while self.delayed_before:
            if index.budget <= 0:
                return False
            index.budget -= 1
            delayed = self.delayed_before.popleft()
            if delayed.state == DELAYED:
                self.groups.delay(delayed)
        exclusions = index.exclusions
        while exclusions is not None and exclusions.has_unseen():
            if index.budget <= 0:
                return False
            self._show_excluded(exclusions, exclusions.unseen.pop()[0])
        while self.waiting:
            if index.budget <= 0:
                return False
            delivery = self.waiting.popleft()
            if self.groups.by_key:
                group = self.groups.of(delivery)
                if group is not None and group.delayed:
                    for parked in group.take_free():
                        self._offer(parked)
            self._offer(delivery)
        return True

    def _offer(self, delivery: Delivery) -> None:
        if delivery.state != READY:
            return  # it has expired or was purged
        exclusions = self.index.exclusions
        if exclusions is not None and exclusions.holds(delivery):
            self._offer_to_others(exclusions, delivery)
            return
        self.index.show(delivery)

    def _offer_to_others(self, exclusions: Exclusions, delivery: Delivery) -> None:
        for consumer in self.queue.consumers.values():
            seat = seat_of(consumer)
            self.index.budget -= 1
            if seat is not None:
                seat.view.waiting.remove(delivery)  # it may have been found before it was excluded
                self._let_have(seat, exclusions, delivery)

    def _show_excluded(self, exclusions: Exclusions, delivery: Delivery) -> None:
        """Offer a message that another consumer has excluded to consumers that came since."""
        self.index.budget -= 1
        if delivery.state != READY:
            return
        for seat in exclusions.examining:
            self.index.budget -= 1
            if seat.consumer.seat is seat:
                self._let_have(seat, exclusions, delivery)

    def _let_have(self, seat: Seat, exclusions: Exclusions, delivery: Delivery) -> None:
        if not exclusions.excludes(delivery, seat.consumer) and self.index.matches(seat.view, delivery):
            seat.owned.push(delivery)
            self.turns.wake(seat.consumer)
