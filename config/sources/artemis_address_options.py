"""Every option of HornetQ's and Artemis' address-settings and queues: its meaning here, or why it has no effect."""

from __future__ import annotations

from typing import Final

from config import matching
from config.jms_options import JAVA_INT_MAX, YEAR_MS
from config.model import GIB
from config.names import NamePart, PropertyName, QueueName
from config.options import BinaryBytes, Option, Values, all_listed, computed, honoured, table
from config.policies import RATE_UNIT_SECONDS
from config.values import Boolean, Choice, Integer, Kind, Number

QUEUE_PREFIX: Final = "jms.queue."
TOPIC_PREFIX: Final = "jms.topic."
AUTO_CREATE_PATH: Final = "queue.auto_create"

_BOOLEAN: Final = Boolean()
_DELAY: Final = Integer(0, YEAR_MS)
_LONG_DELAY: Final = Integer(0, 100 * YEAR_MS, unlimited=True)
_COUNT: Final = Integer(0, JAVA_INT_MAX)
_ANY_COUNT: Final = Integer(0, JAVA_INT_MAX, unlimited=True)
BYTES: Final = BinaryBytes(0, 1024 * 1024 * GIB, unlimited=True)
MESSAGES: Final = Integer(0, 10**12, unlimited=True)

CLUSTER: Final = "a gateway is not part of a network"
CONSOLE: Final = "there is no JMX; see /metrics and penstock stat"
_PAGES: Final = "the backlog is in the log, and is read in pages as consumers need them"
_ROUTING: Final = "a client says whether it means a queue or a topic"
_FILES: Final = "a file is read at start; destinations that it no longer names stay"


class JmsQueueName(Kind):
    """A queue name in HornetQ's files: ``jms.queue.DLQ``, or ``DLQ``."""

    __slots__ = ()

    @property
    def allowed(self) -> str:
        return "the name of a queue as in jms.queue.DLQ or DLQ"

    def parse(self, text: str) -> str:
        if text.startswith(TOPIC_PREFIX):
            raise ValueError
        name = QueueName().parse(text.removeprefix(QUEUE_PREFIX))
        if name is None:
            raise ValueError
        return name


class Upper(Choice):
    """One of a few words, in any case."""

    __slots__ = ()

    def parse(self, text: str) -> str:
        return super().parse(text.upper())


def _attempts(value: int) -> Values:
    # Deliveries, not redeliveries; 0 and -1 mean no limit.
    return {"redelivery.maximum_redeliveries": value - 1 if value > 0 else -1}


def _multiplier(value: float) -> Values:
    return {
        "redelivery.back_off_multiplier": value,
        "redelivery.use_exponential_back_off": value > 1,
        "redelivery.maximum_redelivery_delay_factor": 10.0,
        "redelivery.back_off_from_base": True,
    }


def _factor(value: float) -> Values:
    percent = round(value * 100, 6)
    return {"redelivery.use_collision_avoidance": value > 0, "redelivery.collision_avoidance_percent": percent}


def _auto_create(name: str, whose: str) -> Option:
    text = f"`queue.auto_create` {whose}; of several options of one address-setting a false decides"
    return computed(name, _BOOLEAN, "false", text, lambda value: {AUTO_CREATE_PATH: value})


def _seconds(path: str) -> Option:
    return computed(
        "slow-consumer-check-period",
        Integer(1, 86_400 * 365),
        "30",
        f"`{path}`, times 1000",
        lambda value: {path: value * 1000},
    )


_SHARED: Final = (
    honoured("dead-letter-address", JmsQueueName(), "jms.queue.DLQ", "dead_letter_address"),
    honoured("expiry-address", JmsQueueName(), "jms.queue.Expired", "expiry_address"),
    honoured("expiry-delay", _LONG_DELAY, "60000", "expiry.expiry_delay_ms"),
    honoured(
        "redelivery-delay",
        _DELAY,
        "5000",
        "redelivery.initial_redelivery_delay_ms",
        "redelivery.redelivery_delay_ms",
    ),
    computed(
        "redelivery-delay-multiplier",
        Number(0, 1_000),
        "2.0",
        "`redelivery.back_off_multiplier`, with a cap of 10 times the delay unless max-redelivery-delay is set",
        _multiplier,
    ),
    honoured("max-redelivery-delay", _DELAY, "15000", "redelivery.maximum_redelivery_delay_ms"),
    computed(
        "max-delivery-attempts",
        Integer(0, 1_000_000, unlimited=True),
        "10",
        "`redelivery.maximum_redeliveries`, less one: it counts deliveries",
        _attempts,
    ),
    honoured("max-size-bytes", BYTES, "104857600", "full.max_size_bytes"),
    honoured(
        "address-full-policy", Upper("PAGE", "BLOCK", "DROP", "FAIL"), "BLOCK", "full.address_full_policy"
    ),
    honoured("send-to-dla-on-no-route", _BOOLEAN, "true", "dead_letters.send_to_dla_on_no_route"),
    honoured("slow-consumer-threshold", _ANY_COUNT, "10", "slow_consumers.threshold"),
    honoured("slow-consumer-policy", Upper("NOTIFY", "KILL"), "KILL", "slow_consumers.policy"),
    _seconds("slow_consumers.check_period_ms"),
    *all_listed(_PAGES, "page-size-bytes", "page-max-cache-size"),
    *all_listed(CONSOLE, "message-counter-history-day-limit"),
    *all_listed(CLUSTER, "redistribution-delay"),
)  # fmt: skip

# Options of the one setting -> the kinds of destination that they are about.
AUTO_CREATE: Final = {
    "auto-create-queues": matching.QUEUE,
    "auto-create-addresses": matching.BOTH,
    "auto-create-jms-queues": matching.QUEUE,
    "auto-create-jms-topics": matching.TOPIC,
}

# Of what auto-create-dead-letter-resources makes, if the file sets none.
DEAD_LETTER_PREFIXES: Final = {"dead_letters.queue_prefix": "DLQ.", "dead_letters.topic_prefix": "DLQ."}

HORNETQ_ADDRESS_SETTING: Final = table(
    *_SHARED,
    computed(
        "last-value-queue",
        _BOOLEAN,
        "true",
        "`queue.last_value`, by the property _HQ_LVQ_NAME",
        lambda value: {"queue.last_value": value, "queue.last_value_key": "_HQ_LVQ_NAME"},
    ),
)

ADDRESS_SETTING: Final = table(
    *_SHARED,
    honoured("last-value-queue", _BOOLEAN, "true", "queue.last_value"),
    computed(
        "redelivery-collision-avoidance-factor",
        Number(0, 1),
        "0.15",
        "`redelivery.collision_avoidance_percent`, times 100; above 0 switches it on",
        _factor,
    ),
    computed(
        "auto-create-dead-letter-resources",
        _BOOLEAN,
        "true",
        "`dead_letters.strategy`: true is individual, with the prefix DLQ. unless dead-letter-queue-prefix is set",
        lambda value: {"dead_letters.strategy": "individual" if value else "shared"},
    ),
    honoured(
        "dead-letter-queue-prefix", NamePart(), "DEAD.", "dead_letters.queue_prefix", "dead_letters.topic_prefix"
    ),
    honoured(
        "dead-letter-queue-suffix", NamePart(), ".DEAD", "dead_letters.queue_suffix", "dead_letters.topic_suffix"
    ),
    computed(
        "auto-create-expiry-resources",
        _BOOLEAN,
        "true",
        "`expiry.strategy`: true is individual",
        lambda value: {"expiry.strategy": "individual" if value else "shared"},
    ),
    honoured("expiry-queue-prefix", NamePart(), "OLD.", "expiry.queue_prefix"),
    honoured("expiry-queue-suffix", NamePart(), ".OLD", "expiry.queue_suffix"),
    honoured("min-expiry-delay", _LONG_DELAY, "1000", "expiry.min_expiry_delay_ms"),
    honoured("max-expiry-delay", _LONG_DELAY, "60000", "expiry.max_expiry_delay_ms"),
    honoured("no-expiry", _BOOLEAN, "true", "expiry.no_expiry"),
    honoured("max-size-messages", MESSAGES, "1000", "full.max_size_messages"),
    honoured("max-size-bytes-reject-threshold", BYTES, "2000000", "full.max_size_bytes_reject_threshold"),
    honoured("page-limit-bytes", BYTES, "10M", "full.page_limit_bytes"),
    honoured("page-limit-messages", MESSAGES, "1000", "full.page_limit_messages"),
    honoured("page-full-policy", Upper("DROP", "FAIL"), "DROP", "full.page_full_policy"),
    honoured(
        "slow-consumer-threshold-measurement-unit",
        Upper(*RATE_UNIT_SECONDS),
        "MESSAGES_PER_MINUTE",
        "slow_consumers.threshold_unit",
    ),
    honoured("default-last-value-queue", _BOOLEAN, "true", "queue.last_value"),
    honoured("default-last-value-key", PropertyName(), "symbol", "queue.last_value_key"),
    honoured("default-non-destructive", _BOOLEAN, "true", "queue.non_destructive"),
    honoured("default-exclusive-queue", _BOOLEAN, "true", "queue.exclusive_consumer"),
    honoured("default-consumers-before-dispatch", Integer(0, 1_000_000), "2", "queue.consumers_before_dispatch"),
    honoured(
        "default-delay-before-dispatch", Integer(0, YEAR_MS, unlimited=True), "5000", "queue.delay_before_dispatch_ms"
    ),
    honoured("default-group-rebalance", _BOOLEAN, "true", "queue.group_rebalance"),
    honoured("default-group-buckets", Integer(0, 10_000_000, unlimited=True), "64", "queue.group_buckets"),
    honoured("default-group-first-key", PropertyName(), "first", "queue.group_first_key"),
    honoured("default-max-consumers", _ANY_COUNT, "5", "queue.max_consumers"),
    honoured("default-purge-on-no-consumers", _BOOLEAN, "true", "queue.purge_on_no_consumers"),
    honoured("default-consumer-window-size", Integer(0, GIB, unlimited=True), "0", "flow.consumer_window_size_bytes"),
    honoured("default-ring-size", Integer(1, 10**12, unlimited=True), "100", "queue.ring_size"),
    honoured("retroactive-message-count", _COUNT, "10", "retroactive.message_count"),
    honoured("enable-ingress-timestamp", _BOOLEAN, "true", "enable_ingress_timestamp"),
    _auto_create("auto-create-queues", "of queues"),
    _auto_create("auto-create-addresses", "of topics; false is also that of queues"),
    _auto_create("auto-create-jms-queues", "of queues"),
    _auto_create("auto-create-jms-topics", "of topics"),
    honoured("auto-delete-queues", _BOOLEAN, "true", "queue.auto_delete"),
    honoured("auto-delete-jms-queues", _BOOLEAN, "true", "queue.auto_delete"),
    honoured("auto-delete-queues-delay", _DELAY, "1000", "queue.auto_delete_delay_ms"),
    honoured("auto-delete-queues-message-count", _ANY_COUNT, "-1", "queue.auto_delete_message_count"),
    honoured("queue-prefetch", Integer(0, 32_766), "10", "prefetch.queue_prefetch"),
    *all_listed("groups move on without a pause", "default-group-rebalance-pause-dispatch"),
    *all_listed("a full disk stops producers, with a reason", "disk-full-policy"),
    *all_listed(
        _PAGES,
        """
        max-read-page-bytes max-read-page-messages prefetch-page-bytes prefetch-page-messages page-sync-timeout
        initial-queue-buffer-size
        """,
    ),
    *all_listed(
        "a queue has no address apart from it; auto-delete-queues decides for both",
        """
        auto-delete-addresses auto-delete-addresses-delay auto-delete-addresses-skip-usage-check
        auto-delete-created-queues auto-delete-queues-skip-usage-check auto-delete-jms-topics
        """,
    ),
    *all_listed(_FILES, "config-delete-queues", "config-delete-addresses", "config-delete-diverts"),
    *all_listed(CONSOLE, "management-browse-page-size", "management-message-attribute-size-limit", "enable-metrics"),
    *all_listed(_ROUTING, "default-queue-routing-type", "default-address-routing-type"),
    *all_listed("`limits.duplicate-ids-per-address` is the same for all addresses", "id-cache-size"),
)  # fmt: skip

# Attributes and children of a queue in Artemis' ``addresses``: settings of that one queue.
QUEUE: Final = table(
    honoured("max-consumers", _ANY_COUNT, "5", "queue.max_consumers"),
    honoured("purge-on-no-consumers", _BOOLEAN, "true", "queue.purge_on_no_consumers"),
    honoured("exclusive", _BOOLEAN, "true", "queue.exclusive_consumer"),
    honoured("last-value", _BOOLEAN, "true", "queue.last_value"),
    honoured("last-value-key", PropertyName(), "symbol", "queue.last_value_key"),
    honoured("non-destructive", _BOOLEAN, "true", "queue.non_destructive"),
    honoured("consumers-before-dispatch", Integer(0, 1_000_000), "2", "queue.consumers_before_dispatch"),
    honoured("delay-before-dispatch", Integer(0, YEAR_MS, unlimited=True), "500", "queue.delay_before_dispatch_ms"),
    honoured("group-rebalance", _BOOLEAN, "true", "queue.group_rebalance"),
    honoured("group-buckets", Integer(0, 10_000_000, unlimited=True), "64", "queue.group_buckets"),
    honoured("group-first-key", PropertyName(), "first", "queue.group_first_key"),
    honoured("ring-size", Integer(1, 10**12, unlimited=True), "100", "queue.ring_size"),
    *all_listed("groups move on without a pause", "group-rebalance-pause-dispatch"),
    *all_listed("every queue of a gateway is durable; what it holds is as persistent as it was sent", "durable"),
    *all_listed("a queue takes whatever is sent to it; a consumer's selector takes part of it", "filter", "selector"),
    *all_listed("permissions say who may do what", "user"),
    *all_listed("an existing queue is always enabled", "enabled"),
    *all_listed("it is in the file, so it stays", "auto-delete", "auto-delete-delay", "auto-delete-message-count"),
    *all_listed("names in a directory are of JMS clients", "entry"),
    *all_listed("consumers bring their priority themselves", "consumer-priority"),
)
