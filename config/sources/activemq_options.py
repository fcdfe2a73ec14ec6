"""Every known option of activemq.xml: its meaning here, or why it has no effect.

Those of a policyEntry and its strategies are in config.sources.activemq_policy_options.
"""

from __future__ import annotations

from typing import Any, Final

from config.model import GIB, MIB
from config.options import NO_VALUES, BinaryBytes, Option, Table, all_listed, computed, honoured, listed, refused, table
from config.sources.activemq_policy_options import (
    CLUSTER,
    LONG_DELAY,
    POLICY_CHILDREN,
    POLICY_ENTRY,
    REDELIVERY_POLICY,
    STRATEGIES,
)
from config.values import Boolean, Integer

_BOOLEAN: Final = Boolean()

REDELIVERY_PLUGIN: Final = table(
    *all_listed(
        "a message that is given up is always moved to its dead-letter address",
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
        "messages that ask for a later delivery get it, whatever this says", "schedulerSupport", "schedulerDirectory"
    ),
    *all_listed("there is no JMX; see /metrics and penstock stat", "useJmx"),
    computed(
        "useVirtualTopics",
        _BOOLEAN,
        "false",
        "false: no `virtual-topics` but those that the file lists",
        lambda value: {"has_virtual_topics": value},
    ),
    *all_listed("messages stay in the data directory; an empty one has none", "deleteAllMessagesOnStartup"),
    *all_listed("permissions say who may: subscribe-durable", "rejectDurableConsumers"),
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
    *all_listed("expired messages leave durable subscriptions, too", "enableMessageExpirationOnActiveDurableSubs"),
    *all_listed("stomp.limits and amqp.limits bound a transaction", "maxUncommittedCount"),
    *all_listed(
        "the memory budget is one: memory-limit-bytes",
        "consumerSystemUsagePortion",
        "producerSystemUsagePortion",
        "splitSystemUsageForProducersConsumers",
    ),
    *all_listed(
        CLUSTER,
        """
        networkConnectorStartAsync passiveSlave shutdownOnMasterFailure shutdownOnSlaveFailure slave supportFailOver
        waitForSlave waitForSlaveTimeout useVirtualDestSubs useVirtualDestSubsOnCreation monitorConnectionSplits
        """,
    ),
    *all_listed(
        "of the process that a broker runs in",
        """
        dedicatedTaskRunner persistenceThreadPriority restartAllowed rollbackOnlyOnAsyncException start startAsync
        systemExitOnShutdown systemExitOnShutdownExitCode taskRunnerPriority useLoggingForShutdownErrors
        useShutdownHook vmConnectorURI useLocalHostBrokerName brokerId id
        """,
    ),
    *all_listed("statistics are always there", "enableStatistics"),
    *all_listed(
        "the store has a directory and a format of its own: data", "tmpDataDirectory", "tempSchedulerDirectory"
    ),
    *all_listed(
        "a reply reaches the client that its reply-to names; temporary destinations belong to their connection",
        "allowTempAutoCreationOnSend",
        "cacheTempDestinations",
    ),
    *all_listed("advisories do not report a producer without a destination", "anonymousProducerAdvisorySupport"),
)

# Children of the broker's element without an effect; the reader handles the others.
BROKER_CHILDREN: Final = table(
    *all_listed("the store has a directory and a format of its own", "persistenceAdapter", "persistenceFactory"),
    *all_listed("scheduled messages are in the store", "jobSchedulerStore", "tempDataStore", "tempPersistence"),
    *all_listed("there is no JMX; see /metrics and penstock stat", "managementContext"),
    *all_listed(CLUSTER, "networkConnectors", "jmsBridgeConnectors", "proxyConnectors", "brokerContext"),
    *all_listed("no hooks run at shutdown", "shutdownHooks", "services"),
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
    *all_listed("a full store stops producers and is not polled", "checkLimitsLogLevel"),
    *all_listed("a name for people", "name"),
)

AUTHENTICATION: Final = table(
    *all_listed(
        "if users are configured, everybody must log in", "anonymousAccessAllowed", "anonymousUser", "anonymousGroup"
    )
)

CONNECTOR: Final = table(
    *all_listed("a name for people", "name", "id"),
    *all_listed(
        CLUSTER,
        """
        discoveryUri updateClusterClients rebalanceClusterClients updateClusterFilter updateClusterClientsOnRemove
        publishedAddressPolicy
        """,
    ),
    *all_listed("statistics are always there", "enableStatusMonitor"),
    *all_listed("the gateway counts connections of a protocol together: maximumConnections in the URI",
                "maximumConsumersAllowedPerConnection", "maximumProducersAllowedPerConnection"),
    *all_listed("messages leave in batches", "disableAsyncDispatch"),
    *all_listed("all connections are treated alike", "auditNetworkProducers", "allowLinkStealing", "warnOnRemoteClose",
                "displayStackTrace"),
)  # fmt: skip

VIRTUAL_TOPIC: Final = table(
    Option("name", "honoured", "pattern of the topics: `virtual-topics`"),
    Option("prefix", "honoured", "before the topic's name in the names of its queues"),
    Option("selectorAware", "honoured", "a copy is made only if a consumer's selector matches it"),
    listed("postfix", "names of the queues end with the topic's name"),
    *all_listed(
        "of a virtual topic between brokers, or of how copies are sent",
        """
        local concurrentSend transactedSend dropOnResourceLimit setOriginalDestination id
        """,
    ),
)  # fmt: skip

PLUGINS: Final = table(
    Option("simpleAuthenticationPlugin", "honoured", "users, whose passwords become SCRAM verifiers at load; groups"),
    Option("authorizationPlugin", "honoured", "`permissions`, enforced for every protocol"),
    Option(
        "redeliveryPlugin",
        "honoured",
        "redelivery policies per destination; what an OpenWire client gives up is a dead letter at once",
    ),
    Option("timeStampingBrokerPlugin", "honoured", "`expiry` for every destination"),
    Option("discardingDLQBrokerPlugin", "honoured", "dropAll: `dead_letters.strategy` is discard everywhere"),
    *all_listed("statistics destinations are always there", "statisticsBrokerPlugin"),
    *all_listed(
        "the log and penstock why say more",
        """
        loggingBrokerPlugin udpTraceBrokerPlugin traceBrokerPathPlugin connectionDotFilePlugin
        destinationDotFilePlugin
        """,
    ),
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
    computed(
        "zeroExpirationOverride",
        LONG_DELAY,
        "60000",
        "`expiry.expiry_delay_ms`; 0 is none",
        lambda value: {"expiry.expiry_delay_ms": value or -1},
    ),
    computed(
        "ttlCeiling",
        LONG_DELAY,
        "3600000",
        "`expiry.ttl_ceiling_ms`; 0 is none",
        lambda value: {"expiry.ttl_ceiling_ms": value or -1},
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
        """
        dropOnly dropTemporaryQueues dropTemporaryTopics reportInterval id
        """,
    ),
)


def tables() -> dict[str, Table]:
    """Return every table by its element, for documents and tests."""
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
