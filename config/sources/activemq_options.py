"""Every option of activemq.xml that is known here: what it becomes, or why it has no effect."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl

from config.jms_options import DELAY, JAVA_INT_MAX, PREFETCH, REDELIVERY, YEAR_MS
from config.model import GIB, MIB
from config.names import NamePart, PropertyName
from config.options import (
    NO_VALUES,
    BinaryBytes,
    Option,
    Table,
    Values,
    all_listed,
    computed,
    honoured,
    listed,
    refused,
    table,
)
from config.values import Boolean, Integer, Kind, Number

_BOOLEAN: Final = Boolean()
_COUNT: Final = Integer(0, JAVA_INT_MAX)
_ANY_COUNT: Final = Integer(0, JAVA_INT_MAX, unlimited=True)
_BYTES: Final = BinaryBytes(0, 1024 * 1024 * GIB)
_LONG_DELAY: Final = Integer(0, 100 * YEAR_MS)

_CURSOR: Final = "the backlog is on disk, and pages come as consumers ask for them"
_AUDIT: Final = "duplicates are not looked for"
_EXPIRY: Final = "expire-messages-period is one for all destinations"
_CLUSTER: Final = "a gateway is not part of a network"


class GroupMap(Kind):
    """``bucket``, ``bucket?bucketCount=1024``, ``simple``, ``cached``; a number of buckets, -1 for each by its name."""

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


# Attributes that say what an entry is for; the reader takes them by itself.
MATCHES: Final = ("queue", "topic", "tempQueue", "tempTopic", "destination")

POLICY_ENTRY: Final = table(
    *(PREFETCH[name] for name in ("queuePrefetch", "topicPrefetch", "durableTopicPrefetch", "queueBrowserPrefetch")),
    # Together with producerFlowControl and the system's sendFailIfNoSpace, which the reader looks at.
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
        "timeBeforeDispatchStarts",
        DELAY,
        "5000",
        "`queue.delay_before_dispatch_ms`; 0 is no limit",
        _dispatch_start,
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
        "cursorMemoryHighWaterMark",
        "maxBrowsePageSize",
        "maxExpirePageSize",
        "maxPageSize",
        "minimumMessageSize",
        "storeUsageHighWaterMark",
        "useCache",
        "reduceMemoryFootprint",
        "doOptimzeMessageStorage",
        "optimizeMessageStoreInFlightLimit",
        "useTopicSubscriptionInflightStats",
    ),
    *all_listed(_AUDIT, "enableAudit", "maxAuditDepth", "maxProducersToAudit", "maxQueueAuditDepth"),
    *all_listed(_EXPIRY, "expireMessagesPeriod"),
    *all_listed("dispatch is always so", "optimizedDispatch", "lazyDispatch"),
    *all_listed("delivery counts are always in the log", "persistJMSRedelivered"),
    *all_listed("a blocked producer is reported at once, with the reason", "blockedProducerWarningInterval"),
    *all_listed(_CLUSTER, "gcWithNetworkConsumers", "gcWithOnlyWildcardConsumers"),
    *all_listed("destinations-max limits all destinations together", "maxDestinations"),
    *all_listed("a name for people", "id"),
)

DEAD_LETTER: Final = table(
    honoured("processExpired", _BOOLEAN, "false", "dead_letters.process_expired"),
    honoured("processNonPersistent", _BOOLEAN, "false", "dead_letters.process_non_persistent"),
    honoured("expiration", _LONG_DELAY, "86400000", "dead_letters.expiration_ms"),
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
    *all_listed(_CLUSTER, "ignoreNetworkConsumers"),
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
    *all_listed("an expired message is dropped when its time has come", "evictExpiredMessagesHighWatermark"),
)
EVICTION_UNIQUE: Final = table(
    *EVICTION.values(),
    honoured("propertyName", PropertyName(), "symbol", "pending.eviction_property"),
)

RECOVERY_COUNT: Final = table(honoured("maximumSize", _COUNT, "10", "retroactive.recovery_message_count"))
RECOVERY_TIME: Final = table(
    honoured("recoverDuration", Integer(1, 100 * YEAR_MS), "60000", "retroactive.recovery_time_ms")
)
RECOVERY_BYTES: Final = table(
    *all_listed("messages in the log are not limited by size; recovery-message-count limits them", "maximumSize"),
    *all_listed("every subscription recovers from the same log", "useSharedBuffer"),
)

# Of a strategy's element: its options, and what naming it sets.
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
    *all_listed(
        _CURSOR,
        "pendingQueuePolicy",
        "pendingSubscriberPolicy",
        "pendingDurableSubscriberPolicy",
    ),
    *all_listed(_CLUSTER, "networkBridgeFilterFactory"),
    *all_listed("write the attribute messageGroupMapFactoryType", "messageGroupMapFactory"),
)

REDELIVERY_POLICY: Final = table(*REDELIVERY.values(), *all_listed("a name for people", "id"))

REDELIVERY_PLUGIN: Final = table(
    *all_listed(
        "a message that is given up always goes to its dead-letter address",
        "fallbackToDeadLetter",
        "sendToDlqIfMaxRetriesExceeded",
    ),
    *all_listed("a name for people", "id"),
)

BROKER: Final = table(
    honoured("advisorySupport", _BOOLEAN, "false", "advisory_support"),
    *all_listed("it names the broker to other brokers and to JMX; server-name is what clients see", "brokerName"),
    *all_listed("the store has a directory and a format of its own: data", "dataDirectory", "dataDirectoryFile"),
    *all_listed("persistent messages are always on disk", "persistent"),
    *all_listed(
        "messages that ask for a later delivery get it, whatever this says",
        "schedulerSupport",
        "schedulerDirectory",
    ),
    *all_listed("there is no JMX; see /metrics and penstock stat", "useJmx"),
    computed(
        "useVirtualTopics",
        _BOOLEAN,
        "false",
        "false: no `virtual-topics` but those that the file lists",
        lambda value: {"has_virtual_topics": value},
    ),
    *all_listed(
        "messages stay in the data directory; an empty one has none",
        "deleteAllMessagesOnStartup",
    ),
    *all_listed(
        "permissions say who may: subscribe-durable",
        "rejectDurableConsumers",
    ),
    *all_listed(
        "the sender is not written into a message",
        "populateJMSXUserID",
        "useAuthenticatedPrincipalForJMSXUserID",
        "populateUserNameInMBeans",
    ),
    *all_listed(
        "a durable subscription stays until somebody deletes it",
        "offlineDurableSubscriberTaskSchedule",
        "offlineDurableSubscriberTimeout",
        "keepDurableSubsActive",
    ),
    *all_listed(
        "a queue is not mirrored; its messages are in the log: replay, export",
        "useMirroredQueues",
        "useTempMirroredQueues",
    ),
    *all_listed(
        "each unused destination has a timer of its own",
        "maxPurgedDestinationsPerSweep",
        "schedulePeriodForDestinationPurge",
        "timeBeforePurgeTempDestinations",
    ),
    *all_listed(
        "expired messages leave durable subscriptions, too",
        "enableMessageExpirationOnActiveDurableSubs",
    ),
    *all_listed(
        "stomp.limits and amqp.limits bound a transaction",
        "maxUncommittedCount",
    ),
    *all_listed(
        "the memory budget is one: memory-limit-bytes",
        "consumerSystemUsagePortion",
        "producerSystemUsagePortion",
        "splitSystemUsageForProducersConsumers",
    ),
    *all_listed(
        _CLUSTER,
        "networkConnectorStartAsync",
        "passiveSlave",
        "shutdownOnMasterFailure",
        "shutdownOnSlaveFailure",
        "slave",
        "supportFailOver",
        "waitForSlave",
        "waitForSlaveTimeout",
        "useVirtualDestSubs",
        "useVirtualDestSubsOnCreation",
        "monitorConnectionSplits",
    ),
    *all_listed(
        "of the process that a broker runs in",
        "dedicatedTaskRunner",
        "persistenceThreadPriority",
        "restartAllowed",
        "rollbackOnlyOnAsyncException",
        "start",
        "startAsync",
        "systemExitOnShutdown",
        "systemExitOnShutdownExitCode",
        "taskRunnerPriority",
        "useLoggingForShutdownErrors",
        "useShutdownHook",
        "vmConnectorURI",
        "useLocalHostBrokerName",
        "brokerId",
        "id",
    ),
    *all_listed(
        "statistics are always there",
        "enableStatistics",
    ),
    *all_listed(
        "the store has a directory and a format of its own: data",
        "tmpDataDirectory",
        "tempSchedulerDirectory",
    ),
    *all_listed(
        "a client that is named in a reply-to is answered; temporary destinations are their connection's",
        "allowTempAutoCreationOnSend",
        "cacheTempDestinations",
    ),
    *all_listed(
        "a producer without a destination is not told of",
        "anonymousProducerAdvisorySupport",
    ),
)

# Children of the broker's element without an effect; those with one have code in the reader.
BROKER_CHILDREN: Final = table(
    *all_listed("the store has a directory and a format of its own", "persistenceAdapter", "persistenceFactory"),
    *all_listed("scheduled messages are in the store", "jobSchedulerStore", "tempDataStore", "tempPersistence"),
    *all_listed("there is no JMX; see /metrics and penstock stat", "managementContext"),
    *all_listed(_CLUSTER, "networkConnectors", "jmsBridgeConnectors", "proxyConnectors", "brokerContext"),
    *all_listed("nothing runs at the end", "shutdownHooks", "services"),
    *all_listed("a disk that fails stops producers, with a reason", "ioExceptionHandler"),
    *all_listed("key stores are not read; set the keys under tls, and listen at tls://", "sslContext"),
    refused("messageAuthorizationPolicy", "a class of your own chooses the consumers; not supported"),
)

MEMORY_USAGE: Final = table(
    honoured("limit", BinaryBytes(1 * MIB, 1024 * GIB), "512 mb", "memory_limit_bytes"),
    listed("percentOfJvmHeap", "there is no heap of a JVM; memory-limit-bytes says how much memory messages take"),
)
STORE_USAGE: Final = table(
    listed("limit", "the disk is the limit; limits.min-disk-free keeps some of it free"),
    honoured("percentLimit", Integer(1, 100), "80", "limits.max_disk_usage_percent"),
    *all_listed("of a store without a disk's size", "total"),
)
TEMP_USAGE: Final = table(*all_listed("waiting messages are in the store", "limit", "percentLimit", "total"))
SYSTEM_USAGE: Final = table(
    POLICY_ENTRY["sendFailIfNoSpace"],
    POLICY_ENTRY["sendFailIfNoSpaceAfterTimeout"],
    *all_listed("a full store stops producers, it is not asked again and again", "checkLimitsLogLevel"),
    *all_listed("a name for people", "name"),
)

AUTHENTICATION: Final = table(
    *all_listed(
        "with users, everybody logs in",
        "anonymousAccessAllowed",
        "anonymousUser",
        "anonymousGroup",
    ),
)

CONNECTOR: Final = table(
    *all_listed("a name for people", "name", "id"),
    *all_listed(_CLUSTER, "discoveryUri", "updateClusterClients", "rebalanceClusterClients", "updateClusterFilter",
                "updateClusterClientsOnRemove", "publishedAddressPolicy"),
    *all_listed("statistics are always there", "enableStatusMonitor"),
    *all_listed("the gateway counts connections of a protocol together: maximumConnections in the URI",
                "maximumConsumersAllowedPerConnection", "maximumProducersAllowedPerConnection"),
    *all_listed("messages leave in batches", "disableAsyncDispatch"),
    *all_listed("every connection is looked at", "auditNetworkProducers", "allowLinkStealing", "warnOnRemoteClose",
                "displayStackTrace"),
)  # fmt: skip

VIRTUAL_TOPIC: Final = table(
    Option("name", "honoured", "pattern of the topics: `virtual-topics`"),
    Option("prefix", "honoured", "before the topic's name in the names of its queues"),
    Option("selectorAware", "honoured", "a copy is made only where a consumer's selector takes it"),
    listed("postfix", "names of the queues end with the topic's name"),
    *all_listed("of a virtual topic between brokers, or of how copies are sent", "local", "concurrentSend",
                "transactedSend", "dropOnResourceLimit", "setOriginalDestination", "id"),
)  # fmt: skip

PLUGINS: Final = table(
    Option("simpleAuthenticationPlugin", "honoured", "users, whose passwords become SCRAM verifiers at load; groups"),
    Option("authorizationPlugin", "honoured", "`permissions`, enforced for every protocol"),
    Option("redeliveryPlugin", "honoured", "redelivery policies per destination"),
    Option("timeStampingBrokerPlugin", "honoured", "`expiry` for every destination"),
    Option("discardingDLQBrokerPlugin", "honoured", "dropAll: `dead_letters.strategy` is discard everywhere"),
    *all_listed("statistics destinations are always there", "statisticsBrokerPlugin"),
    *all_listed("the log and penstock why tell more", "loggingBrokerPlugin", "udpTraceBrokerPlugin",
                "traceBrokerPathPlugin", "connectionDotFilePlugin", "destinationDotFilePlugin"),
    *all_listed("a file is read at start", "runtimeConfigurationPlugin"),
    *all_listed("each message has the persistence that its sender asked for", "forcePersistencyModeBrokerPlugin",
                "forcePersistencyModeBroker"),
    *all_listed("elements of a name are separated by '.'", "destinationPathSeparatorPlugin"),
    *all_listed("Camel does not run here", "camelRoutesBrokerPlugin"),
    *all_listed("a consumer's selectors end with it", "virtualSelectorCacheBrokerPlugin"),
    *(
        refused(name, "users of this kind cannot be taken over, and without them everybody could log in; "
                      "list the users under simpleAuthenticationPlugin, or in a penstock.yaml")
        for name in ("jaasAuthenticationPlugin", "jaasCertificateAuthenticationPlugin", "jaasDualAuthenticationPlugin",
                     "authenticationPlugin")
    ),
    *all_listed("a class of yours, which is not loaded here", "bean", "ref"),
)  # fmt: skip

TIME_STAMPING: Final = table(
    honoured("zeroExpirationOverride", _LONG_DELAY, "60000", "expiry.expiry_delay_ms"),
    computed(
        "ttlCeiling",
        _LONG_DELAY,
        "3600000",
        "`expiry.max_expiry_delay_ms`; 0 is none",
        lambda value: {"expiry.max_expiry_delay_ms": value or -1},
    ),
    *all_listed("the gateway keeps its senders' timestamps", "futureOnly", "processNetworkMessages"),
)

DISCARDING: Final = table(
    computed(
        "dropAll",
        _BOOLEAN,
        "true",
        "`dead_letters.strategy`: true is discard",
        lambda value: {"dead_letters.strategy": "discard"} if value else NO_VALUES,
    ),
    *all_listed(
        "dropping is set per destination: dead-letters.strategy",
        "dropOnly",
        "dropTemporaryQueues",
        "dropTemporaryTopics",
        "reportInterval",
        "id",
    ),
)


def tables() -> dict[str, Table]:
    """Return every table by the element it is for, for documents and tests."""
    found: dict[str, Any] = {
        "broker": BROKER,
        "broker, children": BROKER_CHILDREN,
        "policyEntry": POLICY_ENTRY,
        "policyEntry, children": POLICY_CHILDREN,
        "redeliveryPolicy": REDELIVERY_POLICY,
        "redeliveryPlugin": REDELIVERY_PLUGIN,
        "memoryUsage": MEMORY_USAGE,
        "storeUsage": STORE_USAGE,
        "tempUsage": TEMP_USAGE,
        "systemUsage": SYSTEM_USAGE,
        "transportConnector": CONNECTOR,
        "plugins": PLUGINS,
        "simpleAuthenticationPlugin": AUTHENTICATION,
        "timeStampingBrokerPlugin": TIME_STAMPING,
        "discardingDLQBrokerPlugin": DISCARDING,
        "virtualTopic": VIRTUAL_TOPIC,
    }
    for group in STRATEGIES.values():
        found.update((name, strategy[0]) for name, strategy in group.items())
    return found
