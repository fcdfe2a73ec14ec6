"""How long messages take to their first consumer and to their acknowledgement."""

from __future__ import annotations

from typing import final

from engine.backlog.context import Context
from engine.values.broker_stats import HistogramStats
from engine.values.histogram import MESSAGE_BOUNDS_S, Histogram


@final
class MessageAges:
    """How old messages were when one thing happened to them.

    since_ms, count: ``store_time_ms`` of the last messages, and how many in a row had it.  Nearly always that is many,
    so they are cheaper counted together than one by one.
    """

    __slots__ = ("since_ms", "count", "_context", "_histogram")

    def __init__(self, context: Context) -> None:
        self.since_ms = 0
        self.count = 0
        self._context = context
        self._histogram = Histogram(MESSAGE_BOUNDS_S)

    def add(self, since_ms: int) -> None:
        """It happens to a message of that ``store_time_ms``."""
        if since_ms != self.since_ms:
            self.settle()
            self.since_ms = since_ms
        self.count += 1

    def settle(self) -> None:
        """Count what has happened; call it before the time changes."""
        if self.count:
            now_ms = self._context.store_time_ms  # as store_time_ms it never goes back
            self._histogram.add((now_ms - self.since_ms) / 1_000, self.count)
            self.count = 0

    def stats(self) -> HistogramStats:
        self.settle()
        return self._histogram.stats()


@final
class MessageTimes:
    """Both times begin with the turn in which a message was accepted, and end with that of the event."""

    __slots__ = ("handed_over", "acknowledged")

    def __init__(self, context: Context) -> None:
        self.handed_over = MessageAges(context)
        self.acknowledged = MessageAges(context)

    def settle(self) -> None:
        """Count what has happened; call it before the time changes."""
        self.handed_over.settle()
        self.acknowledged.settle()
