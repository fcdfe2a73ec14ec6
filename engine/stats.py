"""Plain values that ``Broker.stats`` returns for metrics, ``stat`` and the console; nothing here is live."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ConsumerStats:
    """One consumer.  ``gate``: why it gets nothing now, in words, "" if it is served."""

    consumer_id: int
    connection_id: int
    destination: str
    subscription: str
    prefetch: int
    in_flight: int
    acknowledged: int
    gate: str


@dataclass(frozen=True, slots=True)
class DestinationStats:
    """One destination.  ``depth``: messages waiting, in flight or delayed.  All others since start."""

    name: str
    kind: str
    depth: int
    in_flight: int
    delayed: int
    consumers: int
    enqueued: int
    delivered: int
    acknowledged: int
    redelivered: int
    dead_lettered: int
    expired: int


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Offsets are octets from the start of the log."""

    append_offset: int
    durable_offset: int
    is_accepting: bool
    reason: str


@dataclass(frozen=True, slots=True)
class BrokerStats:
    """Everything at one moment.  ``memory_bytes``: non-persistent messages and pending topic deliveries."""

    destinations: list[DestinationStats]
    consumers: list[ConsumerStats]
    store: StoreStats
    connections: int
    memory_bytes: int
    memory_limit_bytes: int
    blocked_producers: dict[int, str] = field(default_factory=dict)
