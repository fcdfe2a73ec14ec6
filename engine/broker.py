"""The one door of the engine: inputs enter as method calls, deliveries and confirmations leave through ``Client``.

A turn is everything between two ``end_turn`` calls: what arrived is applied at once, dispatched at the end, appended
in one batch.  A confirmation may leave once ``confirmed_offset`` has passed the offset that ``end_turn`` returned.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from config.matching import AddressMatcher
from config.model import VirtualTopic
from config.permissions import PermissionMap
from engine.backlog.context import Context
from engine.backlog.memory import MemoryBudget
from engine.backlog.spiller import Spiller
from engine.clients.client_ids import ClientIds
from engine.clients.connections import Connections
from engine.clients.consumer_registry import Subscribing
from engine.clients.naming import Naming
from engine.commit import Commits
from engine.composite_send import CompositeSend
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer, consumer_of
from engine.consumers.outlet import Outlet
from engine.consumers.rate_limit import Rates
from engine.consumers.settlement_log import SettlementLog
from engine.consumers.turn_steps import Steps
from engine.dispatch.delays import Delays
from engine.dispatch.dispatcher import Dispatcher
from engine.dispatch.selective_dispatcher import SelectiveDispatcher
from engine.dispatch.settling import Settling
from engine.fate.acceptance import Acceptance
from engine.fate.dead_letters import DeadLetters
from engine.fate.expiry import EXPIRE_MESSAGES_PERIOD_MS, Expiry
from engine.fate.expiry_sweep import Sweep
from engine.fate.redelivery import Redelivery
from engine.fate.refusals import Refusals
from engine.fate.relocation import Relocation
from engine.fate.spill_expiry import SpillSweep
from engine.features.advisories import Advisories
from engine.features.broker_questions import Questions, Replies
from engine.features.message_copies import MessageCopies
from engine.features.purge import Upkeep
from engine.features.retry import Retries
from engine.features.scheduler.management import Management
from engine.features.scheduler.plan import ScheduleLimits
from engine.features.scheduler.scheduler import Scheduler
from engine.features.slow_consumers import SlowConsumers
from engine.features.statistics_plugin import Statistics
from engine.features.virtual_topics import VirtualTopics
from engine.features.why import Why
from engine.inspection import Inspector
from engine.limits.connection_memory import CONNECTION_MEMORY_BYTES, Holdings
from engine.limits.permissions import Access
from engine.limits.producer_gate import Flow, GlobalLimits
from engine.limits.user_quota import Quotas, UserLimits
from engine.ports.clock import Clock
from engine.ports.store import Store
from engine.ports.temp_store import SpillSpace
from engine.ports.timers import Timers
from engine.selector.readers import PropertyReaders
from engine.sources.browser import Browsing
from engine.sources.composite import Destination, Source, Target
from engine.sources.feed import Feeds
from engine.sources.log_replay import Replays
from engine.sources.observer import Observers
from engine.sources.queue import Queue
from engine.sources.queue_ends import QueueEnds
from engine.sources.registry import TEMPORARY_DESTINATIONS_MAX, Destinations
from engine.sources.topic import Topic
from engine.sources.topic_subscriptions import Subscriptions
from engine.store_listener import StoreEvents
from engine.transaction import Transaction
from engine.turn import Turn
from engine.values import gates
from engine.values.broker_stats import BrokerStats
from engine.values.delivery import Delivery
from engine.values.message import Message
from engine.values.options import SubscribeOptions
from engine.values.refusal import Refusal
from engine.values.wildcard import Wildcard

DESTINATIONS_MAX: Final = 100_000
DEFAULT_VIRTUAL_TOPICS: Final = (VirtualTopic(),)
NO_LIMITS: Final = GlobalLimits()
NO_USER_LIMITS: Final = UserLimits()
USUAL_SCHEDULE_LIMITS: Final = ScheduleLimits()


@mypyc_attr(allow_interpreted_subclasses=True)
class Broker:
    """All destinations, consumers and policies.  Owned by one thread.

    destinations_max: queues and topics together that clients may make.
    temporary_destinations_max: of these, temporary ones that one client may have.
    expire_messages_period_ms: between two looks for what has expired while nobody takes it.
    permissions: what groups may do; none at all means everybody everything.
    virtual_topics: which topics have copies of their messages made for queues.
    has_advisories, name: whether it tells of itself on ``ActiveMQ.Advisory.>``, and how it calls itself there.
    seed: of the random numbers (collision avoidance); same inputs and seed, same outputs.
    """

    __slots__ = (
        "context",
        "store",
        "memory",
        "holdings",
        "quotas",
        "spiller",
        "flow",
        "access",
        "destinations",
        "dispatcher",
        "settling",
        "settlements",
        "refusals",
        "expiry",
        "slow_consumers",
        "store_events",
        "scheduler",
        "management",
        "clients",
        "client_ids",
        "readers",
        "subscriptions",
        "subscribing",
        "connections",
        "naming",
        "acceptance",
        "commits",
        "composite_send",
        "advisories",
        "statistics",
        "upkeep",
        "retries",
        "inspector",
        "why",
        "steps",
        "turn",
    )

    def __init__(
        self,
        store: Store,
        clock: Clock,
        timers: Timers,
        addresses: AddressMatcher,
        memory_limit_bytes: int,
        seed: int = 1,
        destinations_max: int = DESTINATIONS_MAX,
        permissions: PermissionMap | None = None,
        limits: GlobalLimits = NO_LIMITS,
        virtual_topics: tuple[VirtualTopic, ...] = DEFAULT_VIRTUAL_TOPICS,
        has_advisories: bool = True,
        name: str = "Penstock",
        schedule_limits: ScheduleLimits = USUAL_SCHEDULE_LIMITS,
        spill_space: SpillSpace | None = None,
        temporary_destinations_max: int = TEMPORARY_DESTINATIONS_MAX,
        expire_messages_period_ms: int = EXPIRE_MESSAGES_PERIOD_MS,
        connection_memory_bytes: int = CONNECTION_MEMORY_BYTES,
        user_limits: UserLimits = NO_USER_LIMITS,
    ) -> None:
        memory = MemoryBudget(memory_limit_bytes)
        readers = PropertyReaders(f"ID:{store.store_id()}-", f"ID:{store.store_id()}-{store.start_count()}-n")
        context = Context(store, clock, timers, memory, readers)
        observers = Observers()
        starved: dict[Queue, None] = {}
        steps = Steps(clock, timers, context.agenda)
        access = Access(permissions or PermissionMap(()))
        quotas = Quotas(user_limits)
        holdings = Holdings(connection_memory_bytes, context.agenda)
        spiller = None if spill_space is None else Spiller(spill_space, memory, clock, timers)
        flow = Flow(context, limits, observers)
        destinations = Destinations(
            context, addresses, flow.accounts, observers, destinations_max, temporary_destinations_max, spiller
        )
        observers.join(quotas)
        # What waits, who takes it, and when.
        settlements = SettlementLog(store)
        feeds = Feeds(readers, settlements.waiting)
        ends = QueueEnds(steps, spiller, observers, starved)
        subscriptions = Subscriptions(context, destinations, feeds, access, quotas, ends, settlements, observers)
        replays = Replays(context, destinations, feeds, starved)
        browsing = Browsing(context, destinations, feeds, replays, ends)
        dispatcher = Dispatcher(context, Rates(clock, timers), settlements, observers)
        settling = Settling(dispatcher, memory)
        delays = Delays(context, observers)
        selective = SelectiveDispatcher(context, steps, dispatcher, delays, starved, observers)
        # What becomes of messages.
        relocation = Relocation(context, settlements, subscriptions)
        dead_letters = DeadLetters(context, destinations, dispatcher, relocation, observers)
        redelivery = Redelivery(context, settlements, selective, delays, dead_letters, seed)
        acceptance = Acceptance(context, flow, subscriptions, dead_letters)
        sweep = Sweep(context, dispatcher, feeds)
        spill_sweep = None if spiller is None else SpillSweep(dispatcher, spiller, steps)
        self.expiry = Expiry(context, destinations, dispatcher, steps, sweep, spill_sweep, expire_messages_period_ms)
        # Who is there.
        clients: dict[int, Client] = {}
        subscribing = Subscribing(
            context,
            destinations,
            access,
            steps,
            ends,
            subscriptions,
            browsing,
            replays,
            selective,
            redelivery,
            observers,
        )
        self.client_ids = ClientIds()
        connections = Connections(clients, self.client_ids, subscribing, flow, quotas, holdings)
        naming = Naming(destinations, access, quotas)
        # Features.
        advisories = Advisories(context, destinations, subscriptions, acceptance, has_advisories, name)
        observers.join(advisories)
        questions = Questions()
        replies = Replies(context, clients, destinations, naming, flow, acceptance)
        copies = MessageCopies(destinations, questions, VirtualTopics(context, destinations, observers, virtual_topics))
        observers.join(replays)
        scheduler = Scheduler(context, destinations, flow, acceptance, copies, observers, schedule_limits)
        self.management = Management(context, scheduler, destinations, access, replies, questions)
        self.statistics = Statistics(context, destinations, access, replies, questions, name)
        self.upkeep = Upkeep(context, destinations, connections, subscribing, settlements, ends, scheduler)
        observers.join(self.upkeep)
        self.slow_consumers = SlowConsumers(context, observers)
        self.retries = Retries(context, destinations, connections, subscribing, redelivery)
        self.store_events = StoreEvents(
            context,
            destinations,
            feeds,
            flow,
            settlements,
            delays,
            selective,
            sweep,
            scheduler,
            self.management,
            observers,
        )
        # The turn, and the door.
        self.turn = Turn(
            context,
            clients,
            holdings,
            destinations,
            dispatcher,
            selective,
            subscribing,
            dead_letters,
            settlements,
            flow,
            steps,
            starved,
        )
        self.commits = Commits(
            context,
            destinations,
            flow,
            acceptance,
            settlements,
            settling,
            redelivery,
            copies,
            questions,
            scheduler,
        )
        self.composite_send = CompositeSend(context, acceptance, flow, copies, questions, scheduler, observers)
        self.inspector = Inspector(
            context,
            destinations,
            clients,
            flow,
            holdings,
            quotas,
            spiller,
            scheduler,
            self.slow_consumers,
            subscribing.pending_limits,
            self.store_events,
        )
        self.why = Why(context, clients, flow, self.turn.hand_overs, delays, scheduler)
        self.context = context
        self.store = store
        self.memory = memory
        self.holdings = holdings
        self.quotas = quotas
        self.spiller = spiller
        self.flow = flow
        self.access = access
        self.destinations = destinations
        self.dispatcher = dispatcher
        self.settling = settling
        self.settlements = settlements
        self.refusals = Refusals(redelivery, steps)
        self.scheduler = scheduler
        self.clients = clients
        self.readers = readers
        self.subscriptions = subscriptions
        self.subscribing = subscribing
        self.connections = connections
        self.naming = naming
        self.acceptance = acceptance
        self.advisories = advisories
        self.steps = steps

    @property
    def wall_ms(self) -> int:
        """Return the wall clock of this turn."""
        return self.context.wall_ms

    @property
    def sender(self) -> int:
        """Return the number of the client whose input is being taken, 0 for the broker's own."""
        return self.context.sender

    @sender.setter
    def sender(self, number: int) -> None:
        self.context.sender = number

    def message_id(self, message: Message) -> str:
        """Return JMSMessageID: the same on every redelivery and in every protocol."""
        return self.context.message_id(message)

    def id_prefixes(self) -> tuple[str, str]:
        """Return what stands before the log offset, and before the serial of a message that is not logged."""
        return self.readers.id_prefix, self.readers.serial_prefix

    # -- connections

    def connect(self, client: Client) -> None:
        self.connections.connect(client)

    def introduce(self, client: Client, host: str, client_id: str, is_sole: bool) -> None:
        """Take a client whose peer has said who it is; ``client.user`` is set, and what ``describe`` says.

        client_id: JMS client id, "" for none.  is_sole: no other connection may have it at the same time.
        Raises: LimitReached, ClientIdInUse.
        """
        self.quotas.enter(client, client.user, host)
        self.client_ids.take(client, client_id, is_sole)
        self.advisories.connected(client)

    def disconnect(self, client: Client, is_lost: bool) -> None:
        """Close all consumers of ``client``; its transactions must have been aborted before."""
        self.connections.disconnect(client, is_lost)

    def leave(self, consumers: list[Consumer]) -> None:
        """Close consumers of a client that stays, many of them in the turns to come; nothing more is handed to them."""
        self.subscribing.departures.leave(consumers)

    def output_drained(self, outlet: Outlet) -> None:
        """What takes octets again, a client's socket or a part of it, has its consumers take their turns again."""
        self.connections.output_drained(outlet)

    # -- what a client names

    def target(self, client: Client, kind: int, name: str) -> Target:
        """Return what ``client`` may send to.  Raises: AccessDenied, InvalidDestination, LimitReached."""
        return self.naming.target(client, kind, name)

    def source(self, client: Client, kind: int, name: str) -> Target | Wildcard:
        """Return what ``client`` may subscribe to.  Raises: AccessDenied, InvalidDestination, LimitReached."""
        return self.naming.source(client, kind, name)

    def open_temporary(self, client: Client, kind: int) -> Queue | Topic:
        """Make a destination that only ``client`` may receive from and that ends with it.  Raises: LimitReached."""
        return self.naming.open_temporary(client, kind)

    def close_temporary(self, destination: Queue | Topic) -> None:
        """End a temporary destination; what waits in it is dropped.  Raises: DestinationInUse if it has consumers."""
        self.subscribing.departures.close_temporary(destination)

    # -- sending

    def send(self, destination: Destination, message: Message) -> int:
        """Accept ``message``, or return the gate that refuses it; a refused one may be sent again after ``admit``.

        Raises: AddressFull where the address is full and its policy is to fail; InvalidDestination if it was sent to a
        temporary destination that is gone.
        """
        if destination.is_indirect is True:
            return self.composite_send.send(destination, message)
        if self.flow.is_blocked:
            return self.acceptance.send(destination, message)
        self.acceptance.accept(destination, message)
        return gates.OPEN

    def send_granted(self, destination: Target, message: Message) -> int:
        """Accept a message that its full address refuses, because its sender had been granted credit for it.

        Return the gate of the disk or the memory that refuses it all the same, gates.OPEN for none.
        """
        return self.acceptance.send_granted(destination, message)

    # -- receiving

    def subscribe(self, client: Client, source: Source, options: SubscribeOptions) -> Consumer:
        """Add a consumer; it takes its first turn once ``start`` has been called for it.

        Raises: AccessDenied, InvalidDestination, InvalidOption, InvalidSelector, LimitReached, SubscriptionInUse.
        """
        return self.subscribing.subscribe(client, source, options)

    def start(self, consumer: Consumer) -> None:
        """Let a new consumer take its first turn."""
        self.subscribing.start(consumer)

    def grant(self, consumer: Consumer, credit: int) -> None:
        """Let ``credit`` messages follow, whatever was granted before (AMQP link credit)."""
        consumer.grant(credit)

    def unsubscribe(self, consumer: Consumer, is_lost: bool) -> None:
        """Close a consumer; what it held goes back to its place, or is let go with its topic subscription."""
        self.subscribing.departures.close(consumer, is_lost)

    def delete_subscription(self, client: Client, client_id: str, name: str, is_durable: bool = True) -> None:
        """End a named subscription.  Raises: AccessDenied, UnknownSubscription, SubscriptionInUse."""
        self.subscribing.delete_subscription(client, client_id, name, is_durable)

    # -- settling

    def covered(self, delivery: Delivery) -> list[Delivery]:
        """Return the deliveries that an answer to ``delivery`` covers, in order: in mode CLIENT all before it too."""
        return consumer_of(delivery).covered(delivery)

    def acknowledge(self, delivery: Delivery) -> None:
        """Settle one delivery as accepted; the offset that ``end_turn`` returns covers its record."""
        self.settlements.is_due = True
        self.dispatcher.acknowledge(delivery)

    def acknowledge_unconfirmed(self, delivery: Delivery) -> None:
        """Do the same for a client that waits for no confirmation: the record may be put off past this turn.

        Call ``flush_settlements`` before the client is sent anything that confirms it all the same.
        """
        self.dispatcher.acknowledge(delivery)

    def acknowledge_all(self, deliveries: list[Delivery]) -> None:
        """Settle several deliveries as accepted, as ``acknowledge`` does one."""
        self.settlements.is_due = True
        self.settling.acknowledge(deliveries)

    def acknowledge_all_unconfirmed(self, deliveries: list[Delivery]) -> None:
        """Do the same as ``acknowledge_unconfirmed`` does."""
        self.settling.acknowledge(deliveries)

    def refuse(self, delivery: Delivery, refusal: Refusal) -> None:
        """Settle one delivery as not accepted: NACK, released, rejected, modified."""
        self.refusals.take([delivery], refusal)

    def refuse_all(self, deliveries: list[Delivery], refusal: Refusal) -> None:
        """Settle several deliveries of one client as not accepted, all in the same way: of many, some a turn."""
        self.refusals.take(deliveries, refusal)

    # -- transactions

    def roll_back(self, delivery: Delivery) -> None:
        """Take back a delivery that an aborted transaction had acknowledged, for a client that has forgotten it."""
        self.refusals.roll_back([delivery])

    def roll_back_all(self, deliveries: list[Delivery]) -> None:
        """Take back all that an aborted transaction had acknowledged."""
        self.refusals.roll_back(deliveries)

    def send_in(self, transaction: Transaction, destination: Destination, message: Message) -> None:
        """Let ``transaction`` send at its COMMIT.

        Raises: TransactionError past its limits; InvalidDestination for a temporary destination that is gone.
        """
        self.commits.send_in(transaction, destination, message)

    def commit_refusal(self, transaction: Transaction) -> tuple[int, Queue | Topic | None]:
        """Return the gate that holds the COMMIT back, and the destination it is about.

        Raises: AddressFull, LimitReached: it can never be; the caller aborts the transaction then.
        """
        return self.commits.refusal(transaction)

    def commit(self, transaction: Transaction) -> None:
        """Apply a transaction: one batch in the log, closed by a commit record."""
        self.commits.apply(transaction)

    def abort(self, transaction: Transaction) -> None:
        """Drop the sends and undo the acknowledgements; the messages stay delivered and count no attempt."""
        self.commits.abort(transaction)

    # -- turns

    def begin_turn(self) -> None:
        """Take the time; call it before the first input of a turn."""
        context = self.context
        context.sender = 0
        wall_ms = context.clock.wall_ms()
        if wall_ms != context.wall_ms:
            self.turn.set_time(wall_ms)

    def end_turn(self) -> int:
        """Dispatch; return the offset that confirmations of this turn wait for."""
        return self.turn.end()

    def has_more_to_do(self) -> bool:
        """Say whether another turn is wanted though nothing has come: what followed the last one had an effect."""
        return self.turn.has_more_to_do()

    def sync(self) -> None:
        """Have everything made durable that no one waits for; call it a little after it came."""
        self.turn.sync()

    def has_unsynced(self) -> bool:
        """Say whether a ``sync`` would make anything durable that is not."""
        return self.turn.has_unsynced()

    def flush_settlements(self) -> int:
        """Append what was settled and put off; return the offset that confirmations of it wait for."""
        return self.settlements.flush()

    # -- questions

    def inspect(self) -> BrokerStats:
        """Return everything that ``stat``, metrics and the console show, as it is at this moment."""
        return self.inspector.inspect()
