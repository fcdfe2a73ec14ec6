"""Topic subscriptions' kinds of queue: a durable one's cursor in the log, and one that only memory holds."""

from __future__ import annotations

from engine.backlog.settlement import SettlementBatch, SubscriptionBatch
from engine.selector.evaluate import Selector
from engine.sources.feed import Feed, SubscriptionBase
from engine.values.message import Message
from engine.values.outcomes import CAUSE_NOT_SELECTED, DROPPED


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
