"""Takes a snapshot of the broker's state, as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from engine.backlog.address_account import ACTION_NAMES, Account
from engine.backlog.context import Context
from engine.backlog.spilled_blocks import SpilledBlocks
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.consumers.unsettled_memory import UnsettledMemory
from engine.consumers.user_quota import Quotas
from engine.dispatch.message_times import MessageTimes
from engine.features.advisory_state import AdvisoryState
from engine.features.duplicate_ids import DuplicateIds
from engine.features.scheduler.scheduler import Scheduler
from engine.features.slow_consumers import SlowConsumers, is_slow
from engine.limits.connection_memory import Holdings
from engine.limits.gate_words import describe
from engine.limits.pending_memory import PendingMemory
from engine.limits.producer_gates import ProducerGates
from engine.ports.store import Store
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.sources.topics.pending_message_limit import PendingLimits
from engine.sources.topics.topic import Topic
from engine.store_listener import StoreEvents
from engine.values.broker_stats import (
    AddressStats,
    BrokerStats,
    ConsumerStats,
    DestinationStats,
    DuplicateIdStats,
    ScheduleStats,
    SlowStats,
    StoreStats,
    UnsettledStats,
)
from engine.values.destination import KIND_NAMES
from engine.values.gates import GATE_NAMES
from engine.xa.branches import Branches

Seen = TypeVar("Seen")

AT_ONCE: Final = 256  # destinations, consumers or addresses per step


@dataclass(slots=True, eq=False)
class Inspector:
    """Makes inspections; it has the parts that they read."""

    context: Context
    destinations: Destinations
    clients: dict[int, Client]
    producer_gates: ProducerGates
    holdings: Holdings
    quotas: Quotas
    unsettled: UnsettledMemory
    pending_memory: PendingMemory
    spilled: SpilledBlocks | None
    scheduler: Scheduler
    duplicate_ids: DuplicateIds
    branches: Branches
    slow_consumers: SlowConsumers
    pending_limits: PendingLimits
    events: StoreEvents
    announced: AdvisoryState
    message_times: MessageTimes | None = None

    def inspect(self) -> BrokerStats:
        """Return the present state of everything, for ``stat``, metrics and the console."""
        inspection = Inspection(self)
        for _ in inspection.steps():
            pass
        return inspection.stats()

    def store_stats(self) -> StoreStats:
        store = self.context.store
        return StoreStats(
            store.append_offset(),
            store.durable_offset(),
            store.is_accepting(),
            self.events.fault(),
            store.retention_reason() or store.retention_hold(),
        )


@dataclass(slots=True, eq=False)
class Inspection:
    """A snapshot taken in steps, so that the engine can run turns between them, however many queues there are."""

    _inspector: Inspector
    _destinations: list[DestinationStats] = field(default_factory=list)
    _consumers: list[ConsumerStats] = field(default_factory=list)
    _addresses: list[AddressStats] = field(default_factory=list)

    def steps(self) -> Iterator[None]:
        """Read some more at each step; destinations added or removed meanwhile may be missing or included."""
        destinations, announced = self._inspector.destinations, self._inspector.announced
        store = self._inspector.context.store
        for queues in _parts(list(destinations.queues.values())):
            self._destinations += [
                _queue_stats(queue, store, announced.producer_count(queue)) for queue in queues if not queue.is_closed
            ]
            yield
        for topics in _parts(list(destinations.topics.values())):
            self._destinations += [
                _topic_stats(topic, store, announced.producer_count(topic)) for topic in topics if not topic.is_closed
            ]
            yield
        for clients in _parts(list(self._inspector.clients.values())):
            for client in clients:
                for consumers in _parts(list(client.consumers.values())):
                    self._consumers += [_consumer_stats(client, one) for one in consumers if _is_shown(one)]
                    yield
        for accounts in _parts(list(self._inspector.producer_gates.accounts.by_id.values())):
            self._addresses += [_address_stats(account) for account in accounts]
            yield

    def stats(self) -> BrokerStats:
        """Return what was read, and everything else as it is now."""
        inspector, gates = self._inspector, self._inspector.producer_gates
        times = inspector.message_times
        return BrokerStats(
            self._destinations,
            self._consumers,
            inspector.store_stats(),
            len(inspector.clients),
            inspector.context.memory.held_bytes(),
            inspector.context.memory.limit_bytes,
            {
                number: "; ".join([describe(gates, wait) for wait in waits.values()])
                for number, waits in gates.waits.parked.items()
            },
            {number: gates.waits.waited_ms(number) for number in gates.waits.parked},
            {GATE_NAMES[gate]: count for gate, count in gates.waits.counts.items()},
            self._addresses,
            SlowStats(
                inspector.slow_consumers.found_count,
                inspector.slow_consumers.ended_count,
                inspector.pending_limits.evicted_count,
            ),
            spilled_bytes=0 if inspector.spilled is None else inspector.spilled.spilled_bytes,
            spill_lost_count=0 if inspector.spilled is None else inspector.spilled.lost_count,
            refused_by_user_limit=inspector.quotas.refused_counts(),
            schedule=_schedule_stats(inspector.scheduler),
            duplicate_ids=DuplicateIdStats(len(inspector.duplicate_ids), inspector.duplicate_ids.dropped_count),
            branches=inspector.branches.stats(),
            holdings=inspector.holdings.stats(inspector.clients.values()),
            unsettled=UnsettledStats(inspector.unsettled.limit_bytes, inspector.unsettled.largest()),
            pending=inspector.pending_memory.stats(),
            late=gates.late_memory.stats(),
            until_delivered=None if times is None else times.handed_over.stats(),
            until_acknowledged=None if times is None else times.acknowledged.stats(),
        )


def _parts(everything: list[Seen]) -> Iterator[list[Seen]]:
    for start in range(0, len(everything), AT_ONCE):
        yield everything[start : start + AT_ONCE]


def _is_shown(consumer: Consumer) -> bool:
    return not consumer.is_closed and consumer.lead() is consumer


def _consumer_stats(client: Client, consumer: Consumer) -> ConsumerStats:
    return ConsumerStats(
        consumer.consumer_id,
        client.client_number,
        consumer.queue.uri(),
        consumer.name,
        consumer.window.prefetch,
        len(consumer.ledger),
        consumer.acknowledged_count if consumer.siblings is None else consumer.siblings.acknowledged_count(),
        consumer.describe_gate(),
        is_slow(consumer),
    )


def _schedule_stats(scheduler: Scheduler) -> ScheduleStats:
    return ScheduleStats(
        len(scheduler.pending),
        scheduler.next_due_ms(),
        scheduler.late_count(),
        scheduler.scheduled_count,
        scheduler.firing.fired_count,
        scheduler.cancelled_count,
        scheduler.fault(),
        scheduler.firing.held.count,
        scheduler.held_reason(),
        len(scheduler.aside),
        scheduler.aside_reason(),
    )


def _address_stats(account: Account) -> AddressStats:
    return AddressStats(
        account.uri,
        ACTION_NAMES[account.action],
        account.used_bytes,
        account.max_bytes,
        account.used_messages,
        account.max_messages,
        account.is_full,
        account.dropped_count,
        account.failed_count,
    )


def _queue_stats(queue: Queue, store: Store, producers: int) -> DestinationStats:
    return DestinationStats(
        queue.name,
        KIND_NAMES[queue.kind],
        queue.depth,
        queue.in_flight_count,
        queue.fates.delayed_count,
        queue.consumer_count(),
        queue.enqueued_count,
        queue.delivered_count,
        queue.acknowledged_count,
        queue.fates.redelivered_count,
        queue.fates.dead_lettered_count,
        queue.fates.expired_count,
        queue.extras.pause is not None,
        _waiting_bytes(queue),
        store.live_bytes(queue.destination_id) if queue.is_logged else 0,
        producers,
    )


def _topic_stats(topic: Topic, store: Store, producers: int) -> DestinationStats:
    queues = list(topic.subscriptions.values())
    return DestinationStats(
        topic.name,
        KIND_NAMES[topic.kind],
        sum(queue.depth for queue in queues),
        sum(queue.in_flight_count for queue in queues),
        sum(queue.fates.delayed_count for queue in queues),
        len(queues),
        topic.enqueued_count,
        topic.fates.delivered_count + sum(queue.delivered_count for queue in queues),
        topic.fates.acknowledged_count + sum(queue.acknowledged_count for queue in queues),
        topic.fates.redelivered_count + sum(queue.fates.redelivered_count for queue in queues),
        topic.fates.dead_lettered_count + sum(queue.fates.dead_lettered_count for queue in queues),
        topic.fates.expired_count + sum(queue.fates.expired_count for queue in queues),
        memory_bytes=sum(_waiting_bytes(queue) for queue in queues),
        disk_bytes=store.live_bytes(topic.destination_id) if topic.is_logged else 0,
        producers=producers,
    )


def _waiting_bytes(queue: Queue) -> int:
    """Return the octets of what waits in memory."""
    return sum([lane.waiting_bytes() for lane in queue.used_lanes])
