"""Queues that read another destination's entries, for subscriptions, browsers and replays; what they take of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.backlog.settlement import SettlementBatch
from engine.consumers.consumer import Consumer
from engine.consumers.turn_steps import Steps
from engine.selector.properties import PropertyReaders
from engine.sources.queue import Queue
from engine.values.message import Message


def kept_by(queue: Queue, queues: dict[int, Queue]) -> Queue:
    """Return the queue itself; of a view of a non-destructive queue, that one if it is still among ``queues``."""
    feed = queue.feed
    return queues.get(feed.source_id, queue) if feed.is_consuming else queue


@dataclass(slots=True, eq=False)
class Feeds:
    """Numbers the feeds, and decides which messages are for them.

    settling: batches with something to flush.
    """

    _readers: PropertyReaders
    _settling: list[tuple[SettlementBatch, Consumer | None]]
    steps: Steps
    _next_number: int = 1

    def number(self) -> int:
        """Return a number for a new feed."""
        number = self._next_number
        self._next_number = number + 1
        return number

    def newest(self) -> int:
        """Return the number of the newest feed."""
        return self._next_number - 1

    def select(self, queue: Queue, message: Message) -> bool:
        """Say whether a message of a page is for ``queue``; settle it if it never will be."""
        feed = queue.feed
        if message.store_time_ms < feed.since_ms:
            return False
        if feed.selector is None:
            return True
        is_wanted = feed.selector.matches(self._readers.properties(message, 1, False))
        self.steps.left -= feed.selector.last_cost()
        if is_wanted:
            return True
        if queue.is_logged:
            queue.depth -= 1
            self.pass_by(queue, message)
        return False

    def pass_by(self, queue: Queue, message: Message) -> None:
        """Settle an entry of a durable subscription that is not for it."""
        batch = queue.feed.pass_by(message)
        if batch is not None:
            self._settling.append((batch, None))


@dataclass(slots=True, eq=False)
class EntryReaders:
    """queues: by the number of their feed.  by_source: the same, by the number of the destination that they read."""

    queues: dict[int, Queue] = field(default_factory=dict)
    by_source: dict[int, dict[int, Queue]] = field(default_factory=dict)

    def add(self, queue: Queue) -> None:
        feed = queue.feed
        self.queues[feed.number] = queue
        self.by_source.setdefault(feed.source_id, {})[feed.number] = queue

    def remove(self, queue: Queue) -> None:
        feed = queue.feed
        del self.queues[feed.number]
        if queue.extras.shares is not None:
            queue.extras.shares.leave(len(queue.used_lanes))
        readers = self.by_source[feed.source_id]
        del readers[feed.number]
        if not readers:
            del self.by_source[feed.source_id]

    def taken_from(self, queue: Queue) -> Iterator[Queue]:
        """Yield the queues from which its consumers take: itself, and the views of a non-destructive queue."""
        yield queue
        for reader in self.by_source.get(queue.destination_id, {}).values():
            if reader.feed.is_consuming:
                yield reader

    def source_removed(self, number: int) -> None:
        """A destination is gone: the store is not asked for its entries any more."""
        for queue in self.by_source.get(number, {}).values():
            for lane in queue.used_lanes:
                lane.cut_backlog()
            queue.mark_dirty()  # a browser may have seen everything now
