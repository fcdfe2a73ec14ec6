"""Where the messages of a subscription's queue, or a browser's, come from, and which of them it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.backlog.settlement import SettlementBatch, SubscriptionBatch
from engine.consumers.consumer import Consumer
from engine.selector.evaluate import Selector, compile_selector
from engine.selector.readers import PropertyReaders
from engine.values.message import Message
from engine.values.outcomes import CAUSE_NOT_SELECTED, DROPPED

if TYPE_CHECKING:
    from engine.sources.log_replay import Replay
    from engine.sources.named_subscription import Subscription
    from engine.sources.queue import Queue


class Feed:
    """What a queue has that owns no messages: it refers to those of a topic, or of the queue that is browsed.

    number: of this feed; it asks the store for pages as this reader.
    source_id: the destination whose entries it reads.
    selector: None takes everything.
    shunned: number of the client whose own messages are left out (JMS noLocal), 0 for none.
    since_ms: store time before which pages hold nothing for it, of a subscription in memory that looks back.
    subscription: the named one that it belongs to; None for one that ends with its consumer.
    passed: entries of a durable subscription that its selector does not match, to be settled.
    is_browser: it shows what waits, and its deliveries change nothing.
    is_of_kept: it shows what a queue keeps that is non_destructive, and goes on with what comes.
    replay: it shows what the log keeps, settled or not; None for what shows only what waits.
    """

    __slots__ = (
        "number",
        "source_id",
        "selector",
        "shunned",
        "since_ms",
        "subscription",
        "passed",
        "is_browser",
        "is_of_kept",
        "replay",
    )

    def __init__(self, number: int, source_id: int, queue_id: int, selector: Selector | None) -> None:
        self.number = number
        self.source_id = source_id
        self.selector = selector
        self.shunned = 0
        self.since_ms = 0
        self.subscription: Subscription | None = None
        self.passed = SubscriptionBatch(queue_id, DROPPED, CAUSE_NOT_SELECTED)
        self.is_browser = False
        self.is_of_kept = False
        self.replay: Replay | None = None


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
