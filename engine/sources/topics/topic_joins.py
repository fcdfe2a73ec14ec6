"""Wildcard subscriptions join the topics that exist, some in each turn.

A message published meanwhile still reaches them, because a topic is joined at the latest when a message is sent to it.
A stop in between does no harm: a durable subscription opens missing cursors at the start.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from engine.consumers.turn_steps import Chore, Steps
from engine.values.destination import TOPIC

if TYPE_CHECKING:
    from engine.consumers.client import Client
    from engine.sources.topics.attached_wildcards import Attached
    from engine.sources.topics.named_subscription import NamedSubscription
    from engine.sources.topics.topic import Topic
    from engine.sources.topics.topic_subscriptions import Subscriptions
    from engine.values.options import SubscribeOptions
    from engine.values.wildcard import Wildcard

OPEN_STEPS: Final = 15  # for a cursor in the log
ATTACH_STEPS: Final = 2  # to connect a topic to a subscription in memory, or to disconnect it
NAMES_A_STEP: Final = 2  # names per step that are only compared with the wildcard


class TopicJoins(Chore):
    """Applies one wildcard subscription to topics by ``join_one``, which may get a topic twice.

    topics: all that existed at the beginning; those before ``index`` are done.
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
        """Join a matching topic unless that was done."""


class TopicAttachment(TopicJoins):
    """Lets topics that the client may read feed a subscription in memory."""

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
    """Disconnects topics from a subscription in memory."""

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
