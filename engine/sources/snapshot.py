"""What waits in a queue at one moment, for a reader that changes nothing there.

What waits in memory is copied, and shown to the selector, over several turns.  Messages that somebody takes meanwhile
are left out.  The rest is read from disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Final

from engine.backlog.delivery_row import position_of
from engine.backlog.lane import Lane
from engine.selector.evaluate import Selector
from engine.sources.entry_readers import Feeds
from engine.sources.feed import Feed
from engine.sources.queue import Queue, queue_of
from engine.values.delivery import READY, Delivery

COPY_STEPS: Final = 2  # for a message in memory

# What becomes of the deliveries of one part.
IN_FRONT: Final = 0  # shown before the entries on disk
BEHIND: Final = 1  # shown after the entries on disk that came earlier
AHEAD: Final = 2  # entries on disk themselves; those that are taken are left out


class Snapshot(Feed):
    """The feed of a browser.

    view: the browser's queue.
    unseen: what is not copied yet, in order: the lane of the view, deliveries of the queue, and what becomes of them.
    The budget does not count them, so they are copied within some turns even if the consumer takes nothing.
    """

    __slots__ = ("view", "unseen", "_feeds")

    def __init__(self, feeds: Feeds, source_id: int, selector: Selector | None) -> None:
        super().__init__(feeds.number(), source_id, selector)
        self.is_browser = True
        self.view: Queue | None = None
        self.unseen: deque[tuple[Lane, Iterator[Delivery], int]] = deque()
        self._feeds = feeds

    def shown_by(self) -> str:
        return "browser"

    def has_more(self) -> bool:
        return bool(self.unseen)

    def take(self, queue: Queue, view: Queue) -> None:
        """Note what waits in ``queue``, to be shown in ``view``."""
        self.view = view
        for lane in queue.used_lanes:
            seen = view.lane(lane.priority)
            seen.restore(lane.tail, lane.next_load, [], dict(lane.attempts))
            seen.last_position = lane.last_position
            seen.settled.pages = dict(lane.settled.pages)
            in_turn: Iterable[Delivery] = list(lane.ready)
            if lane.returned:
                in_turn = merge(list(lane.returned), in_turn, key=position_of)
            self.unseen.append((seen, iter(in_turn), IN_FRONT))
            self.unseen.append((seen, iter(list(lane.volatile)), BEHIND))
            self.unseen.append((seen, iter(list(lane.ahead.by_offset.values())), AHEAD))
        view.mark_dirty()

    def fill(self) -> bool:
        """Copy as much as this turn allows; pages are requested once everything is copied."""
        view = self.view
        if view is None or not self.unseen:
            return False
        unseen = self.unseen
        steps = self._feeds.steps
        depth = view.depth
        while unseen and steps.left > 0:
            lane, deliveries, place = unseen[0]
            delivery = next(deliveries, None)
            if delivery is None:
                unseen.popleft()
            elif place == AHEAD:
                steps.left -= 1
                if delivery.state != READY:
                    lane.settled.add(delivery.message.queue_offset)
            else:
                steps.left -= COPY_STEPS
                self._show(view, lane, delivery, place)
        if view.depth > depth:
            view.mark_dirty()
        if unseen:
            steps.postpone(view)
        return bool(unseen)

    def _show(self, view: Queue, lane: Lane, waiting: Delivery, place: int) -> None:
        """Add a copy to ``view`` if the delivery still waits and the selector matches its message."""
        if waiting.state != READY or queue_of(waiting.lane).is_closed:
            return
        message = waiting.message
        if self.selector is not None and not self._feeds.select(view, message):
            return
        view.memory.hold(message)
        view.depth += 1
        if message.expires_ms:
            view.has_expiring = True
        shown = Delivery(message, lane, waiting.position)
        shown.failed_attempts = waiting.failed_attempts
        shown.is_redelivered = waiting.is_redelivered
        if place == BEHIND and lane.next_load < lane.tail:
            lane.volatile.append(shown)
        else:
            lane.append_loaded(shown)
