"""Subscriptions of topics: plain, named and wildcard ones, and which of them survive a restart.

A subscription's queue refers to its topic's messages.  A durable subscription settles them in the log under a number of
its own, so an idle one costs a cursor and no memory.  All others are in memory, under the budget.
Source: Jakarta Messaging 3.1, sections 8.3 and 4.11; docs/reference/destinations.md.
"""

from __future__ import annotations

from typing import Final

from engine.backlog.context import Context
from engine.backlog.spiller import may_spill
from engine.consumers.client import Client
from engine.consumers.quota import DurableQuota, holder_of
from engine.consumers.read_access import ReadAccess
from engine.consumers.settlement_log import SettlementLog
from engine.selector.evaluate import selector_of
from engine.sources.feed import MemorySubscription
from engine.sources.feeds import Feeds
from engine.sources.observer import Observer, Observers
from engine.sources.queue import Queue
from engine.sources.queue_ends import QueueEnds
from engine.sources.registry import Destinations
from engine.sources.topics.attached_wildcards import Attached, AttachedWildcards
from engine.sources.topics.durable_cursors import DurableCursors
from engine.sources.topics.named_subscription import NamedSubscription, asked_for, from_description
from engine.sources.topics.topic import Topic
from engine.sources.topics.topic_joins import CursorOpening, TopicAttachment, TopicDetachment, TopicJoins
from engine.values.destination import SUBSCRIPTION, TOPIC, is_topic
from engine.values.errors import InvalidOption, SubscriptionInUse, UnknownSubscription
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard

OWN_PREFIX: Final = "ActiveMQ."  # of names and wildcards that may be advisories


class Subscriptions(Observer):
    """named: by client id, name and whether it is durable.  wildcards: those in memory.

    joins: of wildcards that have not joined all topics yet.  cursors: the queues of durable subscriptions.
    """

    __slots__ = (
        "context",
        "destinations",
        "feeds",
        "access",
        "quota",
        "steps",
        "ends",
        "settlements",
        "observers",
        "named",
        "wildcards",
        "joins",
        "cursors",
    )

    def __init__(
        self,
        context: Context,
        destinations: Destinations,
        feeds: Feeds,
        access: ReadAccess,
        quota: DurableQuota,
        ends: QueueEnds,
        settlements: SettlementLog,
        observers: Observers,
        joins: list[TopicJoins],
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.feeds = feeds
        self.access = access
        self.quota = quota
        self.steps = ends.steps
        self.ends = ends
        self.settlements = settlements
        self.observers = observers
        self.named: dict[tuple[str, str, bool], NamedSubscription] = {}
        self.wildcards = AttachedWildcards()
        self.joins = joins
        self.cursors = DurableCursors(context, destinations, feeds)
        observers.join(self)
        self._restore()
        for topic in destinations.topics.values():
            if topic.account is not None:
                topic.account.see_durable(context.store)

    # -- subscribing

    def queues_for(self, client: Client, source: Topic | Wildcard, options: SubscribeOptions) -> list[Queue]:
        """Return the queues that a new consumer of ``source`` takes from; a durable wildcard has several.

        Raises: InvalidOption, InvalidSelector, SubscriptionInUse.
        """
        if options.is_durable or options.is_shared:
            return self._join_named(client, source, options)
        if options.subscription:
            raise InvalidOption(f"subscription {options.subscription[:200]!r} is neither durable nor shared")
        queue = self._memory_queue(source, options.selector)
        feed = queue.feed
        if options.is_no_local:
            feed.shunned = client.client_number
        self._attach(queue, source, not options.is_no_local, client)
        self._look_back(queue, source, options)
        return [queue]

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
            return True
        del self.named[subscription.key()]
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
            subscription.require_owner(client.user)
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
            if self._may_all_read(one.queue, destination.name):
                destination.add(one.queue, False, one.is_plain)
        for subscription in self.named.values():
            wildcard = subscription.wildcard
            if wildcard is not None and subscription.is_durable and wildcard.matches(destination.name):
                self.open_cursor(subscription, destination, None)

    def destination_removed(self, destination: Queue | Topic) -> None:
        if isinstance(destination, Topic):
            for queue in destination.subscriptions.values():
                if isinstance(queue.feed.subscription, NamedSubscription):
                    queue.feed.subscription.queues.pop(destination.destination_id, None)

    # -- the steps

    def _join_named(self, client: Client, source: Topic | Wildcard, options: SubscribeOptions) -> list[Queue]:
        asked = asked_for(client, source, options)
        known = self.named.get(asked.key())
        quota = self.quota
        if known is None and asked.is_durable:
            asked.require_names()
        if asked.is_durable and isinstance(source, Wildcard) and (known is None or not known.is_like(asked)):
            self._require_few(source)
        if known is not None:
            known.require_joinable(asked, client.user)
            if not known.is_like(asked):
                if asked.is_durable and known.holder != client.holder:
                    quota.require(client.holder)
                self._drop(known)
                known = None
        if known is not None and not known.is_durable and isinstance(source, Wildcard):
            self._require_its_topics(client, known)
        if known is None:
            known = asked
            if known.is_durable:
                quota.require(client.holder)
                known.holder = client.holder
                quota.add(known.holder)
            self.named[known.key()] = known
            self._open(known, client, source, options)
        known.consumers += 1
        queues = list(known.queues.values()) if known.carrier is None else [known.carrier, *known.queues.values()]
        if known.is_no_local:
            for queue in queues:
                queue.feed.shunned = client.client_number
        return queues

    def _require_few(self, wildcard: Wildcard) -> None:
        """Raises: LimitReached for a durable subscription to a wildcard that matches too many topics."""
        destinations = self.destinations
        most = self.quota.wildcard_topics
        if 0 <= most < len(destinations.topics):  # fewer topics exist otherwise
            self.quota.require_topics(wildcard, len(destinations.matching(wildcard)))

    def _may_all_read(self, queue: Queue, name: str) -> bool:
        """Say whether every consumer of a queue that many topics feed may read the topic ``name``."""
        access = self.access
        return access.is_open or all(
            access.allows(consumer.client, "read", TOPIC, name) for consumer in queue.consumers.values()
        )

    def _require_its_topics(self, client: Client, subscription: NamedSubscription) -> None:
        """Raises: AccessDenied if the client may not read one of the topics of a shared subscription.

        Any of its consumers may get any of its messages.
        """
        access = self.access
        queue = subscription.queues[0]
        wildcard = self.wildcards.by_feed[queue.feed.number].wildcard
        for topic in self.destinations.matching(wildcard):
            if not access.is_open and self._may_all_read(queue, topic.name):
                access.require(client, "read", TOPIC, topic.name)

    def _open(
        self, subscription: NamedSubscription, client: Client, source: Topic | Wildcard, options: SubscribeOptions
    ) -> None:
        store = self.context.store
        if not subscription.is_durable:
            queue = self._memory_queue(source, subscription.selector_text)
            queue.feed.subscription = subscription
            subscription.queues[0] = queue
            self._attach(queue, source, False, client)
            self._look_back(queue, source, options)
        elif isinstance(source, Topic):
            self.cursors.open(subscription, source, options)
        else:
            carrier = store.open_destination(TOPIC, source.name)
            number = store.open_subscription(carrier, subscription.full_name(), subscription.description())
            subscription.carrier = self.cursors.queue(subscription, number, carrier, source.name)
            self._begin(CursorOpening(self, source, subscription, list(self.destinations.topics.values()), options))

    def open_cursor(self, subscription: NamedSubscription, topic: Topic, options: SubscribeOptions | None) -> None:
        """Let a durable wildcard take from a topic, unless it already does, or its owner may not read that topic.

        Messages that nobody may read would fill the address.
        """
        if not topic.is_logged or topic.destination_id in subscription.queues:
            return
        if self.access.may_keep_for(subscription.owner, TOPIC, topic.name):
            self.observers.cursor_added(subscription, self.cursors.open(subscription, topic, options))

    def _memory_queue(self, source: Topic | Wildcard, selector_text: str) -> Queue:
        destinations = self.destinations
        if isinstance(source, Topic):
            number, settings = source.destination_id, source.settings
        else:
            number, settings = 0, destinations.addresses.settings_for(TOPIC, source.name)
        selector = selector_of(selector_text)
        feed = MemorySubscription(self.feeds.number(), number, selector)
        queue = Queue(
            number, source.kind, source.name, settings, False, destinations.dirty_queues, self.context.memory, feed
        )
        if may_spill(queue):
            queue.spiller = destinations.spiller
        destinations.readers.add(queue)
        return queue

    def _attach(self, queue: Queue, source: Topic | Wildcard, is_plain: bool, client: Client) -> None:
        if source.name.startswith(OWN_PREFIX):
            self.observers.listener_added(source.name)
        if isinstance(source, Topic):
            source.add(queue, True, is_plain)
            return
        attached = Attached(source, queue, is_plain)
        self.wildcards.add(attached)
        self._begin(TopicAttachment(self, attached, list(self.destinations.topics.values()), client))

    def _begin(self, joins: TopicJoins) -> None:
        """Do as much as this turn allows, and leave the rest to the next ones."""
        self.joins.append(joins)
        if not joins.go_on(self.steps):
            self.steps.begin(joins)

    def _look_back(self, queue: Queue, source: Topic | Wildcard, options: SubscribeOptions) -> None:
        """Let a subscription in memory begin with its topic's recent messages."""
        if isinstance(source, Wildcard):
            return
        starts = self.cursors.starts(source, options)
        if not starts:
            return
        time_ms = source.settings.retroactive.recovery_time_ms
        if time_ms >= 0:
            queue.feed.since_ms = self.context.store_time_ms - time_ms
        for found in self.context.store.state_of(source.destination_id).lanes:
            start = starts.get(found.priority, found.tail)
            if start < found.tail:
                queue.lane(found.priority).restore(found.tail, start, [], {})

    def _drop(self, subscription: NamedSubscription) -> None:
        """End a named subscription without consumers."""
        self.settlements.flush()
        del self.named[subscription.key()]
        self.quota.give_back(subscription.holder)
        for queue in subscription.all_queues():
            self.end(queue)
            if subscription.is_durable:
                self.context.store.close_destination(queue.destination_id)

    def end(self, queue: Queue) -> None:
        """Discard a subscription's queue and all that waits in it."""
        feed = queue.feed
        queue.is_closed = True
        destinations = self.destinations
        destinations.readers.remove(queue)
        attached = self.wildcards.pop(feed.number)
        topic = destinations.by_id.get(feed.source_id)
        if attached is not None:
            self._begin(TopicDetachment(self, attached, list(destinations.topics.values()), feed.number))
        elif isinstance(topic, Topic):
            topic.remove(feed.number)
            if not topic.is_logged and topic.kind == TOPIC and not topic.subscriptions:
                self.observers.topic_unused(topic)
        if not queue.is_logged and not feed.is_browser and queue.name.startswith(OWN_PREFIX) and is_topic(queue.kind):
            self.observers.listener_removed(queue.name)
        self.ends.let_go(queue)

    # -- after a start

    def _restore(self) -> None:
        """Restore the durable subscriptions in the store, each at its place."""
        destinations = self.destinations
        topics = {topic.destination_id: topic for topic in destinations.topics.values()}
        for state in self.context.store.recovered():
            if state.kind != SUBSCRIPTION:
                continue
            found = from_description(state.description)
            subscription = self.named.setdefault(found.key(), found)
            if subscription is found:
                found.holder = holder_of(found.owner)
                self.quota.add(found.holder)
            topic = topics.get(state.topic_id)
            if topic is None:
                subscription.carrier = self.cursors.queue(
                    subscription, state.destination_id, state.topic_id, subscription.source
                )
                continue
            queue = self.cursors.queue(subscription, state.destination_id, state.topic_id, topic.name)
            self.cursors.take_up(queue, state)
            subscription.queues[state.topic_id] = queue
            topic.add(queue, True, False)
        for subscription in self.named.values():
            # A stop may have come between a wildcard's record and those of its topics.
            if subscription.wildcard is not None:
                for one in destinations.matching(subscription.wildcard):
                    if isinstance(one, Topic):
                        self.open_cursor(subscription, one, None)
