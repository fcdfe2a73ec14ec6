"""The one door of the engine: inputs enter as method calls, deliveries and confirmations leave through ``Client``.

A turn is everything between two ``end_turn`` calls: what arrived is applied at once, dispatched at the end, appended
in one batch.  A confirmation may leave once ``confirmed_offset`` has passed the offset that ``end_turn`` returned.
"""

from __future__ import annotations

from typing import Final

from config.matching import AddressMatcher, with_values
from config.permissions import Action, PermissionMap
from engine import gates
from engine.access import Access
from engine.client import Client
from engine.consumer import AUTO, CLIENT, Consumer
from engine.delivery import IN_FLIGHT, READY, Delivery
from engine.destination import QUEUE, TOPIC
from engine.destinations import Destinations
from engine.dispatch import Dispatcher
from engine.expiry import Expiry
from engine.flow import Flow, GlobalLimits
from engine.hand_overs import HandOvers
from engine.memory import MemoryBudget
from engine.message import PERSISTENT, Message
from engine.options import SubscribeOptions
from engine.ports import Clock, Store, Timers
from engine.queue import Queue
from engine.rate import Rates
from engine.redelivery import Redelivery
from engine.refusal import Refusal
from engine.selective import SelectiveDispatcher
from engine.selector.evaluate import compile_selector
from engine.selector.readers import PropertyReaders
from engine.store_events import StoreEvents
from engine.topic import Topic
from engine.transaction import Transaction
from engine.window import window_for

UNWRITTEN_BYTES: Final = 256 * 1024  # what no one waits for gathers up to here before it is written
UNLOGGED_TURNS: Final = 64  # for so many turns settlements that no one waits for gather into one record a consumer
DESTINATIONS_MAX: Final = 100_000
NO_LIMITS: Final = GlobalLimits()


class Broker:
    """All destinations, consumers and policies.  Owned by one thread.

    destinations_max: queues and topics together that clients may make.
    permissions: what groups may do; none at all means everybody everything.
    seed: of the random numbers (collision avoidance); same inputs and seed, same outputs.
    """

    __slots__ = (
        "store",
        "clock",
        "timers",
        "wall_ms",
        "memory",
        "flow",
        "access",
        "destinations",
        "dispatcher",
        "redelivery",
        "expiry",
        "store_events",
        "hand_overs",
        "clients",
        "readers",
        "selective",
        "_next_client",
        "_next_consumer",
        "_next_serial",
        "_batch_depth",
        "_unlogged_turns",
        "_is_settling_due",
        "_id_prefix",
        "_serial_prefix",
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
    ) -> None:
        self.store = store
        self.clock = clock
        self.timers = timers
        self.wall_ms = clock.wall_ms()
        store.set_time(self.wall_ms)
        self.memory = MemoryBudget(memory_limit_bytes)
        self.access = Access(permissions or PermissionMap(()))
        self.flow = Flow(store, self.memory, clock, timers, limits)
        self.destinations = Destinations(store, addresses, self.flow.accounts, destinations_max)
        self.dispatcher = Dispatcher(store, self.memory, Rates(clock, timers))
        self.dispatcher.wall_ms = self.wall_ms
        self.redelivery = Redelivery(self, seed)
        self.expiry = Expiry(self)
        self.store_events = StoreEvents(self)
        self.hand_overs = HandOvers()
        self.hand_overs.sample(self.dispatcher.next_tag, self.wall_ms)
        self._id_prefix = f"ID:{store.store_id()}-"
        self._serial_prefix = f"ID:{store.store_id()}-{store.start_count()}-n"
        self.readers = PropertyReaders(self._id_prefix, self._serial_prefix)
        self.selective = SelectiveDispatcher(self, self.readers)
        self.clients: dict[int, Client] = {}
        self._next_client = 1
        self._next_consumer = 1
        self._next_serial = 1
        self._batch_depth = 0
        self._unlogged_turns = 0
        self._is_settling_due = False
        store.attach(self.store_events)

    def message_id(self, message: Message) -> str:
        """Return JMSMessageID: the same on every redelivery and in every protocol."""
        if message.log_offset >= 0:
            return f"{self._id_prefix}{message.log_offset}"
        return f"{self._serial_prefix}{message.serial}"

    def id_prefixes(self) -> tuple[str, str]:
        """Return what stands before the log offset, and before the serial of a message that is not logged."""
        return self._id_prefix, self._serial_prefix

    # -- connections

    def connect(self, client: Client) -> None:
        client.client_number = self._next_client
        self._next_client += 1
        self.clients[client.client_number] = client

    def disconnect(self, client: Client, is_lost: bool) -> None:
        """Close all consumers of ``client``; its transactions must have been aborted before."""
        for consumer in list(client.consumers.values()):
            self.unsubscribe(consumer, is_lost)
        self.flow.forget(client)
        self.clients.pop(client.client_number, None)

    def output_drained(self, client: Client) -> None:
        """The client's socket takes octets again: its consumers take their turns again."""
        if not client.is_output_full:
            return
        client.is_output_full = False
        for consumer in client.consumers.values():
            consumer.queue.list_consumer(consumer)

    # -- what a client names: the one door, where permissions are asked for

    def target(self, client: Client, kind: int, name: str) -> Queue | Topic:
        """Return what ``client`` may send to, made at its first mention.

        Raises: AccessDenied, InvalidDestination, LimitReached.
        """
        return self._named(client, "write", kind, name)

    def source(self, client: Client, kind: int, name: str) -> Queue | Topic:
        """Return what ``client`` may subscribe to, made at its first mention.

        Raises: AccessDenied, InvalidDestination, LimitReached.
        """
        return self._named(client, "read", kind, name)

    def _named(self, client: Client, action: Action, kind: int, name: str) -> Queue | Topic:
        destinations = self.destinations
        if not self.access.is_open:
            self.access.require(client, action, kind, name)
            if name not in (destinations.queues if kind == QUEUE else destinations.topics):
                self.access.require(client, "create", kind, name)
        return destinations.queue(name) if kind == QUEUE else destinations.topic(name)

    # -- sending

    def send(self, destination: Queue | Topic, message: Message) -> int:
        """Accept ``message``, or return the gate that refuses it; a refused one may be sent again after ``admit``.

        Raises: AddressFull where the address is full and its policy is to fail.
        """
        if self.flow.is_blocked:
            gate = self.flow.refusal(destination, message)
            if gate != gates.OPEN:
                return gates.OPEN if gate == gates.DISCARDED else gate
        self._accept(destination, message)
        return gates.OPEN

    # -- receiving

    def subscribe(self, client: Client, destination: Queue | Topic, options: SubscribeOptions) -> Consumer:
        """Add a consumer; it takes its first turn once ``start`` has been called for it.

        Raises: InvalidOption for a prefetch below 0, or 0 with automatic acknowledgement, where nothing could ever
        ask for the next message; InvalidSelector.
        """
        window = window_for(destination.settings, options, destination.kind == TOPIC, options.ack_mode == AUTO)
        selector = compile_selector(options.selector) if options.selector.strip() else None
        number = self._next_consumer
        self._next_consumer += 1
        if isinstance(destination, Topic):
            queue = Queue(
                destination.destination_id,
                TOPIC,
                destination.name,
                destination.settings,
                False,
                self.destinations.dirty_queues,
            )
            destination.add(number, queue)
        else:
            queue = destination
        consumer = Consumer(number, client, queue, options.ack_mode, window, options.name)
        if options.redelivery:
            consumer.redelivery = with_values(destination.settings.redelivery, options.redelivery)
        queue.consumers[number] = consumer
        client.consumers[number] = consumer
        if isinstance(destination, Queue):
            consumer.selector = selector
            consumer.is_exclusive = options.is_exclusive
            if queue.settings.queue.use_consumer_priority:
                consumer.priority = options.priority
            self.selective.added(consumer)
        return consumer

    def start(self, consumer: Consumer) -> None:
        """Let a new consumer take its first turn."""
        consumer.queue.start_consumer(consumer)

    def unsubscribe(self, consumer: Consumer, is_lost: bool) -> None:
        """Close a consumer; what it held goes back to its place, or is let go with its topic subscription."""
        queue = consumer.queue
        queue.unlist_consumer(consumer)
        queue.consumers.pop(consumer.consumer_id, None)
        consumer.client.consumers.pop(consumer.consumer_id, None)
        consumer.is_closed = True
        consumer.is_started = False
        if queue.kind == TOPIC:
            self.destinations.topics[queue.name].remove(consumer.consumer_id)
            self._forget(queue, consumer)
        else:
            self.redelivery.consumer_gone(consumer, is_lost)
        self.selective.removed(consumer)
        if consumer.batch.record_id:
            self.store.close_consumer(consumer.batch.record_id)

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
            if one.state == IN_FLIGHT:
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

    def refuse(self, delivery: Delivery, refusal: Refusal) -> None:
        """Settle one delivery as not accepted: NACK, released, rejected, modified."""
        self.redelivery.refuse(delivery, refusal)

    # -- transactions

    def commit(self, transaction: Transaction) -> None:
        """Apply a transaction: one batch in the log, closed by a commit record."""
        self.flush_settlements()
        # Records of consumers and of dead-letter queues come before the batch: a batch holds what was reserved for.
        for delivery in transaction.held():
            if delivery.consumer is not None and delivery.lane.queue.is_logged:
                self.record_of(delivery.consumer)
        self.begin_batch(self._commit_bytes(transaction))
        for destination, message in transaction.sends:
            if not self.flow.is_blocked or not self.flow.discards(destination):
                self._accept(destination, message)
        for delivery in transaction.accepted:
            self.dispatcher.acknowledge(delivery)
        for delivery, refusal in transaction.refused:
            self.redelivery.refuse(delivery, refusal)
        self.flush_settlements()
        self.commit_batch()

    def _commit_bytes(self, transaction: Transaction) -> int:
        """Return the octets that a transaction takes in the log at most."""
        store = self.store
        reserve = sum(store.record_bytes(message) for _, message in transaction.sends)
        ranges: dict[int, int] = {}
        for delivery in transaction.accepted:
            number = 0 if delivery.consumer is None else delivery.consumer.consumer_id
            ranges[number] = ranges.get(number, 0) + 1
        reserve += sum(store.settlement_bytes(count) for count in ranges.values())
        return reserve + sum(self.redelivery.refusal_bytes(one, refusal) for one, refusal in transaction.refused)

    def abort(self, transaction: Transaction) -> None:
        """Drop the sends and undo the acknowledgements; the messages stay delivered and count no attempt."""
        for delivery in transaction.undo():
            if delivery.state != IN_FLIGHT:
                self.redelivery.release_held(delivery)

    def begin_batch(self, reserve_bytes: int) -> None:
        """Open a batch that is recovered whole or not at all; batches inside a batch are part of it."""
        if self._batch_depth == 0:
            self.store.begin(reserve_bytes)
        self._batch_depth += 1

    def commit_batch(self) -> None:
        self._batch_depth -= 1
        if self._batch_depth == 0:
            self.store.commit()

    # -- turns

    def begin_turn(self) -> None:
        """Take the time; call it before the first input of a turn."""
        wall_ms = self.clock.wall_ms()
        if wall_ms > self.wall_ms:
            self.wall_ms = wall_ms
            self.dispatcher.wall_ms = wall_ms
            self.store.set_time(wall_ms)
            if wall_ms >= self.hand_overs.next_ms:
                self.hand_overs.sample(self.dispatcher.next_tag, wall_ms)

    def end_turn(self) -> int:
        """Dispatch; return the offset that confirmations of this turn wait for.

        The dispatcher writes the batch when it comes to a message of it; else it can wait until much has gathered or
        for the next ``Store.sync``, which nobody's confirmation overtakes: a write a turn is what makes turns
        expensive.
        """
        dispatcher = self.dispatcher
        dirty = self.destinations.dirty_queues
        while True:
            if self.flow.is_blocked:
                self.flow.open_gates()
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
            if dispatcher.expired:
                expired = dispatcher.expired
                dispatcher.expired = []
                for delivery in expired:
                    self.redelivery.dead_letters.expire(delivery)
        if dispatcher.settling:
            self._unlogged_turns += 1
            if self._is_settling_due or self._unlogged_turns >= UNLOGGED_TURNS:
                self.flush_settlements()
        store = self.store
        offset = store.append_offset()
        if offset - store.written_offset() > UNWRITTEN_BYTES:
            store.write()
        return offset

    def sync(self) -> None:
        """Have everything made durable that no one waits for; call it a little after it came."""
        self.flush_settlements()
        self.store.sync()

    def flush_settlements(self) -> int:
        """Append what was settled and put off; return the offset that confirmations of it wait for."""
        self._unlogged_turns = 0
        self._is_settling_due = False
        store = self.store
        for batch, consumer in self.dispatcher.settling:
            if consumer is not None:
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

    def _accept(self, destination: Queue | Topic, message: Message) -> None:
        if destination.intake is not None:
            destination.intake.stamp(message, self.wall_ms)
        if message.flags & PERSISTENT or destination.settings.log_non_persistent:
            self.store.append(message)
            if isinstance(destination, Queue):
                destination.enqueue(message)
                if destination.rotation and not destination.is_dirty:
                    destination.mark_dirty()
                return
        else:
            message.serial = self._next_serial
            self._next_serial += 1
            message.store_time_ms = self.wall_ms
            if isinstance(destination, Queue):
                self.memory.hold(message)
                destination.enqueue(message)
                if destination.rotation and not destination.is_dirty:
                    destination.mark_dirty()
                if self.memory.used_bytes >= self.memory.limit_bytes:
                    self.flow.is_blocked = True
                return
        destination.publish(message, self.memory)
        if self.memory.used_bytes >= self.memory.limit_bytes:
            self.flow.is_blocked = True

    def _forget(self, queue: Queue, consumer: Consumer) -> None:
        """Let go of all that a topic subscription held."""
        for lane in queue.used_lanes:
            for delivery in list(lane.ready) + lane.returned + list(lane.volatile):
                if delivery.state == READY:  # its place may still be there though a consumer has it
                    self.memory.release(delivery.message)
            lane.ready.clear()
            lane.returned.clear()
            lane.volatile.clear()
        for delivery in consumer.ledger.values():
            if delivery.state == IN_FLIGHT:
                self.memory.release(delivery.message)
        consumer.ledger.clear()
        self.redelivery.forget(queue)
        queue.mask = 0
