"""Subscriptions of topics: a queue for each new consumer, and the topics that come and go.

Plain subscriptions, and shared ones that are not durable, are in memory (subscription_queues.py); durable and shared
ones have a name (durable_subscriptions.py).
Source: Jakarta Messaging 3.1, sections 8.3 and 4.11; docs/reference/destinations.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.consumers.client import Client
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.topics.durable_subscriptions import NamedSubscriptions
from engine.sources.topics.named_subscription import NamedSubscription
from engine.sources.topics.subscription_queues import SubscriptionQueues
from engine.sources.topics.topic import Topic
from engine.sources.topics.wildcard_joins import OPEN_STEPS
from engine.values.destination import TOPIC
from engine.values.errors import InvalidOption
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard


@dataclass(slots=True, eq=False)
class Subscriptions(Observer):
    """named: durable and shared ones.  queues: of those in memory."""

    named: NamedSubscriptions
    queues: SubscriptionQueues

    def __post_init__(self) -> None:
        named = self.named
        named.observers.append(self)
        named.restore()
        for topic in named.destinations.topics.values():
            if topic.account is not None:
                topic.account.see_durable(named.context.store)

    def queue_for(
        self, client: Client, source: Topic | Wildcard, options: SubscribeOptions, fed: set[int] | None = None
    ) -> Queue:
        """Return the queue that a new consumer of ``source`` takes from; of a durable wildcard, its carrier.

        fed: as in ``AttachedPart``.
        Raises: InvalidOption, InvalidSelector, LimitReached, SubscriptionInUse.
        """
        if options.is_durable or options.is_shared:
            return self.named.join(client, source, options)
        if options.subscription:
            raise InvalidOption(f"subscription {options.subscription[:200]!r} is neither durable nor shared")
        self.queues.quota.require(client.holder)
        queue = self.queues.make(client, source, options.selector)
        feed = queue.feed
        if options.is_no_local:
            feed.shunned = client.client_number
        self.queues.attach(queue, source, not options.is_no_local, client, fed)
        self.named.cursors.begin_retroactive(queue, source, options)
        return queue

    def leave(self, queue: Queue, is_lead: bool) -> bool:
        """Say whether the queue of a consumer that has just left remains; otherwise it ends here.

        is_lead: the consumer is its subscription's only one, or represents those of all its topics.
        """
        subscription = queue.feed.subscription
        if not isinstance(subscription, NamedSubscription):
            self.queues.end(queue)
            return False
        if is_lead:
            subscription.consumers -= 1
        if subscription.is_durable:
            if not queue.consumers:
                queue.feed.shunned = 0
            return True
        if queue.consumers:
            self.queues.wildcards.consumer_left(queue)
            return True
        del self.named.by_key[subscription.key()]
        subscription.queues.clear()
        self.queues.end(queue)
        return False

    def destination_added(self, destination: Queue | Topic) -> None:
        if not isinstance(destination, Topic) or destination.kind != TOPIC:
            return
        for one in self.queues.wildcards.matching(destination.name):
            if self.queues.access.may_all_read(one.queue, destination.name):
                one.add(destination)
        for subscription in self.named.durable_wildcards.matching(destination.name):
            self.queues.ends.steps.left -= OPEN_STEPS
            self.named.open_cursor(subscription, destination, None)

    def destination_removed(self, destination: Queue | Topic) -> None:
        if isinstance(destination, Topic) and destination.kind == TOPIC:
            self.queues.wildcards.topic_removed(destination)
            for queue in destination.subscriptions.values():
                subscription = queue.feed.subscription
                if isinstance(subscription, NamedSubscription):
                    subscription.roster.pop(destination.destination_id)
                    if subscription.carrier is not None:
                        self.named.durable_wildcards.topics.give_back(subscription.holder)
