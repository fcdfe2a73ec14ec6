"""Counters and gauges for Prometheus, from one snapshot of the broker.

A snapshot is turned into text on a worker thread; nothing here touches the live broker.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from engine.store.read.log_readers import LogReader
from engine.values.broker_stats import AddressStats, BrokerStats, ConsumerStats, DestinationStats
from engine.values.gates import GATE_NAMES, OPEN
from gateway.process.counters import GatewayCounters

# Limit of one scrape; a metric counts those left out.
DESTINATIONS_MAX: Final = 10_000
CONSUMERS_MAX: Final = 2_000
LOG_READERS_MAX: Final = 100  # those that are most behind
# Of a consumer's labels: each family repeats them, and a peer's link names may be long.  The consumer's number still
# tells apart what is cut.
LABEL_CHARACTERS_MAX: Final = 200

Single = tuple[str, str, float]  # name, text, value
Kind = type[GaugeMetricFamily] | type[CounterMetricFamily]


@dataclass(frozen=True, slots=True)
class Rows:
    """The metrics of one kind of statistics: a family for each field, and a label for each of the first ones.

    labels: name of the label, and the field that it shows.  gauges, counters: name of the field, and the text.
    label_characters: length at which a label is cut, None for no limit.
    """

    noun: str
    labels: dict[str, str]
    gauges: tuple[tuple[str, str], ...]
    counters: tuple[tuple[str, str], ...]
    label_characters: int | None = None


_DESTINATIONS: Final = Rows(
    "destination",
    {"kind": "kind", "destination": "name"},
    (
        ("depth", "Messages waiting, in flight or delayed"),
        ("in_flight", "Messages delivered and not yet settled"),
        ("delayed", "Messages waiting for their redelivery delay"),
        ("consumers", "Consumers"),
        ("is_paused", "1 while an operator has paused it"),
        ("memory_bytes", "Messages in memory that wait there; a topic's once for each subscription"),
        ("disk_bytes", "Its messages in the log that are still needed"),
    ),
    (
        ("enqueued", "Messages accepted"),
        ("delivered", "Deliveries, redeliveries among them"),
        ("acknowledged", "Messages acknowledged"),
        ("redelivered", "Deliveries of a message that had been delivered before"),
        ("dead_lettered", "Messages moved to the dead-letter address, or dropped for lack of one"),
        ("expired", "Messages that expired"),
    ),
)
_CONSUMERS: Final = Rows(
    "consumer",
    {
        "consumer": "consumer_id",
        "connection": "connection_id",
        "destination": "destination",
        "subscription": "subscription",
    },
    (
        ("prefetch", "The consumer's window"),
        ("in_flight", "Messages delivered to the consumer and not yet settled"),
        ("is_slow", "1 while it is full while messages wait, or more than twice its prefetch wait on a topic"),
    ),
    (("acknowledged", "Messages the consumer acknowledged"),),
    LABEL_CHARACTERS_MAX,
)
_ADDRESSES: Final = Rows(
    "address",
    {"address": "address"},
    (
        ("used_bytes", "Octets at an address with a limit"),
        ("limit_bytes", "Its limit in octets, -1 for none"),
        ("used_messages", "Messages that an address with a limit holds"),
        ("limit_messages", "Its limit in messages, -1 for none"),
        ("is_full", "1 from when a limit was reached until there is room again"),
    ),
    (
        ("dropped", "Messages discarded because the address was full"),
        ("failed", "Sends refused with an error because the address was full"),
    ),
)
_LOG_READERS: Final = Rows(
    "log_reader",
    {"kind": "kind", "reader": "reader"},
    (
        ("lag_bytes", "Octets of log that an export or a named stream has not read"),
        ("bytes_per_second", "Its pace, as of when it last wrote how far it is"),
    ),
    (),
)
_LABELLED_GAUGES: Final = {  # name: its label, its text
    "producer_blocked_seconds": ("connection", "How long the messages of a connection have waited"),
    "connection_held_bytes": ("connection", "Octets held by a connection, for the largest holders"),
    "unsettled_bytes": ("holder", "Octets that a user's consumers hold unsettled, for the users with the most"),
    "late_bytes": ("holder", "What a user has committed to topics and is not published yet, for those with the most"),
    "pending_bytes": ("holder", "What waited in memory for a user at the last check, while memory is nearly full"),
    "consumers_at_gate": ("gate", "Consumers by what keeps each from getting more; open: nothing does"),
}
_LABELLED_COUNTERS: Final = {
    "producer_waits": ("gate", "Waits of connections whose messages came to a closed gate, by gate"),
    "pending_dropped": ("holder", "Messages that waited for a user and were dropped"),
    "refused_by_user_limit": ("limit", "Requests beyond the limit of one user or address"),
}


class BrokerCollector(Collector):
    """One snapshot as metric families."""

    def __init__(self, stats: BrokerStats, counters: GatewayCounters, readers: Sequence[LogReader]) -> None:
        self._stats = stats
        self._counters = counters
        self._readers = readers

    def collect(self) -> Iterable[Metric]:
        stats = self._stats
        destinations = stats.destinations[:DESTINATIONS_MAX]
        consumers = stats.consumers[:CONSUMERS_MAX]
        yield from _families(_DESTINATIONS, destinations)
        yield from _families(_CONSUMERS, consumers)
        yield from _families(_ADDRESSES, stats.addresses[:DESTINATIONS_MAX])
        yield from _families(_LOG_READERS, self._readers[:LOG_READERS_MAX])
        labelled = _labelled_values(stats)
        yield from _labelled(GaugeMetricFamily, _LABELLED_GAUGES, labelled)
        left_out_count = len(stats.destinations) - len(destinations) + len(stats.consumers) - len(consumers)
        yield from _single(GaugeMetricFamily, _broker_gauges(stats, left_out_count))
        yield from _labelled(CounterMetricFamily, _LABELLED_COUNTERS, labelled)
        yield from _single(CounterMetricFamily, _gateway_counters(stats, self._counters))
        yield from _histograms(stats, self._counters)


def _broker_gauges(stats: BrokerStats, left_out_count: int) -> Iterable[Single]:
    due_s = stats.schedule.next_due_ms / 1000
    return (
        ("connections", "Client connections", stats.connections),
        ("blocked_producers", "Connections whose messages wait at a gate", len(stats.blocked_producers)),
        ("memory_bytes", "Messages in memory, with their overhead", stats.memory_bytes),
        ("memory_limit_bytes", "Limit of the messages in memory", stats.memory_limit_bytes),
        ("unsettled_limit_bytes", "Limit of one user's unsettled deliveries, -1 for none", stats.unsettled.limit_bytes),
        ("pending_limit_bytes", "Limit of what waits in memory for one user, -1 for none", stats.pending.limit_bytes),
        ("late_limit_bytes", "Limit of what one user has committed and is not published yet", stats.late.limit_bytes),
        (
            "connections_held_bytes",
            "Octets that connections hold besides messages on queues",
            stats.holdings.used_bytes,
        ),
        ("requests_held_bytes", "Of these, what HTTP requests and answers hold", stats.holdings.requests_bytes),
        ("handshakes_held_bytes", "Of these, what TLS handshakes under way hold", stats.holdings.handshakes_bytes),
        ("connections_held_limit_bytes", "Their limit; past it a connection ends", stats.holdings.limit_bytes),
        ("spilled_bytes", "Messages in temporary files that only memory would hold", stats.spilled_bytes),
        ("store_accepting", "1 while the store takes messages, 0 after a failed write", stats.store.is_accepting),
        ("store_append_offset_bytes", "End of the commit log", stats.store.append_offset),
        ("store_durable_offset_bytes", "Below it, the commit log survives a power cut", stats.store.durable_offset),
        ("schedule_pending", "Scheduled messages that are pending", stats.schedule.pending),
        ("schedule_next_due_seconds", "When the first of them is due, since 1970; 0 without any", due_s),
        ("schedule_late", "Messages that are past due and have not fired yet, at most 10,000", stats.schedule.late),
        ("schedule_held", "Due messages that a gate of their destination holds back", stats.schedule.held),
        ("duplicate_ids", "Duplicate ids that are remembered", stats.duplicate_ids.known),
        ("prepared_transactions", "Distributed transactions prepared and not decided", stats.branches.prepared),
        ("prepared_transactions_bytes", "Memory of these", stats.branches.size_bytes),
        (
            "prepared_oldest_seconds",
            "When the oldest was prepared, since 1970; 0 without any",
            stats.branches.oldest_ms / 1000,
        ),
        ("schedule_aside", "Messages that cannot be fired, see the log", stats.schedule.aside),
        ("retention_held", "1 while space waits that could be freed, see /healthz", bool(stats.store.retention)),
        ("left_out_of_metrics", "Destinations and consumers beyond the limit of a scrape", left_out_count),
    )


def _gateway_counters(stats: BrokerStats, counters: GatewayCounters) -> Iterable[Single]:
    return (
        ("dropped_frames", "Frames that waited at a gate when their connection was lost", counters.dropped_frames),
        ("stalled_connections", "Connections ended because the peer read no output", counters.stalled),
        ("refused_connections", "Connections refused because the limit was reached", counters.refused),
        ("holders_ended", "Connections ended to free connection memory", stats.holdings.ended),
        ("left_out_log_lines", "Log lines left out because one peer caused too many", counters.left_out_lines),
        ("failed_logins", "Logins with a wrong password, or of an unknown user", counters.failed_logins),
        ("refused_logins", "Logins refused unchecked, because too many waited", counters.refused_logins),
        ("failed_key_readings", "Readings of the keys of security.jwt that failed", counters.failed_key_readings),
        ("trace_spans", "Spans of messages given to the exporter of traces", counters.spans),
        ("trace_spans_dropped", "Spans left out because too many waited or were under way", counters.dropped_spans),
        ("trace_spans_failed", "Spans that the collector did not take", counters.failed_spans),
        (
            "trace_faults",
            "Calls of the tracer ended by a defect of the gateway; spans are missing",
            counters.trace_faults,
        ),
        ("session_faults", "Connections ended by a defect of the gateway, see the log", counters.session_faults),
        ("conversion_faults", "Messages sent unconverted because of a defect, see the log", counters.conversion_faults),
        ("slow_consumers_found", "Consumers found slow, at addresses that check it", stats.slow_consumers.found),
        ("slow_consumers_ended", "Consumers ended because they were slow", stats.slow_consumers.ended),
        ("scheduled_messages", "Messages accepted to be delivered later", stats.schedule.scheduled),
        ("schedule_fired", "Deliveries of scheduled messages", stats.schedule.fired),
        ("duplicates_dropped", "Messages whose duplicate id was known", stats.duplicate_ids.dropped),
        ("prepared_committed", "Prepared transactions that were committed", stats.branches.committed),
        ("prepared_rolled_back", "Prepared transactions that were rolled back", stats.branches.rolled_back),
        ("schedule_cancelled", "Scheduled messages that were cancelled", stats.schedule.cancelled),
        ("spill_lost_messages", "Messages lost in damaged blocks of temporary files", stats.spill_lost_count),
        ("evicted_messages", "Messages dropped by pending-message limits", stats.slow_consumers.evicted),
    )


def _single(kind: Kind, rows: Iterable[Single]) -> Iterator[Metric]:
    for name, text, value in rows:
        yield kind(f"penstock_{name}", text, value=float(value))


def _histograms(stats: BrokerStats, counters: GatewayCounters) -> Iterator[Metric]:
    """Yield a family for each that is measured."""
    sync_times = None if counters.sync_times is None else counters.sync_times.stats()
    for name, text, histogram in (
        ("publish_to_deliver", "From when messages were accepted to their first hand-over", stats.until_delivered),
        ("publish_to_acknowledge", "From when messages were accepted to their settlement", stats.until_acknowledged),
        ("sync", "Syncs of the commit log", sync_times),
    ):
        if histogram is not None:
            bounds = [
                floatToGoString(bound_s)  # type: ignore[no-untyped-call]
                for bound_s in (*histogram.bounds_s, math.inf)
            ]
            buckets = list(zip(bounds, accumulate(histogram.counts), strict=True))
            yield HistogramMetricFamily(f"penstock_{name}_seconds", text, buckets, histogram.sum_s)


def _labelled_values(stats: BrokerStats) -> dict[str, Mapping[Any, float]]:
    return {
        "producer_blocked_seconds": {number: waited_ms / 1000 for number, waited_ms in stats.blocked_ms.items()},
        "connection_held_bytes": stats.holdings.largest,
        "unsettled_bytes": stats.unsettled.largest,
        "late_bytes": stats.late.largest,
        "pending_bytes": stats.pending.largest,
        "consumers_at_gate": Counter(gate_of(consumer) for consumer in stats.consumers),
        "producer_waits": stats.producer_waits,
        "pending_dropped": stats.pending.dropped,
        "refused_by_user_limit": stats.refused_by_user_limit,
    }


def gate_of(consumer: ConsumerStats) -> str:
    """Return the name of the gate without its details, which a time series could not bear."""
    return consumer.gate.partition(":")[0].partition(" ")[0] or GATE_NAMES[OPEN]


def _labelled(
    kind: Kind, heads: Mapping[str, tuple[str, str]], values: Mapping[str, Mapping[Any, float]]
) -> Iterator[Metric]:
    """Yield a family with one label for each head.  heads: the label's name and the text, by name."""
    for name, (label, text) in heads.items():
        family = kind(f"penstock_{name}", text, labels=[label])
        for key, value in values[name].items():
            family.add_metric([str(key)], float(value))
        yield family


def _families(
    of: Rows,
    rows: Sequence[DestinationStats] | Sequence[AddressStats] | Sequence[ConsumerStats] | Sequence[LogReader],
) -> Iterator[Metric]:
    """Yield a family for each field."""
    labelled = [
        ([str(getattr(stats, field))[: of.label_characters] for field in of.labels.values()], stats) for stats in rows
    ]
    for kind, fields in ((GaugeMetricFamily, of.gauges), (CounterMetricFamily, of.counters)):
        for name, text in fields:
            family = kind(f"penstock_{of.noun}_{name}", text, labels=list(of.labels))
            for values, stats in labelled:
                family.add_metric(values, float(getattr(stats, name)))
            yield family


def render(
    stats: BrokerStats, accept: str = "", counters: GatewayCounters | None = None, readers: Sequence[LogReader] = ()
) -> tuple[bytes, str]:
    """Return the page and its content type.  accept: the request's header, which chooses between the text formats."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(BrokerCollector(stats, counters or GatewayCounters(), readers))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type
