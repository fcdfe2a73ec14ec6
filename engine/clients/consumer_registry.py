"""Adds and removes consumers: which queue each of them takes from, and what happens to messages it held."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice, repeat, takewhile
from typing import Final

from config.matching import with_values
from engine.backlog.context import Context
from engine.clients.window_options import window_for
from engine.consumers.client import Client
from engine.consumers.composite_consumer import ConsumerOwner, Joins, Siblings
from engine.consumers.consumer import AUTO, Consumer, consumer_of
from engine.consumers.departures import Departures
from engine.consumers.permissions import Access
from engine.consumers.prefetch_window import Window
from engine.consumers.settlement_log import SettlementLog
from engine.consumers.turn_steps import Steps
from engine.consumers.unsettled_memory import UnsettledMemory
from engine.consumers.wakes import Wakes
from engine.dispatch.selective_dispatcher import SelectiveDispatcher
from engine.fate.redelivery import Redelivery
from engine.limits.max_consumers import Places
from engine.selector.evaluate import selector_of
from engine.sources.browser import Browsing
from engine.sources.composite import CompositeSource, Source, check_options, settings_of
from engine.sources.feed import MemorySubscription
from engine.sources.log_replay import Replays
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.queue_ends import QueueEnds
from engine.sources.registry import Destinations
from engine.sources.roster import Roster
from engine.sources.topics.named_subscription import NamedSubscription
from engine.sources.topics.pending_message_limit import PendingLimits
from engine.sources.topics.topic import Topic
from engine.sources.topics.topic_subscriptions import Subscriptions
from engine.values.delivery import IN_FLIGHT, Delivery
from engine.values.destination import QUEUE, TOPIC, is_topic
from engine.values.errors import DestinationLocked
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard

MEMBERS_A_STEP: Final = 20  # of a subscription that ends, as its furthest acknowledged tag is looked for


@dataclass(slots=True, eq=False)
class Subscribing(ConsumerOwner):
    """joinable: subscriptions to wildcards of queues, which new queues may join, by the number of their lead.

    places: at queues with a limit of consumers.
    of_durable: subscriptions to durable wildcards of topics, by the key of their named subscription and their lead.
    """

    context: Context
    destinations: Destinations
    access: Access
    steps: Steps
    unsettled: UnsettledMemory
    ends: QueueEnds
    subscriptions: Subscriptions
    browsing: Browsing
    replays: Replays
    selective: SelectiveDispatcher
    redelivery: Redelivery
    settlements: SettlementLog
    observers: list[Observer]
    wakes: Wakes = field(init=False)
    pending_limits: PendingLimits = field(init=False)
    departures: Departures = field(init=False)
    joinable: Roster[int, Siblings] = field(default_factory=lambda: Roster({}))
    of_durable: dict[tuple[str, str, bool], Roster[int, Siblings]] = field(default_factory=dict)
    places: Places = field(init=False)
    _next_consumer: int = 1

    def __post_init__(self) -> None:
        self.wakes = Wakes(self.steps)
        self.pending_limits = PendingLimits(self.context.memory, self.context.readers, self.observers, self.steps)
        self.departures = Departures(self.steps, self.destinations, self.ends, self.observers, self)
        self.places = Places(self.departures)
        self.observers.append(self)

    def subscribe(self, client: Client, source: Source, options: SubscribeOptions) -> Consumer:
        """Add a consumer; it takes its first turn once ``start`` has been called for it.

        Raises: InvalidOption for a prefetch below 0, or for 0 with automatic acknowledgement, where nothing would ever
        request the next message; AccessDenied; and what ``subscribe_own`` raises.
        """
        if not self.access.is_open:
            self.access.require_use(client, source, options)
        return self.subscribe_own(client, source, options)

    def subscribe_own(self, client: Client, source: Source, options: SubscribeOptions) -> Consumer:
        """Do the same for the broker's own work, which needs no permission.

        Return the new consumer; for several destinations, the lead.
        Raises: InvalidDestination, InvalidOption, InvalidSelector, LimitReached, SubscriptionInUse.
        """
        window = window_for(
            settings_of(source, self.destinations.addresses), options, is_topic(source.kind), options.ack_mode == AUTO
        )
        check_options(source, options)
        if isinstance(source, Queue | Topic) and source.owner not in (0, client.client_number):
            raise DestinationLocked(f"{source.uri()} belongs to another connection, which alone may receive from it")
        if options.replay is not None:
            assert isinstance(source, Queue | Topic), "a replay reads one queue or topic"
            return self._add(client, self.replays.open(client, source, options, options.replay), options, window)
        if isinstance(source, Queue):
            if options.is_browser:
                return self._add(client, self.browsing.open(source, options.selector), options, window)
            self.places.require(source)
            return self._add(client, self._read_from(source, options), options, window)
        if isinstance(source, CompositeSource):
            return self._subscribe_to_several(client, source, options, window)
        if source.kind == QUEUE:
            assert isinstance(source, Wildcard), "several queues are named by a wildcard"
            return self._add_siblings(client, source, [source], None, [], options, window)
        queue = self._queue_for(client, source, options)
        if isinstance(source, Wildcard) and options.is_durable:
            subscription = queue.feed.subscription
            assert isinstance(subscription, NamedSubscription), "a durable subscription has a name"
            return self._add_siblings(client, source, [], subscription, [], options, window)
        return self._add(client, queue, options, window)

    def unsubscribe(self, consumer: Consumer, is_lost: bool) -> None:
        siblings = consumer.siblings
        if not isinstance(siblings, Siblings):
            self.close(consumer, is_lost, True)
            return
        if siblings.is_closed:
            if not consumer.is_closed:
                self.close(consumer, is_lost, False)
            return
        self.steps.left -= len(siblings.members) // MEMBERS_A_STEP
        holders = siblings.close()
        number = siblings.lead.consumer_id
        self.joinable.pop(number)
        self.places.leave(siblings)
        if siblings.subscription is not None:
            key = siblings.subscription.key()
            self.of_durable[key].pop(number)
            if not self.of_durable[key].members:
                del self.of_durable[key]
        for one in [*holders, consumer]:  # the consumer may hold nothing, and is then closed at once
            if not one.is_closed:
                self.close(one, is_lost, one is siblings.lead)
        if consumer.departing() is None:
            self.departures.part(siblings.lead, siblings.members, is_lost)
        siblings.members = []
        siblings.lead.siblings = None

    def give_back_some(self, consumer: Consumer, count: int, is_lost: bool) -> bool:
        in_flight = (one for one in consumer.ledger.values() if one.state == IN_FLIGHT)  # not what a transaction holds
        some = list(islice(in_flight, count))
        if not some:
            return False
        if consumer.siblings is not None:
            consumer.siblings.note_seen()
        elif is_lost:
            consumer.looked_tag = consumer.seen_tag()
        by_holder: dict[Consumer, list[Delivery]] = {}
        for delivery in some:
            del consumer.ledger[delivery.tag]
            by_holder.setdefault(consumer_of(delivery), []).append(delivery)
        for holder, held in by_holder.items():
            feed = holder.queue.feed
            if feed.is_own or feed.subscription is not None:
                self.redelivery.give_back(holder, held, is_lost, holder.seen_tag())
            else:
                holder.queue.in_flight_count -= len(held)
                holder.queue.depth -= len(held)
                self.redelivery.drop(held)
        return True

    def delete_subscription(self, client: Client, client_id: str, name: str, is_durable: bool = True) -> None:
        """End a named subscription.  Raises: AccessDenied, UnknownSubscription, SubscriptionInUse."""
        known = self.subscriptions.named.find(client, client_id, name, is_durable)
        if known is not None:
            self.access.require(client, "unsubscribe", known.kind, known.source)
        self.end_subscription(client_id, name, is_durable)

    def end_subscription(self, client_id: str, name: str, is_durable: bool = True) -> None:
        """End a named subscription, whoever owns it.  Raises: UnknownSubscription, SubscriptionInUse."""
        self._make_way(client_id, name, is_durable)
        self.subscriptions.named.delete(client_id, name, is_durable)

    def durable_subscriptions(self) -> list[NamedSubscription]:
        """Return all durable subscriptions, those made first at the front."""
        return [one for one in self.subscriptions.named.by_key.values() if one.is_durable]

    def cursor_added(self, subscription: NamedSubscription, queue: Queue) -> None:
        several = self.of_durable.get(subscription.key())
        if several is not None:
            self.steps.begin_now(Joins(self, zip(several.walk(), repeat(queue), strict=False), False))

    def destination_added(self, destination: Queue | Topic) -> None:
        if self.joinable.members and destination.kind == QUEUE and isinstance(destination, Queue):
            self.steps.begin_now(Joins(self, zip(self.joinable.walk(), repeat(destination), strict=False), True))

    def destination_removed(self, destination: Queue | Topic) -> None:
        self.places.remove(destination.destination_id)

    def join_one(self, siblings: Siblings, queue: Queue) -> None:
        lead = siblings.lead
        if queue.is_closed:
            return
        if siblings.is_closed or lead.departing() is not None:
            if not queue.feed.is_own and queue.feed.subscription is None:
                self.subscriptions.queues.end(queue)  # it was made for this consumer alone
            return
        if not self.access.allows(lead.client, "read", queue.kind, queue.name):
            return
        if self.places.is_full(queue):
            self.places.wait(siblings, queue)
            return
        consumer = self._add(lead.client, self._read_from(queue, siblings.options), siblings.options, lead.window)
        siblings.add(consumer, queue)
        if lead.is_started:
            consumer.queue.start_consumer(consumer)

    # -- the steps

    def _queue_for(self, client: Client, source: Topic | Wildcard, options: SubscribeOptions) -> Queue:
        """Return the queue of a subscription, after leaving consumers have left; it may end with them."""
        if options.subscription:
            client_id = "" if options.is_global else client.describe().get("client_id", "")
            self._make_way(client_id, options.subscription, options.is_durable)
        return self.subscriptions.queue_for(client, source, options)

    def _make_way(self, client_id: str, name: str, is_durable: bool) -> None:
        for queue in self.subscriptions.named.queues_of(client_id, name, is_durable):
            self.departures.make_way(queue)

    def _add(self, client: Client, queue: Queue, options: SubscribeOptions, window: Window) -> Consumer:
        selector = selector_of(options.selector)
        number = self._next_consumer
        self._next_consumer += 1
        consumer = Consumer(number, client, queue, options.ack_mode, window, options.name)
        if options.ack_mode != AUTO:
            self.unsettled.enter(client.holder, window)
        consumer.remarks = options.remarks
        if options.redelivery:
            consumer.redelivery = with_values(queue.settings.redelivery, options.redelivery)
        queue.consumers[number] = consumer
        client.consumers[number] = consumer
        client.count_later()
        for observer in self.observers:
            observer.consumer_coming(consumer)
        feed = queue.feed
        if feed.is_browser:
            if options.is_browser:
                self.browsing.consumers.append(consumer)
            self.context.agenda.is_open = True  # what it shows takes memory, which a turn with an agenda looks at
        elif queue.destination_id or not feed.is_own:  # the lead's own queue holds nothing
            # The queue of a subscription applies the selector to each message before its consumers see it.
            consumer.selector = selector if feed.is_own else None
            consumer.is_exclusive = options.is_exclusive
            consumer.is_ruled = not options.is_taking
            if queue.settings.queue.use_consumer_priority:
                consumer.priority = options.priority
            self.selective.added(consumer)
        if isinstance(feed, MemorySubscription) and feed.subscription is None:
            feed.pending = self.pending_limits.limit(queue, window, options.pending_limit)
        for observer in self.observers:
            observer.consumer_added(consumer)
        return consumer

    def _read_from(self, queue: Queue, options: SubscribeOptions) -> Queue:
        """Return the queue that a consumer of ``queue`` takes from: a view, if the queue is non-destructive."""
        if queue.kind != QUEUE or not queue.settings.queue.non_destructive or options.is_taking:
            return queue
        return self.browsing.join(queue, options.selector)

    def _subscribe_to_several(
        self, client: Client, source: CompositeSource, options: SubscribeOptions, window: Window
    ) -> Consumer:
        queues: list[Queue] = []
        wildcards: list[Wildcard] = []
        topics: set[int] = set()
        for part in source.parts:
            if isinstance(part, Queue | Topic) and part.owner not in (0, client.client_number):
                raise DestinationLocked(f"{part.uri()} belongs to another connection, which alone may receive from it")
            if isinstance(part, Wildcard) and part.kind == QUEUE:
                wildcards.append(part)
            if isinstance(part, Queue):
                self.places.require(part)
            elif isinstance(part, Topic):
                topics.add(part.destination_id)
        topic_count = len([part for part in source.parts if is_topic(part.kind)])
        self.subscriptions.queues.quota.require(client.holder, topic_count)
        for part in source.parts:
            if isinstance(part, Queue):
                queues.append(part)
            elif isinstance(part, Topic) or part.kind == TOPIC:
                queues.append(self.subscriptions.queue_for(client, part, options, topics))
        return self._add_siblings(client, source, wildcards, None, queues, options, window)

    def _add_siblings(
        self,
        client: Client,
        source: Wildcard | CompositeSource,
        wildcards: list[Wildcard],
        subscription: NamedSubscription | None,
        queues: list[Queue],
        options: SubscribeOptions,
        window: Window,
    ) -> Consumer:
        destinations = self.destinations
        settings = settings_of(source, destinations.addresses)
        anchor = Queue(0, source.kind, source.name, settings, False, destinations.dirty_queues, self.context.memory)
        anchor.extras.has_choosy_settings = anchor.is_choosy = False  # it never holds anything
        if subscription is not None and subscription.carrier is not None:
            anchor = subscription.carrier
        lead = self._add(client, anchor, options, window)
        number = client.client_number
        siblings = Siblings(lead, wildcards, subscription, options, self.wakes)
        self.steps.begin_now(Joins(self, zip(repeat(siblings), queues, strict=False), False), number)
        while_present = takewhile(_is_present, repeat(siblings))
        if wildcards:
            self.joinable.add(lead.consumer_id, siblings)
            found = destinations.queue_roster.walk()
            self.steps.begin_now(Joins(self, zip(while_present, found, strict=False), True), number)
        if subscription is not None:
            self.of_durable.setdefault(subscription.key(), Roster({})).add(lead.consumer_id, siblings)
            cursors = subscription.roster.walk()
            self.steps.begin_now(Joins(self, zip(while_present, cursors, strict=False), False), number)
        return lead

    def close(self, consumer: Consumer, is_lost: bool, is_lead: bool) -> None:
        """Close one consumer.  is_lead: it represents its whole subscription."""
        queue = consumer.queue
        queue.unlist_one(consumer)
        queue.consumers.pop(consumer.consumer_id, None)
        consumer.client.consumers.pop(consumer.consumer_id, None)
        consumer.client.count_later()
        consumer.is_closed = True
        consumer.is_started = False
        if queue.feed.is_own or (not queue.feed.is_browser and self.subscriptions.leave(queue, is_lead)):
            self.redelivery.consumer_gone(consumer, is_lost)
        else:
            if queue.feed.is_browser:
                self.browsing.close(consumer)
            self.redelivery.drop([one for one in consumer.take_unsettled() if one.state == IN_FLIGHT])
        self.unsettled.leave(consumer)
        self.selective.removed(consumer)
        if queue.extras.keeper is not None:
            queue.extras.keeper.wait()
        for observer in self.observers:
            observer.consumer_removed(consumer)
        self.settlements.closed(consumer)
        if queue.settings.queue.max_consumers >= 0:
            self._fill_place(queue.destination_id)

    def _fill_place(self, number: int) -> None:
        """Give a place that a consumer has left to a waiting subscription; the consumer may have had a view."""
        queue = self.destinations.queues_by_id.get(number)
        while queue is not None:
            siblings = self.places.next(queue)
            if siblings is None:
                return
            self.join_one(siblings, queue)


def _is_present(siblings: Siblings) -> bool:
    return not siblings.is_closed
