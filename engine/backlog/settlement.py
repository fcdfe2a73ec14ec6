"""Settled entries of one or more turns, merged into ranges: one record per consumer instead of one per message."""

from __future__ import annotations

from engine.ports.store import StoreRecords
from engine.values.message import Message
from engine.values.stored import Range, RangeColumns, single_ranges


class SettlementBatch:
    """Settlements since the last flush with one queue, one outcome and one consumer (or the engine itself).

    first, following: the run of entries of ``priority`` that grows now.
    firsts, counts: earlier runs of that priority, as two columns.  Consumers that take turns settle runs of one; an
    object for each run would cost more than all the rest.
    ranges: runs of other priorities before.  size_bytes: of the messages of ``priority``.
    """

    __slots__ = (
        "destination_id",
        "record_id",
        "outcome",
        "cause",
        "ranges",
        "priority",
        "firsts",
        "counts",
        "first",
        "following",
        "size_bytes",
        "_run",
    )

    def __init__(self, destination_id: int, outcome: int, cause: int) -> None:
        self.destination_id = destination_id
        self.record_id = 0
        self.outcome = outcome
        self.cause = cause
        self.ranges: list[Range] = []
        self.priority = 0
        self.firsts: list[int] = []
        self.counts: list[int] = []
        self.first = 0
        self.following = -1  # -1: nothing settled since the last flush
        self.size_bytes = 0
        self._run = [Range(0, 0, 0)]  # reused for most flushes, which have one run

    def add(self, message: Message) -> bool:
        """Add one entry; return True if the batch was empty and must be flushed later."""
        offset = message.queue_offset
        if offset == self.following and message.priority == self.priority:
            self.following = offset + 1
            self.size_bytes += message.size
            return False
        was_empty = self.following < 0
        if not was_empty and message.priority == self.priority:
            self.firsts.append(self.first)
            self.counts.append(self.following - self.first)
            self.size_bytes += message.size
        else:
            if not was_empty:
                self._close_priority()
            self.priority = message.priority
            self.size_bytes = message.size
        self.first = offset
        self.following = offset + 1
        return was_empty

    def add_all(self, priority: int, offsets: list[int], sizes: list[int]) -> bool:
        """Add entries of one priority, at least one; return what ``add`` returns."""
        was_empty = self.following < 0
        count = len(offsets)
        if offsets == [*range(offsets[0], offsets[0] + count)]:
            self._add_run(priority, offsets[0], sizes)
            return was_empty
        start = 0
        while start < count:
            first = offsets[start]
            end = start + 1
            while end < count and offsets[end] == first + end - start:
                end += 1
            self._add_run(priority, first, sizes[start:end])
            start = end
        return was_empty

    def _add_run(self, priority: int, first: int, sizes: list[int]) -> None:
        """Add consecutive entries."""
        if first != self.following or priority != self.priority:
            if self.following < 0:
                self.size_bytes = 0
            elif priority == self.priority:
                self.firsts.append(self.first)
                self.counts.append(self.following - self.first)
            else:
                self._close_priority()
                self.size_bytes = 0
            self.priority = priority
            self.first = first
        self.size_bytes += sum(sizes)
        self.following = first + len(sizes)

    def flush(self, store: StoreRecords) -> None:
        if self.ranges:
            self._close_priority()
            store.settle(self.destination_id, self.record_id, self.outcome, self.cause, self.ranges)
            self.ranges = []
        elif self.firsts:
            self.firsts.append(self.first)
            self.counts.append(self.following - self.first)
            runs: list[Range] = [RangeColumns(self.priority, self.firsts, self.counts, self.size_bytes)]
            store.settle(self.destination_id, self.record_id, self.outcome, self.cause, runs)
            self.firsts = []
            self.counts = []
        else:
            run = self._run[0]
            run.priority = self.priority
            run.first = self.first
            run.count = self.following - self.first
            run.size_bytes = self.size_bytes
            store.settle(self.destination_id, self.record_id, self.outcome, self.cause, self._run)
        self.following = -1

    def _close_priority(self) -> None:
        """Move the runs of ``priority`` to the ranges; the first of them carries the size of all."""
        self.firsts.append(self.first)
        self.counts.append(self.following - self.first)
        self.ranges += single_ranges([RangeColumns(self.priority, self.firsts, self.counts, self.size_bytes)])
        self.firsts = []
        self.counts = []


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

    def _add_run(self, priority: int, first: int, sizes: list[int]) -> None:
        if first == self.following and priority == self.priority:
            self.sizes += sizes
        else:
            if self.following >= 0:
                self.ranges.append(self._range())
            self.priority = priority
            self.first = first
            self.sizes = sizes[:]
        self.following = first + len(sizes)

    def flush(self, store: StoreRecords) -> None:
        self.ranges.append(self._range())
        store.settle(self.destination_id, self.record_id, self.outcome, self.cause, self.ranges)
        self.ranges = []
        self.following = -1

    def _range(self) -> Range:
        return Range(self.priority, self.first, self.following - self.first, 0, sum(self.sizes), self.sizes)
