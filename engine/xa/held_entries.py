"""Messages that a branch had acknowledged when it was prepared, after a restart: nobody gets them before its outcome.

Their consumers have gone and their content is only in the log.  A commit settles the entries, and a rollback reads them
back (``read_back``).
"""

from __future__ import annotations

from engine.ports.store import Store
from engine.sources.queue import Queue
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE


class HeldEntries:
    """Some entries of one lane.  offsets: ascending; sizes: of their messages."""

    __slots__ = ("queue", "priority", "offsets", "sizes")

    def __init__(self, queue: Queue, priority: int, offsets: list[int], sizes: list[int]) -> None:
        self.queue = queue
        self.priority = priority
        self.offsets = offsets
        self.sizes = sizes

    def settle(self, store: Store, outcome: int = ACKNOWLEDGED, cause: int = CAUSE_NONE) -> None:
        """Settle them all; entries of a queue that has ended are gone already."""
        queue = self.queue
        if queue.is_closed:
            return
        batch = queue.feed.batch(queue.destination_id, outcome, cause)
        batch.add_all(self.priority, self.offsets, self.sizes)
        batch.flush(store)
        queue.depth -= len(self.offsets)
        queue.fates.enlisted_count -= len(self.offsets)
        if outcome == ACKNOWLEDGED:
            queue.acknowledged_count += len(self.offsets)
        if queue.account is not None:
            for size in self.sizes:
                queue.account.leave(size)


def hold(store: Store, queue: Queue, priority: int, first: int, count: int) -> HeldEntries:
    """Keep entries that recovery found from everybody.  Raises: StoreError if the disk cannot be read."""
    columns = store.entries(queue.source_id(), priority, first, count)
    there = [at for at in range(count) if columns.places[at]]
    queue.lane(priority).settled.add_range(first, count)
    queue.fates.enlisted_count += len(there)
    return HeldEntries(queue, priority, [first + at for at in there], [columns.sizes[at] for at in there])
