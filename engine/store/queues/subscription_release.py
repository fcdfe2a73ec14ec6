"""Settles messages that only a closed durable subscription kept live, after a worker has looked up their sizes.

Other subscriptions of its topic may keep many of them live, so only the entries say how much space is freed.  Each step
writes a settlement record, so a stop in between changes nothing.
"""

from __future__ import annotations

from typing import Final

from engine.ports.store import StoreRecords
from engine.ports.timers import TimerTarget
from engine.ports.workers import READ_LANE, Job
from engine.store.context import StoreContext
from engine.store.disk.files import describe
from engine.store.format import layout
from engine.store.log.open_files import OpenFiles
from engine.store.queues.entry_span import EntrySpan
from engine.store.state.log_state import StoreState
from engine.store.state.subscription import DurableSubscription
from engine.values.errors import StoreError
from engine.values.outcomes import CAUSE_ADMIN, DROPPED
from engine.values.stored import Range

ENTRIES_AT_ONCE: Final = 4096


class Release(TimerTarget):
    """reason: why the disk refused the last entries, "" if it did not."""

    __slots__ = (
        "reason",
        "_store",
        "_state",
        "_open_files",
        "_root",
        "_context",
        "_is_in_flight",
        "_is_closed",
    )

    def __init__(
        self, context: StoreContext, store: StoreRecords, state: StoreState, open_files: OpenFiles, root: str
    ) -> None:
        self.reason = ""
        self._store = store
        self._state = state
        self._open_files = open_files
        self._root = root
        self._context = context
        self._is_in_flight = False
        self._is_closed = False

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
                self._context.workers.submit(SizesJob(self, self._open_files, subscription, span), READ_LANE)
                return

    def looked_up(self, subscription: DurableSubscription, span: EntrySpan, sizes: list[int], reason: str) -> None:
        """Settle entries whose sizes were looked up."""
        if self._is_closed:
            return
        self.reason = reason
        if reason:
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


class SizesJob(Job):
    """Reads some entries for the sizes of their messages."""

    __slots__ = ("_release", "_open_files", "_subscription", "_span", "_sizes", "_reason")

    def __init__(
        self, release: Release, open_files: OpenFiles, subscription: DurableSubscription, span: EntrySpan
    ) -> None:
        self._release = release
        self._open_files = open_files
        self._subscription = subscription
        self._span = span
        self._sizes: list[int] = []
        self._reason = ""

    def run(self) -> None:
        try:
            entries = layout.ENTRY.iter_unpack(self._span.read(self._open_files))
        except OSError as error:
            self._reason = describe(error, str(error.filename or "a consume queue"))
        except StoreError as error:
            self._reason = str(error)
        else:
            # An entry without a size belongs to a lost record.
            self._sizes = [max(entry[1] - layout.MESSAGE_HEAD_BYTES, 0) for entry in entries]

    def finish(self) -> None:
        self._release.looked_up(self._subscription, self._span, self._sizes, self._reason)
