"""Kinds of queue, a class each: where the messages of a queue come from, and all that depends on it.

A queue is created with its feed and keeps it.  Kinds: a queue with messages of its own, a durable subscription and one
in memory (here), a browser and a reader of a non-destructive queue (engine.sources.browser), a replay
(engine.sources.log_replay).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from engine.backlog.settlement import SettlementBatch, SubscriptionBatch
from engine.selector.evaluate import Selector
from engine.values.message import Message
from engine.values.outcomes import CAUSE_NOT_SELECTED, DROPPED
from engine.values.stored import LanePlace

CHEAP_CONDITIONS: Final = 50  # of a selector; one with an XPath has more


class SubscriptionBase:
    """A named subscription, as a feed sees it (engine.sources.topics.named_subscription)."""

    __slots__ = ()


class PendingRule:
    """Limits the messages that wait for a topic subscription (engine.sources.topics.pending_message_limit)."""

    __slots__ = ()

    @abstractmethod
    def message_came(self, message: Message) -> None:
        """A message was added to the queue; drop one if there are too many."""


class Feed:
    """The interface of all kinds, with the answers of most of them.

    number: of this feed; it reads pages from the store as this reader.  0: as the queue itself.
    source_id: the destination whose entries it reads, 0 for the queue itself.
    selector: None takes everything.
    shunned: number of the client whose own messages are left out (JMS noLocal), 0 for none.
    since_ms: for a retroactive subscription in memory: messages stored earlier are left out of pages.
    subscription: the named subscription that it belongs to; None for one that ends with its consumer.
    subscriber: ``client id:subscription name`` of a durable subscription, None for any other.
    pending: limit of waiting messages of a subscription in memory; None for no limit.
    is_own: the queue's messages are sent to it, and are not another destination's.
    is_browser: it only shows messages, and its deliveries change nothing.
    is_consuming: it shows them to a consumer of a queue that keeps what is acknowledged, not to a browser.
    is_costly: its selector looks into bodies, which may take milliseconds per message.
    """

    __slots__ = (
        "number",
        "source_id",
        "selector",
        "shunned",
        "since_ms",
        "subscription",
        "subscriber",
        "pending",
        "is_own",
        "is_browser",
        "is_consuming",
        "is_costly",
    )

    def __init__(self, number: int, source_id: int, selector: Selector | None) -> None:
        self.number = number
        self.source_id = source_id
        self.selector = selector
        self.shunned = 0
        self.since_ms = 0
        self.subscription: SubscriptionBase | None = None
        self.subscriber: str | None = None
        self.pending: PendingRule | None = None
        self.is_own = False
        self.is_browser = False
        self.is_consuming = False
        self.is_costly = selector is not None and selector.cost > CHEAP_CONDITIONS

    # -- reading the log

    def fill(self) -> bool:
        """Request what comes next, if the feed and not each lane requests pages; say whether it does."""
        return False

    def page_loaded(self, priority: int, next_offset: int, messages: list[Message]) -> bool:
        """Accept a page; say whether it was for this feed, and not for the lane."""
        return False

    def page_failed(self, priority: int) -> bool:
        """Note that a page could not be read; say whether it was for this feed, and not for the lane."""
        return False

    def sought(self, log_start: int, places: list[LanePlace]) -> None:
        """Accept the place where it begins."""

    def seek_failed(self, reason: str) -> None:
        """Note that the disk could not say where it begins."""

    def has_more(self) -> bool:
        """Say whether the log has more for it than its lanes know of."""
        return False

    def is_at_limit(self) -> bool:
        """Say whether it holds as many unsettled messages as it may while memory is short."""
        return False

    def is_starved(self, is_short: bool) -> bool:
        """Say whether it waits for memory.  is_short: the budget is nearly used up."""
        return is_short

    # -- new messages

    def message_came(self, message: Message, is_shunned: bool) -> None:
        """Note a published message.  is_shunned: the message's sender reads here and does not want its own messages."""

    # -- settlements

    def batch(self, queue_id: int, outcome: int, cause: int) -> SettlementBatch:
        """Return an empty batch for settlements of queue ``queue_id``."""
        return SettlementBatch(queue_id, outcome, cause)

    def pass_by(self, message: Message) -> SettlementBatch | None:
        """Settle an entry that its selector does not match; return the batch that must be flushed, if any."""
        return None

    # -- in words

    def shown_by(self) -> str:
        """Return the kind of queue that only shows messages; "" if consumers take them."""
        return ""

    def describe(self) -> str:
        """Return its place in the log, "" if its lanes know it."""
        return ""


class OwnMessages(Feed):
    """The feed of a queue to which messages are sent."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(0, 0, None)
        self.is_own = True


OWN: Final = OwnMessages()  # it has no state, so all queues share it


class DurableCursor(Feed):
    """A durable subscription's cursor in one topic: it settles the topic's entries under a number of its own.

    passed: entries that its selector does not match, and that must be settled.
    """

    __slots__ = ("passed",)

    def __init__(
        self,
        number: int,
        topic_id: int,
        queue_id: int,
        selector: Selector | None,
        subscription: SubscriptionBase,
        subscriber: str,
    ) -> None:
        super().__init__(number, topic_id, selector)
        self.subscription = subscription
        self.subscriber = subscriber
        self.passed = SubscriptionBatch(queue_id, DROPPED, CAUSE_NOT_SELECTED)

    def batch(self, queue_id: int, outcome: int, cause: int) -> SettlementBatch:
        return SubscriptionBatch(queue_id, outcome, cause)

    def pass_by(self, message: Message) -> SettlementBatch | None:
        return self.passed if self.passed.add(message) else None


class MemorySubscription(Feed):
    """A subscription in memory, of one consumer or shared.  topic_id: 0 for a wildcard's.

    holder: for whom it counts, as in ``Client``: who made it.
    """

    __slots__ = ("holder",)

    def __init__(self, number: int, topic_id: int, selector: Selector | None, holder: str) -> None:
        super().__init__(number, topic_id, selector)
        self.holder = holder


class EndedView(Feed):
    """The feed of a browser or replay that has ended: nothing knows the view any more, and it is freed at once."""

    __slots__ = ()

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed.number, feed.source_id, None)
        self.is_browser = True
        self.is_consuming = feed.is_consuming
