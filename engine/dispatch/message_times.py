"""How long messages take to their first consumer and to their acknowledgement."""

from __future__ import annotations

from collections import Counter

from engine.backlog.context import Context
from engine.consumers.consumer import Consumer
from engine.values.broker_stats import HistogramStats
from engine.values.delivery import Delivery
from engine.values.histogram import MESSAGE_BOUNDS_S, Histogram
from engine.values.message import Message


class MessageTimes:
    """Both times begin with the turn in which a message was accepted, and end with that of the event.

    handed_over, acknowledged: ``store_time_ms`` of the messages since the time last changed.  Nearly always many of
    them are equal, so counting them together is cheaper than one by one.
    """

    __slots__ = ("handed_over", "acknowledged", "_context", "_until_delivered", "_until_acknowledged")

    def __init__(self, context: Context) -> None:
        self.handed_over: list[int] = []
        self.acknowledged: list[int] = []
        self._context = context
        self._until_delivered = Histogram(MESSAGE_BOUNDS_S)
        self._until_acknowledged = Histogram(MESSAGE_BOUNDS_S)

    def hand_over(self, consumer: Consumer, delivery: Delivery, message: Message, tag: int) -> None:
        """A message goes to a consumer.  tag: of this hand-over."""
        if not delivery.is_redelivered and consumer.is_ruled:
            self.handed_over.append(message.store_time_ms)

    def until_delivered(self) -> HistogramStats:
        self.count()
        return self._until_delivered.stats()

    def until_acknowledged(self) -> HistogramStats:
        self.count()
        return self._until_acknowledged.stats()

    def count(self) -> None:
        """Count what has happened; call it before the time changes."""
        self._count_into(self._until_delivered, self.handed_over)
        self._count_into(self._until_acknowledged, self.acknowledged)

    def _count_into(self, histogram: Histogram, since_ms: list[int]) -> None:
        if since_ms:
            now_ms = self._context.store_time_ms  # as store_time_ms it never goes back
            for since, count in Counter(since_ms).items():
                histogram.add((now_ms - since) / 1_000, count)
            since_ms.clear()
