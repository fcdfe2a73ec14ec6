"""Queues that read the entries of another destination: those of subscriptions, of browsers, of replays."""

from __future__ import annotations

from engine.sources.queue import Queue


class EntryReaders:
    """queues: by the number of their feed.  by_source: the same, by the number of the destination that they read."""

    __slots__ = ("queues", "by_source")

    def __init__(self) -> None:
        self.queues: dict[int, Queue] = {}
        self.by_source: dict[int, dict[int, Queue]] = {}

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

    def source_removed(self, number: int) -> None:
        """A destination is gone: the store is not asked for its entries any more."""
        for queue in self.by_source.get(number, {}).values():
            for lane in queue.used_lanes:
                lane.cut_backlog()
            queue.mark_dirty()  # a browser may have seen everything now
