"""Which messages a subscription's queue, or a browser's, takes of where they come from."""

from __future__ import annotations

from engine.backlog.settlement import SettlementBatch
from engine.consumers.consumer import Consumer
from engine.selector.evaluate import compile_selector
from engine.selector.readers import PropertyReaders
from engine.sources.feed import Feed
from engine.sources.queue import Queue
from engine.values.message import Message


class Feeds:
    """Makes feeds, and says which messages are for them.

    settling: batches with something to flush.
    """

    __slots__ = ("_readers", "_settling", "_next_number")

    def __init__(self, readers: PropertyReaders, settling: list[tuple[SettlementBatch, Consumer | None]]) -> None:
        self._readers = readers
        self._settling = settling
        self._next_number = 1

    def new(self, source_id: int, queue_id: int, selector_text: str) -> Feed:
        """Return a feed with a number of its own.  Raises: InvalidSelector."""
        selector = compile_selector(selector_text) if selector_text.strip() else None
        number = self._next_number
        self._next_number = number + 1
        return Feed(number, source_id, queue_id, selector)

    def select(self, queue: Queue, message: Message) -> bool:
        """Say whether a message that a page has brought is for ``queue``; settle it if it never will be."""
        feed = feed_of(queue)
        if message.store_time_ms < feed.since_ms:
            return False
        if feed.selector is None or feed.selector.matches(self._readers.properties(message, 1, False)):
            return True
        if queue.is_logged:
            queue.depth -= 1
            self.pass_by(feed, message)
        return False

    def pass_by(self, feed: Feed, message: Message) -> None:
        """Have an entry of a durable subscription settled that is not for it."""
        if feed.passed.add(message):
            self._settling.append((feed.passed, None))


def feed_of(queue: Queue) -> Feed:
    """Return the feed of a queue that refers to the messages of another."""
    feed = queue.feed
    assert feed is not None, "what is fed has a feed"
    return feed
