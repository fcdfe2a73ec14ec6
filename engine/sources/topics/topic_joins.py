"""Wildcard subscriptions take up the topics that are there some a turn.

Whatever is published meanwhile finds them: a topic is joined at the latest when something is sent to it.  A stop in
between does no harm: what a durable subscription has not opened then, it opens at the start.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from engine.consumers.turn_steps import Chore, Steps
from engine.values.destination import TOPIC

if TYPE_CHECKING:
    from engine.consumers.client import Client
    from engine.sources.queue import Queue
    from engine.sources.topics.named_subscription import NamedSubscription
    from engine.sources.topics.topic import Topic
    from engine.sources.topics.topic_subscriptions import Subscriptions
    from engine.values.options import SubscribeOptions
    from engine.values.wildcard import Wildcard

OPEN_STEPS: Final = 15  # of a cursor in the log
ATTACH_STEPS: Final = 2  # of a topic that feeds a subscription in memory, or does so no longer
NAMES_A_STEP: Final = 2  # that are only compared with the wildcard


class Attached:
    """A queue that many topics feed: those that all its consumers may read."""

    __slots__ = ("wildcard", "queue", "is_plain")

    def __init__(self, wildcard: Wildcard, queue: Queue, is_plain: bool) -> None:
        self.wildcard = wildcard
        self.queue = queue
        self.is_plain = is_plain


class TopicJoins(Chore):
    """One wildcard subscription; what it does with a topic is ``join_one``'s.  It may come to a topic twice.

    topics: all that were there when it began, those before ``index`` have been looked at.
    """

    __slots__ = ("subscriptions", "wildcard", "topics", "index", "topic_steps")

    def __init__(self, subscriptions: Subscriptions, wildcard: Wildcard, topics: list[Topic], topic_steps: int) -> None:
        self.subscriptions = subscriptions
        self.wildcard = wildcard
        self.topics = topics
        self.index = 0
        self.topic_steps = topic_steps

    def go_on(self, steps: Steps) -> bool:
        least = steps.left_to_others()
        while self.index < len(self.topics):
            if steps.left <= least:
                return False
            topic = self.topics[self.index]
            self.index += 1
            if self.index % NAMES_A_STEP == 0:
                steps.left -= 1
            if self.wildcard.matches(topic.name):
                steps.left -= self.topic_steps
                self.join_one(topic)
        self.subscriptions.joins.remove(self)
        return True

    @abstractmethod
    def join_one(self, topic: Topic) -> None:
        """Do to a topic that matches what is to be done, unless it has been."""


class TopicAttachment(TopicJoins):
    """Lets topics feed a subscription in memory: those that its client may read."""

    __slots__ = ("attached", "client")

    def __init__(self, subscriptions: Subscriptions, attached: Attached, topics: list[Topic], client: Client) -> None:
        super().__init__(subscriptions, attached.wildcard, topics, ATTACH_STEPS)
        self.attached = attached
        self.client = client

    def join_one(self, topic: Topic) -> None:
        queue = self.attached.queue
        if queue.is_closed or topic.is_closed or topic.feeds(queue.feed.number):
            return
        if self.subscriptions.access.allows(self.client, "read", TOPIC, topic.name):
            topic.add(queue, False, self.attached.is_plain)


class TopicDetachment(TopicJoins):
    """Lets them do so no longer."""

    __slots__ = ("number",)

    def __init__(self, subscriptions: Subscriptions, attached: Attached, topics: list[Topic], number: int) -> None:
        super().__init__(subscriptions, attached.wildcard, topics, ATTACH_STEPS)
        self.number = number

    def join_one(self, topic: Topic) -> None:
        topic.remove(self.number)


class CursorOpening(TopicJoins):
    """Opens a cursor of a durable subscription in each topic, and lets its consumers take from it."""

    __slots__ = ("subscription", "options")

    def __init__(
        self,
        subscriptions: Subscriptions,
        wildcard: Wildcard,
        subscription: NamedSubscription,
        topics: list[Topic],
        options: SubscribeOptions,
    ) -> None:
        super().__init__(subscriptions, wildcard, topics, OPEN_STEPS)
        self.subscription = subscription
        self.options = options

    def join_one(self, topic: Topic) -> None:
        subscription = self.subscription
        subscriptions = self.subscriptions
        if subscriptions.named.get(subscription.key()) is subscription and not topic.is_closed:
            subscriptions.open_cursor(subscription, topic, self.options)
