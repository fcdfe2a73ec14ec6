"""The policies of a destination as frozen values, with their decisions as pure methods.

Each formula is in one place: only this file clamps a prefetch.  Redelivery and dead letters have files of their own.
Names and defaults are ActiveMQ's; where Penstock differs, the comment says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from config.dead_letter_policy import DeadLetterPolicy
from config.redelivery_policy import RedeliveryPolicy

UNLIMITED: Final = -1

KIB: Final = 1024
MIB: Final = 1024 * KIB

# ActiveMQ's limit for every kind of subscription: the largest Java short less one.
MAXIMUM_PREFETCH: Final = 32_766

TopUp = Literal["half", "each-ack"]
Nack = Literal["redeliver", "dead-letter", "requeue"]
Blame = Literal["acked+1", "all", "none"]
ExpiryStrategy = Literal["shared", "individual"]
FullPolicy = Literal["PAGE", "BLOCK", "DROP", "FAIL"]
PageFullPolicy = Literal["DROP", "FAIL"]
SlowPolicy = Literal["NOTIFY", "KILL"]
RateUnit = Literal["MESSAGES_PER_SECOND", "MESSAGES_PER_MINUTE", "MESSAGES_PER_HOUR", "MESSAGES_PER_DAY"]
AbortStrategy = Literal["none", "slow", "slow-ack"]
PendingStrategy = Literal["none", "constant", "prefetch-rate"]
Eviction = Literal["oldest", "oldest-lowest-priority", "unique-property"]

RATE_UNIT_SECONDS: Final[Mapping[str, int]] = {
    "MESSAGES_PER_SECOND": 1,
    "MESSAGES_PER_MINUTE": 60,
    "MESSAGES_PER_HOUR": 3_600,
    "MESSAGES_PER_DAY": 86_400,
}


@dataclass(frozen=True, slots=True)
class PrefetchPolicy:
    """How many messages a consumer may hold unsettled by default.  Terms: ActiveMQ ActiveMQPrefetchPolicy.

    A consumer of a queue has two limits: a persistent message is handed out while fewer than queue_prefetch are in
    flight, a non-persistent one while fewer than non_persistent_queue_prefetch are.  The consumer's own prefetch
    replaces both.
    """

    queue_prefetch: int = 1_000
    non_persistent_queue_prefetch: int = 1_000
    queue_browser_prefetch: int = 500
    durable_topic_prefetch: int = 100
    topic_prefetch: int = MAXIMUM_PREFETCH
    # half: a full window waits until at most half of it is in flight, and is then refilled.
    top_up: TopUp = "half"
    # Whether an acknowledgement inside an open transaction frees its place, so that a transaction may exceed the
    # window.
    use_prefetch_extension: bool = True

    def default_for(self, is_topic: bool, is_durable: bool, is_browser: bool) -> int:
        """Return the default window of a consumer; on a queue, the one for persistent messages."""
        if is_browser:
            return self.queue_browser_prefetch
        if not is_topic:
            return self.queue_prefetch
        return self.durable_topic_prefetch if is_durable else self.topic_prefetch


def clamp_prefetch(requested: int) -> int:
    """Return the prefetch of a consumer that requested ``requested``."""
    return min(requested, MAXIMUM_PREFETCH)


@dataclass(frozen=True, slots=True)
class FlowPolicy:
    """Windows in bytes, and rates.  Terms: HornetQ connection factory."""

    # Of messages in flight to one consumer; -1: no limit; 0: one message at a time, none read ahead.  The last message
    # may overshoot.  HornetQ's default of 1 MiB covers messages that its client has not read yet.  Ours covers
    # unsettled messages, so 1 MiB would stop a client for good that acknowledges a hundred larger messages at once.
    consumer_window_size_bytes: int = 64 * MIB
    consumer_max_rate_per_second: int = UNLIMITED
    producer_window_size_bytes: int = 64 * KIB  # unconfirmed, of one producer at an address under BLOCK
    producer_max_rate_per_second: int = UNLIMITED


@dataclass(frozen=True, slots=True)
class AddressFullPolicy:
    """The limits of an address, and what happens to messages beyond them.  Terms: Artemis address-settings.

    Shared by all queues of the address and by all subscriptions of a topic.
    """

    max_size_bytes: int = UNLIMITED
    max_size_messages: int = UNLIMITED
    address_full_policy: FullPolicy = "PAGE"  # PAGE: limits apply to memory, the rest waits on disk
    block_timeout_ms: int = 0  # of BLOCK; then the send fails; 0: no limit
    page_limit_bytes: int = UNLIMITED  # of PAGE: memory and disk together
    page_limit_messages: int = UNLIMITED
    page_full_policy: PageFullPolicy = "FAIL"
    # Of BLOCK: beyond this, even messages with credit are refused, if the protocol can refuse them.
    max_size_bytes_reject_threshold: int = UNLIMITED


@dataclass(frozen=True, slots=True)
class ExpiryPolicy:
    """When messages expire, in addition to their producers' expiry.  Terms: Artemis address-settings.

    strategy: shared: the address settings' expiry_address; individual: a queue named after the message's destination,
    which is Artemis' auto-create-expiry-resources.
    """

    expiry_delay_ms: int = UNLIMITED  # of messages sent without an expiry
    min_expiry_delay_ms: int = UNLIMITED
    max_expiry_delay_ms: int = UNLIMITED
    ttl_ceiling_ms: int = UNLIMITED  # of messages that expire, whoever has set that
    no_expiry: bool = False  # nothing expires, whatever producers say
    strategy: ExpiryStrategy = "shared"
    queue_prefix: str = "EXP."
    queue_suffix: str = ""

    @property
    def is_unchanged(self) -> bool:
        """Say whether every message keeps its producer's expiry."""
        return (
            self.expiry_delay_ms < 0
            and self.min_expiry_delay_ms < 0
            and self.max_expiry_delay_ms < 0
            and self.ttl_ceiling_ms < 0
            and not self.no_expiry
        )

    def effective_ms(self, expiry_ms: int, now_ms: int) -> int:
        """Return the expiry of a message that asks for ``expiry_ms``; wall-clock milliseconds, 0 for never.

        As in Artemis: if expiry_delay_ms is set, the bounds do not apply; a message without an expiry gets the maximum,
        or else the minimum.  As in ActiveMQ, the ceiling applies to all of these and lets no other message expire.
        """
        if self.no_expiry:
            return 0
        wanted_ms = self._wanted_ms(expiry_ms, now_ms)
        return wanted_ms if self.ttl_ceiling_ms < 0 else min(wanted_ms, now_ms + self.ttl_ceiling_ms)

    def _wanted_ms(self, expiry_ms: int, now_ms: int) -> int:
        if self.expiry_delay_ms >= 0:
            return expiry_ms if expiry_ms else now_ms + self.expiry_delay_ms
        if self.max_expiry_delay_ms >= 0 and (expiry_ms == 0 or expiry_ms > now_ms + self.max_expiry_delay_ms):
            return now_ms + self.max_expiry_delay_ms
        if self.min_expiry_delay_ms >= 0 and expiry_ms < now_ms + self.min_expiry_delay_ms:
            return now_ms + self.min_expiry_delay_ms
        return expiry_ms


@dataclass(frozen=True, slots=True)
class SlowConsumerPolicy:
    """Which consumers are too slow, and what happens to them.

    By rate, as in HornetQ: threshold and the three fields after it.  By time, as in ActiveMQ: abort and those after it.
    abortSlowConsumerStrategy (``slow``): the window is full while messages wait, or more of a topic's messages are
    pending than its prefetch.  abortSlowAckConsumerStrategy (``slow-ack``): no acknowledgement for a given time.
    """

    threshold: int = UNLIMITED  # messages acknowledged in a threshold_unit; -1: not watched
    threshold_unit: RateUnit = "MESSAGES_PER_SECOND"
    policy: SlowPolicy = "NOTIFY"
    check_period_ms: int = 5_000
    abort: AbortStrategy = "none"
    abort_check_period_ms: int = 30_000
    max_slow_duration_ms: int = 30_000  # -1: no limit
    max_slow_count: int = UNLIMITED  # times that it was found slow
    max_time_since_last_ack_ms: int = 30_000
    ignore_idle_consumers: bool = True  # of slow-ack: those with nothing in flight
    abort_connection: bool = False  # the whole connection; a STOMP client can be informed only by an ERROR

    def threshold_per_second(self) -> float:
        return self.threshold / RATE_UNIT_SECONDS[self.threshold_unit]


@dataclass(frozen=True, slots=True)
class PendingLimitPolicy:
    """How many messages may wait for a non-durable topic subscription beyond its prefetch.

    Terms: ActiveMQ pendingMessageLimitStrategy and messageEvictionStrategy.
    """

    strategy: PendingStrategy = "none"
    limit: int = UNLIMITED  # of constant
    multiplier: float = 0.5  # of prefetch-rate
    eviction: Eviction = "oldest"
    eviction_property: str = ""  # of unique-property: of messages with equal values, the newest stays

    def limit_for(self, prefetch: int, requested: int) -> int:
        """Return the limit of a consumer, -1 for none.

        requested: its maximumPendingMessageLimit, which can only lower the limit; 0 or less: not set.
        """
        limit = UNLIMITED
        if self.strategy == "constant":
            limit = self.limit
        elif self.strategy == "prefetch-rate":
            limit = int(prefetch * self.multiplier)
        if requested > 0 and (limit < 0 or requested < limit):
            return requested
        return limit


@dataclass(frozen=True, slots=True)
class AdvisoryPolicy:
    """Which events of a destination are reported on ``ActiveMQ.Advisory.>``.  Terms: ActiveMQ policyEntry.

    Those of connections, consumers, producers and destinations are governed by the server's advisory_support.
    delivery: each message on arrival; dispatched: on hand-over; consumed: on acknowledgement.
    """

    slow_consumers: bool = False
    discarding_messages: bool = False
    fast_producers: bool = False
    when_full: bool = False
    delivery: bool = False
    dispatched: bool = False
    consumed: bool = False
    no_consumers: bool = False  # ActiveMQ: sendAdvisoryIfNoConsumers
    include_body: bool = False


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """Settings of a queue.  Terms: Artemis address-settings without their ``default-``, ActiveMQ policyEntry."""

    last_value: bool = False  # of messages with the same key, the newest stays
    last_value_key: str = "_AMQ_LVQ_NAME"  # the property; HornetQ: _HQ_LVQ_NAME
    exclusive_consumer: bool = False  # one consumer at a time gets all messages
    consumers_before_dispatch: int = 0
    delay_before_dispatch_ms: int = UNLIMITED  # longest wait for consumers_before_dispatch; -1: no limit
    group_rebalance: bool = False  # groups are redistributed when a consumer is added
    group_buckets: int = UNLIMITED  # number of hash buckets for groups; -1: each group by its name; 0: no groups
    group_first_key: str = ""  # property set on the first message of a group for its new owner
    group_idle_timeout_ms: int = UNLIMITED  # a group without messages for this time loses its owner
    max_consumers: int = UNLIMITED
    purge_on_no_consumers: bool = False  # without consumers, messages are dropped
    ring_size: int = UNLIMITED  # beyond this many messages the oldest is dropped
    non_destructive: bool = False  # acknowledged messages stay, and every consumer gets all
    strict_order_dispatch: bool = False  # the first consumer until its window is full, not in turn
    use_consumer_priority: bool = True
    prioritized_messages: bool = True  # False: JMSPriority does not change the order; ActiveMQ's default
    auto_create: bool = True
    auto_delete: bool = False  # without consumers and messages; never with a backlog
    auto_delete_delay_ms: int = 0
    auto_delete_message_count: int = 0  # up to this many messages do not prevent it; -1: any number


@dataclass(frozen=True, slots=True)
class RetroactivePolicy:
    """Earlier messages that a new subscription of a topic receives from the log."""

    message_count: int = 0  # for every new subscription.  Artemis: retroactive-message-count
    # For a subscription with the option ``retroactive``.  ActiveMQ: subscriptionRecoveryPolicy; -1: all that the log
    # holds.
    recovery_message_count: int = UNLIMITED
    recovery_time_ms: int = UNLIMITED
    always: bool = False  # every subscription counts as retroactive.  ActiveMQ: alwaysRetroactive


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How long consumed messages of a destination stay in the log; UNLIMITED: the store's own setting."""

    time_ms: int = UNLIMITED
    bytes: int = UNLIMITED  # of its messages; beyond, the oldest may be dropped early
    until_exported: bool = False  # not dropped before they are exported
    export_deadline_ms: int = 7 * 24 * 3_600_000  # age at which they are dropped anyway


@dataclass(frozen=True, slots=True)
class AddressSettings:
    """All effective settings of one destination."""

    redelivery: RedeliveryPolicy = field(default_factory=RedeliveryPolicy)
    prefetch: PrefetchPolicy = field(default_factory=PrefetchPolicy)
    flow: FlowPolicy = field(default_factory=FlowPolicy)
    full: AddressFullPolicy = field(default_factory=AddressFullPolicy)
    dead_letters: DeadLetterPolicy = field(default_factory=DeadLetterPolicy)
    expiry: ExpiryPolicy = field(default_factory=ExpiryPolicy)
    slow_consumers: SlowConsumerPolicy = field(default_factory=SlowConsumerPolicy)
    pending: PendingLimitPolicy = field(default_factory=PendingLimitPolicy)
    advisories: AdvisoryPolicy = field(default_factory=AdvisoryPolicy)
    queue: QueuePolicy = field(default_factory=QueuePolicy)
    retroactive: RetroactivePolicy = field(default_factory=RetroactivePolicy)
    retention: RetentionPolicy = field(default_factory=RetentionPolicy)
    dead_letter_address: str | None = "ActiveMQ.DLQ"  # None: exhausted messages are dropped, counted
    expiry_address: str | None = None  # None: expired messages are dropped, counted
    nack: Nack = "redeliver"
    blame: Blame = "acked+1"  # which messages of a lost connection count an attempt
    log_non_persistent: bool = False
    enable_ingress_timestamp: bool = False  # whether messages show their store time

    def dead_letter_destination(self, is_topic: bool, name: str, subscriber: str | None) -> tuple[bool, str] | None:
        """Return where a message that is given up goes, like ``DeadLetterPolicy.destination``."""
        return self.dead_letters.destination(is_topic, name, subscriber, self.dead_letter_address)

    def expiry_destination(self, is_topic: bool, name: str, subscriber: str | None) -> tuple[bool, str] | None:
        """Return the destination of expired messages, like ``dead_letter_destination``."""
        if self.expiry.strategy == "individual":
            return False, f"{self.expiry.queue_prefix}{name}{self.expiry.queue_suffix}"
        if self.expiry_address is not None:
            return False, self.expiry_address
        if self.dead_letters.process_expired:
            return self.dead_letter_destination(is_topic, name, subscriber)
        return None


DEFAULT_ADDRESS_SETTINGS: Final = AddressSettings()
