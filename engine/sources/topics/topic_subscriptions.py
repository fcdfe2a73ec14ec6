"""Subscriptions of topics: plain, named and wildcard ones, and which of them survive a restart.

A subscription's queue refers to its topic's messages.  A durable subscription settles them in the log under a number of
its own, so an idle one costs a cursor and no memory.  All others are in memory, under the budget.
Source: Jakarta Messaging 3.1, sections 8.3 and 4.11; docs/reference/destinations.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from engine.backlog.context import Context
from engine.consumers.client import Client
from engine.consumers.permissions import Access
from engine.consumers.settlement_log import SettlementLog
from engine.consumers.turn_steps import Steps
from engine.consumers.user_quota import Quota, holder_of
from engine.selector.evaluate import selector_of
from engine.sources.entry_readers import Feeds
from engine.sources.feed import MemorySubscription
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.queue_ends import QueueEnds, forget_lanes
from engine.sources.registry import Destinations
from engine.sources.topics.durable_wildcards import DurableWildcards
from engine.sources.topics.named_subscription import NamedSubscription, asked_for, from_description
from engine.sources.topics.subscription_cursors import DurableCursors
from engine.sources.topics.topic import Topic
from engine.sources.topics.wildcard_joins import (
    OPEN_STEPS,
    Attached,
    AttachedWildcards,
    CursorClosing,
    CursorOpening,
    TopicAttachment,
    TopicDetachment,
    TopicJoins,
)
from engine.values.destination import SUBSCRIPTION, TOPIC, is_topic
from engine.values.errors import InvalidOption, SubscriptionInUse, UnknownSubscription
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard

OWN_PREFIX: Final = "ActiveMQ."  # of names and wildcards that may be advisories


@dataclass(slots=True, eq=False)
class Subscriptions(Observer):
    """named: by client id, name and whether it is durable.  wildcards: those in memory.

    quota: of durable ones; memory_quota: of those in memory.
    joins: of wildcards that have not joined all topics yet.  cursors: the queues of durable subscriptions.
    """

    context: Context
    destinations: Destinations
    feeds: Feeds
    access: Access
    quota: Quota
    durable_wildcards: DurableWildcards
    memory_quota: Quota
    ends: QueueEnds
    settlements: SettlementLog
    observers: list[Observer]
    joins: list[TopicJoins]
    steps: Steps = field(init=False)
    named: dict[tuple[str, str, bool], NamedSubscription] = field(default_factory=dict)
    wildcards: AttachedWildcards = field(default_factory=AttachedWildcards)
    cursors: DurableCursors = field(init=False)
    _next_join: int = 1

    def __post_init__(self) -> None:
        self.steps = self.ends.steps
        self.cursors = DurableCursors(self.context, self.destinations, self.feeds)
        self.observers.append(self)
        self._restore()
        for topic in self.destinations.topics.values():
            if topic.account is not None:
                topic.account.see_durable(self.context.store)

    # -- subscribing

    def queue_for(self, client: Client, source: Topic | Wildcard, options: SubscribeOptions) -> Queue:
        """Return the queue that a new consumer of ``source`` takes from; of a durable wildcard, its carrier.

        Raises: InvalidOption, InvalidSelector, LimitReached, SubscriptionInUse.
        """
        if options.is_durable or options.is_shared:
            return self._join_named(client, source, options)
        if options.subscription:
            raise InvalidOption(f"subscription {options.subscription[:200]!r} is neither durable nor shared")
        self.memory_quota.require(client.holder)
        queue = self._memory_queue(client, source, options.selector)
        feed = queue.feed
        if options.is_no_local:
            feed.shunned = client.client_number
        self._attach(queue, source, not options.is_no_local, client)
        self.cursors.begin_retroactive(queue, source, options)
        return queue

    def leave(self, queue: Queue, is_lead: bool) -> bool:
        """Say whether the queue of a consumer that has just left remains; otherwise it ends here.

        is_lead: the consumer is its subscription's only one, or represents those of all its topics.
        """
        subscription = queue.feed.subscription
        if not isinstance(subscription, NamedSubscription):
            self.end(queue)
            return False
        if is_lead:
            subscription.consumers -= 1
        if subscription.is_durable:
            if not queue.consumers:
                queue.feed.shunned = 0
            return True
        if queue.consumers:
            self.wildcards.consumer_left(queue)
            return True
        del self.named[subscription.key()]
        subscription.queues.clear()
        self.end(queue)
        return False

    def queues_of(self, client_id: str, name: str, is_durable: bool) -> list[Queue]:
        """Return the queues of a named subscription if it has consumers."""
        subscription = self.named.get((client_id, name, is_durable))
        if subscription is None or not subscription.consumers:
            return []
        return subscription.all_queues()

    def find(self, client: Client, client_id: str, name: str, is_durable: bool = True) -> NamedSubscription | None:
        """Return a named subscription, None if there is none.  Raises: AccessDenied if it belongs to another user."""
        subscription = self.named.get((client_id, name, is_durable))
        if subscription is not None:
            subscription.require_owner(client)
        return subscription

    def delete(self, client_id: str, name: str, is_durable: bool = True) -> None:
        """End a named subscription and discard what waits for it.  Raises: UnknownSubscription, SubscriptionInUse."""
        subscription = self.named.get((client_id, name, is_durable))
        if subscription is None:
            raise UnknownSubscription(f"there is no subscription {name[:200]!r} of client id {client_id[:200]!r}")
        if subscription.consumers:
            raise SubscriptionInUse(
                f"subscription {subscription.full_name()[:200]!r} has {subscription.consumers} consumers; it can be "
                "deleted once they have closed"
            )
        self._drop(subscription)

    # -- destinations are added and removed

    def destination_added(self, destination: Queue | Topic) -> None:
        if not isinstance(destination, Topic) or destination.kind != TOPIC:
            return
        for one in self.wildcards.matching(destination.name):
            if self.access.may_all_read(one.queue, destination.name):
                one.add(destination)
        for subscription in self.durable_wildcards.matching(destination.name):
            self.steps.left -= OPEN_STEPS
            self.open_cursor(subscription, destination, None)

    def destination_removed(self, destination: Queue | Topic) -> None:
        if isinstance(destination, Topic) and destination.kind == TOPIC:
            self.wildcards.topic_removed(destination)
            for queue in destination.subscriptions.values():
                subscription = queue.feed.subscription
                if isinstance(subscription, NamedSubscription):
                    subscription.roster.pop(destination.destination_id)
                    if subscription.carrier is not None:
                        self.durable_wildcards.topics.give_back(subscription.holder)

    # -- the steps

    def _join_named(self, client: Client, source: Topic | Wildcard, options: SubscribeOptions) -> Queue:
        asked = asked_for(client, source, options)
        known = self.named.get(asked.key())
        if known is None and asked.is_durable:
            asked.require_names()
        if asked.is_durable and isinstance(source, Wildcard) and (known is None or not known.is_like(asked)):
            self.durable_wildcards.require(client.holder, source, known)
        if known is not None:
            known.require_joinable(asked, client)
            if not known.is_like(asked):
                if asked.is_durable and known.holder != client.holder:
                    self.quota.require(client.holder)
                self._drop(known)
                known = None
        if known is None:
            known = asked
            if known.is_durable:
                self.quota.require(client.holder)
                known.holder = client.holder
                self.quota.add(known.holder)
                if isinstance(source, Wildcard):
                    self.durable_wildcards.add(known)
            else:
                self.memory_quota.require(client.holder)
            self.named[known.key()] = known
            self._open(known, client, source, options)
        elif not known.is_durable and isinstance(source, Wildcard):
            self._require_its_topics(client, known)
        known.consumers += 1
        if known.is_no_local:
            for queue in known.all_queues():
                queue.feed.shunned = client.client_number
        return next(iter(known.queues.values())) if known.carrier is None else known.carrier

    def _require_its_topics(self, client: Client, subscription: NamedSubscription) -> None:
        """Raises: AccessDenied if the client may not read one of the topics of a shared subscription.

        Any of its consumers may get any of its messages.
        """
        access = self.access
        queue = subscription.queues[0]
        wildcard = self.wildcards.by_feed[queue.feed.number].wildcard
        for topic in self.destinations.matching(wildcard):
            if not access.is_open and access.may_all_read(queue, topic.name):
                access.require(client, "read", TOPIC, topic.name)

    def _open(
        self, subscription: NamedSubscription, client: Client, source: Topic | Wildcard, options: SubscribeOptions
    ) -> None:
        store = self.context.store
        if not subscription.is_durable:
            queue = self._memory_queue(client, source, subscription.selector_text)
            queue.feed.subscription = subscription
            subscription.roster.add(0, queue)
            self._attach(queue, source, False, client)
            self.cursors.begin_retroactive(queue, source, options)
        elif isinstance(source, Topic):
            self.cursors.open(subscription, source, options)
        else:
            carrier = store.open_destination(TOPIC, source.name)
            number = store.open_subscription(carrier, subscription.full_name(), subscription.description())
            subscription.carrier = self.cursors.queue(subscription, number, carrier, source.name)
            self._begin(CursorOpening(self, source, subscription, options), client)

    def open_cursor(self, subscription: NamedSubscription, topic: Topic, options: SubscribeOptions | None) -> None:
        """Let a durable wildcard take from a topic, unless it already does, or its owner may not read that topic.

        Messages that nobody may read would fill the address.  A topic beyond the owner's limit is counted as refused.
        """
        if not topic.is_logged or topic.destination_id in subscription.queues:
            return
        topics = self.durable_wildcards.topics
        if not topics.has_room(subscription.holder):
            topics.refused += 1
        elif self.access.may_keep_for(subscription.owner, TOPIC, topic.name):
            topics.add(subscription.holder)
            queue = self.cursors.open(subscription, topic, options)
            for observer in self.observers:
                observer.cursor_added(subscription, queue)

    def _memory_queue(self, client: Client, source: Topic | Wildcard, selector_text: str) -> Queue:
        if isinstance(source, Topic):
            number, settings = source.destination_id, source.settings
        else:
            number, settings = 0, self.destinations.addresses.settings_for(TOPIC, source.name)
        feed = MemorySubscription(self.feeds.number(), number, selector_of(selector_text), client.holder)
        self.memory_quota.add(client.holder)
        return self.destinations.reader_queue(number, source.kind, source.name, settings, False, feed)

    def _attach(self, queue: Queue, source: Topic | Wildcard, is_plain: bool, client: Client) -> None:
        if source.name.startswith(OWN_PREFIX):
            for observer in self.observers:
                observer.listener_added(source.name)
        if isinstance(source, Topic):
            source.add(queue, True, is_plain)
            return
        attached = Attached(source, queue, is_plain, client)
        self.wildcards.add(attached)
        self._begin(TopicAttachment(self, attached, client), client)

    def _begin(self, joins: TopicJoins, client: Client) -> None:
        joins.serial = self._next_join
        self._next_join += 1
        self.joins.append(joins)
        self.steps.begin_now(joins, client.client_number)

    def _drop(self, subscription: NamedSubscription) -> None:
        """End a named subscription without consumers.

        The record of a durable wildcard ends first: without it the cursors left by a stop end at the next start.
        """
        del self.named[subscription.key()]
        self.quota.give_back(subscription.holder)
        if subscription.carrier is not None:
            self.durable_wildcards.remove(subscription)
            self._close_cursors([subscription.carrier])
            self.steps.take_up(CursorClosing(self, subscription))
        else:
            assert subscription.is_durable, "one in memory ends with its last consumer"
            self._close_cursors(subscription.all_queues())
            for number in list(subscription.queues):
                subscription.roster.pop(number)  # a queue knows its subscription, too

    def close_some(self, subscription: NamedSubscription, count: int) -> None:
        """Close so many cursors of a durable wildcard that has ended, or all."""
        roster = subscription.roster
        some = [queue for number in list(islice(roster.members, count)) if (queue := roster.pop(number)) is not None]
        self._close_cursors(some)
        self.durable_wildcards.topics.give_back(subscription.holder, len(some))

    def _close_cursors(self, queues: list[Queue]) -> None:
        self.settlements.flush()
        for queue in queues:
            self.end(queue)
            self.context.store.close_destination(queue.destination_id)

    def end(self, queue: Queue) -> None:
        """Discard a subscription's queue and all that waits in it."""
        feed = queue.feed
        queue.is_closed = True
        destinations = self.destinations
        destinations.readers.remove(queue)
        if isinstance(feed, MemorySubscription):
            self.memory_quota.give_back(feed.holder)
        attached = self.wildcards.pop(feed.number)
        topic = destinations.by_id.get(feed.source_id)
        if attached is not None:
            self._begin(TopicDetachment(self, attached, feed.number), attached.client)
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

    # -- after a start

    def _restore(self) -> None:
        """Restore the durable subscriptions in the store, each at its place."""
        destinations = self.destinations
        topics = {topic.destination_id: topic for topic in destinations.topics.values()}
        for state in self.context.store.recovered():
            if state.kind != SUBSCRIPTION:
                continue
            found = from_description(state.description)
            topic = topics.get(state.topic_id)
            known = self.named.get(found.key())
            if topic is not None and found.wildcard is not None and (known is None or known.carrier is None):
                self.context.store.close_destination(state.destination_id)  # a stop came while its wildcard ended
                continue
            subscription = self.named.setdefault(found.key(), found)
            if subscription is found:
                found.holder = holder_of(found.owner)
                self.quota.add(found.holder)
                if found.wildcard is not None:
                    self.durable_wildcards.add(found)
            if topic is None:
                subscription.carrier = self.cursors.queue(
                    subscription, state.destination_id, state.topic_id, subscription.source
                )
                continue
            queue = self.cursors.queue(subscription, state.destination_id, state.topic_id, topic.name)
            self.cursors.take_up(queue, state)
            subscription.roster.add(state.topic_id, queue)
            if subscription.wildcard is not None:
                self.durable_wildcards.topics.add(subscription.holder)
            topic.add(queue, True, False)
        for subscription in self.durable_wildcards.subscriptions.values():
            # A stop may have come between a wildcard's record and those of its topics.
            if subscription.wildcard is not None:
                for one in destinations.matching(subscription.wildcard):
                    if isinstance(one, Topic):
                        self.open_cursor(subscription, one, None)
