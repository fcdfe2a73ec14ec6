"""Browsers: a copy of what waits in a queue, in order, without changing anything there.

A browser's queue begins as a snapshot: what waits in memory, and where the rest begins on disk.  The rest is paged in
as the browser takes it, so a backlog of any length costs no more than a page.  A selector looks at the snapshot over
several turns.
"""

from __future__ import annotations

from collections import deque
from heapq import merge

from engine.backlog.context import Context
from engine.backlog.delivery_row import position_of
from engine.backlog.lane import Lane, lane_of
from engine.consumers.consumer import Consumer
from engine.selector.evaluate import Selector, selector_of
from engine.sources.feed import Feed
from engine.sources.feeds import Feeds
from engine.sources.non_destructive import Audience
from engine.sources.queue import Queue, queue_of
from engine.sources.queue_ends import QueueEnds, QueueRemains
from engine.sources.registry import Destinations
from engine.sources.replay.log_replay import Replay, Replays
from engine.values.delivery import READY, Delivery


class BrowserFeed(Feed):
    """Shows what waits in a queue."""

    __slots__ = ()

    def __init__(self, number: int, source_id: int, selector: Selector | None) -> None:
        super().__init__(number, source_id, selector)
        self.is_browser = True

    def shown_by(self) -> str:
        return "browser"


class SelectiveSnapshot(BrowserFeed):
    """Shows what a selector matches of what waits in a queue.

    view: the browser's queue.  unjudged: the part of the snapshot that the selector has not seen; of each delivery
    whether it is behind entries on disk.  All of it is in the memory budget and in the view's depth.
    """

    __slots__ = ("view", "unjudged", "_feeds")

    def __init__(self, feeds: Feeds, source_id: int, selector: Selector) -> None:
        super().__init__(feeds.number(), source_id, selector)
        self.view: Queue | None = None
        self.unjudged: deque[tuple[Delivery, bool]] = deque()
        self._feeds = feeds

    def has_more(self) -> bool:
        return bool(self.unjudged)

    def fill(self) -> bool:
        """Show the selector as much as this turn allows; pages are requested once it has seen the whole snapshot."""
        view = self.view
        if view is None or not self.unjudged:
            return False
        steps = self._feeds.steps
        while self.unjudged and steps.left > 0:
            steps.left -= 1
            delivery, is_behind = self.unjudged.popleft()
            if not self._feeds.select(view, delivery.message):
                view.depth -= 1
                view.memory.release(delivery.message)
                continue
            _append(delivery, is_behind)
            view.mark_dirty()
        if self.unjudged:
            steps.postpone(view)
        return bool(self.unjudged)


class KeptMessages(BrowserFeed):
    """Shows what a non-destructive queue keeps, and what arrives there."""

    __slots__ = ()

    def shown_by(self) -> str:
        return "reader of a non-destructive queue"


class Browsing:
    """consumers: browsers that have not reported their end yet."""

    __slots__ = ("context", "destinations", "feeds", "replays", "ends", "consumers")

    def __init__(
        self, context: Context, destinations: Destinations, feeds: Feeds, replays: Replays, ends: QueueEnds
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.feeds = feeds
        self.replays = replays
        self.ends = ends
        self.consumers: list[Consumer] = []

    def open(self, queue: Queue, selector_text: str) -> Queue:
        """Return a queue that shows what waits in ``queue`` now.  Raises: InvalidSelector."""
        selector = selector_of(selector_text)
        if selector is None:
            return self._open(queue, BrowserFeed(self.feeds.number(), queue.destination_id, None))
        feed = SelectiveSnapshot(self.feeds, queue.destination_id, selector)
        feed.view = view = self._open(queue, feed)
        return view

    def join(self, queue: Queue, selector_text: str) -> Queue:
        """Return a queue that shows what ``queue`` keeps and what arrives there.  Raises: InvalidSelector."""
        selector = selector_of(selector_text)
        view = self._open(queue, KeptMessages(self.feeds.number(), queue.destination_id, selector))
        if queue.extras.audience is None:
            queue.extras.audience = Audience(self.context.memory, self.feeds)
        _audience_of(queue).views.append(view)
        return view

    def _open(self, queue: Queue, feed: BrowserFeed) -> Queue:
        destinations = self.destinations
        view = Queue(
            queue.destination_id,
            queue.kind,
            queue.name,
            queue.settings,
            False,
            destinations.dirty_queues,
            self.context.memory,
            feed,
        )
        destinations.readers.add(view)
        for lane in reversed(queue.lanes):  # in the order in which the browser shows them
            if lane is not None:
                self._copy(lane, view.lane(lane.priority))
        return view

    def close(self, consumer: Consumer) -> None:
        """Discard a browser's snapshot."""
        view = consumer.queue
        feed = view.feed
        view.is_closed = True
        if isinstance(feed, Replay):
            self.replays.close(feed)
        if isinstance(feed, SelectiveSnapshot) and feed.unjudged:
            self.feeds.steps.take_up(QueueRemains([delivery for delivery, _ in feed.unjudged]))
            feed.unjudged.clear()
        if isinstance(feed, KeptMessages):
            self._leave(feed.source_id, view)
        self.destinations.readers.remove(view)
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        self.ends.let_go(view)

    def _leave(self, source_id: int, view: Queue) -> None:
        queue = self.destinations.queues_by_id.get(source_id)
        if queue is None or queue.extras.audience is None:
            return  # it has been deleted
        audience = _audience_of(queue)
        audience.views.remove(view)
        if not audience.views:
            queue.extras.audience = None

    def tell_ends(self) -> None:
        """Report the end to each browser that has seen everything."""
        for consumer in self.consumers[:]:
            if consumer.is_started and not self._has_more(consumer.queue):
                self.consumers.remove(consumer)
                consumer.client.browse_ended(consumer)

    def _has_more(self, view: Queue) -> bool:
        return bool(view.mask) or view.has_backlog() or any(lane.volatile for lane in view.used_lanes)

    def _copy(self, lane: Lane, seen: Lane) -> None:
        seen.restore(lane.tail, lane.next_load, [], dict(lane.attempts))
        seen.last_position = lane.last_position
        seen.settled.pages = dict(lane.settled.pages)
        for offset, found in lane.ahead.by_offset.items():
            if found.state != READY:
                seen.settled.add(offset)
        for delivery in merge(lane.returned, lane.ready, key=position_of):
            self._show(seen, delivery, is_behind=False)
        for delivery in lane.volatile:
            self._show(seen, delivery, is_behind=True)

    def _show(self, seen: Lane, delivery: Delivery, is_behind: bool) -> None:
        """Add a waiting delivery to the picture.  is_behind: it comes behind entries on disk."""
        if delivery.state != READY:
            return
        view = queue_of(seen)
        feed = view.feed
        if isinstance(feed, SelectiveSnapshot):
            feed.unjudged.append((self._held(seen, delivery), is_behind))
        elif self.feeds.select(view, delivery.message):
            _append(self._held(seen, delivery), is_behind)

    def _held(self, seen: Lane, delivery: Delivery) -> Delivery:
        self.context.memory.hold(delivery.message)
        seen.queue.depth += 1
        if delivery.message.expires_ms:
            seen.queue.has_expiring = True
        shown = Delivery(delivery.message, seen, delivery.position)
        shown.failed_attempts = delivery.failed_attempts
        shown.is_redelivered = delivery.is_redelivered
        return shown


def _append(shown: Delivery, is_behind: bool) -> None:
    lane = lane_of(shown)
    if is_behind:
        lane.volatile.append(shown)
    else:
        lane.append_loaded(shown)


def _audience_of(queue: Queue) -> Audience:
    audience = queue.extras.audience
    assert isinstance(audience, Audience), "a non-destructive queue has an audience while it is viewed"
    return audience
