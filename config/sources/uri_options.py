"""ActiveMQ's options of a connection URI, behind its ``?``, and the meaning of each here."""

from __future__ import annotations

from typing import Final

from config.jms_options import PREFETCH, PRODUCER_RATE, PRODUCER_WINDOW, REDELIVERY
from config.model import GIB
from config.options import Option, Table, all_listed, computed, honoured, listed, refused, table
from config.values import Boolean, Bytes, Choice, Integer, Number, Text

PREFETCH_PREFIX: Final = "jms.prefetchPolicy."
REDELIVERY_PREFIX: Final = "jms.redeliveryPolicy."

_CLIENT: Final = "between ActiveMQ's own client and broker only; the gateway decides for every client alike"
_SOCKET: Final = "the gateway sets its sockets itself"
_OPENWIRE: Final = "the gateway insists on the loose form of OpenWire and on openwire.limits; clients follow"
_RECONNECT: Final = "reconnecting is the client's own affair"

_TLS: Final = "TLS is set by the keys under tls, not by options of a URI"
_CREDENTIALS: Final = "a password does not belong in a URI; clients log in with --user, the gateway's own are 'users'"
_LARGE_BYTES: Final = Bytes(1024, 1 * GIB)
_BODY_BYTES: Final = ("server.stomp.limits.body_bytes", "server.amqp.limits.body_bytes")


def _prefixed(prefix: str, options: Table) -> tuple[Option, ...]:
    return tuple(
        Option(prefix + option.name, option.status, option.text, option.kind, option.example, option.to_values)
        for option in options.values()
    )


# Paths of ``listeners`` begin with ``server.``: they concern the whole gateway.
OPTIONS: Final = table(
    *_prefixed(PREFETCH_PREFIX, PREFETCH),
    *_prefixed(REDELIVERY_PREFIX, REDELIVERY),
    # Qpid JMS's name for it.
    honoured(
        REDELIVERY_PREFIX + "maxRedeliveries",
        Integer(0, 1_000_000, unlimited=True),
        "3",
        "redelivery.maximum_redeliveries",
    ),
    *all_listed("a consumer's outcome comes with each disposition", REDELIVERY_PREFIX + "outcome"),
    honoured("jms.nonBlockingRedelivery", Boolean(), "false", "redelivery.non_blocking_redelivery"),
    listed("jms.producerWindowSize", PRODUCER_WINDOW),
    # Spelled as in Artemis' clients.
    honoured("consumerWindowSize", Integer(0, 2**30, unlimited=True), "0", "flow.consumer_window_size_bytes"),
    honoured("consumerMaxRate", Integer(1, 10_000_000, unlimited=True), "100", "flow.consumer_max_rate_per_second"),
    listed("producerWindowSize", PRODUCER_WINDOW),
    listed("producerMaxRate", PRODUCER_RATE),
    honoured("jms.clientID", Text("a client id", 255), "billing", "client_id"),
    honoured("jms.useRetroactiveConsumer", Boolean(), "true", "is_retroactive"),
    honoured("jms.exclusiveConsumer", Boolean(), "true", "is_exclusive"),
    *all_listed(
        _CLIENT,
        """
        jms.alwaysSessionAsync jms.alwaysSyncSend jms.auditDepth jms.auditMaximumProducerNumber jms.checkForDuplicates
        jms.closeTimeout jms.connectResponseTimeout jms.consumerExpiryCheckEnabled
        jms.consumerFailoverRedeliveryWaitPeriod jms.copyMessageOnSend jms.disableTimeStampsByDefault
        jms.dispatchAsync jms.maxInflatedDataSizeRatio jms.messagePrioritySupported jms.nestedMapAndListEnabled
        jms.objectMessageSerializationDefered jms.optimizeAcknowledge jms.optimizeAcknowledgeTimeOut
        jms.optimizedAckScheduledAckInterval jms.optimizedMessageDispatch jms.rmIdFromConnectionId jms.sendAcksAsync
        jms.sendTimeout jms.transactedIndividualAck jms.useAsyncSend jms.useCompression jms.useDedicatedTaskRunner
        jms.warnAboutUnstartedConnectionTimeout jms.watchTopicAdvisories
        """,
    ),
    *all_listed(
        "blob messages keep their body elsewhere; the gateway carries bodies",
        "jms.blobTransferPolicy.bufferSize",
        "jms.blobTransferPolicy.brokerUploadUrl",
        "jms.blobTransferPolicy.defaultUploadUrl",
        "jms.blobTransferPolicy.uploadUrl",
    ),
    refused("jms.userName", _CREDENTIALS),
    refused("jms.password", _CREDENTIALS),
    # The gateway has one listener per protocol, so limits in a listener's URI are limits of the gateway.
    honoured("maximumConnections", Integer(1, 1_000_000), "500", "server.stomp.limits.connections"),
    honoured("wireFormat.maxDataLength", _LARGE_BYTES, "1048576", *_BODY_BYTES),
    honoured("wireFormat.maxFrameSize", _LARGE_BYTES, "1048576", *_BODY_BYTES),
    honoured(
        "transport.connectAttemptTimeout",
        Integer(100, 86_400_000),
        "5000",
        "server.stomp.limits.connect_time_ms",
        "server.amqp.limits.connect_time_ms",
    ),
    honoured("stomp.dialect", Choice("penstock", "activemq"), "activemq", "server.stomp.dialect"),
    honoured("transport.hbGracePeriodMultiplier", Number(1, 100), "1.5", "server.stomp.heart_beat_grace"),
    *all_listed("a client that does not ask for heart-beats gets none", "transport.defaultHeartBeat"),
    *all_listed(
        "an AMQP message is never re-encoded for AMQP clients; others get it as text or bytes", "transport.transformer"
    ),
    *all_listed(
        _SOCKET,
        """
        connectionTimeout keepAlive soLinger soTimeout soWriteTimeout socketBufferSize ioBufferSize tcpNoDelay
        trafficClass diffServ typeOfService useLocalHost daemon backlog stackSize closeAsync trace logWriterName
        dynamicManagement startLogging jmxPort minmumWireFormatVersion updateClusterClients rebalanceClusterClients
        updateClusterFilter transport.connectionTimeout transport.keepAlive transport.soLinger transport.soTimeout
        transport.soWriteTimeout transport.socketBufferSize transport.ioBufferSize transport.tcpNoDelay
        transport.trace transport.threadName transport.useInactivityMonitor transport.readCheckTime
        transport.writeCheckTime transport.initialDelayTime transport.useKeepAlive transport.closeAsync
        transport.daemon transport.type
        """,
    ),
    *all_listed("a producer's credit follows producer-window-size and the address", "transport.producerCredit"),
    *all_listed(
        _OPENWIRE,
        """
        wireFormat wireFormat.cacheEnabled wireFormat.cacheSize wireFormat.host wireFormat.maxInactivityDuration
        wireFormat.maxInactivityDurationInitalDelay wireFormat.maxInactivityDurationInitialDelay
        wireFormat.prefixPacketSize wireFormat.sizePrefixDisabled wireFormat.stackTraceEnabled
        wireFormat.tcpNoDelayEnabled wireFormat.tightEncodingEnabled wireFormat.version wireFormat.idleTimeout
        wireFormat.maxAmqpFrameSize wireFormat.connectAttemptTimeout wireFormat.allowNonSaslConnections
        """,
    ),
    *(
        refused(name, _TLS)
        for name in (
            "needClientAuth",
            "wantClientAuth",
            "transport.needClientAuth",
            "transport.wantClientAuth",
            "transport.enabledProtocols",
            "transport.enabledCipherSuites",
            "transport.verifyHostName",
            "transport.keyStoreLocation",
            "transport.trustStoreLocation",
        )
    ),
)

# Behind the parenthesis of ``failover:(...)``.
FAILOVER: Final = table(
    computed(
        "randomize",
        Boolean(),
        "false",
        "false: the clients try the addresses in their order; true (the default): in any order",
        lambda value: {"randomize": value},
    ),
    *all_listed(
        _RECONNECT,
        """
        backup backupPoolSize backOffMultiplier initialReconnectDelay maxCacheSize maxReconnectAttempts
        maxReconnectDelay priorityBackup priorityURIs rebalanceUpdateURIs reconnectBackOffMultiplier
        reconnectSupported startupMaxReconnectAttempts timeout trackMessages trackTransactionProducers
        updateURIsSupported updateURIsURL useExponentialBackOff useReconnectBackOff warnAfterReconnectAttempts
        """,
    ),
)
