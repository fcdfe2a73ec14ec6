"""Consumers held back together by one cause: a full outlet, or a window that several share.

They are in no rotation meanwhile.  Once the cause is over they are woken one after the other, only as many as there is
room for, and the next ones if those found nothing.  So the cost of a message does not depend on their number.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from engine.consumers.window import Window
from engine.values.delivery import ConsumerBase

if TYPE_CHECKING:
    from engine.consumers.outlet import Outlet

WAKES_AT_ONCE: Final = 256  # consumers of one room woken before they are dispatched


class RestingConsumer(ConsumerBase):
    """A consumer, as seen by the parts that it shares with others.

    resting: the room in which it waits for its outlet or a shared window; while there it is not listed.
    """

    __slots__ = ("window", "resting")

    def __init__(self, consumer_id: int, ack_mode: int, name: str, window: Window) -> None:
        super().__init__(consumer_id, ack_mode, name)
        self.window = window
        self.resting: Resting | None = None


class Resting:
    """A room of such consumers, the oldest first.

    lead: of those that share its window; None for those that share the outlet.
    is_waking: the cause is over, and ``Wakes`` is waking them.
    """

    __slots__ = ("outlet", "lead", "consumers", "is_waking")

    def __init__(self, outlet: Outlet, lead: RestingConsumer | None) -> None:
        self.outlet = outlet
        self.lead = lead
        self.consumers: OrderedDict[int, RestingConsumer] = OrderedDict()
        self.is_waking = False

    def add(self, consumer: RestingConsumer) -> None:
        if consumer.resting is None:
            consumer.resting = self
            self.consumers[consumer.consumer_id] = consumer

    def remove(self, consumer: RestingConsumer) -> None:
        consumer.resting = None
        del self.consumers[consumer.consumer_id]

    def room(self) -> int:
        """Return how many consumers may be woken now."""
        if self.outlet.is_output_full:
            return 0
        if self.lead is None:
            return WAKES_AT_ONCE
        window = self.lead.window
        return 0 if window.is_full else min(max(1, window.room()), WAKES_AT_ONCE)
