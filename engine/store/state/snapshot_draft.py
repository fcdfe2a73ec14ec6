"""A draft of the next snapshot of each destination and durable subscription, because the snapshot is needed within one
turn of the engine.

Describing 20,000 queues takes as long as 2,000 messages.  So changed ones are described in passes as a segment comes to
its end, a part of each pass in every turn, and at the end only those changed since the last pass.  Queues with many
runs of settled entries, or many failed attempts, are described page by page.  Otherwise one fragmented queue, described
in every turn, would cost more than all other work of the turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.store.state.failed_entries import FailedEntries
from engine.store.state.log_state import StoreState
from engine.store.state.progress import Progress
from engine.store.state.settled_entries import SettledEntries
from engine.store.state.snapshot import describe, describe_subscription, put_together

# The next snapshot is drafted in the last quarter of a segment, later changes in the last quarter of that,
DRAFT_PART: Final = 4  # and so on; a roll describes only changes of the last few records.
DRAFT_LAST_BYTES: Final = 16 << 10  # left of a segment when the last of these passes begins

Page = tuple[SettledEntries | FailedEntries, int]


class SnapshotDraft:
    """told: descriptions by number of the destination or subscription.

    left: how many of the changed ones this pass still describes, the first one first.
    pages: of the first one, pages to encode before the rest; None before it was examined.
    log_end: when the draft was last worked on.  pass_at: octets left of the segment when the next pass begins, 0: none.
    is_past_begin: a transaction can no longer begin in this segment.
    """

    __slots__ = ("_state", "_told", "_left", "_pages", "_log_end", "_pass_at", "_is_past_begin")

    def __init__(self, state: StoreState, log_end: int = 0) -> None:
        self._state = state
        self._told: dict[int, bytes] = {}
        self._left = 0
        self._pages: list[Page] | None = None
        self._log_end = log_end
        self._pass_at = 0
        self._is_past_begin = False
        state.touched.clear()
        state.touched.extend(state.destinations)
        state.touched.extend(state.subscriptions)

    def expect_end(self, left: int) -> None:
        """Begin the first pass once ``left`` octets of a segment are left."""
        self._pass_at = left
        self._is_past_begin = False

    def log_grown(self, end: int, limit: int, reserved: int) -> None:
        """Extend the draft in proportion to the growth of the log.

        limit: of the current segment; reserved: octets of it reserved for a transaction.
        """
        filled = end - self._log_end
        self._log_end = end
        left = limit - reserved - end  # then a transaction begins a new segment
        if left < 0:  # no transaction has come, and other records still fit
            left = limit - end
            if not self._is_past_begin:
                self._is_past_begin = True
                self._pass_at = left + 1
        if self._pass_at and left < self._pass_at:
            while self._pass_at and left < self._pass_at:
                is_last = self._pass_at <= DRAFT_LAST_BYTES
                self._pass_at = 0 if is_last else max(self._pass_at // DRAFT_PART, DRAFT_LAST_BYTES)
            self.begin_pass()
            filled = 0  # of the pass; a transaction of many times its length may just have come
        rest = left - self._pass_at  # of this pass
        if rest > 0 and (untold := self.untold_count()):
            # Twice its proportional part, so that the pass is done before the next one begins.
            self.tell(2 * untold * filled // (rest + filled) + 1)

    def begin_pass(self) -> None:
        """Describe again everything that has changed until now; later changes are for the next pass."""
        self._left = len(self._state.touched)

    def untold_count(self) -> int:
        """Return how many steps of this pass are left, as far as known.

        The pages of the first one are counted once its turn has come, one step each.
        """
        return self._left + len(self._front_pages()) if self._left else 0

    def tell(self, count: int) -> None:
        """Take ``count`` steps, in the order of the changes; a step is a page, or all the rest of one."""
        touched = self._state.touched
        while count > 0 and self._left:
            count -= 1
            pages = self._front_pages()
            if pages:
                entries, page = pages.pop()
                if page in entries.pages:
                    entries.tell(page)
                continue
            self._left -= 1
            self._pages = None
            number = touched.popleft()
            if self._untold_pages(number):
                touched.append(number)  # one that changes this fast waits for the next pass
            else:
                self._tell(number)

    def finish(self, sequence: int) -> bytes:
        """Return the payload of a snapshot record with that sequence, which is complete."""
        state = self._state
        self._left = 0
        self._pages = None
        while state.touched:
            self._tell(state.touched.popleft())
        told = self._told
        return put_together(
            state,
            sequence,
            [told[number] for number in state.destinations],
            [told[number] for number in state.subscriptions],
        )

    def _front_pages(self) -> list[Page]:
        pages = self._pages
        if pages is None:
            pages = self._pages = self._untold_pages(self._state.touched[0])
        return pages

    def _untold_pages(self, number: int) -> list[Page]:
        untold: list[Page] = []
        for progress in self._progresses(number):
            settled, failed = progress.settled, progress.failed
            untold += [(settled, page) for page in settled.untold_pages()]
            if failed is not None:
                untold += [(failed, page) for page in failed.untold_pages()]
        return untold

    def _progresses(self, number: int) -> Iterable[Progress]:
        destination = self._state.destinations.get(number)
        if destination is not None:
            return destination.lanes
        subscription = self._state.subscriptions.get(number)
        return () if subscription is None else subscription.lanes.values()

    def _tell(self, number: int) -> None:
        state = self._state
        destination = state.destinations.get(number)
        if destination is not None:
            for lane in destination.lanes:
                lane.is_touched = False
            self._told[number] = describe(destination)
            return
        subscription = state.subscriptions.get(number)
        if subscription is not None:
            subscription.is_touched = False
            self._told[number] = describe_subscription(subscription)
            return
        self._told.pop(number, None)
