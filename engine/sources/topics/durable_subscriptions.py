"""Durable and shared subscriptions: opened, joined by consumers, ended, and restored after a start.

A client finds its subscription again by its name.  A durable one settles its topic's messages in the log under a number
of its own (subscription_cursors.py), so an idle one costs a cursor and no memory.
Source: Jakarta Messaging 3.1, section 8.3; docs/reference/destinations.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from engine.backlog.context import Context
from engine.consumers.client import Client
from engine.consumers.permissions import Access
from engine.consumers.settlement_log import SettlementLog
from engine.consumers.user_quota import Quota, holder_of
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.sources.topics.durable_wildcards import DurableWildcards
from engine.sources.topics.named_subscription import NamedSubscription, asked_for, from_description
from engine.sources.topics.subscription_cursors import DurableCursors
from engine.sources.topics.subscription_queues import SubscriptionQueues
from engine.sources.topics.topic import Topic
from engine.sources.topics.wildcard_joins import CursorClosing, CursorOpening
from engine.values.destination import SUBSCRIPTION, TOPIC
from engine.values.errors import SubscriptionInUse, UnknownSubscription
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard


@dataclass(slots=True, eq=False)
class NamedSubscriptions:
    """by_key: by client id, name and whether it is durable.

    quota: of durable ones.  cursors: their queues.  queues: of shared ones in memory.
    """

    context: Context
    destinations: Destinations
    access: Access
    quota: Quota
    durable_wildcards: DurableWildcards
    cursors: DurableCursors
    queues: SubscriptionQueues
    settlements: SettlementLog
    observers: list[Observer]
    by_key: dict[tuple[str, str, bool], NamedSubscription] = field(default_factory=dict)

    def join(self, client: Client, source: Topic | Wildcard, options: SubscribeOptions) -> Queue:
        asked = asked_for(client, source, options)
        known = self.by_key.get(asked.key())
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
                self.queues.quota.require(client.holder)
            self.by_key[known.key()] = known
            self._open(known, client, source, options)
        elif isinstance(source, Wildcard) and not known.is_durable:
            self._require_its_topics(client, known)
        elif isinstance(source, Wildcard) and not self.access.is_open:
            # Topics that its owner may read since, or that were made while the groups of its owner were unknown.
            self.queues.begin(CursorOpening(self, source, known, None), client)
        known.consumers += 1
        if known.is_no_local:
            for queue in known.all_queues():
                queue.feed.shunned = client.client_number
        return next(iter(known.queues.values())) if known.carrier is None else known.carrier

    def queues_of(self, client_id: str, name: str, is_durable: bool) -> list[Queue]:
        """Return the queues of a named subscription if it has consumers."""
        subscription = self.by_key.get((client_id, name, is_durable))
        if subscription is None or not subscription.consumers:
            return []
        return subscription.all_queues()

    def find(self, client: Client, client_id: str, name: str, is_durable: bool = True) -> NamedSubscription | None:
        """Return a named subscription, None if there is none.  Raises: AccessDenied if it belongs to another user."""
        subscription = self.by_key.get((client_id, name, is_durable))
        if subscription is not None:
            subscription.require_owner(client)
        return subscription

    def delete(self, client_id: str, name: str, is_durable: bool = True) -> None:
        """End a named subscription and discard what waits for it.  Raises: UnknownSubscription, SubscriptionInUse."""
        subscription = self.by_key.get((client_id, name, is_durable))
        if subscription is None:
            raise UnknownSubscription(f"there is no subscription {name[:200]!r} of client id {client_id[:200]!r}")
        if subscription.consumers:
            raise SubscriptionInUse(
                f"subscription {subscription.full_name()[:200]!r} has {subscription.consumers} consumers; it can be "
                "deleted once they have closed"
            )
        self._drop(subscription)

    def _require_its_topics(self, client: Client, subscription: NamedSubscription) -> None:
        """Raises: AccessDenied if the client may not read one of the topics of a shared subscription.

        Any of its consumers may get any of its messages.
        """
        access = self.access
        queue = subscription.queues[0]
        wildcard = self.queues.wildcards.by_feed[queue.feed.number].wildcard
        for topic in self.destinations.matching(wildcard):
            if not access.is_open and access.may_all_read(queue, topic.name):
                access.require(client, "read", TOPIC, topic.name)

    def _open(
        self, subscription: NamedSubscription, client: Client, source: Topic | Wildcard, options: SubscribeOptions
    ) -> None:
        store = self.context.store
        if not subscription.is_durable:
            queue = self.queues.make(client, source, subscription.selector_text)
            queue.feed.subscription = subscription
            subscription.roster.add(0, queue)
            self.queues.attach(queue, source, False, client)
            self.cursors.begin_retroactive(queue, source, options)
        elif isinstance(source, Topic):
            self.cursors.open(subscription, source, options)
        else:
            carrier = store.open_destination(TOPIC, source.name)
            number = store.open_subscription(carrier, subscription.full_name(), subscription.description())
            subscription.carrier = self.cursors.queue(subscription, number, carrier, source.name)
            self.queues.begin(CursorOpening(self, source, subscription, options), client)

    def open_cursor(self, subscription: NamedSubscription, topic: Topic, options: SubscribeOptions | None) -> None:
        """Let a durable wildcard take from a topic, unless it already does, or its owner may not read that topic.

        Messages that nobody may read would fill the address.  A topic beyond the owner's limit is counted as refused.
        """
        if not topic.is_logged or topic.destination_id in subscription.queues:
            return
        if not self.access.may_keep_for(subscription.owner, topic.name):
            return
        topics = self.durable_wildcards.topics
        if not topics.has_room(subscription.holder):
            topics.refused += 1
        else:
            topics.add(subscription.holder)
            queue = self.cursors.open(subscription, topic, options)
            for observer in self.observers:
                observer.cursor_added(subscription, queue)

    def _drop(self, subscription: NamedSubscription) -> None:
        """End a named subscription without consumers.

        The record of a durable wildcard ends first: without it the cursors left by a stop end at the next start.
        """
        del self.by_key[subscription.key()]
        self.quota.give_back(subscription.holder)
        if subscription.carrier is not None:
            self.durable_wildcards.remove(subscription)
            self._close_cursors([subscription.carrier])
            self.queues.ends.steps.take_up(CursorClosing(self, subscription))
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
            self.queues.end(queue)
            self.context.store.close_destination(queue.destination_id)

    def restore(self) -> None:
        """Restore the durable subscriptions in the store, each at its place."""
        destinations = self.destinations
        topics = {topic.destination_id: topic for topic in destinations.topics.values()}
        for state in self.context.store.recovered():
            if state.kind != SUBSCRIPTION:
                continue
            found = from_description(state.description)
            topic = topics.get(state.topic_id)
            known = self.by_key.get(found.key())
            if topic is not None and found.wildcard is not None and (known is None or known.carrier is None):
                self.context.store.close_destination(state.destination_id)  # a stop came while its wildcard ended
                continue
            subscription = self.by_key.setdefault(found.key(), found)
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
