"""Settled entries of a turn or a few, merged into ranges: one record a consumer instead of one a message."""

from __future__ import annotations

from engine.message import Message
from engine.ports import Range, Store


class SettlementBatch:
    """What one consumer (or the engine itself) settled on one queue with one outcome since the last flush."""

    __slots__ = (
        "destination_id",
        "record_id",
        "outcome",
        "cause",
        "ranges",
        "priority",
        "first",
        "following",
        "size_bytes",
    )

    def __init__(self, destination_id: int, outcome: int, cause: int) -> None:
        self.destination_id = destination_id
        self.record_id = 0
        self.outcome = outcome
        self.cause = cause
        self.ranges: list[Range] = []
        self.priority = 0
        self.first = 0
        self.following = -1  # -1: nothing settled since the last flush
        self.size_bytes = 0  # of the messages from ``first`` on

    def add(self, message: Message) -> bool:
        """Take one entry; return True if the batch was empty and must be flushed some time."""
        offset = message.queue_offset
        if offset == self.following and message.priority == self.priority:
            self.following = offset + 1
            self.size_bytes += message.size
            return False
        was_empty = self.following < 0
        if not was_empty:
            self.ranges.append(Range(self.priority, self.first, self.following - self.first, 0, self.size_bytes))
        self.priority = message.priority
        self.first = offset
        self.following = offset + 1
        self.size_bytes = message.size
        return was_empty

    def flush(self, store: Store) -> None:
        """Append the settlement record."""
        count = self.following - self.first
        if self.ranges:
            self.ranges.append(Range(self.priority, self.first, count, 0, self.size_bytes))
            store.settle(self.destination_id, self.record_id, self.outcome, self.cause, self.ranges)
            self.ranges = []
        else:
            store.settle_range(
                self.destination_id,
                self.record_id,
                self.outcome,
                self.cause,
                self.priority,
                self.first,
                count,
                self.size_bytes,
            )
        self.following = -1


class SubscriptionBatch(SettlementBatch):
    """The same for a durable subscription, whose records name the size of each message."""

    __slots__ = ("sizes",)

    def __init__(self, destination_id: int, outcome: int, cause: int) -> None:
        super().__init__(destination_id, outcome, cause)
        self.sizes: list[int] = []

    def add(self, message: Message) -> bool:
        offset = message.queue_offset
        if offset == self.following and message.priority == self.priority:
            self.following = offset + 1
            self.sizes.append(message.size)
            return False
        was_empty = self.following < 0
        if not was_empty:
            self.ranges.append(self._range())
        self.priority = message.priority
        self.first = offset
        self.following = offset + 1
        self.sizes = [message.size]
        return was_empty

    def flush(self, store: Store) -> None:
        self.ranges.append(self._range())
        store.settle(self.destination_id, self.record_id, self.outcome, self.cause, self.ranges)
        self.ranges = []
        self.following = -1

    def _range(self) -> Range:
        return Range(self.priority, self.first, self.following - self.first, 0, sum(self.sizes), self.sizes)
