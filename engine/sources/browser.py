"""Browsers: a copy of what waits in a queue, in order, without changing anything there.

A browser's queue begins as a snapshot: what waits in memory, and where the rest begins on disk.  The rest is paged in
as the browser takes it, so a backlog of any length costs no more than a page.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.backlog.context import Context
from engine.consumers.consumer import Consumer
from engine.selector.evaluate import selector_of
from engine.sources.entry_readers import Feeds
from engine.sources.feed import EndedView
from engine.sources.log_replay import Replay, Replays
from engine.sources.non_destructive import Audience, KeptMessages
from engine.sources.queue import Queue
from engine.sources.queue_ends import QueueEnds, forget_lanes
from engine.sources.registry import Destinations
from engine.sources.snapshot import Snapshot


@dataclass(slots=True, eq=False)
class Browsing:
    """consumers: browsers that have not reported their end yet."""

    context: Context
    destinations: Destinations
    feeds: Feeds
    replays: Replays
    ends: QueueEnds
    consumers: list[Consumer] = field(default_factory=list)

    def open(self, queue: Queue, selector_text: str) -> Queue:
        """Return a queue that shows what waits in ``queue`` now.  Raises: InvalidSelector."""
        selector = selector_of(selector_text)
        return self._open(queue, Snapshot(self.feeds, queue.destination_id, selector))

    def join(self, queue: Queue, selector_text: str) -> Queue:
        """Return a queue that shows what ``queue`` keeps and what arrives there.  Raises: InvalidSelector."""
        selector = selector_of(selector_text)
        view = self._open(queue, KeptMessages(self.feeds, queue.destination_id, selector))
        if queue.extras.audience is None:
            queue.extras.audience = Audience(self.context.memory, self.feeds)
        _audience_of(queue).views.append(view)
        view.extras.pause = queue.extras.pause
        return view

    def _open(self, queue: Queue, feed: Snapshot) -> Queue:
        view = self.destinations.reader_queue(queue.destination_id, queue.kind, queue.name, queue.settings, False, feed)
        feed.take(queue, view)
        return view

    def close(self, consumer: Consumer) -> None:
        """Discard a browser's snapshot."""
        view = consumer.queue
        feed = view.feed
        view.is_closed = True
        if isinstance(feed, Replay):
            self.replays.close(feed)
        if isinstance(feed, Snapshot):
            feed.unseen.clear()
        if isinstance(feed, KeptMessages):
            self._leave(feed.source_id, view)
        self.destinations.readers.remove(view)
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        self.ends.discard(view)
        forget_lanes(view)
        view.feed = EndedView(feed)

    def _leave(self, source_id: int, view: Queue) -> None:
        queue = self.destinations.queues_by_id.get(source_id)
        if queue is None or queue.extras.audience is None:
            return  # it has been deleted
        audience = _audience_of(queue)
        audience.views.remove(view)
        if not audience.views:
            queue.extras.audience = None

    def report_ends(self) -> None:
        """Report the end to each browser that has seen everything."""
        for consumer in self.consumers[:]:
            if consumer.is_started and consumer.departing() is None and not self._has_more(consumer.queue):
                self.consumers.remove(consumer)
                consumer.client.browse_ended(consumer)

    def _has_more(self, view: Queue) -> bool:
        return bool(view.mask) or view.has_backlog() or any(lane.volatile for lane in view.used_lanes)


def _audience_of(queue: Queue) -> Audience:
    audience = queue.extras.audience
    assert isinstance(audience, Audience), "a non-destructive queue has an audience while it is viewed"
    return audience
