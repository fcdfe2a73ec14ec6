"""Every known option of HornetQ's and Artemis' XML: its meaning here, or why it has no effect.

Those of addresses and queues are in config.sources.artemis_address_options.
"""

from __future__ import annotations

from typing import Final

from config.matching import InvalidPattern, Pattern
from config.model import GIB
from config.options import Option, Table, all_listed, computed, honoured, listed, refused, table
from config.sources.artemis_address_options import (
    ADDRESS_SETTING,
    BYTES,
    CLUSTER,
    CONSOLE,
    HORNETQ_ADDRESS_SETTING,
    MESSAGES,
    QUEUE,
)
from config.values import Integer

_CLIENT: Final = "of HornetQ's own client"
_STORE: Final = "the store has a directory and a format of its own"

CONNECTION_FACTORY: Final = table(
    honoured("consumer-window-size", Integer(0, GIB, unlimited=True), "0", "flow.consumer_window_size_bytes"),
    honoured("consumer-max-rate", Integer(1, 10_000_000, unlimited=True), "100", "flow.consumer_max_rate_per_second"),
    honoured("producer-window-size", Integer(1, GIB, unlimited=True), "65536", "flow.producer_window_size_bytes"),
    honoured("producer-max-rate", Integer(1, 10_000_000, unlimited=True), "100", "flow.producer_max_rate_per_second"),
    *all_listed(
        _CLIENT,
        """
        auto-group block-on-acknowledge block-on-durable-send block-on-non-durable-send cache-large-message-client
        call-failover-timeout call-timeout client-failure-check-period client-id compress-large-messages
        confirmation-window-size connection-load-balancing-policy-class-name connection-ttl connectors
        discovery-group-ref dups-ok-batch-size entries entry factory-type failover-on-initial-connection
        failover-on-server-shutdown group-id ha initial-message-packet-size max-retry-interval min-large-message-size
        pre-acknowledge reconnect-attempts retry-interval retry-interval-multiplier scheduled-thread-pool-max-size
        signature thread-pool-max-size transaction-batch-size use-global-pools xa
        """,
    ),
)  # fmt: skip

# Options of an acceptor.  Paths as in config.sources.uri: ``server.`` for the whole gateway.
_TLS: Final = "key stores are not read; set the keys under tls"
ACCEPTOR: Final = table(
    honoured("connectionsAllowed", Integer(1, 1_000_000, unlimited=True), "500", "server.stomp.limits.connections"),
    honoured(
        "stompMaxFramePayloadLength", Integer(1024, GIB), "1048576", "server.stomp.limits.body_bytes"
    ),
    honoured("stompConsumerCredits", Integer(0, GIB, unlimited=True), "10240", "flow.consumer_window_size_bytes"),
    honoured("stomp-consumer-credits", Integer(0, GIB, unlimited=True), "10240", "flow.consumer_window_size_bytes"),
    Option("protocols", "honoured", "which listener it is: STOMP, AMQP; none is both"),
    Option("protocol", "honoured", "the same, of HornetQ"),
    *all_listed("stomp.limits.connect-time-ms limits the time before CONNECT", "handshake-timeout"),
    *all_listed("the rules of their protocol apply to two connections of one client id", "allowLinkStealing"),
    *all_listed("users are those of the configuration", "securityDomain"),
    *all_listed("a name for people", "name"),
    *all_listed("a name has the prefix /queue/ or /topic/", "anycastPrefix", "multicastPrefix"),
    *all_listed(
        "a client's heart-beats decide; stomp.heart-beat-grace",
        """
        connectionTtl connection-ttl connectionTtlMin connectionTtlMax connectionTTL heartBeatToConnectionTtlModifier
        amqpIdleTimeout
        """,
    ),
    *all_listed("credit follows the address: producer-window-size", "amqpCredits", "amqpLowCredits"),
    *all_listed(
        "messages of any size are one record",
        """
        amqpMinLargeMessageSize stompMinLargeMessageSize amqpDuplicateDetection
        amqpUseModifiedForTransientDeliveryErrors stompEnableMessageId
        """,
    ),
    *all_listed(
        "the gateway sets its sockets itself",
        """
        backlog batchDelay batch-delay directDeliver direct-deliver localAddress localPort nioRemotingThreads
        nio-remoting-threads remotingThreads tcpNoDelay tcp-no-delay tcpReceiveBufferSize tcp-receive-buffer-size
        tcpSendBufferSize tcp-send-buffer-size use-nio useEpoll useKQueue useInvm use-invm useNio
        writeBufferHighWaterMark writeBufferLowWaterMark supportAdvisory suppressInternalManagementObjects
        virtualTopicConsumerWildcards autoStart httpEnabled useGlobalWorkerPool routeName router trafficClass
        """,
    ),
    # With ``sslEnabled`` the acceptor gets no listener.
    *all_listed(
        _TLS,
        """
        enabledCipherSuites enabledProtocols keyStorePassword keyStorePath keyStoreType keyStoreProvider
        needClientAuth sniHost sslProvider trustStorePassword trustStorePath trustStoreType trustStoreProvider
        verifyHost wantClientAuth sslContextFactory trustManagerFactoryPlugin
        """,
    ),
)  # fmt: skip

# Options of the core configuration, without those that the reader handles.
CORE: Final = table(
    honoured("global-max-size", BYTES, "100M", "limits.global_max_size_bytes"),
    honoured("global-max-messages", MESSAGES, "100000", "limits.global_max_messages"),
    honoured("id-cache-size", Integer(0, 10_000_000), "20000", "limits.duplicate_ids_per_address"),
    *all_listed("the ids of logged messages survive", "persist-id-cache"),
    computed(
        "max-disk-usage",
        Integer(0, 100, unlimited=True),
        "90",
        "`limits.max_disk_usage_percent`; 0 and -1 are no limit",
        lambda value: {"limits.max_disk_usage_percent": value if value > 0 else -1},
    ),
    computed(
        "min-disk-free",
        BYTES,
        "500M",
        "`limits.min_disk_free_bytes`; -1 is none",
        lambda value: {"limits.min_disk_free_bytes": max(value, 0)},
    ),
    *all_listed(
        _STORE,
        """
        bindings-directory journal-directory paging-directory large-messages-directory node-manager-lock-directory
        create-bindings-dir create-journal-dir journal-type journal-datasync journal-min-files journal-pool-files
        journal-device-block-size journal-file-size journal-buffer-timeout journal-buffer-size journal-max-io
        journal-file-open-timeout journal-sync-transactional journal-sync-non-transactional journal-compact-min-files
        journal-compact-percentage journal-lock-acquisition-timeout journal-retention-directory
        journal-max-atticjournal-files page-max-concurrent-io page-sync-timeout read-whole-page store
        persistence-enabled log-journal-write-rate perf-blast-pages run-sync-speed-test
        persist-delivery-count-before-delivery disk-scan-period
        global-max-size-percent-of-jvm-max-memory
        """,
    ),
    *all_listed(
        CLUSTER,
        """
        bridges broadcast-groups broker-connections cluster-connections cluster-password cluster-user clustered
        connection-routers connectors discovery-groups federations grouping-handler ha-policy backup
        failover-on-shutdown shared-store connector-services check-for-live-server allow-failback live-connector-ref
        mask-password password-codec
        """,
    ),
    *all_listed(
        CONSOLE,
        """
        jmx-domain jmx-management-enabled jmx-use-broker-name management-address management-notification-address
        management-message-rbac metrics metrics-plugin message-counter-enabled message-counter-max-day-history
        message-counter-sample-period memory-measure-interval memory-warning-threshold
        view-permission-method-match-pattern mirror-ack-manager-retry-delay
        """,
    ),
    *all_listed("see `stop.drain-time-ms`", "graceful-shutdown-enabled graceful-shutdown-timeout"),
    *all_listed(
        "not needed here",
        """
        name amqp-use-core-subscription-naming async-connection-execution-enabled connection-ttl-override
        connection-ttl-check-interval configuration-file-refresh-period critical-analyzer
        critical-analyzer-check-period critical-analyzer-policy critical-analyzer-timeout file-deployer-scan-period
        file-deployment-enabled
        internal-naming-prefix literal-match-markers log-delegate-factory-class-name network-check-list
        network-check-NIC network-check-period network-check-ping-command network-check-ping6-command
        network-check-timeout network-check-URL-list queue-requests-in-session remote-connector-services
        resolveProtocols resolve-protocols resource-limit-settings scheduled-thread-pool-max-size
        security-invalidation-interval authentication-cache-size authorization-cache-size server-dump-interval
        system-property-prefix temporary-queue-namespace thread-pool-max-size uuid-namespace wild-card-routing-enabled
        populate-validated-user reject-empty-validated-user suppress-session-notifications large-message-sync
        """,
    ),
    *all_listed(
        "expiries and transactions have timers, so there are no scans",
        """
        address-queue-scan-period message-expiry-scan-period message-expiry-thread-priority transaction-timeout
        transaction-timeout-scan-period
        """,
    ),
    *all_listed("messages are not diverted; a composite destination of senders does the same", "diverts", "divert"),
    *all_listed("classes of yours are not loaded here", "broker-plugins", "remoting-incoming-interceptors",
                "remoting-outgoing-interceptors", "remoting-interceptors"),
    refused("security-setting-plugin", "cannot be enforced here; allowed are security-setting elements"),
)  # fmt: skip

PERMISSIONS: Final = table(
    Option("send", "honoured", "`write`"),
    Option("consume", "honoured", "`read`"),
    Option("browse", "honoured", "`browse`; HornetQ has none, there it follows consume"),
    Option("createDurableQueue", "honoured", "`create` and `subscribe-durable`"),
    Option("deleteDurableQueue", "honoured", "`delete` and `unsubscribe`"),
    Option("createNonDurableQueue", "honoured", "`subscribe`"),
    Option("createAddress", "honoured", "`create` requires this and createDurableQueue"),
    Option("deleteAddress", "honoured", "`delete`, which no client can do, requires this and deleteDurableQueue"),
    Option("createTempQueue", "honoured", "`subscribe`, as createNonDurableQueue"),
    listed("deleteNonDurableQueue", "the consumer of a non-durable subscription may end it"),
    listed("deleteTempQueue", "the consumer of a non-durable subscription may end it"),
    *all_listed("management is not done by messages", "manage", "view", "edit"),
)

WILDCARDS: Final = table(
    Option("any-words", "honoured", "the character of patterns that is `#` unless set"),
    Option("single-word", "honoured", "the character of patterns that is `*` unless set"),
    Option("delimiter", "honoured", "only `.`; a file with another one and wildcards is refused"),
    *all_listed("patterns always match", "routing-enabled", "enabled"),
)


def tables() -> dict[str, Table]:
    """Return every table by its element, for documents and tests."""
    return {
        "address-setting (HornetQ)": HORNETQ_ADDRESS_SETTING,
        "address-setting (Artemis)": ADDRESS_SETTING,
        "queue": QUEUE,
        "connection-factory": CONNECTION_FACTORY,
        "acceptor": ACCEPTOR,
        "core": CORE,
        "permission": PERMISSIONS,
        "wildcard-addresses": WILDCARDS,
    }


def translate(text: str, any_words: str = "#", single_word: str = "*", delimiter: str = ".") -> Pattern:
    """Convert a pattern of HornetQ or Artemis.  Raises: InvalidPattern."""
    elements: list[str] = []
    has_wildcard = False
    for element in text.split(delimiter):
        translated = {any_words: "#", single_word: "*"}.get(element, element)
        has_wildcard = has_wildcard or translated != element or element in ("#", "*")
        elements.append(translated)
    if delimiter != "." and len(elements) > 1:
        if has_wildcard:
            raise InvalidPattern(f"has wildcards, and elements separated by {delimiter!r}; here they are by '.'")
        return Pattern.parse(text)
    return Pattern.parse(".".join(elements))
