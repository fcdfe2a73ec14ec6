"""Settles messages that only a closed durable subscription kept live, after a worker has looked up their sizes.

Other subscriptions of its topic may keep many of them live, so only the entries say how much space is freed.  Each step
writes a settlement record, so a stop in between changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from engine.ports.store import StoreRecords
from engine.ports.timers import TimerTarget
from engine.ports.workers import READ_LANE
from engine.store.context import StoreContext
from engine.store.disk.disk_job import DiskJob
from engine.store.format import layout
from engine.store.log.open_files import OpenFiles
from engine.store.queues.entry_span import EntrySpan
from engine.store.state.destination import DurableSubscription
from engine.store.state.log_state import StoreState
from engine.values.outcomes import CAUSE_ADMIN, DROPPED
from engine.values.stored import Range

ENTRIES_AT_ONCE: Final = 4096


@dataclass(slots=True, eq=False)
class Release(TimerTarget):
    """reason: why the disk refused the last entries, "" if it did not."""

    _context: StoreContext
    _store: StoreRecords
    _state: StoreState
    _open_files: OpenFiles
    _root: str
    reason: str = ""
    _is_in_flight: bool = False
    _is_closed: bool = False

    def go_on(self) -> None:
        """Have the next entries looked up, if there are any."""
        if self._is_in_flight or self._is_closed:
            return
        for subscription in self._state.subscriptions.values():
            if subscription.is_closing:
                priority, first, count = subscription.left(ENTRIES_AT_ONCE)
                lane = self._state.open_lane(subscription.topic_id, priority)
                span = EntrySpan(self._root, lane, first, first + count)
                self._is_in_flight = True
                work, done = partial(_sizes, span, self._open_files), partial(self.looked_up, subscription, span)
                self._context.workers.submit(DiskJob(work, done, "a consume queue"), READ_LANE)
                return

    def looked_up(
        self, subscription: DurableSubscription, span: EntrySpan, sizes: list[int] | None, reason: str
    ) -> None:
        """Settle entries whose sizes were looked up."""
        if self._is_closed:
            return
        self.reason = reason
        if sizes is None:
            self._context.call_later(self._context.settings.retry_interval_ms, self, 0)
            return
        self._is_in_flight = False
        if subscription.number in self._state.subscriptions:  # otherwise its topic or its last sibling was closed
            ranges = [Range(span.priority, span.first, len(sizes), 0, 0, sizes)]
            self._store.settle(subscription.number, 0, DROPPED, CAUSE_ADMIN, ranges)
        self.go_on()

    def timer_fired(self, key: int) -> None:
        self._is_in_flight = False
        self.go_on()

    def close(self) -> None:
        """Look up no more; the next start continues."""
        self._is_closed = True


def _sizes(span: EntrySpan, open_files: OpenFiles) -> list[int]:
    """Return the sizes of the messages of some entries; an entry without a size belongs to a lost record."""
    return [max(entry[1] - layout.MESSAGE_HEAD_BYTES, 0) for entry in layout.ENTRY.iter_unpack(span.read(open_files))]
