"""Takes a snapshot of the broker's state, as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from engine.backlog.address_account import ACTION_NAMES, Account
from engine.backlog.context import Context
from engine.backlog.spiller import Spiller
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.consumers.unsettled_share import UnsettledShares
from engine.features.scheduler.scheduler import Scheduler
from engine.features.slow_consumers import SlowConsumers, is_slow
from engine.limits.connection_memory import Holdings
from engine.limits.producer_gate import Flow
from engine.limits.user_quota import Quotas
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
    ScheduleStats,
    SlowStats,
    StoreStats,
    UnsettledStats,
)
from engine.values.destination import KIND_NAMES

Seen = TypeVar("Seen")

AT_ONCE: Final = 256  # destinations, consumers or addresses per step


class Inspector:
    """Makes inspections; it has the parts that they read."""

    __slots__ = (
        "context",
        "destinations",
        "clients",
        "flow",
        "holdings",
        "quotas",
        "shares",
        "spiller",
        "scheduler",
        "slow_consumers",
        "pending_limits",
        "events",
    )

    def __init__(
        self,
        context: Context,
        destinations: Destinations,
        clients: dict[int, Client],
        flow: Flow,
        holdings: Holdings,
        quotas: Quotas,
        shares: UnsettledShares,
        spiller: Spiller | None,
        scheduler: Scheduler,
        slow_consumers: SlowConsumers,
        pending_limits: PendingLimits,
        events: StoreEvents,
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.clients = clients
        self.flow = flow
        self.holdings = holdings
        self.quotas = quotas
        self.shares = shares
        self.spiller = spiller
        self.scheduler = scheduler
        self.slow_consumers = slow_consumers
        self.pending_limits = pending_limits
        self.events = events

    def inspect(self) -> BrokerStats:
        """Return the present state of everything, for ``stat``, metrics and the console."""
        inspection = Inspection(self)
        for _ in inspection.steps():
            pass
        return inspection.stats()

    def store_stats(self) -> StoreStats:
        """Return the state of the store."""
        store = self.context.store
        return StoreStats(
            store.append_offset(),
            store.durable_offset(),
            store.is_accepting(),
            self.events.fault(),
            store.retention_reason() or store.retention_hold(),
        )


class Inspection:
    """A snapshot taken in steps, so that the engine can run turns between them, however many queues there are."""

    __slots__ = ("_inspector", "_destinations", "_consumers", "_addresses")

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector
        self._destinations: list[DestinationStats] = []
        self._consumers: list[ConsumerStats] = []
        self._addresses: list[AddressStats] = []

    def steps(self) -> Iterator[None]:
        """Read some more at each step; destinations added or removed meanwhile may be missing or included."""
        destinations = self._inspector.destinations
        for queues in _parts(list(destinations.queues.values())):
            self._destinations += [_queue_stats(queue) for queue in queues if not queue.is_closed]
            yield
        for topics in _parts(list(destinations.topics.values())):
            self._destinations += [_topic_stats(topic) for topic in topics if not topic.is_closed]
            yield
        for clients in _parts(list(self._inspector.clients.values())):
            for client in clients:
                for consumers in _parts(list(client.consumers.values())):
                    self._consumers += [_consumer_stats(client, one) for one in consumers if _is_shown(one)]
                    yield
        for accounts in _parts(list(self._inspector.flow.accounts.by_id.values())):
            self._addresses += [_address_stats(account) for account in accounts]
            yield

    def stats(self) -> BrokerStats:
        """Return what was read, and everything else as it is now."""
        inspector = self._inspector
        return BrokerStats(
            self._destinations,
            self._consumers,
            inspector.store_stats(),
            len(inspector.clients),
            inspector.context.memory.held_bytes(),
            inspector.context.memory.limit_bytes,
            {
                number: "; ".join([inspector.flow.describe(wait) for wait in waits.values()])
                for number, waits in inspector.flow.waits.parked.items()
            },
            {number: inspector.flow.waits.waited_ms(number) for number in inspector.flow.waits.parked},
            self._addresses,
            SlowStats(
                inspector.slow_consumers.found_count,
                inspector.slow_consumers.ended_count,
                inspector.pending_limits.evicted_count,
            ),
            spilled_bytes=0 if inspector.spiller is None else inspector.spiller.spilled_bytes,
            spill_lost_count=0 if inspector.spiller is None else inspector.spiller.lost_count,
            refusals=inspector.quotas.refused_counts(),
            schedule=_schedule_stats(inspector.scheduler),
            holdings=inspector.holdings.stats(inspector.clients.values()),
            unsettled=UnsettledStats(inspector.shares.limit_bytes, inspector.shares.largest()),
        )


def _parts(everything: list[Seen]) -> Iterator[list[Seen]]:
    for start in range(0, len(everything), AT_ONCE):
        yield everything[start : start + AT_ONCE]


def _is_shown(consumer: Consumer) -> bool:
    return not consumer.is_closed and (consumer.siblings is None or consumer.siblings.lead is consumer)


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
        scheduler.firing.describe(),
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


def _queue_stats(queue: Queue) -> DestinationStats:
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
    )


def _topic_stats(topic: Topic) -> DestinationStats:
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
    )
