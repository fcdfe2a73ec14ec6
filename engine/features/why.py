"""Answers the question "why" about one consumer, producer or message at one moment, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from engine.backlog.context import Context
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.dispatch.delays import Delays
from engine.features.scheduler.scheduler import Scheduler
from engine.limits.gate_words import reasons
from engine.limits.pending_memory import PendingMemory
from engine.limits.producer_gates import ProducerGates
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.sources.topics.topic import Topic
from engine.values.delivery import DELAYED, ENLISTED, IN_FLIGHT, READY, Delivery, HandOvers

SUBSCRIPTIONS_MOST: Final = 100  # of a topic, that are searched for one message


@dataclass(frozen=True, slots=True)
class Holder:
    """A consumer and what it holds.  since_ms: wall clock of the oldest hand-over, 0 for nothing or too long ago."""

    consumer_id: int
    who: dict[str, str]
    in_flight: int
    limit: int
    acknowledged: int
    since_ms: int
    gate: str


@dataclass(frozen=True, slots=True)
class ConsumerView:
    """own: the consumer itself; others: the other consumers of its queue, those that hold most first.

    resumes: when a full window opens again, in words.
    replay: progress of a replay, "" for any other consumer.
    remarks: options that it asked for and that have no effect, and what its user has lost.
    groups: ids of the message groups that it owns.
    """

    own: Holder
    connection_id: int
    destination: str
    resumes: str
    depth: int
    in_flight: int
    delayed: int
    replay: str = ""
    remarks: tuple[str, ...] = ()
    groups: list[str] = field(default_factory=list)
    others: list[Holder] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ProducerView:
    """reason: the gate at which it waits, "" for none.  held_bytes: as in Client; holding: the parts of it."""

    connection_id: int
    who: dict[str, str]
    reason: str
    consumers: int
    held_bytes: int = 0
    holding: str = ""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a message of a queue is now.

    state: waiting, in-flight, delayed, in-transaction, prepared, on-disk, scheduled, or gone if the queue does not have
    it.
    since_ms: of a hand-over; wait_ms: what is left of a delay.
    group: owner of a waiting message's group, in words; "" for none.
    held: the gate that holds back a scheduled message that is due, or the xid of the prepared transaction that has
    acknowledged it; "" for none.
    """

    state: str
    holder: Holder | None = None
    since_ms: int = 0
    wait_ms: int = 0
    group: str = ""
    held: str = ""


@dataclass(slots=True, eq=False)
class Why:
    """Explains the state of a message, a consumer or a producer."""

    _context: Context
    _clients: dict[int, Client]
    _destinations: Destinations
    _producer_gates: ProducerGates
    _pending_memory: PendingMemory
    _hand_overs: HandOvers
    _delays: Delays
    _scheduler: Scheduler

    def consumer(self, consumer_id: int) -> ConsumerView | None:
        """Return None if there is no such consumer."""
        for client in self._clients.values():
            consumer = client.consumers.get(consumer_id)
            if consumer is not None:
                queue = consumer.queue
                others = [self._holder(one) for one in queue.consumers.values() if one is not consumer]
                remarks = [self._pending_memory.remark(client.holder), self._late_remark(queue)]
                others.sort(key=lambda holder: -holder.in_flight)
                return ConsumerView(
                    self._holder(consumer),
                    client.client_number,
                    queue.uri(),
                    consumer.window.resumes(),
                    queue.depth,
                    queue.in_flight_count,
                    queue.fates.delayed_count,
                    queue.feed.describe(),
                    (*consumer.remarks, *[remark for remark in remarks if remark]),
                    [group for group, owner in queue.group_owners().items() if owner == consumer_id],
                    others,
                )
        return None

    def _late_remark(self, queue: Queue) -> str:
        topic = self._destinations.by_id.get(queue.feed.source_id)
        if not isinstance(topic, Topic) or not topic.late:
            return ""
        return f"{len(topic.late)} messages of a large transaction and after it are published in the next turns"

    def producer(self, connection_id: int) -> ProducerView | None:
        """Return None if there is no such connection."""
        client = self._clients.get(connection_id)
        if client is None:
            return None
        reason = "; ".join(reasons(self._producer_gates, connection_id))
        return ProducerView(
            connection_id,
            client.describe(),
            reason,
            len(client.consumers),
            client.all_held_bytes(),
            client.all_holding(),
        )

    def locate(self, queue: Queue, priority: int, queue_offset: int) -> Whereabouts:
        """Return where an entry of the queue is now; searches memory, so the cost grows with what is in flight."""
        return self._locate(queue, queue.source_id(), priority, queue_offset)

    def _locate(self, queue: Queue, destination_id: int, priority: int, queue_offset: int) -> Whereabouts:
        """Do the same for an entry of ``destination_id``, one of those whose entries the queue has."""
        for consumer in queue.consumers.values():
            for delivery in consumer.ledger.values():
                if _is_entry(delivery, destination_id, priority, queue_offset):
                    state = {IN_FLIGHT: "in-flight", ENLISTED: "in-transaction"}.get(delivery.state, "in-flight")
                    since_ms = self._hand_overs.since_ms(delivery.tag)
                    return Whereabouts(state, self._holder(consumer), since_ms)
        for delivery, (due_ms, _) in self._delays.of_queue.get(queue, {}).items():
            if delivery.state == DELAYED and _is_entry(delivery, destination_id, priority, queue_offset):
                return Whereabouts("delayed", None, 0, max(0, due_ms - self._context.clock.monotonic_ms()))
        lane = queue.lanes[priority]
        if lane is None:
            return Whereabouts("gone")
        for delivery in [*lane.ready, *lane.returned]:
            if delivery.state == READY and _is_entry(delivery, destination_id, priority, queue_offset):
                selection = queue.selection
                return Whereabouts(
                    "waiting", group="" if selection is None else selection.reasons().describe_group(delivery)
                )
        return Whereabouts("on-disk" if lane.next_load <= queue_offset < lane.tail else "gone")

    def locate_by_subscription(self, topic: Topic, priority: int, queue_offset: int) -> dict[str, Whereabouts]:
        """Return the same of an entry of a topic for the subscriptions that have not settled it, by their names.

        What a subscription in memory has in a temporary file is not found.
        """
        found: dict[str, Whereabouts] = {}
        for queue in islice(topic.readers(), SUBSCRIPTIONS_MOST):
            where = self._locate(queue, topic.destination_id, priority, queue_offset)
            if where.state != "gone":
                leads = [f"consumer {one.lead().consumer_id}" for one in queue.consumers.values()]
                found[queue.feed.subscriber or ", ".join(leads)] = where
        return found

    def locate_schedule(self, place: int) -> Whereabouts:
        """Return the same of the scheduled message with this log offset."""
        schedule = self._scheduler.pending.find(place)
        if schedule is None:
            return Whereabouts("gone")
        wait_ms = max(0, schedule.due_ms - self._context.clock.wall_ms())
        return Whereabouts("scheduled", wait_ms=wait_ms, held=self._scheduler.reason(schedule))

    def _holder(self, consumer: Consumer) -> Holder:
        oldest = next(iter(consumer.ledger), 0)
        return Holder(
            consumer.consumer_id,
            consumer.description(),
            len(consumer.ledger),
            consumer.window.allowed(),
            consumer.acknowledged_count,
            self._hand_overs.since_ms(oldest) if oldest else 0,
            consumer.describe_gate(),
        )


def _is_entry(delivery: Delivery, destination_id: int, priority: int, queue_offset: int) -> bool:
    message = delivery.message
    is_place = message.queue_offset == queue_offset and message.priority == priority
    return is_place and message.destination_id == destination_id  # consumers of several destinations share a ledger
