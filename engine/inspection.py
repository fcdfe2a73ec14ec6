"""A look into the broker: its state at one moment as plain values."""

from __future__ import annotations

from engine.accounts import ACTION_NAMES, Account
from engine.broker import Broker
from engine.destination import KIND_NAMES
from engine.queue import Queue
from engine.schedule.scheduler import Scheduler
from engine.slow_consumers import is_slow
from engine.stats import (
    AddressStats,
    BrokerStats,
    ConsumerStats,
    DestinationStats,
    ScheduleStats,
    SlowStats,
    StoreStats,
)
from engine.topic import Topic


def inspect(broker: Broker) -> BrokerStats:
    """Return everything that ``stat``, metrics and the console show."""
    destinations = [_queue_stats(queue) for queue in broker.destinations.queues.values()]
    destinations += [_topic_stats(topic) for topic in broker.destinations.topics.values()]
    consumers = [
        ConsumerStats(
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
        for client in broker.clients.values()
        for consumer in client.consumers.values()
        if consumer.siblings is None or consumer.siblings.lead is consumer
    ]
    store = broker.store
    return BrokerStats(
        destinations,
        consumers,
        StoreStats(
            store.append_offset(),
            store.durable_offset(),
            store.is_accepting(),
            broker.store_events.fault(),
            store.retention_reason() or store.retention_hold(),
        ),
        len(broker.clients),
        broker.memory.used_bytes,
        broker.memory.limit_bytes,
        {
            number: "; ".join([broker.flow.describe(wait) for wait in waits.values()])
            for number, waits in broker.flow.parked.items()
        },
        {number: broker.flow.waited_ms(number) for number in broker.flow.parked},
        [_address_stats(account) for account in broker.flow.accounts.by_id.values()],
        SlowStats(
            broker.slow_consumers.found_count, broker.slow_consumers.ended_count, broker.pending_limits.evicted_count
        ),
        spilled_bytes=0 if broker.spiller is None else broker.spiller.spilled_bytes,
        spill_lost_count=0 if broker.spiller is None else broker.spiller.lost_count,
        schedule=_schedule_stats(broker.scheduler),
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
