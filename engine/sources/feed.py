"""Where the messages of a subscription's queue, or a browser's, come from."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr

from engine.backlog.settlement import SubscriptionBatch
from engine.selector.evaluate import Selector
from engine.values.message import Message
from engine.values.outcomes import CAUSE_NOT_SELECTED, DROPPED
from engine.values.stored import LanePlace


class SubscriptionBase:
    """A named subscription, as a feed knows it (engine.sources.named_subscription)."""

    __slots__ = ()


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplayBase(ABC):
    """A replay of the log from some place on, as a feed sees it (engine.sources.log_replay)."""

    @abstractmethod
    def has_more(self) -> bool:
        """Say whether something that is in the log was not made ready yet."""

    @abstractmethod
    def is_held(self) -> bool:
        """Say whether memory is short, and its client has as many messages unsettled as each replay may have then."""

    @abstractmethod
    def describe(self) -> str:
        """Return how far it is, in words."""

    @abstractmethod
    def fill(self) -> None:
        """Ask for what comes next, if there is room for it."""

    @abstractmethod
    def message_came(self, message: Message, is_shunned: bool) -> None:
        """A message was published.  is_shunned: whoever replays has sent it, and wants none of these."""

    @abstractmethod
    def page_loaded(self, priority: int, next_offset: int, messages: list[Message]) -> None:
        """A page has been read."""

    @abstractmethod
    def page_failed(self, priority: int) -> None:
        """A page could not be read."""

    @abstractmethod
    def sought(self, log_start: int, places: list[LanePlace]) -> None:
        """The place where it begins has been found."""

    @abstractmethod
    def seek_failed(self, reason: str) -> None:
        """The disk refused to say where it begins."""


class Feed:
    """The feed of a queue that owns no messages: it refers to those of a topic, or of the queue that is browsed.

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
        self.subscription: SubscriptionBase | None = None
        self.passed = SubscriptionBatch(queue_id, DROPPED, CAUSE_NOT_SELECTED)
        self.is_browser = False
        self.is_of_kept = False
        self.replay: ReplayBase | None = None
