"""Composition: builds every part of the engine, the lower rooms first, and gives each part what it uses."""

from __future__ import annotations

from config.matching import AddressMatcher
from config.permissions import PermissionMap
from engine.acceptance import Acceptance, TracedAcceptance
from engine.backlog.context import Context
from engine.backlog.memory_budget import MemoryBudget
from engine.backlog.spilled_blocks import SpilledBlocks
from engine.backlog.spiller import Spiller
from engine.broker_options import BrokerOptions
from engine.clients.connections import ClientIds, Connections
from engine.clients.consumer_registry import Subscribing
from engine.clients.naming import Naming
from engine.consumers.client import Client
from engine.consumers.permissions import Access
from engine.consumers.settlement_log import SettlementLog
from engine.consumers.turn_steps import Steps
from engine.consumers.unsettled_memory import UnsettledMemory
from engine.consumers.user_quota import Quotas
from engine.consumers.wakes import Rates
from engine.dispatch.delays import Delays
from engine.dispatch.dispatcher import Dispatcher
from engine.dispatch.message_times import MessageTimes
from engine.dispatch.message_traces import MessageTraces
from engine.dispatch.selective_dispatcher import SelectiveDispatcher
from engine.dispatch.timed_dispatcher import TimedDispatcher
from engine.dispatch.traced_dispatcher import TracedDispatcher
from engine.fate.dead_letter_move import DeadLetterMove
from engine.fate.dead_letters import DeadLetters
from engine.fate.expiry import Expiry
from engine.fate.expiry_sweep import Sweep
from engine.fate.redelivery import Redelivery
from engine.fate.relocation import Relocation
from engine.fate.spill_expiry import SpillSweep
from engine.features.advisories import Advisories
from engine.features.advisory_state import AdvisoryState
from engine.features.advisory_topics import AdvisoryTopics
from engine.features.broker_questions import Questions, Replies
from engine.features.duplicate_ids import DuplicateIds
from engine.features.last_settlements import LastSettlements
from engine.features.message_copies import MessageCopies
from engine.features.pause import Pauses
from engine.features.purge import Upkeep
from engine.features.retry import Retries
from engine.features.scheduler.management import Management
from engine.features.scheduler.owners import Owners
from engine.features.scheduler.scheduler import Scheduler
from engine.features.slow_consumers import SlowConsumers
from engine.features.statistics_plugin import Statistics
from engine.features.virtual_topics import VirtualTopics
from engine.features.why import Why
from engine.inspection import Inspector
from engine.limits.connection_memory import Holdings
from engine.limits.pending_memory import PendingMemory
from engine.limits.producer_gates import ProducerGates
from engine.ports.clock import Clock
from engine.ports.store import Store
from engine.ports.timers import Timers
from engine.ports.tracing import Tracing
from engine.selector.properties import PropertyReaders
from engine.sources.browser import Browsing
from engine.sources.entry_readers import Feeds
from engine.sources.log_replay import Replays
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.queue_ends import QueueEnds
from engine.sources.registry import Destinations
from engine.sources.topics.durable_subscriptions import NamedSubscriptions
from engine.sources.topics.durable_wildcards import DurableWildcards
from engine.sources.topics.subscription_cursors import DurableCursors
from engine.sources.topics.subscription_queues import SubscriptionQueues
from engine.sources.topics.topic_publication import TopicPublication
from engine.sources.topics.topic_subscriptions import Subscriptions
from engine.store_listener import StoreEvents
from engine.turn import Turn
from engine.xa.branches import Branches


class GroundParts:
    """What all parts build on: the outside world, the turn's steps, destinations and their limits.

    clients: the connections, by number.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        timers: Timers,
        addresses: AddressMatcher,
        memory: MemoryBudget,
        options: BrokerOptions,
    ) -> None:
        limits = options.user_limits
        readers = PropertyReaders(f"ID:{store.store_id()}-", f"ID:{store.store_id()}-{store.start_count()}-n")
        self.context = context = Context(store, clock, timers, memory, readers)
        self.observers: list[Observer] = []
        self.starved: dict[Queue, None] = {}
        self.clients: dict[int, Client] = {}
        self.steps = Steps(context)
        self.access = Access(options.permissions or PermissionMap(()))
        self.quotas = Quotas(limits)
        self.holdings = Holdings(options.connection_memory_bytes, context.agenda)
        self.spilled: SpilledBlocks | None = None
        self.spiller: Spiller | None = None
        if options.spill_space is not None:
            self.spilled = SpilledBlocks(options.spill_space, memory)
            self.spiller = Spiller(options.spill_space, memory, clock, timers, self.spilled)
        self.unsettled = UnsettledMemory(limits.unsettled_bytes, self.steps)
        self.pending_memory = PendingMemory(limits.pending_bytes, memory, self.spiller, self.steps, self.observers)
        self.producer_gates = ProducerGates(
            context, options.limits, limits, self.clients, self.observers, self.unsettled, self.pending_memory
        )
        self.destinations = Destinations(
            context,
            addresses,
            self.producer_gates.accounts,
            self.observers,
            options.destinations_max,
            options.temporary_destinations_max,
            self.spiller,
        )
        self.observers.append(self.quotas)


class DispatchParts:
    """Waiting messages, their consumers, and dispatch.  traces: their way, None where there is no tracer."""

    def __init__(self, ground: GroundParts, has_message_times: bool, tracing: Tracing | None) -> None:
        context, destinations, observers = ground.context, ground.destinations, ground.observers
        self.settlements = SettlementLog(context.store)
        self.feeds = Feeds(context.readers, self.settlements.waiting, ground.steps)
        self.ends = QueueEnds(ground.steps, ground.spilled, observers, ground.starved)
        self.publication = TopicPublication(
            context, self.feeds, ground.steps, ground.clients, ground.producer_gates.late_memory
        )
        quotas = ground.quotas
        self.durable_wildcards = DurableWildcards(
            destinations, ground.access, quotas.durable_wildcards, quotas.durable_wildcard_topics
        )
        queues = SubscriptionQueues(
            destinations, self.feeds, ground.access, quotas.subscriptions, self.ends, observers, self.publication.joins
        )
        named = NamedSubscriptions(
            context,
            destinations,
            ground.access,
            quotas.durable_subscriptions,
            self.durable_wildcards,
            DurableCursors(context, destinations, self.feeds),
            queues,
            self.settlements,
            observers,
        )
        self.subscriptions = Subscriptions(named, queues)
        self.replays = Replays(context, destinations, self.feeds, ground.starved)
        self.browsing = Browsing(context, destinations, self.feeds, self.replays, self.ends)
        rates = Rates(context.clock, context.timers, ground.steps)
        self.message_times: MessageTimes | None = None
        self.traces: MessageTraces | None = None
        if tracing is not None:
            self.traces = MessageTraces(context, tracing)
            observers.append(self.traces)
            self.message_times = MessageTimes(context)
            self.dispatcher: Dispatcher = TracedDispatcher(
                context, rates, self.settlements, observers, ground.steps, self.message_times, self.traces
            )
        elif has_message_times:
            self.message_times = MessageTimes(context)
            self.dispatcher = TimedDispatcher(
                context, rates, self.settlements, observers, ground.steps, self.message_times
            )
        else:
            self.dispatcher = Dispatcher(context, rates, self.settlements, observers, ground.steps)
        self.delays = Delays(context, observers)
        self.selective = SelectiveDispatcher(
            context, ground.steps, self.dispatcher, self.delays, ground.starved, observers
        )


class FateParts:
    """The fate of messages."""

    def __init__(self, ground: GroundParts, dispatch: DispatchParts, seed: int, expire_messages_period_ms: int) -> None:
        context, destinations, observers = ground.context, ground.destinations, ground.observers
        dispatcher, settlements = dispatch.dispatcher, dispatch.settlements
        relocation = Relocation(context, settlements, dispatch.publication)
        self.dead_letters = DeadLetters(dispatcher, DeadLetterMove(context, destinations, relocation, observers))
        self.redelivery = Redelivery(context, settlements, dispatch.selective, dispatch.delays, self.dead_letters, seed)
        parts = context, ground.producer_gates, dispatch.publication, self.dead_letters
        self.acceptance = Acceptance(*parts)
        if dispatch.traces is not None:
            self.redelivery.traces = dispatch.traces
            self.acceptance = TracedAcceptance(*parts, dispatch.traces)
        self.sweep = Sweep(context, dispatcher, dispatch.feeds)
        spill_sweep = None if ground.spiller is None else SpillSweep(dispatcher, ground.spiller, ground.steps)
        self.expiry = Expiry(
            context, destinations, dispatcher, ground.steps, self.sweep, spill_sweep, expire_messages_period_ms
        )


class ClientParts:
    """The connected clients.  by_number: the connections."""

    def __init__(self, ground: GroundParts, dispatch: DispatchParts, fates: FateParts) -> None:
        self.by_number = ground.clients
        self.subscribing = Subscribing(
            ground.context,
            ground.destinations,
            ground.access,
            ground.steps,
            ground.unsettled,
            dispatch.ends,
            dispatch.subscriptions,
            dispatch.browsing,
            dispatch.replays,
            dispatch.selective,
            fates.redelivery,
            dispatch.settlements,
            ground.observers,
        )
        self.client_ids = ClientIds()
        self.connections = Connections(
            self.by_number, self.client_ids, self.subscribing, ground.producer_gates, ground.quotas, ground.holdings
        )
        self.naming = Naming(
            ground.destinations, ground.access, ground.quotas, dispatch.durable_wildcards, ground.steps
        )


class FeatureParts:
    """Features that not every queue has and not every client asks for."""

    def __init__(
        self,
        ground: GroundParts,
        dispatch: DispatchParts,
        fates: FateParts,
        clients: ClientParts,
        options: BrokerOptions,
    ) -> None:
        context, destinations, observers = ground.context, ground.destinations, ground.observers
        producer_gates, acceptance, subscribing = ground.producer_gates, fates.acceptance, clients.subscribing
        advisory_topics = AdvisoryTopics(context, destinations, dispatch.subscriptions, acceptance, options.name)
        self.advisories = Advisories(
            context,
            destinations,
            dispatch.dispatcher,
            advisory_topics,
            options.has_advisories,
            AdvisoryState(destinations),
        )
        observers.append(self.advisories)
        self.questions = Questions()
        replies = Replies(context, clients.by_number, destinations, clients.naming, producer_gates, acceptance)
        topics = VirtualTopics(context, destinations, observers, options.virtual_topics)
        self.copies = MessageCopies(
            context, clients.by_number, clients.naming, self.questions, topics, options.copy_limits
        )
        observers.append(dispatch.replays)
        owners = Owners(ground.quotas.schedules, clients.by_number)
        self.scheduler = Scheduler(
            context, destinations, producer_gates, acceptance, self.copies, observers, options.schedule_limits, owners
        )
        self.duplicate_ids = DuplicateIds(context, options.duplicate_id_limits)
        self.management = Management(context, self.scheduler, destinations, ground.access, replies, self.questions)
        self.statistics = Statistics(context, destinations, ground.access, replies, self.questions, options.name)
        self.upkeep = Upkeep(
            context, destinations, clients.connections, subscribing, dispatch.settlements, dispatch.ends, self.scheduler
        )
        observers.append(self.upkeep)
        self.pauses = Pauses(destinations, clients.connections, ground.steps)
        self.slow_consumers = SlowConsumers(context, observers, ground.steps)
        self.last_settlements = LastSettlements(context, destinations.dirty_queues, clients.by_number, producer_gates)
        self.retries = Retries(context, destinations, clients.connections, subscribing, fates.redelivery)


def turn_of(ground: GroundParts, dispatch: DispatchParts, fates: FateParts, clients: ClientParts) -> Turn:
    return Turn(
        ground.context,
        clients.by_number,
        ground.holdings,
        ground.pending_memory,
        ground.destinations,
        dispatch.dispatcher,
        dispatch.selective,
        clients.subscribing,
        fates.dead_letters,
        dispatch.settlements,
        ground.producer_gates,
        ground.steps,
        ground.starved,
        dispatch.message_times,
    )


def inspector_of(
    ground: GroundParts,
    dispatch: DispatchParts,
    clients: ClientParts,
    features: FeatureParts,
    branches: Branches,
    store_events: StoreEvents,
    has_message_times: bool,
) -> Inspector:
    return Inspector(
        ground.context,
        ground.destinations,
        clients.by_number,
        ground.producer_gates,
        ground.holdings,
        ground.quotas,
        ground.unsettled,
        ground.pending_memory,
        ground.spilled,
        features.scheduler,
        features.duplicate_ids,
        branches,
        features.slow_consumers,
        clients.subscribing.pending_limits,
        store_events,
        features.advisories.announced,
        dispatch.message_times if has_message_times else None,
    )


def why_of(
    ground: GroundParts, dispatch: DispatchParts, clients: ClientParts, features: FeatureParts, turn: Turn
) -> Why:
    return Why(
        ground.context,
        clients.by_number,
        ground.destinations,
        ground.producer_gates,
        ground.pending_memory,
        turn.hand_overs,
        dispatch.delays,
        features.scheduler,
    )
