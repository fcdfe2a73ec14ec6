"""Which keys the settings of an address may have: the part of ``config.schema`` that entries of ``addresses`` hold."""

from __future__ import annotations

from typing import Final

from config.model import GIB
from config.names import NamePart, PropertyName, QueueName
from config.policies import MAXIMUM_PREFETCH, RATE_UNIT_SECONDS
from config.schema import ENTRY_KEYS, GROUP_KEY, INTEGER_MAX, TIB, YEAR_MS, Leaf, Tree
from config.values import Boolean, Bytes, Choice, Duration, Factor, Integer, Number

# Settings of an address.  Groups are ActiveMQ's policies.  Settings of an Artemis address-setting are not grouped and
# have their names there.  The model groups some differently: ``blame`` is with the redelivery that it governs.
ADDRESS: Final[Tree] = {
    "redelivery": {
        "maximum-redeliveries": Leaf("redelivery.maximum_redeliveries", Integer(0, 1_000_000, unlimited=True)),
        "initial-redelivery-delay-ms": Leaf("redelivery.initial_redelivery_delay_ms", Duration(0, YEAR_MS)),
        "redelivery-delay-ms": Leaf("redelivery.redelivery_delay_ms", Duration(0, YEAR_MS)),
        "use-exponential-back-off": Leaf("redelivery.use_exponential_back_off", Boolean()),
        "back-off-multiplier": Leaf("redelivery.back_off_multiplier", Number(0, 1_000)),
        "maximum-redelivery-delay-ms": Leaf(
            "redelivery.maximum_redelivery_delay_ms", Duration(0, YEAR_MS, unlimited=True)
        ),
        "maximum-redelivery-delay-factor": Leaf("redelivery.maximum_redelivery_delay_factor", Number(0, 1_000_000)),
        "use-collision-avoidance": Leaf("redelivery.use_collision_avoidance", Boolean()),
        "collision-avoidance-percent": Leaf("redelivery.collision_avoidance_percent", Number(0, 100)),
        "collision-avoidance-factor": Leaf("redelivery.collision_avoidance_percent", Factor(), is_alias=True),
        "collision-avoidance-spread": Leaf("redelivery.collision_avoidance_spread", Choice("fresh", "compounding")),
        "back-off-from-base": Leaf("redelivery.back_off_from_base", Boolean()),
        "non-blocking-redelivery": Leaf("redelivery.non_blocking_redelivery", Boolean()),
        "delays-rollback": Leaf("redelivery.delays_rollback", Boolean()),
        "blame": Leaf("blame", Choice("acked+1", "all", "none")),
    },
    "prefetch": {
        "queue-prefetch": Leaf("prefetch.queue_prefetch", Integer(0, MAXIMUM_PREFETCH)),
        "non-persistent-queue-prefetch": Leaf("prefetch.non_persistent_queue_prefetch", Integer(0, MAXIMUM_PREFETCH)),
        "queue-browser-prefetch": Leaf("prefetch.queue_browser_prefetch", Integer(1, MAXIMUM_PREFETCH)),
        "durable-topic-prefetch": Leaf("prefetch.durable_topic_prefetch", Integer(0, MAXIMUM_PREFETCH)),
        "topic-prefetch": Leaf("prefetch.topic_prefetch", Integer(0, MAXIMUM_PREFETCH)),
        "use-prefetch-extension": Leaf("prefetch.use_prefetch_extension", Boolean()),
    },
    "prefetch-top-up": Leaf("prefetch.top_up", Choice("half", "each-ack")),
    "consumer-window-size": Leaf("flow.consumer_window_size_bytes", Bytes(0, 1 * GIB, unlimited=True)),
    "consumer-max-rate": Leaf("flow.consumer_max_rate_per_second", Integer(1, 10_000_000, unlimited=True)),
    "producer-window-size": Leaf("flow.producer_window_size_bytes", Bytes(1, 1 * GIB, unlimited=True)),
    "producer-max-rate": Leaf("flow.producer_max_rate_per_second", Integer(1, 10_000_000, unlimited=True)),
    "max-size-bytes": Leaf("full.max_size_bytes", Bytes(0, 1024 * TIB, unlimited=True)),
    "max-size-messages": Leaf("full.max_size_messages", Integer(0, 10**12, unlimited=True)),
    "address-full-policy": Leaf("full.address_full_policy", Choice("PAGE", "BLOCK", "DROP", "FAIL")),
    "block-timeout-ms": Leaf("full.block_timeout_ms", Duration(0, YEAR_MS)),
    "page-limit-bytes": Leaf("full.page_limit_bytes", Bytes(0, 1024 * TIB, unlimited=True)),
    "page-limit-messages": Leaf("full.page_limit_messages", Integer(0, 10**12, unlimited=True)),
    "page-full-policy": Leaf("full.page_full_policy", Choice("DROP", "FAIL")),
    "max-size-bytes-reject-threshold": Leaf(
        "full.max_size_bytes_reject_threshold", Bytes(0, 1024 * TIB, unlimited=True)
    ),
    "dead-letter-address": Leaf("dead_letter_address", QueueName()),
    "dead-letters": {
        "strategy": Leaf("dead_letters.strategy", Choice("shared", "individual", "discard")),
        "queue-prefix": Leaf("dead_letters.queue_prefix", NamePart()),
        "topic-prefix": Leaf("dead_letters.topic_prefix", NamePart()),
        "queue-suffix": Leaf("dead_letters.queue_suffix", NamePart()),
        "topic-suffix": Leaf("dead_letters.topic_suffix", NamePart()),
        "use-queue-for-queue-messages": Leaf("dead_letters.use_queue_for_queue_messages", Boolean()),
        "use-queue-for-topic-messages": Leaf("dead_letters.use_queue_for_topic_messages", Boolean()),
        "destination-per-durable-subscriber": Leaf("dead_letters.destination_per_durable_subscriber", Boolean()),
        "process-expired": Leaf("dead_letters.process_expired", Boolean()),
        "process-non-persistent": Leaf("dead_letters.process_non_persistent", Boolean()),
        "expiration-ms": Leaf("dead_letters.expiration_ms", Duration(0, 100 * YEAR_MS)),
    },
    "send-to-dla-on-no-route": Leaf("dead_letters.send_to_dla_on_no_route", Boolean()),
    "expiry-address": Leaf("expiry_address", QueueName()),
    "expiry-delay-ms": Leaf("expiry.expiry_delay_ms", Duration(0, 100 * YEAR_MS, unlimited=True)),
    "min-expiry-delay-ms": Leaf("expiry.min_expiry_delay_ms", Duration(0, 100 * YEAR_MS, unlimited=True)),
    "max-expiry-delay-ms": Leaf("expiry.max_expiry_delay_ms", Duration(0, 100 * YEAR_MS, unlimited=True)),
    "ttl-ceiling-ms": Leaf("expiry.ttl_ceiling_ms", Duration(0, 100 * YEAR_MS, unlimited=True)),
    "no-expiry": Leaf("expiry.no_expiry", Boolean()),
    "expiry-queues": {
        "strategy": Leaf("expiry.strategy", Choice("shared", "individual")),
        "queue-prefix": Leaf("expiry.queue_prefix", NamePart()),
        "queue-suffix": Leaf("expiry.queue_suffix", NamePart()),
    },
    "slow-consumer-threshold": Leaf("slow_consumers.threshold", Integer(0, INTEGER_MAX, unlimited=True)),
    "slow-consumer-threshold-measurement-unit": Leaf("slow_consumers.threshold_unit", Choice(*RATE_UNIT_SECONDS)),
    "slow-consumer-policy": Leaf("slow_consumers.policy", Choice("NOTIFY", "KILL")),
    "slow-consumer-check-period-ms": Leaf("slow_consumers.check_period_ms", Duration(100, YEAR_MS)),
    "abort-slow-consumers": {
        "strategy": Leaf("slow_consumers.abort", Choice("none", "slow", "slow-ack")),
        "check-period-ms": Leaf("slow_consumers.abort_check_period_ms", Duration(100, YEAR_MS)),
        "max-slow-duration-ms": Leaf("slow_consumers.max_slow_duration_ms", Duration(0, YEAR_MS, unlimited=True)),
        "max-slow-count": Leaf("slow_consumers.max_slow_count", Integer(1, INTEGER_MAX, unlimited=True)),
        "max-time-since-last-ack-ms": Leaf("slow_consumers.max_time_since_last_ack_ms", Duration(1, YEAR_MS)),
        "ignore-idle-consumers": Leaf("slow_consumers.ignore_idle_consumers", Boolean()),
        "abort-connection": Leaf("slow_consumers.abort_connection", Boolean()),
    },
    "pending-message-limit": {
        "strategy": Leaf("pending.strategy", Choice("none", "constant", "prefetch-rate")),
        "limit": Leaf("pending.limit", Integer(0, INTEGER_MAX, unlimited=True)),
        "multiplier": Leaf("pending.multiplier", Number(0, 1_000_000)),
        "eviction": Leaf("pending.eviction", Choice("oldest", "oldest-lowest-priority", "unique-property")),
        "eviction-property": Leaf("pending.eviction_property", PropertyName()),
    },
    "advisories": {
        "slow-consumers": Leaf("advisories.slow_consumers", Boolean()),
        "discarding-messages": Leaf("advisories.discarding_messages", Boolean()),
        "fast-producers": Leaf("advisories.fast_producers", Boolean()),
        "when-full": Leaf("advisories.when_full", Boolean()),
        "delivery": Leaf("advisories.delivery", Boolean()),
        "dispatched": Leaf("advisories.dispatched", Boolean()),
        "consumed": Leaf("advisories.consumed", Boolean()),
        "no-consumers": Leaf("advisories.no_consumers", Boolean()),
        "include-body": Leaf("advisories.include_body", Boolean()),
    },
    "last-value-queue": Leaf("queue.last_value", Boolean()),
    "last-value-key": Leaf("queue.last_value_key", PropertyName()),
    "exclusive-queue": Leaf("queue.exclusive_consumer", Boolean()),
    "consumers-before-dispatch": Leaf("queue.consumers_before_dispatch", Integer(0, 1_000_000)),
    "delay-before-dispatch-ms": Leaf("queue.delay_before_dispatch_ms", Duration(0, YEAR_MS, unlimited=True)),
    "group-rebalance": Leaf("queue.group_rebalance", Boolean()),
    "group-buckets": Leaf("queue.group_buckets", Integer(0, 10_000_000, unlimited=True)),
    "group-first-key": Leaf("queue.group_first_key", PropertyName()),
    "group-idle-timeout-ms": Leaf("queue.group_idle_timeout_ms", Duration(1, YEAR_MS, unlimited=True)),
    "non-destructive": Leaf("queue.non_destructive", Boolean()),
    "max-consumers": Leaf("queue.max_consumers", Integer(0, INTEGER_MAX, unlimited=True)),
    "purge-on-no-consumers": Leaf("queue.purge_on_no_consumers", Boolean()),
    "ring-size": Leaf("queue.ring_size", Integer(1, 10**12, unlimited=True)),
    "strict-order-dispatch": Leaf("queue.strict_order_dispatch", Boolean()),
    "use-consumer-priority": Leaf("queue.use_consumer_priority", Boolean()),
    "prioritized-messages": Leaf("queue.prioritized_messages", Boolean()),
    "auto-create": Leaf("queue.auto_create", Boolean()),
    "auto-delete": Leaf("queue.auto_delete", Boolean()),
    "auto-delete-delay-ms": Leaf("queue.auto_delete_delay_ms", Duration(0, YEAR_MS)),
    "auto-delete-message-count": Leaf("queue.auto_delete_message_count", Integer(0, INTEGER_MAX, unlimited=True)),
    "retroactive-message-count": Leaf("retroactive.message_count", Integer(0, INTEGER_MAX)),
    "retroactive": {
        "recovery-message-count": Leaf("retroactive.recovery_message_count", Integer(0, INTEGER_MAX, unlimited=True)),
        "recovery-time-ms": Leaf("retroactive.recovery_time_ms", Duration(1, 100 * YEAR_MS, unlimited=True)),
        "always": Leaf("retroactive.always", Boolean()),
    },
    "retention": {
        "time": Leaf("retention.time_ms", Duration(0, 100 * YEAR_MS, unlimited=True)),
        "bytes": Leaf("retention.bytes", Bytes(0, 1024 * TIB, unlimited=True)),
        "until-exported": Leaf("retention.until_exported", Boolean()),
        "export-deadline": Leaf("retention.export_deadline_ms", Duration(0, 100 * YEAR_MS)),
    },
    "enable-ingress-timestamp": Leaf("enable_ingress_timestamp", Boolean()),
    "nack": Leaf("nack", Choice("redeliver", "dead-letter", "requeue")),
    "log-non-persistent": Leaf("log_non_persistent", Boolean()),
}

ADDRESS_KEYS: Final = (*ENTRY_KEYS, GROUP_KEY, *ADDRESS)
