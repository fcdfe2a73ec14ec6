"""Kinds of queue: where the messages of a queue come from, and what that decides.  Each kind is a class.

A queue is made with its feed and keeps it.  Kinds: a queue of its own, a durable subscription and one in memory
(here), a browser and a reader of a non-destructive queue (engine.sources.browser), a replay
(engine.sources.replay.log_replay).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from engine.backlog.settlement import SettlementBatch, SubscriptionBatch
from engine.selector.evaluate import Selector
from engine.values.message import Message
from engine.values.outcomes import CAUSE_NOT_SELECTED, DROPPED
from engine.values.stored import LanePlace


class SubscriptionBase:
    """A named subscription, as a feed knows it (engine.sources.topics.named_subscription)."""

    __slots__ = ()


class PendingRule:
    """Bounds what waits for a topic subscription (engine.sources.topics.pending_message_limit)."""

    __slots__ = ()

    @abstractmethod
    def message_came(self, message: Message) -> None:
        """A message is new on the queue: if it is one too many, one goes."""


class Feed:
    """What the kinds have in common; what most of them answer.

    number: of this feed; it asks the store for pages as this reader.  0: as no reader in particular.
    source_id: the destination whose entries it reads, 0 for the queue itself.
    selector: None takes everything.
    shunned: number of the client whose own messages are left out (JMS noLocal), 0 for none.
    since_ms: store time before which pages hold nothing for it, of a subscription in memory that looks back.
    subscription: the named one that it belongs to; None for one that ends with its consumer.
    subscriber: ``client id:subscription name`` of a durable subscription, None for any other.
    pending: how much may wait for it, of a subscription in memory; None for anything.
    is_own: the queue's messages are its own, and no other destination's.
    is_browser: it only shows messages, and its deliveries change nothing.
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

    # -- what is asked of the log

    def fill(self) -> bool:
        """Ask for what comes next, if this feed and not each lane does that; say whether it does."""
        return False

    def page_loaded(self, priority: int, next_offset: int, messages: list[Message]) -> bool:
        """Take a page that has been read; say whether it was for this feed, and not for the lane."""
        return False

    def page_failed(self, priority: int) -> bool:
        """Take note that a page could not be read; say whether it was for this feed, and not for the lane."""
        return False

    def sought(self, log_start: int, places: list[LanePlace]) -> None:
        """Take the place where it begins."""

    def seek_failed(self, reason: str) -> None:
        """Take note that the disk refused to say where it begins."""

    def has_more(self) -> bool:
        """Say whether it has something in the log that its lanes do not know of."""
        return False

    def is_held(self) -> bool:
        """Say whether it has as many messages unsettled as it may have while memory is short."""
        return False

    def is_starved(self, is_short: bool) -> bool:
        """Say whether it waits for memory.  is_short: the budget is nearly used up."""
        return is_short

    # -- what comes

    def message_came(self, message: Message, is_shunned: bool) -> None:
        """Take note of a message that is published.  is_shunned: its sender wants none of these."""

    # -- what becomes of it

    def batch(self, queue_id: int, outcome: int, cause: int) -> SettlementBatch:
        """Return an empty batch for settlements of the queue of that number."""
        return SettlementBatch(queue_id, outcome, cause)

    def pass_by(self, message: Message) -> SettlementBatch | None:
        """Settle an entry that its selector does not match; return the batch that is to be flushed now, if any."""
        return None

    # -- in words

    def shown_by(self) -> str:
        """Return what only shows messages, "" for what takes them."""
        return ""

    def describe(self) -> str:
        """Return how far it is in the log, "" where its lanes know."""
        return ""


class OwnMessages(Feed):
    """Of a queue to which messages are sent."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(0, 0, None)
        self.is_own = True


OWN: Final = OwnMessages()  # it knows nothing of its queue, so one is enough


class DurableCursor(Feed):
    """Of a durable subscription in one topic: it settles the topic's entries under a number of its own.

    passed: entries that its selector does not match, to be settled.
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
    """Of a subscription that lives in memory: one consumer's, or a shared one's.  topic_id: 0 for a wildcard's."""

    __slots__ = ()
