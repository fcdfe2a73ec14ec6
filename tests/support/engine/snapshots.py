"""Snapshots of a broker, for tests of the code that shows them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from engine.values.broker_stats import (
    AddressStats,
    BrokerStats,
    ConsumerStats,
    DestinationStats,
    HistogramStats,
    SlowStats,
    StoreStats,
)
from gateway.web.resources.stat import stat_text
from gateway.web.samples.rates import RateSampler


def destination(name: str, kind: str = "queue", *, enqueued: int = 10, acknowledged: int = 4) -> DestinationStats:
    return DestinationStats(
        name=name,
        kind=kind,
        depth=enqueued - acknowledged,
        in_flight=2,
        delayed=1,
        consumers=3,
        enqueued=enqueued,
        delivered=acknowledged + 2,
        acknowledged=acknowledged,
        redelivered=1,
        dead_lettered=5,
        expired=6,
    )


def broker(
    *destinations: DestinationStats, accepting: bool = True, consumers: int = 1, blocked: dict[int, str] | None = None
) -> BrokerStats:
    return BrokerStats(
        destinations=list(destinations),
        consumers=[
            ConsumerStats(number, 7, "queue://orders", "sub", 1000, 2, 4, "", number == 1)
            for number in range(1, consumers + 1)
        ],
        store=StoreStats(4096, 2048, accepting, "" if accepting else "disk full at commitlog/0"),
        connections=8,
        memory_bytes=1024,
        memory_limit_bytes=256 * 1024 * 1024,
        blocked_producers=blocked or {},
        blocked_ms=dict.fromkeys(blocked or {}, 1500),
        addresses=[AddressStats("queue://orders", "DROP", 120, 100, 7, -1, True, 3, 2)],
        slow_consumers=SlowStats(4, 5, 6),
    )


def rates_after(*samples: tuple[float, BrokerStats]) -> RateSampler:
    """Return rates that have taken these samples, each with its time in seconds."""
    sampler = RateSampler()
    for now_s, stats in samples:
        for _ in sampler.sample(stats.destinations, now_s):
            pass
    return sampler


def stat_document(stats: BrokerStats, rates: RateSampler) -> dict[str, Any]:
    """Return the answer of ``/api/stat``."""
    document: dict[str, Any] = json.loads("".join(stat_text(stats, rates)))
    return document


def with_histograms(stats: BrokerStats) -> BrokerStats:
    """Return the snapshot of a broker that measures times: of three messages, and of four that were acknowledged."""
    bounds_s = (0.5, 1.0)
    return replace(
        stats,
        until_delivered=HistogramStats(bounds_s, (2, 1, 0), 1.25),
        until_acknowledged=HistogramStats(bounds_s, (0, 1, 3), 30.0),
    )
