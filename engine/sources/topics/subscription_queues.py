"""Queues of subscriptions to topics: those in memory are made and connected with their topics here, and all end here.

A subscription in memory settles nothing in the log; what waits for it counts in the memory budget.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.consumers.client import Client
from engine.consumers.permissions import Access
from engine.consumers.user_quota import Quota
from engine.selector.evaluate import selector_of
from engine.sources.entry_readers import Feeds
from engine.sources.feed import MemorySubscription
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.queue_ends import QueueEnds, forget_lanes
from engine.sources.registry import Destinations
from engine.sources.topics.topic import Topic
from engine.sources.topics.wildcard_joins import (
    Attached,
    AttachedPart,
    AttachedWildcards,
    TopicAttachment,
    TopicDetachment,
    TopicJoins,
)
from engine.values.destination import TOPIC, is_topic
from engine.values.wildcard import Wildcard

OWN_PREFIX: Final = "ActiveMQ."  # of names and wildcards that may be advisories


@dataclass(slots=True, eq=False)
class SubscriptionQueues:
    """quota: of subscriptions in memory.  wildcards: those of them to wildcards.

    joins: of wildcards that have not joined all topics yet.
    """

    destinations: Destinations
    feeds: Feeds
    access: Access
    quota: Quota
    ends: QueueEnds
    observers: list[Observer]
    joins: list[TopicJoins]
    wildcards: AttachedWildcards = field(default_factory=AttachedWildcards)
    _next_join: int = 1

    def make(self, client: Client, source: Topic | Wildcard, selector_text: str) -> Queue:
        if isinstance(source, Topic):
            number, settings = source.destination_id, source.settings
        else:
            number, settings = 0, self.destinations.addresses.settings_for(TOPIC, source.name)
        feed = MemorySubscription(self.feeds.number(), number, selector_of(selector_text), client.holder)
        self.quota.add(client.holder)
        return self.destinations.reader_queue(number, source.kind, source.name, settings, False, feed)

    def attach(
        self, queue: Queue, source: Topic | Wildcard, is_plain: bool, client: Client, fed: set[int] | None = None
    ) -> None:
        if source.name.startswith(OWN_PREFIX):
            for observer in self.observers:
                observer.listener_added(source.name)
        if isinstance(source, Topic):
            source.add(queue, True, is_plain)
            return
        if fed is None:
            attached = Attached(source, queue, is_plain, client)
        else:
            attached = AttachedPart(source, queue, is_plain, client, fed)
        self.wildcards.add(attached)
        self.begin(TopicAttachment(self, attached, client), client)

    def begin(self, joins: TopicJoins, client: Client) -> None:
        joins.serial = self._next_join
        self._next_join += 1
        self.joins.append(joins)
        self.ends.steps.begin_now(joins, client.client_number)

    def end(self, queue: Queue) -> None:
        """Discard a subscription's queue and all that waits in it."""
        feed = queue.feed
        queue.is_closed = True
        destinations = self.destinations
        destinations.readers.remove(queue)
        if isinstance(feed, MemorySubscription):
            self.quota.give_back(feed.holder)
        attached = self.wildcards.pop(feed.number)
        topic = destinations.by_id.get(feed.source_id)
        if attached is not None:
            self.begin(TopicDetachment(self, attached, feed.number), attached.client)
        elif isinstance(topic, Topic):
            topic.remove(feed.number)
            if not topic.is_logged and topic.kind == TOPIC and not topic.subscriptions:
                for observer in self.observers:
                    observer.topic_unused(topic)
        if not queue.is_logged and not feed.is_browser and queue.name.startswith(OWN_PREFIX) and is_topic(queue.kind):
            for observer in self.observers:
                observer.listener_removed(queue.name)
        self.ends.discard(queue)
        forget_lanes(queue)
