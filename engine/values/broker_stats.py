"""Plain values that ``Broker.stats`` returns for metrics, ``stat`` and the console; nothing here is live."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ConsumerStats:
    """One consumer.  ``gate``: why it gets nothing now, "" if it is served.  ``is_slow``: by ActiveMQ's rule."""

    consumer_id: int
    connection_id: int
    destination: str
    subscription: str
    prefetch: int
    in_flight: int
    acknowledged: int
    gate: str
    is_slow: bool = False


@dataclass(frozen=True, slots=True)
class DestinationStats:
    """One destination.  ``depth``: messages waiting, in flight or delayed.  All other counts are since the start.

    is_paused: an operator keeps its messages from consumers.
    memory_bytes: of the messages in memory that wait there; a topic's counts once for each subscription.
    disk_bytes: of its messages in the log that are still needed.
    producers: opened for it by AMQP and OpenWire clients; other senders have none.
    """

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
    is_paused: bool = False
    memory_bytes: int = 0
    disk_bytes: int = 0
    producers: int = 0


@dataclass(frozen=True, slots=True)
class AddressStats:
    """An address with a limit.  Limits: -1 for none.  dropped: messages discarded, failed: sends refused."""

    address: str
    policy: str
    used_bytes: int
    limit_bytes: int
    used_messages: int
    limit_messages: int
    is_full: bool
    dropped: int
    failed: int


@dataclass(frozen=True, slots=True)
class HistogramStats:
    """bounds_s: of the buckets.  counts: of each bucket alone, the last one for what is longer than all bounds."""

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float


@dataclass(frozen=True, slots=True)
class SlowStats:
    """Since the start: consumers found slow, consumers ended for it, messages discarded by pending-message limits."""

    found: int = 0
    ended: int = 0
    evicted: int = 0


@dataclass(frozen=True, slots=True)
class ScheduleStats:
    """pending: messages that wait for their time.  next_due_ms: wall clock of the first, 0 if there is none.

    late: past due and not fired yet.  scheduled, fired, cancelled: since the start.
    fault: why a scheduled message cannot be read.
    held: past due, but held back by a gate of their destination; held_by: that gate, in words, "" for none.
    aside: put aside because they cannot be fired (a defect); aside_reason: why, for one of them.
    """

    pending: int = 0
    next_due_ms: int = 0
    late: int = 0
    scheduled: int = 0
    fired: int = 0
    cancelled: int = 0
    fault: str = ""
    held: int = 0
    held_by: str = ""
    aside: int = 0
    aside_reason: str = ""


@dataclass(frozen=True, slots=True)
class DuplicateIdStats:
    """known: ids remembered.  dropped: messages not accepted again, since the start."""

    known: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class BranchStats:
    """Prepared branches of distributed transactions.  oldest_ms: when the oldest was prepared, 0 without any.

    size_bytes: their memory.  committed, rolled_back: outcomes since the start.
    """

    prepared: int = 0
    size_bytes: int = 0
    oldest_ms: int = 0
    committed: int = 0
    rolled_back: int = 0


@dataclass(frozen=True, slots=True)
class HoldingStats:
    """Memory of connections, without messages on queues.  largest: connection -> octets, for those that hold most.

    ended: connections ended since the start because all together held too much.  requests_bytes: of requests over HTTP.
    handshakes_bytes: of TLS handshakes under way.
    """

    used_bytes: int = 0
    limit_bytes: int = 0
    ended: int = 0
    largest: dict[int, int] = field(default_factory=dict)
    requests_bytes: int = 0
    handshakes_bytes: int = 0


@dataclass(frozen=True, slots=True)
class UnsettledStats:
    """What users hold unsettled; small messages are rounded up.

    limit_bytes: per holder, -1 for no limit.  largest: holder -> octets, for those that hold most.
    """

    limit_bytes: int = -1
    largest: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PendingStats:
    """What waits in memory in the subscriptions of users, as found when memory was last short.

    limit_bytes: per holder, -1 for no limit.  largest: holder -> octets, for those with the most.
    dropped: holder -> messages dropped since the start.
    """

    limit_bytes: int = -1
    largest: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LateStats:
    """What users have committed to topics and later turns publish.

    limit_bytes: per holder, -1 for no limit.  largest: holder -> octets, for those with the most.
    """

    limit_bytes: int = -1
    largest: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Offsets are octets from the start of the log.  ``retention``: why space is not freed, "" if it is."""

    append_offset: int
    durable_offset: int
    is_accepting: bool
    reason: str
    retention: str = ""


@dataclass(frozen=True, slots=True)
class BrokerStats:
    """Everything at one moment.  ``memory_bytes``: non-persistent messages and pending topic deliveries.

    blocked_producers, blocked_ms: connection -> what its messages wait for, and how long the first has waited.
    addresses: those with a limit.  spilled_bytes: of messages in temporary files.
    producer_waits: gate -> how many waits of connections have begun there since the start.
    refused_by_user_limit: limit per user -> how often it was enforced since the start.
    spill_lost_count: messages lost since the start because their block could not be read back.
    until_delivered, until_acknowledged: from when messages were accepted; None where that is not measured.
    """

    destinations: list[DestinationStats]
    consumers: list[ConsumerStats]
    store: StoreStats
    connections: int
    memory_bytes: int
    memory_limit_bytes: int
    blocked_producers: dict[int, str] = field(default_factory=dict)
    blocked_ms: dict[int, int] = field(default_factory=dict)
    producer_waits: dict[str, int] = field(default_factory=dict)
    addresses: list[AddressStats] = field(default_factory=list)
    slow_consumers: SlowStats = field(default_factory=SlowStats)
    spilled_bytes: int = 0
    spill_lost_count: int = 0
    refused_by_user_limit: dict[str, int] = field(default_factory=dict)
    schedule: ScheduleStats = field(default_factory=ScheduleStats)
    duplicate_ids: DuplicateIdStats = field(default_factory=DuplicateIdStats)
    branches: BranchStats = field(default_factory=BranchStats)
    holdings: HoldingStats = field(default_factory=HoldingStats)
    unsettled: UnsettledStats = field(default_factory=UnsettledStats)
    pending: PendingStats = field(default_factory=PendingStats)
    late: LateStats = field(default_factory=LateStats)
    until_delivered: HistogramStats | None = None
    until_acknowledged: HistogramStats | None = None
