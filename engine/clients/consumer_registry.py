"""Adds and removes consumers: which queue each of them takes from, and what happens to messages it held."""

from __future__ import annotations

from itertools import islice

from config.matching import with_values
from engine.backlog.context import Context
from engine.clients.joins import Joins
from engine.clients.window_options import window_for
from engine.consumers.client import Client
from engine.consumers.composite_consumer import Siblings
from engine.consumers.consumer import AUTO, Consumer, consumer_of
from engine.consumers.consumer_owner import ConsumerOwner
from engine.consumers.departures import Departures
from engine.consumers.settlement_log import SettlementLog
from engine.consumers.turn_steps import Chore, Steps
from engine.consumers.unsettled_share import UnsettledShares
from engine.consumers.wakes import Wakes
from engine.consumers.window import Window
from engine.dispatch.selective_dispatcher import SelectiveDispatcher
from engine.fate.redelivery import Redelivery
from engine.limits.max_consumers import Places
from engine.limits.permissions import Access
from engine.selector.evaluate import selector_of
from engine.sources.browser import Browsing
from engine.sources.composite import CompositeSource, Source
from engine.sources.feed import MemorySubscription
from engine.sources.observer import Observer, Observers
from engine.sources.queue import Queue, queue_of
from engine.sources.queue_ends import QueueEnds
from engine.sources.registry import Destinations
from engine.sources.replay.log_replay import Replays
from engine.sources.replay.replay_start import check_replay
from engine.sources.topics.named_subscription import NamedSubscription
from engine.sources.topics.pending_message_limit import PendingLimits
from engine.sources.topics.topic import Topic
from engine.sources.topics.topic_subscriptions import Subscriptions
from engine.values.delivery import IN_FLIGHT, Delivery
from engine.values.destination import QUEUE, TOPIC, is_topic
from engine.values.errors import DestinationLocked, InvalidOption
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard


class Subscribing(Observer):
    """joinable: subscriptions to wildcards of queues, which new queues may join.

    places: at queues with a limit of consumers.
    of_durable: subscriptions to durable wildcards of topics, by the key of their named subscription.
    """

    __slots__ = (
        "context",
        "destinations",
        "access",
        "steps",
        "wakes",
        "shares",
        "subscriptions",
        "browsing",
        "replays",
        "selective",
        "redelivery",
        "settlements",
        "pending_limits",
        "observers",
        "departures",
        "joinable",
        "of_durable",
        "places",
        "_owner",
        "_next_consumer",
    )

    def __init__(
        self,
        context: Context,
        destinations: Destinations,
        access: Access,
        steps: Steps,
        shares: UnsettledShares,
        ends: QueueEnds,
        subscriptions: Subscriptions,
        browsing: Browsing,
        replays: Replays,
        selective: SelectiveDispatcher,
        redelivery: Redelivery,
        settlements: SettlementLog,
        observers: Observers,
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.access = access
        self.steps = steps
        self.wakes = Wakes(steps)
        self.shares = shares
        self.subscriptions = subscriptions
        self.browsing = browsing
        self.replays = replays
        self.selective = selective
        self.redelivery = redelivery
        self.settlements = settlements
        self.pending_limits = PendingLimits(context.memory, context.readers, observers)
        self.observers = observers
        self._owner = _Owner(self)
        self.departures = Departures(steps, destinations, ends, observers, self._owner)
        self.joinable: dict[Siblings, None] = {}
        self.of_durable: dict[tuple[str, str, bool], list[Siblings]] = {}
        self.places = Places(self.departures)
        self._next_consumer = 1
        observers.join(self)

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
        first = source.parts[0] if isinstance(source, CompositeSource) else source
        if isinstance(first, Wildcard):
            settings = self.destinations.addresses.settings_for(first.kind, first.name)
        else:
            settings = first.settings
        window = window_for(settings, options, is_topic(first.kind), options.ack_mode == AUTO)
        _check(source, options)
        if isinstance(source, Queue | Topic) and source.owner not in (0, client.client_number):
            raise DestinationLocked(f"{source.uri()} belongs to another connection, which alone may receive from it")
        if options.replay is not None:
            assert isinstance(source, Queue | Topic), "a replay reads one queue or topic"
            return self._add(client, self.replays.open(client, source, options, options.replay), options, window)
        if isinstance(source, Queue):
            queue = source
            if options.is_browser:
                queue = self.browsing.open(source, options.selector)
            else:
                self.places.require(source)
                queue = self._read_from(source, options)
            return self._add(client, queue, options, window)
        if isinstance(source, CompositeSource):
            return self._subscribe_to_several(client, source, options, window)
        if source.kind == QUEUE:
            assert isinstance(source, Wildcard), "several queues are named by a wildcard"
            return self._add_siblings(client, source, [source], None, [], options, window)
        queues = self._queues_for(client, source, options)
        if isinstance(source, Wildcard) and options.is_durable:
            subscription = queues[0].feed.subscription
            assert isinstance(subscription, NamedSubscription), "a durable subscription has a name"
            return self._add_siblings(client, source, [], subscription, queues, options, window)
        return self._add(client, queues[0], options, window)

    def unsubscribe(self, consumer: Consumer, is_lost: bool) -> None:
        """Close a consumer; what it held returns to its place, or is discarded with its subscription."""
        siblings = consumer.siblings
        if not isinstance(siblings, Siblings):
            self.close(consumer, is_lost, True)
            return
        if siblings.is_closed:
            if not consumer.is_closed:
                self.close(consumer, is_lost, False)
            return
        holders = siblings.close()
        self.joinable.pop(siblings, None)
        self.places.leave(siblings)
        if siblings.subscription is not None:
            key = siblings.subscription.key()
            self.of_durable[key].remove(siblings)
            if not self.of_durable[key]:
                del self.of_durable[key]
        for one in [*holders, consumer]:  # the consumer may hold nothing, and is then closed at once
            if not one.is_closed:
                self.close(one, is_lost, one is siblings.lead)
        left = [one for one in siblings.members if not one.is_closed and one.departure is None]
        self.departures.part(left, is_lost)

    def give_back_some(self, consumer: Consumer, count: int, is_lost: bool) -> bool:
        """Let a leaving consumer return the first ``count`` messages it holds; say whether there were any."""
        in_flight = (one for one in consumer.ledger.values() if one.state == IN_FLIGHT)  # not what a transaction holds
        some = list(islice(in_flight, count))
        if not some:
            return False
        if consumer.siblings is None:
            consumer.looked_at = consumer.looked_at_tag()
        else:
            consumer.siblings.look_back()
        for delivery in some:
            del consumer.ledger[delivery.tag]
        siblings = consumer.siblings
        by_holder: dict[Consumer, list[Delivery]] = {}
        if siblings is None:
            by_holder[consumer] = some
        else:
            for delivery in some:
                by_holder.setdefault(consumer_of(delivery), []).append(delivery)
        for holder, held in by_holder.items():
            feed = holder.queue.feed
            if feed.is_own or feed.subscription is not None:
                self.redelivery.give_back(holder, held, is_lost, holder.looked_at_tag())
            else:
                holder.queue.in_flight_count -= len(held)
                holder.queue.depth -= len(held)
                _let_go(held)
        return True

    def delete_subscription(self, client: Client, client_id: str, name: str, is_durable: bool = True) -> None:
        """End a named subscription.  Raises: AccessDenied, UnknownSubscription, SubscriptionInUse."""
        known = self.subscriptions.find(client, client_id, name, is_durable)
        if known is not None:
            self.access.require(client, "unsubscribe", known.kind, known.source)
        self._make_way(client_id, name, is_durable)
        self.subscriptions.delete(client_id, name, is_durable)

    def cursor_added(self, subscription: NamedSubscription, queue: Queue) -> None:
        several = self.of_durable.get(subscription.key())
        if several is not None:
            self._begin(Joins(self._owner, several[:], [queue], False))

    def destination_added(self, destination: Queue | Topic) -> None:
        if destination.kind != QUEUE or not isinstance(destination, Queue):
            return
        if self.joinable:
            self._begin(Joins(self._owner, list(self.joinable), [destination], True))

    def destination_removed(self, destination: Queue | Topic) -> None:
        self.places.remove(destination.destination_id)

    def join_one(self, siblings: Siblings, queue: Queue) -> None:
        """Let a subscription to several destinations take from one more queue."""
        lead = siblings.lead
        if queue.is_closed:
            return
        if siblings.is_closed or lead.departure is not None:
            if not queue.feed.is_own and queue.feed.subscription is None:
                self.subscriptions.end(queue)  # it was made for this consumer alone
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

    def _queues_for(self, client: Client, source: Topic | Wildcard, options: SubscribeOptions) -> list[Queue]:
        """Return the queues of a subscription, after leaving consumers have left; it may end with them."""
        if options.subscription:
            client_id = "" if options.is_global else client.describe().get("client_id", "")
            self._make_way(client_id, options.subscription, options.is_durable)
        return self.subscriptions.queues_for(client, source, options)

    def _make_way(self, client_id: str, name: str, is_durable: bool) -> None:
        for queue in self.subscriptions.queues_of(client_id, name, is_durable):
            self.departures.make_way(queue)

    def _begin(self, chore: Chore) -> None:
        """Do as much as this turn allows, and leave the rest to the next ones."""
        steps = self.steps
        if not chore.go_on(steps):
            steps.begin(chore)

    def _add(self, client: Client, queue: Queue, options: SubscribeOptions, window: Window) -> Consumer:
        selector = selector_of(options.selector)
        number = self._next_consumer
        self._next_consumer += 1
        consumer = Consumer(number, client, queue, options.ack_mode, window, options.name)
        if options.ack_mode != AUTO:
            self.shares.enter(client.holder, window)
        consumer.remarks = options.remarks
        if options.redelivery:
            consumer.redelivery = with_values(queue.settings.redelivery, options.redelivery)
        queue.consumers[number] = consumer
        client.consumers[number] = consumer
        client.is_holding = True
        self.observers.consumer_coming(consumer)
        feed = queue.feed
        if feed.is_browser:
            if options.is_browser:
                self.browsing.consumers.append(consumer)
                self.context.agenda.is_open = True
        elif queue.destination_id or not feed.is_own:  # the lead's own queue holds nothing
            # The queue of a subscription applies the selector to each message before its consumers see it.
            consumer.selector = selector if feed.is_own else None
            consumer.is_exclusive = options.is_exclusive
            consumer.owns_groups = not options.is_taking
            if queue.settings.queue.use_consumer_priority:
                consumer.priority = options.priority
            self.selective.added(consumer)
        if isinstance(feed, MemorySubscription) and feed.subscription is None:
            feed.pending = self.pending_limits.limit(queue, window, options.pending_limit)
        self.observers.consumer_added(consumer)
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
        for part in source.parts:
            if isinstance(part, Queue | Topic) and part.owner not in (0, client.client_number):
                raise DestinationLocked(f"{part.uri()} belongs to another connection, which alone may receive from it")
            if isinstance(part, Wildcard) and part.kind == QUEUE:
                wildcards.append(part)
            if isinstance(part, Queue):
                self.places.require(part)
        for part in source.parts:
            found: list[Queue] = []
            if isinstance(part, Queue):
                found = [part]
            elif isinstance(part, Topic) or part.kind == TOPIC:
                found = self._queues_for(client, part, options)
            queues += [queue for queue in found if queue not in queues]
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
        settings = destinations.addresses.settings_for(QUEUE, source.name)
        anchor = Queue(0, source.kind, source.name, settings, False, destinations.dirty_queues, self.context.memory)
        anchor.extras.has_choosy_settings = anchor.is_choosy = False  # it never holds anything
        if subscription is not None and subscription.carrier is not None:
            anchor = subscription.carrier
        lead = self._add(client, anchor, options, window)
        siblings = Siblings(lead, wildcards, subscription, options, self.wakes)
        self._begin(Joins(self._owner, [siblings], [queue for queue in queues if queue is not anchor], False))
        if wildcards:
            self.joinable[siblings] = None
            self._begin(Joins(self._owner, [siblings], list(destinations.queues.values()), True))
        if subscription is not None:
            self.of_durable.setdefault(subscription.key(), []).append(siblings)
        return lead

    def close(self, consumer: Consumer, is_lost: bool, is_lead: bool) -> None:
        """Close one consumer.  is_lead: it represents its whole subscription."""
        queue = consumer.queue
        queue.unlist_one(consumer)
        queue.consumers.pop(consumer.consumer_id, None)
        consumer.client.consumers.pop(consumer.consumer_id, None)
        consumer.is_closed = True
        consumer.is_started = False
        if queue.feed.is_own or (not queue.feed.is_browser and self.subscriptions.leave(queue, is_lead)):
            self.redelivery.consumer_gone(consumer, is_lost)
        else:
            if queue.feed.is_browser:
                self.browsing.close(consumer)
            _let_go([one for one in consumer.take_held() if one.state == IN_FLIGHT])
        self.shares.leave(consumer)
        self.selective.removed(consumer)
        if queue.extras.keeper is not None:
            queue.extras.keeper.wait()
        self.observers.consumer_removed(consumer)
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


class _Owner(ConsumerOwner):
    __slots__ = ("_subscribing",)

    def __init__(self, subscribing: Subscribing) -> None:
        self._subscribing = subscribing

    def unsubscribe(self, consumer: Consumer, is_lost: bool) -> None:
        self._subscribing.unsubscribe(consumer, is_lost)

    def give_back_some(self, consumer: Consumer, count: int, is_lost: bool) -> bool:
        return self._subscribing.give_back_some(consumer, count, is_lost)

    def join_one(self, siblings: Siblings, queue: Queue) -> None:
        self._subscribing.join_one(siblings, queue)


def _check(source: Source, options: SubscribeOptions) -> None:
    """Raises: InvalidOption for a contradiction between source and options."""
    if options.replay is not None:
        check_replay(source, options)
        return
    is_one_queue = isinstance(source, Queue)
    if options.is_browser and not is_one_queue:
        raise InvalidOption(f"{source.uri()} cannot be browsed; a browser looks at one queue")
    parts = source.parts if isinstance(source, CompositeSource) else [source]
    for part in parts:
        if options.is_retroactive and isinstance(part, Wildcard) and part.kind == TOPIC:
            raise InvalidOption(f"{part.uri()} is many topics; retroactive is for a subscription to one")
    if not (options.is_durable or options.is_shared or options.subscription):
        return
    if isinstance(source, CompositeSource):
        raise InvalidOption(f"{source.uri()} is several destinations; a named subscription has one topic or wildcard")
    if source.kind == QUEUE or is_one_queue:
        raise InvalidOption(f"{source.uri()} is a queue; durable and shared subscriptions are for topics")


def _let_go(held: list[Delivery]) -> None:
    """Subtract what a consumer held from the memory budget, if its subscription ends with it."""
    for delivery in held:
        queue = queue_of(delivery.lane)
        if queue.selection is not None:
            queue.selection.left(delivery)
        queue.release(delivery.message)
