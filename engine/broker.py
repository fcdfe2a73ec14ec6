"""The one door of the engine: inputs enter as method calls, deliveries and confirmations leave through ``Client``.

A turn is everything between two ``end_turn`` calls: what arrived is applied at once, dispatched at the end, appended
in one batch.  A confirmation may leave once ``confirmed_offset`` has passed the offset that ``end_turn`` returned.
"""

from __future__ import annotations

from typing import Final

from config.matching import AddressMatcher
from config.policies import clamp_prefetch
from engine import gates
from engine.client import Client
from engine.consumer import AUTO, CLIENT, Consumer
from engine.delivery import IN_FLIGHT, Delivery
from engine.destination import KIND_NAMES, NAME_MAX_BYTES, QUEUE, TOPIC
from engine.dispatch import Dispatcher
from engine.errors import InvalidDestination, InvalidOption, LimitReached
from engine.memory import MemoryBudget
from engine.message import PERSISTENT, Message
from engine.ports import CAUSE_DAMAGED, DROPPED, Clock, Store, StoreListener, Timers, TimerTarget
from engine.queue import Queue
from engine.redelivery import Redelivery
from engine.stats import BrokerStats, ConsumerStats, DestinationStats, StoreStats
from engine.topic import Topic
from engine.transaction import Transaction
from engine.window import Window

EXPIRY_SCAN_MS: Final = 30_000  # ActiveMQ expireMessagesPeriod
EXPIRY_SCAN: Final = 0  # key of that timer; any other key is a destination whose page is asked for again
PAGE_RETRY_MS: Final = 1_000  # after a page that the disk refused, or that was empty
UNWRITTEN_BYTES: Final = 256 * 1024  # what no one waits for gathers up to here before it is written
DESTINATIONS_MAX: Final = 100_000


class Broker(StoreListener, TimerTarget):
    """All destinations, consumers and policies.  Owned by one thread.

    destinations_max: queues and topics together that clients may make.
    seed: of the random numbers (collision avoidance); same inputs and seed, same outputs.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        timers: Timers,
        addresses: AddressMatcher,
        memory_limit_bytes: int,
        seed: int = 1,
        destinations_max: int = DESTINATIONS_MAX,
    ) -> None:
        self.store = store
        self.clock = clock
        self.timers = timers
        self.addresses = addresses
        self.memory = MemoryBudget(memory_limit_bytes)
        self.dispatcher = Dispatcher(store, self.memory)
        self.destinations_max = destinations_max
        self.redelivery = Redelivery(self, seed)
        self.wall_ms = clock.wall_ms()
        self.queues: dict[str, Queue] = {}
        self.topics: dict[str, Topic] = {}
        self.queues_by_id: dict[int, Queue] = {}
        self.clients: dict[int, Client] = {}
        self.parked: dict[int, tuple[Client, int, str]] = {}
        self.awaiting: list[Client] = []
        self.dirty_queues: list[Queue] = []
        self.is_blocked = False
        self.is_memory_shut = False
        self.store_reason = ""
        self.page_faults: dict[tuple[int, int], str] = {}
        self.skipped_records: list[str] = []
        self._next_client = 1
        self._next_consumer = 1
        self._next_serial = 1
        self._batch_depth = 0
        self._id_prefix = f"ID:{store.store_id()}-"
        self._serial_prefix = f"ID:{store.store_id()}-{store.start_count()}-n"
        self.dispatcher.wall_ms = self.wall_ms
        store.set_time(self.wall_ms)
        store.attach(self)
        self._restore()
        timers.call_at(clock.monotonic_ms() + EXPIRY_SCAN_MS, self, EXPIRY_SCAN)

    # -- destinations

    def queue(self, name: str) -> Queue:
        """Return the queue ``name``, made at its first mention.  Raises: InvalidDestination, LimitReached."""
        queue = self.queues.get(name)
        if queue is None:
            self._check_name(name)
            self._check_count(name)
            queue = self._add_queue(self.store.open_destination(QUEUE, name), name)
        return queue

    def own_queue(self, name: str) -> Queue:
        """Return the queue of a dead-letter or expiry address: it is made whatever the limit, for it has a use."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self._add_queue(self.store.open_destination(QUEUE, name), name)
        return queue

    def topic(self, name: str) -> Topic:
        """Return the topic ``name``, made at its first mention.  Raises: InvalidDestination, LimitReached."""
        topic = self.topics.get(name)
        if topic is None:
            self._check_name(name)
            self._check_count(name)
            topic = self._add_topic(self.store.open_destination(TOPIC, name), name)
        return topic

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
        self.parked.pop(client.client_number, None)
        self.clients.pop(client.client_number, None)

    def output_drained(self, client: Client) -> None:
        """The client's socket takes octets again: its consumers take their turns again."""
        if not client.is_output_full:
            return
        client.is_output_full = False
        for consumer in client.consumers.values():
            consumer.queue.list_consumer(consumer)

    # -- sending

    def send(self, destination: Queue | Topic, message: Message) -> int:
        """Accept ``message``, or return the gate that refuses it; a refused one may be sent again after ``admit``."""
        if self.is_blocked:
            gate = self.refusal(destination, message)
            if gate != gates.OPEN:
                return gate
        self._accept(destination, message)
        return gates.OPEN

    def refusal(self, destination: Queue | Topic, message: Message) -> int:
        """Return the gate that holds ``message`` back now, gates.OPEN for none."""
        if not self.is_blocked:
            return gates.OPEN
        is_logged = message.flags & PERSISTENT or destination.settings.log_non_persistent
        if is_logged and not self.store.is_accepting():
            return gates.STORE
        if self.memory.used_bytes >= self.memory.limit_bytes:
            self.is_memory_shut = True  # until ``resume_bytes``: those who wait must not starve behind newcomers
        if self.is_memory_shut and (not is_logged or destination.kind == TOPIC):
            return gates.MEMORY
        return gates.OPEN

    def park(self, client: Client, gate: int, destination: Queue | Topic) -> None:
        """Remember that ``client`` waits at ``gate``; ``Client.admit`` tells it when to try again."""
        known = self.parked.get(client.client_number)
        waits_at = 1 << gate | (0 if known is None else known[1])
        self.parked[client.client_number] = (client, waits_at, f"{gates.GATE_NAMES[gate]}: {destination.uri()}")

    # -- receiving

    def subscribe(
        self, client: Client, destination: Queue | Topic, ack_mode: int, prefetch: int | None, name: str
    ) -> Consumer:
        """Add a consumer; it takes its first turn once ``start`` has been called for it.

        prefetch: messages in flight, None for what the address says; 0 is pull: one on demand.
        name: how the client calls it.  Raises: InvalidOption for a prefetch below 0, or 0 with automatic
        acknowledgement, where nothing could ever ask for the next message.
        """
        policy = destination.settings.prefetch
        if prefetch is None:
            prefetch = policy.topic_prefetch if destination.kind == TOPIC else policy.queue_prefetch
        if prefetch < 0:
            raise InvalidOption(f"prefetchSize is {prefetch}; allowed is 0 (one at a time, on demand) and above")
        if prefetch == 0 and ack_mode == AUTO:
            raise InvalidOption(
                "prefetchSize 0 is pull: the next message comes after the last was acknowledged, and ack mode auto "
                "acknowledges nothing; use ack client or client-individual, or a prefetchSize of 1 and above"
            )
        number = self._next_consumer
        self._next_consumer += 1
        window = Window(clamp_prefetch(prefetch), policy.top_up == "half")
        if isinstance(destination, Topic):
            queue = Queue(
                destination.destination_id, TOPIC, destination.name, destination.settings, False, self.dirty_queues
            )
            destination.add(number, queue)
        else:
            queue = destination
        consumer = Consumer(number, client, queue, ack_mode, window, name)
        queue.consumers[number] = consumer
        client.consumers[number] = consumer
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
            self.topics[queue.name].remove(consumer.consumer_id)
            self._forget(queue, consumer)
        else:
            self.redelivery.consumer_gone(consumer, is_lost)

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
        """Settle one delivery as accepted."""
        self.dispatcher.acknowledge(delivery)

    def refuse(self, delivery: Delivery) -> None:
        """Take a NACK."""
        self.redelivery.refuse(delivery)

    # -- transactions

    def commit_refusal(self, transaction: Transaction) -> tuple[int, Queue | Topic | None]:
        """Return the gate that holds the COMMIT back, and the destination it is about."""
        if self.is_blocked:
            for destination, message in transaction.sends:
                gate = self.refusal(destination, message)
                if gate != gates.OPEN:
                    return gate, destination
        return gates.OPEN, None

    def commit(self, transaction: Transaction) -> None:
        """Apply a transaction: one batch in the log, closed by a commit record."""
        self.flush_settlements()
        # Records of consumers and of dead-letter queues come before the batch: a batch holds what was reserved for.
        for delivery in transaction.accepted + transaction.refused:
            if delivery.consumer is not None and delivery.lane.queue.is_logged:
                self.record_of(delivery.consumer)
        self.begin_batch(self._commit_bytes(transaction))
        for destination, message in transaction.sends:
            self._accept(destination, message)
        for delivery in transaction.accepted:
            self.dispatcher.acknowledge(delivery)
        for delivery in transaction.refused:
            self.redelivery.refuse(delivery)
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
        return reserve + sum(self.redelivery.refusal_bytes(delivery) for delivery in transaction.refused)

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

    def end_turn(self) -> int:
        """Dispatch; return the offset that confirmations of this turn wait for.

        The dispatcher writes the batch when it comes to a message of it; else it can wait until much has gathered or
        for the next ``Store.sync``, which nobody's confirmation overtakes: a write a turn is what makes turns
        expensive.
        """
        dispatcher = self.dispatcher
        dirty = self.dirty_queues
        while True:
            if self.is_blocked:
                self._try_gates()
            if not dirty and not dispatcher.expired:
                break
            queues = dirty[:]
            dirty.clear()
            for queue in queues:
                queue.is_dirty = False
                dispatcher.run(queue)
            if dispatcher.expired:
                expired = dispatcher.expired
                dispatcher.expired = []
                for delivery in expired:
                    self.redelivery.expire(delivery)
        if dispatcher.settling:
            self.flush_settlements()
        store = self.store
        offset = store.append_offset()
        if offset - store.written_offset() > UNWRITTEN_BYTES:
            store.write()
        return offset

    def await_confirmation(self, client: Client) -> None:
        """Have ``client.release_confirmations`` called as the confirmed offset moves."""
        if not client.is_awaiting:
            client.is_awaiting = True
            self.awaiting.append(client)

    def flush_settlements(self) -> None:
        """Append what was settled in this turn."""
        store = self.store
        for batch, consumer in self.dispatcher.settling:
            if consumer is not None:
                batch.record_id = self.record_of(consumer)
            batch.flush(store)
        self.dispatcher.settling.clear()

    def record_of(self, consumer: Consumer) -> int:
        """Return the number of the consumer's metadata record, appended at its first settlement."""
        if consumer.batch.record_id == 0:
            description = consumer.client.describe()
            description["subscription"] = consumer.name
            consumer.batch.record_id = self.store.open_consumer(consumer.queue.destination_id, description)
        return consumer.batch.record_id

    # -- what the store tells

    def durable(self, offset: int) -> None:
        awaiting = self.awaiting
        self.awaiting = []
        for client in awaiting:
            if client.release_confirmations(offset):
                self.awaiting.append(client)
            else:
                client.is_awaiting = False

    def page_loaded(
        self, destination_id: int, priority: int, first: int, next_offset: int, messages: list[Message]
    ) -> None:
        queue = self.queues_by_id[destination_id]
        lane = queue.lane(priority)
        lane.is_loading = False
        lane.fault = ""
        if self.page_faults:
            self.page_faults.pop((destination_id, priority), None)
        wanted = next_offset - first
        for delivery in lane.load(next_offset, messages):
            if delivery.message.expires_ms:
                queue.has_expiring = True
            known = lane.attempts.pop(delivery.message.queue_offset, None)
            if known is not None and known[1] > self.wall_ms:
                self.redelivery.restore_wait(delivery, known[1])
            else:
                lane.append_loaded(delivery)
        lane.catch_up()
        if wanted > 0:
            queue.mark_dirty()
        else:
            self._ask_again_later(queue)

    def page_failed(self, destination_id: int, priority: int, first: int, reason: str) -> None:
        queue = self.queues_by_id[destination_id]
        lane = queue.lane(priority)
        lane.is_loading = False
        lane.fault = reason
        self.page_faults[(destination_id, priority)] = f"{queue.uri()}: {reason}"
        self._ask_again_later(queue)

    def record_skipped(self, destination_id: int, priority: int, queue_offset: int, reason: str) -> None:
        queue = self.queues_by_id[destination_id]
        queue.depth -= 1
        self.skipped_records.append(f"{queue.uri()}: {reason}")
        self.store.settle_range(destination_id, 0, DROPPED, CAUSE_DAMAGED, priority, queue_offset, 1)

    def store_failed(self, reason: str) -> None:
        self.is_blocked = True
        self.store_reason = reason

    def store_healed(self) -> None:
        self.store_reason = ""
        self.is_blocked = True  # _try_gates opens what can be opened
        for queue in self._all_queues():
            if queue.rotation:
                queue.mark_dirty()  # its next message may have waited to be written

    # -- time

    def timer_fired(self, key: int) -> None:
        """Scan queues for messages that expired while nobody was there to take them; or ask for a page again."""
        if key != EXPIRY_SCAN:
            self.queues_by_id[key].mark_dirty()
            return
        for queue in self._all_queues():
            self._scan_expired(queue)
        self.timers.call_at(self.clock.monotonic_ms() + EXPIRY_SCAN_MS, self, EXPIRY_SCAN)

    # -- looking in

    def stats(self) -> BrokerStats:
        destinations = [_queue_stats(queue) for queue in self.queues.values()]
        destinations += [_topic_stats(topic) for topic in self.topics.values()]
        consumers = [
            ConsumerStats(
                consumer.consumer_id,
                client.client_number,
                consumer.queue.uri(),
                consumer.name,
                consumer.window.prefetch,
                len(consumer.ledger),
                consumer.acknowledged_count,
                consumer.describe_gate(),
            )
            for client in self.clients.values()
            for consumer in client.consumers.values()
        ]
        store = self.store
        return BrokerStats(
            destinations,
            consumers,
            StoreStats(store.append_offset(), store.durable_offset(), store.is_accepting(), self._fault()),
            len(self.clients),
            self.memory.used_bytes,
            self.memory.limit_bytes,
            {number: text for number, (_, _, text) in self.parked.items()},
        )

    # -- the steps

    def _accept(self, destination: Queue | Topic, message: Message) -> None:
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
                    self.is_blocked = True
                return
        destination.publish(message, self.memory)
        if self.memory.used_bytes >= self.memory.limit_bytes:
            self.is_blocked = True

    def _try_gates(self) -> None:
        """Open the gates whose reason has gone, and let those who waited there go on."""
        is_accepting = self.store.is_accepting()
        if self.memory.used_bytes <= self.memory.resume_bytes:
            self.is_memory_shut = False
            self.is_blocked = not is_accepting
        opened = (1 << gates.STORE if is_accepting else 0) | (0 if self.is_memory_shut else 1 << gates.MEMORY)
        for number, (client, waits_at, _) in list(self.parked.items()):
            if waits_at & opened and self.parked.pop(number, None) is not None:
                client.admit()  # parks again at once if another gate of its is still shut

    def _fault(self) -> str:
        """Return what is wrong with the disk, "" for nothing."""
        if self.store_reason:
            return self.store_reason
        return next(iter(self.page_faults.values()), "")

    def _all_queues(self) -> list[Queue]:
        """Return the queues and the queues of topic subscriptions."""
        queues = list(self.queues.values())
        for topic in self.topics.values():
            queues += topic.subscriptions.values()
        return queues

    def _scan_expired(self, queue: Queue) -> None:
        if not queue.has_expiring:
            return
        for lane in queue.used_lanes:
            for delivery in lane.take_expired(self.wall_ms):
                self.dispatcher.expire(delivery, queue)
        queue.mark_dirty()

    def _ask_again_later(self, queue: Queue) -> None:
        self.timers.call_at(self.clock.monotonic_ms() + PAGE_RETRY_MS, self, queue.destination_id)

    def _forget(self, queue: Queue, consumer: Consumer) -> None:
        """Let go of all that a topic subscription held."""
        for lane in queue.used_lanes:
            for delivery in list(lane.ready) + lane.returned + list(lane.volatile):
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

    def _check_count(self, name: str) -> None:
        if len(self.queues) + len(self.topics) >= self.destinations_max:
            raise LimitReached(
                f"{self.destinations_max} destinations are there, which is the limit (destinations-max); "
                f"{name[:200]!r} would be one more"
            )

    def _check_name(self, name: str) -> None:
        size = len(name.encode())
        if not 0 < size <= NAME_MAX_BYTES:
            raise InvalidDestination(f"a destination name has 1 to {NAME_MAX_BYTES} octets, this one has {size}")
        if any(character < " " or character in "*>#?," for character in name):
            raise InvalidDestination(
                f"destination name {name[:200]!r} has a control character or one of * > # ? , which name no single "
                "destination"
            )

    def _add_queue(self, destination_id: int, name: str) -> Queue:
        settings = self.addresses.settings_for(QUEUE, name)
        queue = Queue(destination_id, QUEUE, name, settings, True, self.dirty_queues)
        self.queues[name] = queue
        self.queues_by_id[destination_id] = queue
        return queue

    def _add_topic(self, destination_id: int, name: str) -> Topic:
        settings = self.addresses.settings_for(TOPIC, name)
        topic = Topic(destination_id, name, settings)
        self.topics[name] = topic
        return topic

    def _restore(self) -> None:
        """Take up the destinations that recovery found; their messages are paged in when somebody wants them."""
        for state in self.store.recovered():
            if state.kind == TOPIC:
                self._add_topic(state.destination_id, state.name)
                continue
            queue = self._add_queue(state.destination_id, state.name)
            for found in state.lanes:
                lane = queue.lane(found.priority)
                queue.depth += lane.restore(found.tail, found.cursor, found.settled, found.attempts)


def _queue_stats(queue: Queue) -> DestinationStats:
    return DestinationStats(
        queue.name,
        KIND_NAMES[queue.kind],
        queue.depth,
        queue.in_flight_count,
        queue.delayed_count,
        len(queue.consumers),
        queue.enqueued_count,
        queue.delivered_count,
        queue.acknowledged_count,
        queue.redelivered_count,
        queue.dead_lettered_count,
        queue.expired_count,
    )


def _topic_stats(topic: Topic) -> DestinationStats:
    queues = list(topic.subscriptions.values())
    return DestinationStats(
        topic.name,
        KIND_NAMES[topic.kind],
        sum(queue.depth for queue in queues),
        sum(queue.in_flight_count for queue in queues),
        sum(queue.delayed_count for queue in queues),
        len(queues),
        topic.enqueued_count,
        topic.delivered_count + sum(queue.delivered_count for queue in queues),
        topic.acknowledged_count + sum(queue.acknowledged_count for queue in queues),
        topic.redelivered_count + sum(queue.redelivered_count for queue in queues),
        topic.dead_lettered_count + sum(queue.dead_lettered_count for queue in queues),
        topic.expired_count + sum(queue.expired_count for queue in queues),
    )
