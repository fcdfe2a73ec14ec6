"""Where the messages of a subscription's queue, or a browser's, come from, and which of them it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.backlog.settlement import SubscriptionBatch
from engine.selector.evaluate import Selector
from engine.values.outcomes import CAUSE_NOT_SELECTED, DROPPED

if TYPE_CHECKING:
    from engine.sources.log_replay import Replay
    from engine.sources.named_subscription import Subscription


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
