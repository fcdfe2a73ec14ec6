"""A look into the broker: its state at one moment as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from engine.backlog.address_account import ACTION_NAMES, Account
from engine.broker import Broker
from engine.consumers.consumer import Consumer
from engine.features.scheduler.scheduler import Scheduler
from engine.features.slow_consumers import is_slow
from engine.ports.client import Client
from engine.sources.queue import Queue
from engine.sources.topic import Topic
from engine.values.broker_stats import (
    AddressStats,
    BrokerStats,
    ConsumerStats,
    DestinationStats,
    ScheduleStats,
    SlowStats,
    StoreStats,
)
from engine.values.destination import KIND_NAMES

Seen = TypeVar("Seen")

AT_ONCE: Final = 256  # destinations, consumers or addresses that one step looks at


def inspect(broker: Broker) -> BrokerStats:
    """Return everything that ``stat``, metrics and the console show, as it is at this moment."""
    inspection = Inspection(broker)
    for _ in inspection.steps():
        pass
    return inspection.stats()


class Inspection:
    """A look at everything in steps, so that the engine may have a turn between them, however many queues there are."""

    __slots__ = ("_broker", "_destinations", "_consumers", "_addresses")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._destinations: list[DestinationStats] = []
        self._consumers: list[ConsumerStats] = []
        self._addresses: list[AddressStats] = []

    def steps(self) -> Iterator[None]:
        """Look at some more at each step; what comes or goes meanwhile is shown or not."""
        destinations = self._broker.destinations
        for queues in _parts(list(destinations.queues.values())):
            self._destinations += [_queue_stats(queue) for queue in queues if not queue.is_closed]
            yield
        for topics in _parts(list(destinations.topics.values())):
            self._destinations += [_topic_stats(topic) for topic in topics if not topic.is_closed]
            yield
        for clients in _parts(list(self._broker.clients.values())):
            for client in clients:
                for consumers in _parts(list(client.consumers.values())):
                    self._consumers += [_consumer_stats(client, one) for one in consumers if _is_shown(one)]
                    yield
        for accounts in _parts(list(self._broker.flow.accounts.by_id.values())):
            self._addresses += [_address_stats(account) for account in accounts]
            yield

    def stats(self) -> BrokerStats:
        """Return what was seen, and all else as it is now."""
        broker = self._broker
        return BrokerStats(
            self._destinations,
            self._consumers,
            store_stats(broker),
            len(broker.clients),
            broker.memory.held_bytes(),
            broker.memory.limit_bytes,
            {
                number: "; ".join([broker.flow.describe(wait) for wait in waits.values()])
                for number, waits in broker.flow.parked.items()
            },
            {number: broker.flow.waited_ms(number) for number in broker.flow.parked},
            self._addresses,
            SlowStats(
                broker.slow_consumers.found_count,
                broker.slow_consumers.ended_count,
                broker.pending_limits.evicted_count,
            ),
            spilled_bytes=0 if broker.spiller is None else broker.spiller.spilled_bytes,
            spill_lost_count=0 if broker.spiller is None else broker.spiller.lost_count,
            refusals=broker.quotas.refused_counts(),
            schedule=_schedule_stats(broker.scheduler),
            holdings=broker.holdings.stats(broker.clients.values()),
        )


def store_stats(broker: Broker) -> StoreStats:
    """Return how the store is."""
    store = broker.store
    return StoreStats(
        store.append_offset(),
        store.durable_offset(),
        store.is_accepting(),
        broker.store_events.fault(),
        store.retention_reason() or store.retention_hold(),
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
        queue.delayed_count,
        queue.consumer_count(),
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
