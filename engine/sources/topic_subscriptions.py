"""Subscriptions of topics: plain, named and wildcard ones, and what they keep over a restart.

A subscription's queue refers to its topic's messages.  That of a durable one settles them in the log under a number of
its own, so that an idle one costs a cursor and no memory; all others live in memory, under the budget.
Source: Jakarta Messaging 3.1, sections 8.3 and 4.11; docs/reference/destinations.md.
"""

from __future__ import annotations

from typing import Final

from engine.backlog.context import Context
from engine.backlog.lane import Lane
from engine.backlog.memory import MemoryBudget
from engine.backlog.spiller import may_spill
from engine.consumers.client import Client
from engine.consumers.quota import DurableQuota, holder_of
from engine.consumers.read_access import ReadAccess
from engine.consumers.settlement_log import SettlementLog
from engine.selector.table import ASKED_AT_ONCE
from engine.sources.feeds import Feeds, selector_of
from engine.sources.named_subscription import NamedSubscription, from_description
from engine.sources.observer import Observer, Observers
from engine.sources.queue import Queue
from engine.sources.queue_ends import QueueEnds
from engine.sources.registry import Destinations
from engine.sources.subscription_feed import DurableCursor, MemorySubscription
from engine.sources.topic import Topic
from engine.sources.topic_joins import CursorOpening, TopicAttachment, TopicDetachment, TopicJoins
from engine.sources.topic_offers import OfferTaker, TopicOffers
from engine.values.destination import SUBSCRIPTION, TOPIC, is_topic
from engine.values.errors import InvalidOption, SubscriptionInUse, UnknownSubscription
from engine.values.message import DEAD_LETTER, Message
from engine.values.options import SubscribeOptions
from engine.values.stored import DestinationState
from engine.values.wildcard import Wildcard

OWN_PREFIX: Final = "ActiveMQ."  # of the names, and wildcards, that may be advisories


class Attached:
    """A queue that many topics feed: those that all its consumers may read."""

    __slots__ = ("wildcard", "queue", "is_plain")

    def __init__(self, wildcard: Wildcard, queue: Queue, is_plain: bool) -> None:
        self.wildcard = wildcard
        self.queue = queue
        self.is_plain = is_plain


class _OfferTaker(OfferTaker):
    __slots__ = ("_memory",)

    def __init__(self, memory: MemoryBudget) -> None:
        self._memory = memory

    def give(self, queue: Queue, message: Message) -> None:
        self._memory.hold(message)
        queue.enqueue(message)
        if queue.rotation:
            queue.mark_dirty()


class Subscriptions(Observer):
    """named: by client id, name and whether it is durable.  wildcards: by feed, those in memory.

    joins: of wildcards that have not come to all topics yet.
    unrouted: what has just been published and nobody takes, of topics that send it on.
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
        "unrouted",
        "_taker",
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
        self.wildcards: dict[int, Attached] = {}
        self.joins: list[TopicJoins] = []
        self.unrouted: list[tuple[Topic, Message]] = []
        self._taker = _OfferTaker(context.memory)
        observers.join(self)
        self._restore()
        for topic in destinations.topics.values():
            if topic.account is not None:
                topic.account.see_durable(context.store)

    # -- subscribing

    def queues_for(self, client: Client, source: Topic | Wildcard, options: SubscribeOptions) -> list[Queue]:
        """Return the queues that a new consumer of ``source`` takes from: several of a durable wildcard.

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
        """Say whether the queue of a consumer that has just gone stays; it ends here if it does not.

        is_lead: it stands for all consumers of its subscription to several topics, or is the only one.
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
        """Return the queues of a named subscription that has consumers."""
        subscription = self.named.get((client_id, name, is_durable))
        if subscription is None or not subscription.consumers:
            return []
        return subscription.all_queues()

    def find(self, client: Client, client_id: str, name: str, is_durable: bool = True) -> NamedSubscription | None:
        """Return a named subscription, None if there is none.  Raises: AccessDenied if it is another user's."""
        subscription = self.named.get((client_id, name, is_durable))
        if subscription is not None:
            subscription.require_owner(client.user)
        return subscription

    def delete(self, client_id: str, name: str, is_durable: bool = True) -> None:
        """End a named subscription and let go of what waits for it.  Raises: UnknownSubscription, SubscriptionInUse."""
        subscription = self.named.get((client_id, name, is_durable))
        if subscription is None:
            raise UnknownSubscription(f"there is no subscription {name[:200]!r} of client id {client_id[:200]!r}")
        if subscription.consumers:
            raise SubscriptionInUse(
                f"subscription {subscription.full_name()[:200]!r} has {subscription.consumers} consumers; it can be "
                "deleted once they have closed"
            )
        self._drop(subscription)

    # -- publishing

    def publish(self, topic: Topic, message: Message, sender: int) -> None:
        """Give a message to every subscription of its topic that takes it.  sender: client number, 0 for the broker."""
        topic.publish(message, self.context.memory)
        if topic.is_choosy:
            self.offer(topic, message, sender)

    def offer(self, topic: Topic, message: Message, sender: int) -> None:
        """Give a message to those subscriptions that look at it first; note it if nobody takes it and that matters."""
        if topic.is_sent_on and not message.flags & DEAD_LETTER and not self._is_taken(topic, message, sender):
            self.unrouted.append((topic, message))
        if not topic.choosy and not topic.selected:
            return
        if topic.selected:
            self._offers_of(topic).offer(message, self.steps)
        if topic.choosy:
            self._offer_to_choosy(topic, message, sender)
        if topic.account is not None and message.queue_offset >= 0:
            topic.account.see_durable(self.context.store)

    def _offers_of(self, topic: Topic) -> TopicOffers:
        if topic.offers is None:
            topic.offers = TopicOffers(topic, self._taker, self.context.readers, self.context.memory)
        return topic.offers

    def _offer_to_choosy(self, topic: Topic, message: Message, sender: int) -> None:
        properties = self.context.readers.properties(message, 1, False)
        for queue in topic.choosy.values():
            feed = queue.feed
            is_shunned = sender > 0 and feed.shunned == sender
            if feed.is_browser:
                feed.message_came(message, is_shunned)
                continue
            if queue.is_logged and message.queue_offset >= 0:
                lane = queue.lane(message.priority)
                is_next = lane.next_load == message.queue_offset
                # Whoever is behind looks at it when it comes to it, but for who sent it: the log does not say.
                if is_shunned or (is_next and feed.selector is not None and not feed.selector.matches(properties)):
                    lane.pass_by(message)
                    self.feeds.pass_by(queue, message)
                else:
                    self._give_logged(queue, lane, message)
            elif not is_shunned and (feed.selector is None or feed.selector.matches(properties)):
                self._taker.give(queue, message)
            if feed.selector is not None:
                self.steps.left -= feed.selector.last_cost()

    def join_now(self, topic: Topic) -> None:
        """Something is about to be published to ``topic``, which wildcards that are under way may not have come to."""
        for joins in self.joins:
            if joins.wildcard.matches(topic.name):
                joins.join_one(topic)

    def take_unrouted(self) -> list[tuple[Topic, Message]]:
        """Return what has been published and nobody takes, for somebody to send it on."""
        unrouted, self.unrouted = self.unrouted, []
        return unrouted

    def _is_taken(self, topic: Topic, message: Message, sender: int) -> bool:
        """Say whether a subscription or a queue has a message that is being published."""
        if topic.plain or topic.copies:
            return True
        properties = self.context.readers.properties(message, 1, False)
        selectors = topic.selectors
        found = selectors.matching(properties)
        while selectors.unasked and not found:
            found = selectors.ask(selectors.unasked, properties, ASKED_AT_ONCE)
        self.steps.left -= selectors.take_asked()
        if found:
            return True
        for queue in topic.choosy.values():
            feed = queue.feed
            if (
                not feed.is_browser
                and not (sender > 0 and feed.shunned == sender)
                and (feed.selector is None or feed.selector.matches(properties))
            ):
                return True
        return False

    def has_wildcard_for(self, name: str) -> bool:
        """Say whether a topic of this name would have subscriptions from wildcards."""
        return any(one.wildcard.matches(name) for one in self.wildcards.values())

    # -- destinations that come and go

    def destination_added(self, destination: Queue | Topic) -> None:
        if not isinstance(destination, Topic) or destination.kind != TOPIC:
            return
        for one in self.wildcards.values():
            if one.wildcard.matches(destination.name) and self._may_all_read(one.queue, destination.name):
                destination.add(one.queue, False, one.is_plain)
        for subscription in self.named.values():
            wildcard_of = subscription.wildcard
            if wildcard_of is None or not subscription.is_durable or not destination.is_logged:
                continue
            if wildcard_of.matches(destination.name) and self.may_keep(subscription, destination):
                queue = self.open_cursor(subscription, destination, None)
                self.observers.cursor_added(subscription, queue)

    def destination_removed(self, destination: Queue | Topic) -> None:
        if isinstance(destination, Topic):
            for subscription in self.named.values():
                subscription.queues.pop(destination.destination_id, None)

    # -- the steps

    def _join_named(self, client: Client, source: Topic | Wildcard, options: SubscribeOptions) -> list[Queue]:
        asked = self._asked(client, source, options)
        known = self.named.get(asked.key())
        quota = self.quota
        if asked.is_durable and isinstance(source, Wildcard) and (known is None or not known.is_like(asked)):
            self._require_few(source)
        if known is not None:
            if not (known.is_shared and asked.is_shared and known.is_like(asked)):
                known.require_owner(client.user)
            if known.is_shared != asked.is_shared:
                raise SubscriptionInUse(
                    f"subscription {known.full_name()[:200]!r} is {'' if known.is_shared else 'not '}shared; "
                    "another name, or deleting it first, makes room for one that is otherwise"
                )
            if known.consumers and not known.is_shared:
                raise SubscriptionInUse(
                    f"subscription {known.full_name()[:200]!r} has an active consumer, which is all that one may have "
                    "that is not shared"
                )
            if not known.is_like(asked):
                if known.consumers:
                    raise SubscriptionInUse(
                        f"subscription {known.full_name()[:200]!r} has consumers and takes from {known.uri()} with the "
                        f"selector {known.selector_text!r}; it can be changed once they have closed"
                    )
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
                self._count(known, client.holder)
            self.named[known.key()] = known
            self._open(known, client, source, options)
        known.consumers += 1
        queues = list(known.queues.values()) if known.carrier is None else [known.carrier, *known.queues.values()]
        if known.is_no_local:
            for queue in queues:
                queue.feed.shunned = client.client_number
        return queues

    def _require_few(self, wildcard: Wildcard) -> None:
        """Raises: LimitReached for a durable subscription that would begin with too many topics."""
        destinations = self.destinations
        most = self.quota.wildcard_topics
        if 0 <= most < len(destinations.topics):  # else there are too few to count
            self.quota.require_topics(wildcard, len(destinations.matching(wildcard)))

    def _count(self, subscription: NamedSubscription, holder: str) -> None:
        subscription.holder = holder
        self.quota.add(holder)

    def _may_all_read(self, queue: Queue, name: str) -> bool:
        """Say whether every consumer of a queue that many topics feed may read the topic ``name``."""
        access = self.access
        return access.is_open or all(
            access.allows(consumer.client, "read", TOPIC, name) for consumer in queue.consumers.values()
        )

    def _require_its_topics(self, client: Client, subscription: NamedSubscription) -> None:
        """Raises: AccessDenied for who may not read a topic that a shared subscription takes from: any message of it
        may come to any of its consumers.
        """
        access = self.access
        queue = subscription.queues[0]
        wildcard = self.wildcards[queue.feed.number].wildcard
        for topic in self.destinations.matching(wildcard):
            if not access.is_open and self._may_all_read(queue, topic.name):
                access.require(client, "read", TOPIC, topic.name)

    def _asked(self, client: Client, source: Topic | Wildcard, options: SubscribeOptions) -> NamedSubscription:
        client_id = "" if options.is_global else client.describe().get("client_id", "")
        if not options.subscription:
            raise InvalidOption("a durable or shared subscription needs a name")
        if options.is_durable and not options.is_shared and not client_id:
            raise InvalidOption(
                f"durable subscription {options.subscription[:200]!r} needs a client id: it belongs to it"
            )
        is_lasting = source.kind == TOPIC and not (isinstance(source, Topic) and not source.is_logged)
        if options.is_durable and not is_lasting:
            raise InvalidOption(f"{source.uri()} is in memory only; a durable subscription needs a lasting topic")
        if options.is_shared and options.is_no_local:
            raise InvalidOption("a shared subscription has no noLocal: its consumers are of several connections")
        return NamedSubscription(
            client_id,
            options.subscription,
            options.is_durable,
            options.is_shared,
            source.kind,
            source.name,
            options.selector,
            options.is_no_local,
            client.user if options.is_durable else "",
        )

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
            self.open_cursor(subscription, source, options)
        else:
            carrier = store.open_destination(TOPIC, source.name)
            number = store.open_subscription(carrier, subscription.full_name(), subscription.description())
            subscription.carrier = self._cursor_queue(subscription, number, carrier, source.name)
            self._begin(CursorOpening(self, source, subscription, list(self.destinations.topics.values()), options))

    def may_keep(self, subscription: NamedSubscription, topic: Topic) -> bool:
        """Say whether a wildcard keeps a topic's messages for its owner: what nobody reads would fill the address."""
        return self.access.may_keep_for(subscription.owner, TOPIC, topic.name)

    def open_cursor(self, subscription: NamedSubscription, topic: Topic, options: SubscribeOptions | None) -> Queue:
        """Begin a durable subscription to one topic, with what comes from now on or with what it looks back to."""
        store = self.context.store
        starts = {} if options is None else self._starts(topic, options)
        number = store.open_subscription(
            topic.destination_id, subscription.full_name(), subscription.description(), starts or None
        )
        queue = self._cursor_queue(subscription, number, topic.destination_id, topic.name)
        if subscription.carrier is not None:
            queue.feed.shunned = subscription.carrier.feed.shunned
        subscription.queues[topic.destination_id] = queue
        topic.add(queue, True, False)
        self._take_up(queue, store.state_of(number))
        return queue

    def _cursor_queue(self, subscription: NamedSubscription, number: int, topic_id: int, name: str) -> Queue:
        destinations = self.destinations
        queue = Queue(
            number,
            TOPIC,
            name,
            destinations.addresses.settings_for(TOPIC, name),
            True,
            destinations.dirty_queues,
            self.context.memory,
            DurableCursor(
                self.feeds.number(), topic_id, number, subscription.selector, subscription, subscription.full_name()
            ),
        )
        queue.extras.shares = destinations.shares
        if may_spill(queue):
            queue.spiller = destinations.spiller
        destinations.add_feed(queue)
        return queue

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
        destinations.add_feed(queue)
        return queue

    def _attach(self, queue: Queue, source: Topic | Wildcard, is_plain: bool, client: Client) -> None:
        if source.name.startswith(OWN_PREFIX):
            self.observers.listener_added(source.name)
        if isinstance(source, Topic):
            source.add(queue, True, is_plain)
            return
        attached = Attached(source, queue, is_plain)
        self.wildcards[queue.feed.number] = attached
        self._begin(TopicAttachment(self, attached, list(self.destinations.topics.values()), client))

    def _begin(self, joins: TopicJoins) -> None:
        """Do as much as this turn allows, and the rest in the next ones."""
        self.joins.append(joins)
        if not joins.go_on(self.steps):
            self.steps.begin(joins)

    def _look_back(self, queue: Queue, source: Topic | Wildcard, options: SubscribeOptions) -> None:
        """Let a subscription in memory begin with its topic's recent messages, before those that come."""
        if isinstance(source, Wildcard):
            return
        starts = self._starts(source, options)
        if not starts:
            return
        time_ms = source.settings.retroactive.recovery_time_ms
        if time_ms >= 0:
            queue.feed.since_ms = self.context.store_time_ms - time_ms
        for found in self.context.store.state_of(source.destination_id).lanes:
            start = starts.get(found.priority, found.tail)
            if start < found.tail:
                queue.lane(found.priority).restore(found.tail, start, [], {})

    def _starts(self, topic: Topic, options: SubscribeOptions) -> dict[int, int]:
        """Return from which entry on a new subscription has the past, by priority."""
        policy = topic.settings.retroactive
        count = policy.message_count
        if options.is_retroactive or policy.always:
            wanted = policy.recovery_message_count
            count = -1 if wanted < 0 else max(count, wanted)
        if count == 0 or not topic.is_logged:
            return {}
        lanes = self.context.store.state_of(topic.destination_id).lanes
        return {lane.priority: 0 if count < 0 else max(0, lane.tail - count) for lane in lanes}

    def _give_logged(self, queue: Queue, lane: Lane, message: Message) -> None:
        if queue.consumers:
            queue.enqueue(message)
            if queue.rotation:
                queue.mark_dirty()
        else:
            lane.add_behind(message)
            queue.depth += 1
            queue.enqueued_count += 1

    def _drop(self, subscription: NamedSubscription) -> None:
        """End a named subscription that nobody has now."""
        self.settlements.flush()
        del self.named[subscription.key()]
        self.quota.give_back(subscription.holder)
        queues = list(subscription.queues.values())
        if subscription.carrier is not None:
            queues.append(subscription.carrier)
        for queue in queues:
            self.end(queue)
            if subscription.is_durable:
                self.context.store.close_destination(queue.destination_id)

    def end(self, queue: Queue) -> None:
        """Let go of a subscription's queue and of all that waits in it."""
        feed = queue.feed
        queue.is_closed = True
        destinations = self.destinations
        destinations.remove_feed(queue)
        attached = self.wildcards.pop(feed.number, None)
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
        """Take up the durable subscriptions that the store has found, with where each of them was."""
        destinations = self.destinations
        topics = {topic.destination_id: topic for topic in destinations.topics.values()}
        for state in self.context.store.recovered():
            if state.kind != SUBSCRIPTION:
                continue
            found = from_description(state.description)
            subscription = self.named.setdefault(found.key(), found)
            if subscription is found:
                self._count(found, holder_of(found.owner))
            topic = topics.get(state.topic_id)
            if topic is None:
                subscription.carrier = self._cursor_queue(
                    subscription, state.destination_id, state.topic_id, subscription.source
                )
                continue
            queue = self._cursor_queue(subscription, state.destination_id, state.topic_id, topic.name)
            self._take_up(queue, state)
            subscription.queues[state.topic_id] = queue
            topic.add(queue, True, False)
        for subscription in self.named.values():
            # A stop may have come between a wildcard's record and those of its topics.
            if subscription.wildcard is not None:
                for one in destinations.matching(subscription.wildcard):
                    if not isinstance(one, Topic) or not one.is_logged or one.destination_id in subscription.queues:
                        continue
                    if self.may_keep(subscription, one):
                        self.open_cursor(subscription, one, None)

    def _take_up(self, queue: Queue, state: DestinationState) -> None:
        for found in state.lanes:
            lane = queue.lane(found.priority)
            queue.depth += lane.restore(found.tail, found.cursor, found.settled, found.attempts)
