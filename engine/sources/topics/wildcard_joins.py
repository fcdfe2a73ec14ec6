"""Wildcard subscriptions join the topics that exist, some in each turn; those in memory are found by a topic's name.

A message published meanwhile still reaches them, because a topic is joined at the latest when a message is sent to it.
A stop in between does no harm: a durable subscription opens missing cursors at the start.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from config.matching import ONE, REST
from engine.consumers.client import Client
from engine.consumers.turn_steps import Chore, Steps
from engine.sources.queue import Queue
from engine.sources.topics.named_subscription import NamedSubscription
from engine.sources.topics.topic import Topic
from engine.values.destination import TOPIC
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard

if TYPE_CHECKING:
    from engine.sources.topics.durable_subscriptions import NamedSubscriptions
    from engine.sources.topics.subscription_queues import SubscriptionQueues

OPEN_STEPS: Final = 15  # for a cursor in the log
CLOSE_STEPS: Final = 15  # to close one
ATTACH_STEPS: Final = 2  # to connect a topic to a subscription in memory, or to disconnect it
NAMES_A_STEP: Final = 2  # names per step that are only compared with the wildcard


class Attached:
    """A queue that many topics feed: all that each of its consumers may read.

    client: one of its consumers', which is charged for ``topic_count`` topics.
    """

    __slots__ = ("wildcard", "queue", "is_plain", "client", "topic_count")

    def __init__(self, wildcard: Wildcard, queue: Queue, is_plain: bool, client: Client) -> None:
        self.wildcard = wildcard
        self.queue = queue
        self.is_plain = is_plain
        self.client = client
        self.topic_count = 0

    def add(self, topic: Topic) -> None:
        topic.add(self.queue, False, self.is_plain)
        self.count(1)

    def topic_ended(self, topic: Topic) -> None:
        self.count(-1)

    def count(self, more: int) -> None:
        """Charge for so many topics more, or fewer."""
        self.topic_count += more
        self.client.fed_topics += more
        self.client.count_later()

    def belong_to(self, client: Client) -> None:
        """Charge another client from now on."""
        count = self.topic_count
        self.count(-count)
        self.client = client
        self.count(count)


class AttachedPart(Attached):
    """The same for a wildcard in a list.  A topic that several parts of the list match feeds only one of their queues.

    fed: numbers of the topics that feed any of these queues, which share them.
    """

    __slots__ = ("fed",)

    def __init__(self, wildcard: Wildcard, queue: Queue, is_plain: bool, client: Client, fed: set[int]) -> None:
        super().__init__(wildcard, queue, is_plain, client)
        self.fed = fed

    def add(self, topic: Topic) -> None:
        if topic.destination_id not in self.fed:
            self.fed.add(topic.destination_id)
            super().add(topic)

    def topic_ended(self, topic: Topic) -> None:
        self.fed.discard(topic.destination_id)
        super().topic_ended(topic)


@dataclass(slots=True, eq=False)
class AttachedWildcards:
    """The subscriptions in memory to wildcards, by feed.

    by_first: the same by the first element of their wildcards, so that a new topic is not compared with thousands.
    """

    by_feed: dict[int, Attached] = field(default_factory=dict)
    by_first: dict[str, dict[int, Attached]] = field(default_factory=dict)

    def add(self, attached: Attached) -> None:
        number = attached.queue.feed.number
        self.by_feed[number] = attached
        self.by_first.setdefault(attached.wildcard.pattern.elements[0], {})[number] = attached

    def pop(self, number: int) -> Attached | None:
        """Remove and return the subscription of a feed, None if there is none."""
        attached = self.by_feed.pop(number, None)
        if attached is not None:
            first = attached.wildcard.pattern.elements[0]
            del self.by_first[first][number]
            if not self.by_first[first]:
                del self.by_first[first]
            attached.count(-attached.topic_count)
        return attached

    def topic_removed(self, topic: Topic) -> None:
        for one in self.matching(topic.name):
            if topic.feeds(one.queue.feed.number):
                one.topic_ended(topic)

    def consumer_left(self, queue: Queue) -> None:
        """One of several consumers of a queue has left: another one's client is charged."""
        attached = self.by_feed.get(queue.feed.number)
        if attached is not None:
            attached.belong_to(next(iter(queue.consumers.values())).client)

    def matching(self, name: str) -> list[Attached]:
        """Return the subscriptions that match a topic of this name, oldest first."""
        found: dict[int, Attached] = {}
        for first in (name.split(".", 1)[0], ONE, REST):
            for number, one in self.by_first.get(first, {}).items():
                if one.wildcard.matches(name):
                    found[number] = one
        return [found[number] for number in sorted(found)]


class TopicJoins(Chore):
    """Applies one wildcard subscription to topics by ``join_one``, which may get a topic twice.

    topics: those of the beginning that are not done.  serial: ascending, 0 before it waits.
    """

    __slots__ = ("queues", "wildcard", "topics", "topic_steps", "serial")

    def __init__(self, queues: SubscriptionQueues, wildcard: Wildcard, topic_steps: int) -> None:
        self.queues = queues
        self.wildcard = wildcard
        self.topics = queues.destinations.topic_roster.walk()
        self.topic_steps = topic_steps
        self.serial = 0

    def go_on(self, steps: Steps) -> bool:
        topics = self.topics
        least = steps.left_to_others()
        if steps.left <= least:
            return False
        for topic in topics:
            if self.is_over():
                break
            if topics.index % NAMES_A_STEP == 0:
                steps.left -= 1
            if topic is not None and self.wildcard.matches(topic.name):
                steps.left -= self.topic_steps
                self.join_one(topic)
            if steps.left <= least:
                return False
        self.queues.joins.remove(self)
        return True

    def is_over(self) -> bool:
        """Say whether no further topic needs to be looked at."""
        return False

    @abstractmethod
    def join_one(self, topic: Topic) -> None:
        """Join a matching topic unless that was done."""


class TopicAttachment(TopicJoins):
    """Lets topics that the client may read feed a subscription in memory."""

    __slots__ = ("attached", "client")

    def __init__(self, queues: SubscriptionQueues, attached: Attached, client: Client) -> None:
        super().__init__(queues, attached.wildcard, ATTACH_STEPS)
        self.attached = attached
        self.client = client

    def is_over(self) -> bool:
        return self.attached.queue.is_closed

    def join_one(self, topic: Topic) -> None:
        if self.is_over() or topic.is_closed or topic.feeds(self.attached.queue.feed.number):
            return
        if self.queues.access.allows(self.client, "read", TOPIC, topic.name):
            self.attached.add(topic)


class TopicDetachment(TopicJoins):
    """Disconnects topics from a subscription in memory."""

    __slots__ = ("number",)

    def __init__(self, queues: SubscriptionQueues, attached: Attached, number: int) -> None:
        super().__init__(queues, attached.wildcard, ATTACH_STEPS)
        self.number = number

    def join_one(self, topic: Topic) -> None:
        topic.remove(self.number)


class CursorOpening(TopicJoins):
    """Opens a cursor of a durable subscription in each topic, and lets its consumers take from it.

    options: with which it begins; None for one that goes on.
    """

    __slots__ = ("named", "subscription", "options")

    def __init__(
        self,
        named: NamedSubscriptions,
        wildcard: Wildcard,
        subscription: NamedSubscription,
        options: SubscribeOptions | None,
    ) -> None:
        super().__init__(named.queues, wildcard, OPEN_STEPS)
        self.named = named
        self.subscription = subscription
        self.options = options

    def is_over(self) -> bool:
        return self.named.by_key.get(self.subscription.key()) is not self.subscription

    def join_one(self, topic: Topic) -> None:
        if not (self.is_over() or topic.is_closed):
            self.named.open_cursor(self.subscription, topic, self.options)


class CursorClosing(Chore):
    """Closes the cursors of a durable wildcard that has ended."""

    __slots__ = ("named", "subscription")

    def __init__(self, named: NamedSubscriptions, subscription: NamedSubscription) -> None:
        self.named = named
        self.subscription = subscription

    def go_on(self, steps: Steps) -> bool:
        count = (steps.left - steps.left_to_others()) // CLOSE_STEPS
        count = max(1, min(count, len(self.subscription.queues)))
        steps.left -= CLOSE_STEPS * count
        self.named.close_some(self.subscription, count)
        return not self.subscription.queues
