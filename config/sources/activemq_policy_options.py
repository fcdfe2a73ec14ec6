"""Every option of a policyEntry and its strategies: its meaning here, or why it has no effect."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from config.jms_options import DELAY, JAVA_INT_MAX, PREFETCH, REDELIVERY, YEAR_MS
from config.model import GIB
from config.names import NamePart, PropertyName
from config.options import NO_VALUES, BinaryBytes, Table, Values, all_listed, computed, honoured, table
from config.values import Boolean, Integer, Kind, Number

_BOOLEAN: Final = Boolean()
_COUNT: Final = Integer(0, JAVA_INT_MAX)
_ANY_COUNT: Final = Integer(0, JAVA_INT_MAX, unlimited=True)
_BYTES: Final = BinaryBytes(0, 1024 * 1024 * GIB)
LONG_DELAY: Final = Integer(0, 100 * YEAR_MS)

_CURSOR: Final = "the backlog is on disk, and is read in pages as consumers need them"
_AUDIT: Final = "duplicates are not detected"
_EXPIRY: Final = "expire-messages-period is one for all destinations"
CLUSTER: Final = "a gateway is not part of a network"


class GroupMap(Kind):
    """``bucket``, ``bucket?bucketCount=1024``, ``simple``, ``cached``; a number of buckets, -1: each by its name."""

    __slots__ = ()

    @property
    def allowed(self) -> str:
        return "bucket, bucket?bucketCount=N, cached or simple"

    def parse(self, text: str) -> int:
        name, _, query = text.partition("?")
        options = dict(parse_qsl(query))
        if name == "bucket":
            return int(options.get("bucketCount", "1024"))
        if name in ("cached", "simple"):
            return -1
        raise ValueError


def _dispatch_start(value: int) -> Values:
    return {"queue.delay_before_dispatch_ms": value or -1}


# Attributes with the destinations of an entry; the reader handles them.
MATCHES: Final = ("queue", "topic", "tempQueue", "tempTopic", "destination")

POLICY_ENTRY: Final = table(
    *(PREFETCH[name] for name in ("queuePrefetch", "topicPrefetch", "durableTopicPrefetch", "queueBrowserPrefetch")),
    # Together with producerFlowControl and the system's sendFailIfNoSpace, which the reader handles.
    honoured("memoryLimit", _BYTES, "10 mb", "full.max_size_bytes"),
    computed(
        "producerFlowControl",
        _BOOLEAN,
        "true",
        "`full.address_full_policy` of an entry with a memoryLimit: true (the default) is BLOCK, false is PAGE",
        lambda value: {"full.address_full_policy": "BLOCK" if value else "PAGE"},
    ),
    computed(
        "sendFailIfNoSpace",
        _BOOLEAN,
        "true",
        "`full.address_full_policy`: true is FAIL",
        lambda value: {"full.address_full_policy": "FAIL"} if value else NO_VALUES,
    ),
    honoured("sendFailIfNoSpaceAfterTimeout", DELAY, "5000", "full.block_timeout_ms"),
    honoured("prioritizedMessages", _BOOLEAN, "true", "queue.prioritized_messages"),
    honoured("strictOrderDispatch", _BOOLEAN, "true", "queue.strict_order_dispatch"),
    honoured("useConsumerPriority", _BOOLEAN, "false", "queue.use_consumer_priority"),
    honoured("usePrefetchExtension", _BOOLEAN, "false", "prefetch.use_prefetch_extension"),
    honoured("allConsumersExclusiveByDefault", _BOOLEAN, "true", "queue.exclusive_consumer"),
    honoured("consumersBeforeDispatchStarts", Integer(0, 1_000_000), "2", "queue.consumers_before_dispatch"),
    computed(
        "timeBeforeDispatchStarts", DELAY, "5000", "`queue.delay_before_dispatch_ms`; 0 is no limit", _dispatch_start
    ),
    honoured("messageGroupMapFactoryType", GroupMap(), "bucket?bucketCount=64", "queue.group_buckets"),
    honoured("alwaysRetroactive", _BOOLEAN, "true", "retroactive.always"),
    honoured("gcInactiveDestinations", _BOOLEAN, "true", "queue.auto_delete"),
    honoured("inactiveTimeoutBeforeGC", DELAY, "30000", "queue.auto_delete_delay_ms"),
    # Misspelt for years; both are accepted.
    honoured("inactiveTimoutBeforeGC", DELAY, "30000", "queue.auto_delete_delay_ms"),
    honoured("advisoryForSlowConsumers", _BOOLEAN, "true", "advisories.slow_consumers"),
    honoured("advisoryForDiscardingMessages", _BOOLEAN, "true", "advisories.discarding_messages"),
    honoured("advisoryForFastProducers", _BOOLEAN, "true", "advisories.fast_producers"),
    honoured("advisoryWhenFull", _BOOLEAN, "true", "advisories.when_full"),
    honoured("advisoryForDelivery", _BOOLEAN, "true", "advisories.delivery"),
    honoured("advisoryForDispatched", _BOOLEAN, "true", "advisories.dispatched"),
    honoured("advisoryForConsumed", _BOOLEAN, "true", "advisories.consumed"),
    honoured("sendAdvisoryIfNoConsumers", _BOOLEAN, "true", "advisories.no_consumers"),
    honoured("includeBodyForAdvisory", _BOOLEAN, "true", "advisories.include_body"),
    *all_listed(
        _CURSOR,
        """
        cursorMemoryHighWaterMark maxBrowsePageSize maxExpirePageSize maxPageSize minimumMessageSize
        storeUsageHighWaterMark useCache reduceMemoryFootprint doOptimzeMessageStorage
        optimizeMessageStoreInFlightLimit useTopicSubscriptionInflightStats
        """,
    ),
    *all_listed(_AUDIT, "enableAudit maxAuditDepth maxProducersToAudit maxQueueAuditDepth sendDuplicateFromStoreToDLQ"),
    *all_listed(_EXPIRY, "expireMessagesPeriod"),
    *all_listed("dispatch always works this way", "optimizedDispatch", "lazyDispatch"),
    *all_listed("delivery counts are always in the log", "persistJMSRedelivered"),
    *all_listed("a blocked producer is reported at once, with the reason", "blockedProducerWarningInterval"),
    *all_listed(CLUSTER, "gcWithNetworkConsumers", "gcWithOnlyWildcardConsumers", "advancedNetworkStatisticsEnabled"),
    *all_listed("all figures are always there: penstock stat, /metrics", "advancedMessageStatisticsEnabled"),
    *all_listed("only its owner receives from a temporary destination", "allowTempDestinationStealing"),
    *all_listed("destinations-max limits all destinations together", "maxDestinations"),
    *all_listed("a name for people", "id"),
)

DEAD_LETTER: Final = table(
    honoured("processExpired", _BOOLEAN, "false", "dead_letters.process_expired"),
    honoured("processNonPersistent", _BOOLEAN, "false", "dead_letters.process_non_persistent"),
    honoured("expiration", LONG_DELAY, "86400000", "dead_letters.expiration_ms"),
    *all_listed(_AUDIT, "enableAudit", "maxAuditDepth", "maxProducersToAudit"),
)

INDIVIDUAL_DEAD_LETTER: Final = table(
    *DEAD_LETTER.values(),
    honoured("queuePrefix", NamePart(), "DLQ.", "dead_letters.queue_prefix"),
    honoured("topicPrefix", NamePart(), "DLQ.T.", "dead_letters.topic_prefix"),
    honoured("queueSuffix", NamePart(), ".DLQ", "dead_letters.queue_suffix"),
    honoured("topicSuffix", NamePart(), ".DLQ", "dead_letters.topic_suffix"),
    honoured("useQueueForQueueMessages", _BOOLEAN, "false", "dead_letters.use_queue_for_queue_messages"),
    honoured("useQueueForTopicMessages", _BOOLEAN, "false", "dead_letters.use_queue_for_topic_messages"),
    honoured("destinationPerDurableSubscriber", _BOOLEAN, "true", "dead_letters.destination_per_durable_subscriber"),
)

ABORT_SLOW: Final = table(
    honoured("maxSlowCount", Integer(1, JAVA_INT_MAX, unlimited=True), "3", "slow_consumers.max_slow_count"),
    honoured("maxSlowDuration", Integer(0, YEAR_MS, unlimited=True), "60000", "slow_consumers.max_slow_duration_ms"),
    honoured("checkPeriod", Integer(100, YEAR_MS), "10000", "slow_consumers.abort_check_period_ms"),
    honoured("abortConnection", _BOOLEAN, "true", "slow_consumers.abort_connection"),
    *all_listed(CLUSTER, "ignoreNetworkConsumers"),
    *all_listed("a name for people", "name"),
)

ABORT_SLOW_ACK: Final = table(
    *ABORT_SLOW.values(),
    honoured("maxTimeSinceLastAck", Integer(1, YEAR_MS), "60000", "slow_consumers.max_time_since_last_ack_ms"),
    honoured("ignoreIdleConsumers", _BOOLEAN, "false", "slow_consumers.ignore_idle_consumers"),
)

PENDING_CONSTANT: Final = table(honoured("limit", _ANY_COUNT, "1000", "pending.limit"))
PENDING_RATE: Final = table(honoured("multiplier", Number(0, 1_000_000), "2.5", "pending.multiplier"))

EVICTION: Final = table(
    *all_listed("an expired message is dropped when its time has come", "evictExpiredMessagesHighWatermark")
)
EVICTION_UNIQUE: Final = table(
    *EVICTION.values(), honoured("propertyName", PropertyName(), "symbol", "pending.eviction_property")
)

RECOVERY_COUNT: Final = table(honoured("maximumSize", _COUNT, "10", "retroactive.recovery_message_count"))
RECOVERY_TIME: Final = table(
    honoured("recoverDuration", Integer(1, 100 * YEAR_MS), "60000", "retroactive.recovery_time_ms")
)
RECOVERY_BYTES: Final = table(
    *all_listed("messages in the log are not limited by size; recovery-message-count limits them", "maximumSize"),
    *all_listed("every subscription recovers from the same log", "useSharedBuffer"),
)

# For a strategy's element: its options, and the settings that its presence implies.
Strategy = tuple[Table, dict[str, object]]
_NONE: Final[Table] = table()

STRATEGIES: Final[dict[str, dict[str, Strategy]]] = {
    "deadLetterStrategy": {
        "sharedDeadLetterStrategy": (DEAD_LETTER, {"dead_letters.strategy": "shared"}),
        "individualDeadLetterStrategy": (INDIVIDUAL_DEAD_LETTER, {"dead_letters.strategy": "individual"}),
        "discarding": (DEAD_LETTER, {"dead_letters.strategy": "discard"}),
        "discardingDeadLetterStrategy": (DEAD_LETTER, {"dead_letters.strategy": "discard"}),
    },
    "slowConsumerStrategy": {
        "abortSlowConsumerStrategy": (ABORT_SLOW, {"slow_consumers.abort": "slow"}),
        "abortSlowAckConsumerStrategy": (ABORT_SLOW_ACK, {"slow_consumers.abort": "slow-ack"}),
    },
    "pendingMessageLimitStrategy": {
        "constantPendingMessageLimitStrategy": (PENDING_CONSTANT, {"pending.strategy": "constant"}),
        "prefetchRatePendingMessageLimitStrategy": (PENDING_RATE, {"pending.strategy": "prefetch-rate"}),
    },
    "messageEvictionStrategy": {
        "oldestMessageEvictionStrategy": (EVICTION, {"pending.eviction": "oldest"}),
        "oldestMessageWithLowestPriorityEvictionStrategy": (EVICTION, {"pending.eviction": "oldest-lowest-priority"}),
        "uniquePropertyMessageEvictionStrategy": (EVICTION_UNIQUE, {"pending.eviction": "unique-property"}),
    },
    "subscriptionRecoveryPolicy": {
        "fixedCountSubscriptionRecoveryPolicy": (RECOVERY_COUNT, {}),
        "timedSubscriptionRecoveryPolicy": (RECOVERY_TIME, {}),
        "lastImageSubscriptionRecoveryPolicy": (_NONE, {"retroactive.recovery_message_count": 1}),
        "noSubscriptionRecoveryPolicy": (_NONE, {"retroactive.recovery_message_count": 0}),
        "fixedSizedSubscriptionRecoveryPolicy": (RECOVERY_BYTES, {}),
    },
    "dispatchPolicy": {
        "roundRobinDispatchPolicy": (_NONE, {"queue.strict_order_dispatch": False}),
        "simpleDispatchPolicy": (_NONE, {"queue.strict_order_dispatch": False}),
        "strictOrderDispatchPolicy": (_NONE, {"queue.strict_order_dispatch": True}),
    },
}

# Children of a policyEntry without an effect.
POLICY_CHILDREN: Final = table(
    *all_listed(_CURSOR, "pendingQueuePolicy", "pendingSubscriberPolicy", "pendingDurableSubscriberPolicy"),
    *all_listed(CLUSTER, "networkBridgeFilterFactory"),
    *all_listed("write the attribute messageGroupMapFactoryType", "messageGroupMapFactory"),
)

REDELIVERY_POLICY: Final = table(*REDELIVERY.values(), *all_listed("a name for people", "id"))
