"""The one door of the engine: inputs enter as method calls, deliveries and confirmations leave through ``Client``.

A turn is everything between two ``end_turn`` calls: what arrived is applied at once, dispatched at the end, appended
in one batch.  A confirmation may leave once ``confirmed_offset`` has passed the offset that ``end_turn`` returned.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from config.matching import AddressMatcher
from config.model import VirtualTopic
from config.permissions import Action, PermissionMap
from engine.backlog.memory import MemoryBudget
from engine.backlog.pending_message_limit import PendingLimits
from engine.backlog.spiller import Spiller
from engine.client_ids import ClientIds
from engine.commit import Commits
from engine.composite_send import Copies
from engine.consumer_registry import Subscribing
from engine.consumers.consumer import AUTO, CLIENT, Consumer
from engine.consumers.departures import HELD_AT_ONCE, Departures
from engine.consumers.rate_limit import Rates
from engine.consumers.resting import Wakes
from engine.consumers.steps import TURN_STEPS, Steps
from engine.consumers.window import CreditWindow, window_for
from engine.dispatch.dispatcher import Dispatcher
from engine.dispatch.selective_dispatcher import SelectiveDispatcher
from engine.dispatch.settling import Settling
from engine.fate.expiry import EXPIRE_MESSAGES_PERIOD_MS, Expiry
from engine.fate.redelivery import Redelivery
from engine.features.advisories import Advisories
from engine.features.purge import Upkeep
from engine.features.scheduler.delayed_send import Delayed
from engine.features.scheduler.management import Management
from engine.features.scheduler.plan import ScheduleLimits
from engine.features.scheduler.scheduler import Scheduler
from engine.features.slow_consumers import SlowConsumers
from engine.features.statistics_plugin import Statistics
from engine.features.virtual_topics import VirtualTopics
from engine.limits.connection_memory import CONNECTION_MEMORY_BYTES, Holdings
from engine.limits.permissions import Access
from engine.limits.producer_gate import Flow, GlobalLimits
from engine.limits.user_quota import Quotas, UserLimits
from engine.ports.client import Client
from engine.ports.clock import Clock
from engine.ports.store import Store
from engine.ports.temp_store import SpillSpace
from engine.ports.timers import Timers
from engine.registry import TEMPORARY_DESTINATIONS_MAX, Destinations
from engine.selector.readers import PropertyReaders
from engine.sources.browser import Browsing
from engine.sources.composite import CompositeSource, Destination, Source, Target
from engine.sources.log_replay import Replays
from engine.sources.queue import Queue
from engine.sources.topic import Topic
from engine.sources.topic_subscriptions import Subscriptions
from engine.store_listener import StoreEvents
from engine.transaction import Transaction
from engine.values import gates
from engine.values.delivery import IN_FLIGHT, Delivery
from engine.values.destination import QUEUE, TOPIC, is_topic
from engine.values.errors import DestinationInUse
from engine.values.hand_over_times import HandOvers
from engine.values.message import PERSISTENT, Message
from engine.values.options import SubscribeOptions
from engine.values.refusal import Refusal
from engine.values.wildcard import Wildcard, is_wildcard

UNWRITTEN_BYTES: Final = 256 * 1024  # what no one waits for gathers up to here before it is written
UNLOGGED_TURNS: Final = 64  # for so many turns settlements that no one waits for gather into one record a consumer
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
    wall_ms: of this turn, as the clock says: what expires and what is due is judged by it, also after it was set back.
    store_time_ms: the same, but it never goes back.
    starved: queues whose consumers wait because memory is too short to read on for them.
    steps: how much of what is not messages a turn may do, and what goes on in the next.
    sender: number of the client whose input is being taken, 0 for the broker's own; it sets it before it sends.
    seed: of the random numbers (collision avoidance); same inputs and seed, same outputs.
    """

    __slots__ = (
        "store",
        "clock",
        "timers",
        "wall_ms",
        "store_time_ms",
        "memory",
        "holdings",
        "quotas",
        "spiller",
        "flow",
        "access",
        "destinations",
        "dispatcher",
        "settling",
        "redelivery",
        "expiry",
        "slow_consumers",
        "pending_limits",
        "store_events",
        "scheduler",
        "management",
        "hand_overs",
        "clients",
        "sender",
        "client_ids",
        "readers",
        "selective",
        "subscriptions",
        "subscribing",
        "commits",
        "copies",
        "virtual_topics",
        "advisories",
        "statistics",
        "upkeep",
        "browsing",
        "replays",
        "starved",
        "steps",
        "departures",
        "wakes",
        "_next_client",
        "_next_serial",
        "_batch_depth",
        "_unlogged_turns",
        "_is_settling_due",
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
        self.store = store
        self.clock = clock
        self.timers = timers
        self.wall_ms = clock.wall_ms()
        self.store_time_ms = self.wall_ms
        store.set_time(self.wall_ms)
        self.memory = MemoryBudget(memory_limit_bytes)
        self.steps = Steps(clock, timers)
        self.departures = Departures(self, self.steps)
        self.wakes = Wakes(self.steps)
        self.holdings = Holdings(connection_memory_bytes)
        self.access = Access(permissions or PermissionMap(()))
        self.flow = Flow(store, self.memory, clock, timers, limits)
        self.spiller = None if spill_space is None else Spiller(spill_space, self.memory, clock, timers)
        self.destinations = Destinations(store, addresses, self.flow.accounts, destinations_max, self.spiller)
        self.destinations.temporary_max = temporary_destinations_max
        self.quotas = Quotas(user_limits)
        self.destinations.watchers.append(self.quotas)
        self.dispatcher = Dispatcher(store, self.memory, Rates(clock, timers))
        self.dispatcher.wall_ms = self.wall_ms
        self.settling = Settling(self.dispatcher, self.memory)
        self.sender = 0
        self.client_ids = ClientIds()
        self.readers = PropertyReaders(f"ID:{store.store_id()}-", f"ID:{store.store_id()}-{store.start_count()}-n")
        self.selective = SelectiveDispatcher(self, self.readers)
        self.subscriptions = Subscriptions(self)
        self.subscribing = Subscribing(self)
        self.commits = Commits(self)
        self.copies = Copies(self)
        self.statistics = Statistics(self)
        self.upkeep = Upkeep(self)
        self.advisories = Advisories(self, has_advisories, name)
        self.flow.advisories = self.advisories
        self.dispatcher.advisories = self.advisories
        self.virtual_topics = VirtualTopics(self, virtual_topics)
        self.browsing = Browsing(self)
        self.replays = Replays(self)
        self.starved: dict[Queue, None] = {}
        self.redelivery = Redelivery(self, seed)
        self.expiry = Expiry(self, expire_messages_period_ms)
        self.slow_consumers = SlowConsumers(self)
        self.pending_limits = PendingLimits(self.memory, self.readers, self.advisories)
        self.store_events = StoreEvents(self)
        self.scheduler = Scheduler(self, schedule_limits)
        self.management = Management(self)
        self.hand_overs = HandOvers()
        self.hand_overs.sample(self.dispatcher.next_tag, self.wall_ms)
        self.clients: dict[int, Client] = {}
        self._next_client = 1
        self._next_serial = 1
        self._batch_depth = 0
        self._unlogged_turns = 0
        self._is_settling_due = False
        store.attach(self.store_events)

    def message_id(self, message: Message) -> str:
        """Return JMSMessageID: the same on every redelivery and in every protocol."""
        if message.log_offset >= 0:
            return f"{self.readers.id_prefix}{message.log_offset}"
        return f"{self.readers.serial_prefix}{message.serial}"

    def id_prefixes(self) -> tuple[str, str]:
        """Return what stands before the log offset, and before the serial of a message that is not logged."""
        return self.readers.id_prefix, self.readers.serial_prefix

    # -- connections

    def connect(self, client: Client) -> None:
        client.client_number = self._next_client
        self._next_client += 1
        self.clients[client.client_number] = client

    def introduce(self, client: Client, host: str, client_id: str, is_sole: bool) -> None:
        """Take a client whose peer has said who it is; ``client.user`` is set, and what ``describe`` says.

        client_id: JMS client id, "" for none.  is_sole: no other connection may have it at the same time.
        Raises: LimitReached, ClientIdInUse.
        """
        self.quotas.enter(client, client.user, host)
        self.client_ids.take(client, client_id, is_sole)
        self.advisories.connected(client)

    def disconnect(self, client: Client, is_lost: bool) -> None:
        """Close all consumers of ``client``, many of them in the turns to come; its transactions must have been aborted
        before.
        """
        if self.clients.pop(client.client_number, None) is None:
            return
        self.flow.forget(client)
        self.client_ids.leave(client)
        self.quotas.leave(client)
        self.holdings.count(client, 0)
        self.departures.disconnect(client, is_lost)

    def leave(self, consumers: list[Consumer]) -> None:
        """Close consumers of a client that stays, many of them in the turns to come; nothing more is handed to them."""
        self.departures.leave(consumers)

    def output_drained(self, client: Client) -> None:
        """The client's socket takes octets again: its consumers take their turns again."""
        if not client.is_output_full or client.client_number not in self.clients:
            return
        client.is_output_full = False
        self.wakes.open(client.resting)

    # -- what a client names: the one door, where permissions are asked for

    def target(self, client: Client, kind: int, name: str) -> Target:
        """Return what ``client`` may send to; a queue or topic is made at its first mention.

        Raises: AccessDenied, InvalidDestination, LimitReached.
        """
        self._require(client, "write", kind, name)
        return (
            self._made(client, kind, name)
            if self.destinations.is_new(kind, name)
            else self.destinations.target(kind, name)
        )

    def source(self, client: Client, kind: int, name: str) -> Target | Wildcard:
        """Return what ``client`` may subscribe to; a queue or topic is made at its first mention.

        Raises: AccessDenied, InvalidDestination, LimitReached.
        """
        action: Action = "read"
        if kind == QUEUE and not self.access.allows(client, "read", kind, name):
            if self.access.allows(client, "browse", kind, name):
                action = "browse"  # ``subscribe`` finds out whether it only looks
        self._require(client, action, kind, name)
        return (
            self._made(client, kind, name)
            if self.destinations.is_new(kind, name)
            else self.destinations.source(kind, name)
        )

    def _made(self, client: Client, kind: int, name: str) -> Target:
        """Return a queue or topic that ``client`` is the first to name."""
        self.quotas.destinations.require(client.holder)
        target = self.destinations.target(kind, name)
        self.quotas.made(client, target)
        return target

    def _require(self, client: Client, action: Action, kind: int, name: str) -> None:
        if self.access.is_open or kind not in (QUEUE, TOPIC):
            return  # of temporary destinations the owner alone receives, and everybody may answer
        self.access.require(client, action, kind, name)
        known = self.destinations.queues if kind == QUEUE else self.destinations.topics
        if name not in known and not is_wildcard(name):
            self.access.require(client, "create", kind, name)

    # -- sending

    def send(self, destination: Destination, message: Message) -> int:
        """Accept ``message``, or return the gate that refuses it; a refused one may be sent again after ``admit``.

        Raises: AddressFull where the address is full and its policy is to fail; InvalidDestination if it was sent to a
        temporary destination that is gone.
        """
        if destination.is_indirect is True:
            return self.copies.send(destination, message)
        if self.flow.is_blocked:
            gate = self.flow.refusal(destination, message)
            if gate == gates.DISCARDED:
                self.flow.count_dropped(destination)
                return gates.OPEN
            if gate != gates.OPEN:
                return gate
        self.accept(destination, message)
        return gates.OPEN

    def send_granted(self, destination: Target, message: Message) -> int:
        """Accept a message that its full address refuses, because its sender had been granted credit for it.

        Return the gate of the disk or the memory that refuses it all the same, gates.OPEN for none.
        """
        gate = self.flow.machine_gate(destination, message)
        if gate == gates.OPEN:
            self.accept(destination, message)
        return gate

    def send_in(self, transaction: Transaction, destination: Destination, message: Message) -> None:
        """Let ``transaction`` send at its COMMIT.

        Raises: TransactionError past its limits; InvalidDestination for a temporary destination that is gone.
        """
        if isinstance(destination, Delayed):
            self.scheduler.require_room(transaction.scheduled_count + len(destination.parts))
            transaction.add_scheduled(destination, message)
        elif destination.is_indirect is True:
            transaction.add_sends(self.copies.expand(destination, message))
        else:
            transaction.add_send(destination, message)

    # -- receiving

    def subscribe(self, client: Client, source: Source, options: SubscribeOptions) -> Consumer:
        """Add a consumer; it takes its first turn once ``start`` has been called for it.

        Raises: InvalidOption for a prefetch below 0, or 0 with automatic acknowledgement, where nothing could ever
        ask for the next message; AccessDenied; and what ``Subscribing.subscribe`` raises.
        """
        if not self.access.is_open:
            self.access.require_use(client, source, options)
        return self.subscribe_own(client, source, options)

    def subscribe_own(self, client: Client, source: Source, options: SubscribeOptions) -> Consumer:
        """Do the same for the broker's own work, which needs no permission."""
        first = source.parts[0] if isinstance(source, CompositeSource) else source
        if isinstance(first, Wildcard):
            settings = self.destinations.addresses.settings_for(first.kind, first.name)
        else:
            settings = first.settings
        window = window_for(settings, options, is_topic(first.kind), options.ack_mode == AUTO)
        return self.subscribing.subscribe(client, source, options, window)

    def start(self, consumer: Consumer) -> None:
        """Let a new consumer take its first turn."""
        self.subscribing.start(consumer)

    def grant(self, consumer: Consumer, credit: int) -> None:
        """Let ``credit`` messages follow, whatever was granted before (AMQP link credit)."""
        window = consumer.window
        assert isinstance(window, CreditWindow), "credit is granted to consumers that subscribed with is_credited"
        if window.grant(credit):
            consumer.queue.list_consumer(consumer)
        elif window.is_full:
            consumer.queue.unlist_consumer(consumer)

    def hold(self, consumer: Consumer, is_delivering: bool) -> None:
        """Hand over nothing to a consumer that has credit, until ``unhold``.

        is_delivering: called from ``Client.deliver`` of this consumer, whose turn its dispatcher then ends.
        """
        window = consumer.window
        assert isinstance(window, CreditWindow), "only consumers with credit are held"
        window.hold()
        if not is_delivering:
            consumer.queue.unlist_consumer(consumer)

    def unhold(self, consumer: Consumer) -> None:
        window = consumer.window
        assert isinstance(window, CreditWindow), "only consumers with credit are held"
        if window.unhold():
            consumer.queue.list_consumer(consumer)

    def unsubscribe(self, consumer: Consumer, is_lost: bool) -> None:
        """Close a consumer; what it held goes back to its place, or is let go with its topic subscription."""
        if len(consumer.ledger) > HELD_AT_ONCE:
            self.departures.leave([consumer], is_lost)
        else:
            self.subscribing.unsubscribe(consumer, is_lost)

    def delete_subscription(self, client: Client, client_id: str, name: str, is_durable: bool = True) -> None:
        """End a named subscription.  Raises: AccessDenied, UnknownSubscription, SubscriptionInUse."""
        known = self.subscriptions.find(client, client_id, name, is_durable)
        if known is not None:
            self.access.require(client, "unsubscribe", known.kind, known.source)
        self.subscriptions.delete(client_id, name, is_durable)

    # -- temporary destinations

    def open_temporary(self, client: Client, kind: int) -> Queue | Topic:
        """Make a destination that only ``client`` may receive from and that ends with it.

        kind: engine.values.destination.TEMP_QUEUE or TEMP_TOPIC.  Raises: LimitReached.
        """
        self.quotas.destinations.require(client.holder)
        temporary = self.destinations.open_temporary(kind, client.client_number)
        self.quotas.made(client, temporary)
        return temporary

    def close_temporary(self, destination: Queue | Topic) -> None:
        """End a temporary destination; what waits in it is dropped.  Raises: DestinationInUse if it has consumers."""
        assert destination.owner, f"{destination.uri()} is not temporary"
        if isinstance(destination, Queue):
            self.departures.make_way(destination)
            if destination.consumers:
                raise DestinationInUse(f"{destination.uri()} has {len(destination.consumers)} consumers")
            self.let_go(destination)
        elif destination.subscriptions:
            raise DestinationInUse(f"{destination.uri()} has {len(destination.subscriptions)} subscriptions")
        self.scheduler.ending.end(destination.destination_id)
        self.destinations.remove(destination)

    # -- settling

    def covered(self, delivery: Delivery) -> list[Delivery]:
        """Return the deliveries that an answer to ``delivery`` covers, in order: in mode CLIENT all before it too."""
        consumer = delivery.consumer
        assert consumer is not None, "a delivery that is answered is with a consumer"
        if consumer.ack_mode != CLIENT:
            return [delivery]
        tag = delivery.tag
        covered: list[Delivery] = []
        for number, one in consumer.ledger.items():
            if number > tag:
                break
            if one.state != IN_FLIGHT:
                return consumer.unanswered.up_to(consumer.ledger, tag)
            covered.append(one)
        return covered

    def acknowledge(self, delivery: Delivery) -> None:
        """Settle one delivery as accepted; the offset that ``end_turn`` returns covers its record."""
        self._is_settling_due = True
        self.dispatcher.acknowledge(delivery)

    def acknowledge_unconfirmed(self, delivery: Delivery) -> None:
        """Do the same for a client that waits for no confirmation: the record may be put off past this turn.

        Call ``flush_settlements`` before the client is sent anything that confirms it all the same.
        """
        self.dispatcher.acknowledge(delivery)

    def acknowledge_all(self, deliveries: list[Delivery]) -> None:
        """Settle several deliveries as accepted, as ``acknowledge`` does one."""
        self._is_settling_due = True
        self.settling.acknowledge(deliveries)

    def acknowledge_all_unconfirmed(self, deliveries: list[Delivery]) -> None:
        """Do the same as ``acknowledge_unconfirmed`` does."""
        self.settling.acknowledge(deliveries)

    def refuse(self, delivery: Delivery, refusal: Refusal) -> None:
        """Settle one delivery as not accepted: NACK, released, rejected, modified."""
        self.redelivery.refuse(delivery, refusal)

    def refuse_all(self, deliveries: list[Delivery], refusal: Refusal) -> None:
        """Settle several deliveries as not accepted, all in the same way."""
        self.redelivery.refuse_all(deliveries, refusal)

    # -- transactions

    def roll_back(self, delivery: Delivery) -> None:
        """Take back a delivery that an aborted transaction had acknowledged, for a client that has forgotten it."""
        self.redelivery.roll_back([delivery])

    def roll_back_all(self, deliveries: list[Delivery]) -> None:
        """Take back all that an aborted transaction had acknowledged."""
        self.redelivery.roll_back(deliveries)

    def commit_refusal(self, transaction: Transaction) -> tuple[int, Queue | Topic | None]:
        """Return the gate that holds the COMMIT back, and the destination it is about.

        Raises: AddressFull, LimitReached: it can never be; the caller aborts the transaction then.
        """
        if transaction.scheduled_count:  # others may have scheduled since
            self.scheduler.require_room(transaction.scheduled_count)
        return self.flow.commit_refusal(transaction)

    def commit(self, transaction: Transaction) -> None:
        """Apply a transaction: one batch in the log, closed by a commit record."""
        self.commits.apply(transaction)

    def abort(self, transaction: Transaction) -> None:
        """Drop the sends and undo the acknowledgements; the messages stay delivered and count no attempt."""
        for delivery in transaction.undo():
            if delivery.state != IN_FLIGHT:
                self.redelivery.release_held(delivery)

    def begin_batch(self) -> None:
        """Open a batch that is recovered whole or not at all; batches inside a batch are part of it."""
        if self._batch_depth == 0:
            self.store.begin()
        self._batch_depth += 1

    def commit_batch(self) -> None:
        self._batch_depth -= 1
        if self._batch_depth == 0:
            self.store.commit()

    # -- turns

    def begin_turn(self) -> None:
        """Take the time; call it before the first input of a turn."""
        self.sender = 0
        wall_ms = self.clock.wall_ms()
        if wall_ms == self.wall_ms:
            return
        self.wall_ms = wall_ms
        self.dispatcher.wall_ms = wall_ms
        if wall_ms > self.store_time_ms:
            self.store_time_ms = wall_ms
            self.store.set_time(wall_ms)
            if wall_ms >= self.hand_overs.next_ms:
                self.hand_overs.sample(self.dispatcher.next_tag, wall_ms)

    def end_turn(self) -> int:
        """Dispatch; return the offset that confirmations of this turn wait for.

        The dispatcher writes the batch when it comes to a message of it; else it can wait until much has gathered or
        for the next ``Store.sync``, which nobody's confirmation overtakes: a write a turn is what makes turns
        expensive.
        """
        if self.holdings.is_over:
            self.holdings.relieve(self.clients.values())
        dispatcher = self.dispatcher
        dirty = self.destinations.dirty_queues
        if self.steps.chores:
            self.steps.run_chores()
        if self.memory.unwritten_bytes:
            self._count_unwritten()
        while True:
            if self.flow.is_blocked:
                self.flow.open_gates()
            if self.destinations.waiting_keepers:
                self._run_keepers()
            if self.replays.followers:
                self.replays.follow()
            if self.starved:
                self._feed_starved()
            if self.wakes.rooms:
                self.wakes.run()
            if not dirty and not dispatcher.expired:
                break
            queues = dirty[:]
            dirty.clear()
            for queue in queues:
                queue.is_dirty = False
                if queue.is_choosy:
                    self.selective.run(queue)
                else:
                    dispatcher.run(queue)
            if self.browsing.consumers:
                self.browsing.tell_ends()
            if dispatcher.expired:
                self._bury_expired()
        if dispatcher.settling:
            self._unlogged_turns += 1
            if self._is_settling_due or self._unlogged_turns >= UNLOGGED_TURNS:
                self.flush_settlements()
        if self.steps.left != TURN_STEPS:
            self.steps.end_turn()
        store = self.store
        offset = store.append_offset()
        if offset - store.written_offset() > UNWRITTEN_BYTES:
            store.write()
        if self.flow.is_blocked:
            self._count_unwritten()
        return offset

    def has_more_to_do(self) -> bool:
        """Say whether another turn is wanted though nothing has come: what followed the last one had an effect."""
        return bool(self.destinations.dirty_queues or self.wakes.rooms or self.holdings.is_over)

    def sync(self) -> None:
        """Have everything made durable that no one waits for; call it a little after it came."""
        self.flush_settlements()
        self.store.sync()

    def _bury_expired(self) -> None:
        """Settle what has expired and goes to an expiry destination."""
        expired = self.dispatcher.expired
        self.dispatcher.expired = []
        for delivery in expired:
            self.redelivery.dead_letters.expire(delivery)

    def _count_unwritten(self) -> None:
        """Take what a failing store keeps in memory into the budget: senders and readers of backlogs wait for it."""
        store = self.store
        self.memory.keep_unwritten(0 if store.is_accepting() else store.append_offset() - store.durable_offset())

    def _feed_starved(self) -> None:
        """Let those read on for which there is memory again."""
        is_short = self.memory.is_short()
        for queue in list(self.starved):
            replay = None if queue.feed is None else queue.feed.replay
            if not is_short or (replay is not None and not replay.is_held()):
                del self.starved[queue]
                queue.mark_dirty()

    def _run_keepers(self) -> None:
        waiting = self.destinations.waiting_keepers[:]
        self.destinations.waiting_keepers.clear()
        for keeper in waiting:
            keeper.run(self)

    def flush_settlements(self) -> int:
        """Append what was settled and put off; return the offset that confirmations of it wait for."""
        self._unlogged_turns = 0
        self._is_settling_due = False
        store = self.store
        for batch, consumer in self.dispatcher.settling:
            if consumer is not None:
                if consumer.queue.is_closed:
                    batch.following = -1  # committed after its queue had ended
                    continue
                batch.record_id = self.record_of(consumer)
            batch.flush(store)
        self.dispatcher.settling.clear()
        return store.append_offset()

    def has_unsynced(self) -> bool:
        """Say whether a ``sync`` would make anything durable that is not."""
        return bool(self.dispatcher.settling) or self.store.durable_offset() < self.store.append_offset()

    def record_of(self, consumer: Consumer) -> int:
        """Return the number of the consumer's metadata record, appended at its first settlement."""
        if consumer.batch.record_id == 0:
            number = self.store.open_consumer(consumer.queue.destination_id, consumer.description())
            consumer.batch.record_id = number
            if consumer.is_closed:  # what it settled last is only now appended
                self.store.close_consumer(consumer.batch.record_id)
        return consumer.batch.record_id

    # -- the steps

    def accept(self, destination: Target, message: Message) -> None:
        """Put ``message`` where it was sent; whoever calls has asked for the gates."""
        if destination.intake is not None:
            destination.intake.stamp(message, self.wall_ms)
        if self.subscriptions.joins and isinstance(destination, Topic):
            self.subscriptions.join_now(destination)
        if destination.is_logged and (message.flags & PERSISTENT or destination.settings.log_non_persistent):
            self.store.append(message)
            if isinstance(destination, Queue):
                destination.enqueue(message)
                if destination.rotation and not destination.is_dirty:
                    destination.mark_dirty()
                return
        else:
            message.serial = self._next_serial
            self._next_serial += 1
            message.store_time_ms = self.store_time_ms
            if isinstance(destination, Queue):
                self.memory.hold(message)
                destination.enqueue(message)
                if destination.rotation and not destination.is_dirty:
                    destination.mark_dirty()
                if self.memory.used_bytes + self.memory.paged_bytes >= self.memory.limit_bytes:
                    self.flow.is_blocked = True
                return
        destination.publish(message, self.memory)
        if destination.is_choosy:
            self.subscriptions.offer(destination, message, self.sender)
        if self.memory.used_bytes + self.memory.paged_bytes >= self.memory.limit_bytes:
            self.flow.is_blocked = True

    def publish_own(self, target: Target, message: Message) -> None:
        """Send what the broker itself has to say; no gate holds it."""
        sender = self.sender
        self.sender = 0
        self.accept(target, message)
        if self.subscriptions.unrouted:
            self.subscriptions.send_on()
        self.sender = sender

    def let_go(self, queue: Queue) -> None:
        """Let go of all that waits in a queue that ends; what is in flight stays with whoever has it.

        What has expired in this turn goes where expired messages go: that was decided before.
        """
        self._bury_expired()
        if queue.selection is not None:
            queue.selection.close()
            queue.selection = None
        left: list[Delivery] = []
        for lane in queue.used_lanes:
            if self.spiller is not None:
                self.spiller.drop(lane)
            left += lane.take_all()
        self.departures.let_go(left)
        self.redelivery.delays.forget(queue)
        self.store_events.forget_faults(queue)
        self.starved.pop(queue, None)
        queue.mask = 0
        queue.depth = queue.in_flight_count

    def release(self, delivery: Delivery) -> None:
        """Take the message of a delivery that is let go out of the memory budget."""
        if delivery.lane.queue.is_in_memory(delivery.message):
            self.memory.release(delivery.message)
        else:
            self.memory.unload(delivery.message)
