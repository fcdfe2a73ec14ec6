"""What the next snapshot will say of each destination and durable subscription, kept ready: it is needed within one
turn of the engine.

Telling of 20,000 queues takes as long as 2,000 messages.  So each is told again some time after it has changed, a part
of them in every turn as a segment comes to its end, and at the end only what has changed since.  What has many runs of
settled entries is told page by page, and in each segment only once before the end: told at every turn, one fragmented
queue would cost more than all that the turn is for.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.store.progress import Progress
from engine.store.snapshot import describe, describe_subscription, put_together
from engine.store.state import StoreState


class SnapshotDraft:
    """told: by number of the destination or subscription.  late: those that are told at the end of the segment."""

    __slots__ = ("_state", "_told", "_late")

    def __init__(self, state: StoreState) -> None:
        self._state = state
        self._told: dict[int, bytes] = {}
        self._late: dict[int, None] = {}
        state.touched.clear()
        state.touched.extend(state.destinations)
        state.touched.extend(state.subscriptions)

    def untold_count(self) -> int:
        """Return how many steps are left, as far as that is known: of those in front, which are counted when it is
        their turn, each page is one.
        """
        touched = self._state.touched
        return len(touched) + len(self._untold_pages(touched[0])) if touched else 0

    def tell(self, count: int) -> None:
        """Take ``count`` steps, with those first that changed first: each a page of runs, or all the rest of one."""
        touched = self._state.touched
        while count > 0 and touched:
            number = touched[0]
            count -= 1
            pages = self._untold_pages(number)
            if pages:
                progress, page = pages[0]
                progress.settled.tell(page)
                continue
            touched.popleft()
            if any(progress.settled.pages for progress in self._progresses(number)):
                self._late[number] = None  # stays touched until the end, so that it is not told again
            else:
                self._tell(number)

    def finish(self, sequence: int) -> bytes:
        """Return the payload of a snapshot record with that sequence, which tells everything."""
        state = self._state
        late = self._late
        self._late = {}
        for number in late:
            self._tell(number)
        while state.touched:
            self._tell(state.touched.popleft())
        told = self._told
        return put_together(
            state,
            sequence,
            [told[number] for number in state.destinations],
            [told[number] for number in state.subscriptions],
        )

    def _untold_pages(self, number: int) -> list[tuple[Progress, int]]:
        if number in self._late:
            return []
        return [(progress, page) for progress in self._progresses(number) for page in progress.settled.untold_pages()]

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
