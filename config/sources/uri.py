"""Connection URIs: where to bind or to connect, and ActiveMQ's options behind the ``?``.

``tcp://h:61613?jms.prefetchPolicy.queuePrefetch=1&jms.redeliveryPolicy.maximumRedeliveries=3`` as the URI of a listener
gives its connections defaults, above the settings of their addresses; the command-line clients take the same URIs, and
``failover:(...)`` of several.  What ActiveMQ's own client does by itself has no effect here, and is said to have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from config.destination_options import CONSUMER, parse_query, with_delays
from config.jms_options import PREFETCH, REDELIVERY
from config.model import GIB, NO_DEFAULTS, TLS_SCHEME, ConnectionDefaults, Endpoint
from config.options import Option, OptionError, Table, all_listed, computed, honoured, refused, table, unknown_option
from config.values import Boolean, Bytes, Choice, Integer, JsonSchema, Kind, Number, Text

ACTIVEMQ: Final = "activemq."  # before a consumer's option in a header of SUBSCRIBE

# Path of a setting -> the consumer's option that sets it to the same value.
_NAMES: Final[Mapping[str, str]] = {
    path: option.name
    for option in CONSUMER.values()
    if option.status == "honoured"
    for path in option.values(option.example)
    if "." in path and option.name != "collisionAvoidanceFactor"
}

PREFETCH_PREFIX: Final = "jms.prefetchPolicy."
REDELIVERY_PREFIX: Final = "jms.redeliveryPolicy."

ADDRESSES_MAX: Final = 100  # of a failover URI

_CLIENT: Final = "between ActiveMQ's own client and broker only; the gateway decides for every client alike"
_SOCKET: Final = "the gateway sets its sockets itself"
_OPENWIRE: Final = "of OpenWire, which is not spoken here; JMS clients use AMQP 1.0"
_RECONNECT: Final = "reconnecting is the client's own affair"

# Schemes by which a listener takes nothing but TLS: ours, and those of ActiveMQ and of AMQP clients.
TLS_SCHEMES: Final = ("tls", "ssl", "stomp+ssl", "amqps", "amqp+ssl")

_TLS: Final = "TLS is set by the keys under tls, not by options of a URI"
_CREDENTIALS: Final = "a password does not belong in a URI; clients log in with --user, the gateway's own are 'users'"
_LARGE_BYTES: Final = Bytes(1024, 1 * GIB)
_BODY_BYTES: Final = ("server.stomp.limits.body_bytes", "server.amqp.limits.body_bytes")


def _prefixed(prefix: str, options: Table) -> tuple[Option, ...]:
    return tuple(
        Option(prefix + option.name, option.status, option.text, option.kind, option.example, option.to_values)
        for option in options.values()
    )


# Paths of ``listeners`` begin with ``server.``: they set something for the whole gateway.
OPTIONS: Final = table(
    *_prefixed(PREFETCH_PREFIX, PREFETCH),
    *_prefixed(REDELIVERY_PREFIX, REDELIVERY),
    # Qpid JMS calls it so.
    honoured(
        REDELIVERY_PREFIX + "maxRedeliveries",
        Integer(0, 1_000_000, unlimited=True),
        "3",
        "redelivery.maximum_redeliveries",
    ),
    *all_listed("a consumer's outcome comes with each disposition", REDELIVERY_PREFIX + "outcome"),
    honoured("jms.nonBlockingRedelivery", Boolean(), "false", "redelivery.non_blocking_redelivery"),
    honoured("jms.producerWindowSize", Integer(1, 2**30), "65536", "flow.producer_window_size_bytes"),
    # As Artemis' clients spell them.
    honoured("consumerWindowSize", Integer(0, 2**30, unlimited=True), "0", "flow.consumer_window_size_bytes"),
    honoured("consumerMaxRate", Integer(1, 10_000_000, unlimited=True), "100", "flow.consumer_max_rate_per_second"),
    honoured("producerWindowSize", Integer(1, 2**30, unlimited=True), "65536", "flow.producer_window_size_bytes"),
    honoured("producerMaxRate", Integer(1, 10_000_000, unlimited=True), "100", "flow.producer_max_rate_per_second"),
    honoured("jms.clientID", Text("a client id", 255), "billing", "client_id"),
    honoured("jms.useRetroactiveConsumer", Boolean(), "true", "is_retroactive"),
    honoured("jms.exclusiveConsumer", Boolean(), "true", "is_exclusive"),
    *all_listed(
        _CLIENT,
        "jms.alwaysSessionAsync",
        "jms.alwaysSyncSend",
        "jms.auditDepth",
        "jms.auditMaximumProducerNumber",
        "jms.checkForDuplicates",
        "jms.closeTimeout",
        "jms.connectResponseTimeout",
        "jms.consumerExpiryCheckEnabled",
        "jms.consumerFailoverRedeliveryWaitPeriod",
        "jms.copyMessageOnSend",
        "jms.disableTimeStampsByDefault",
        "jms.dispatchAsync",
        "jms.maxInflatedDataSizeRatio",
        "jms.messagePrioritySupported",
        "jms.nestedMapAndListEnabled",
        "jms.objectMessageSerializationDefered",
        "jms.optimizeAcknowledge",
        "jms.optimizeAcknowledgeTimeOut",
        "jms.optimizedAckScheduledAckInterval",
        "jms.optimizedMessageDispatch",
        "jms.rmIdFromConnectionId",
        "jms.sendAcksAsync",
        "jms.sendTimeout",
        "jms.transactedIndividualAck",
        "jms.useAsyncSend",
        "jms.useCompression",
        "jms.useDedicatedTaskRunner",
        "jms.warnAboutUnstartedConnectionTimeout",
        "jms.watchTopicAdvisories",
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
    # The gateway has one listener a protocol, so what a listener's URI limits is the gateway's limit.
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
        "an AMQP message is never re-encoded for AMQP clients; others get it as text or bytes",
        "transport.transformer",
    ),
    *all_listed(
        _SOCKET,
        "connectionTimeout",
        "keepAlive",
        "soLinger",
        "soTimeout",
        "soWriteTimeout",
        "socketBufferSize",
        "ioBufferSize",
        "tcpNoDelay",
        "trafficClass",
        "diffServ",
        "typeOfService",
        "useLocalHost",
        "daemon",
        "backlog",
        "stackSize",
        "closeAsync",
        "trace",
        "logWriterName",
        "dynamicManagement",
        "startLogging",
        "jmxPort",
        "minmumWireFormatVersion",
        "updateClusterClients",
        "rebalanceClusterClients",
        "updateClusterFilter",
        "transport.connectionTimeout",
        "transport.keepAlive",
        "transport.soLinger",
        "transport.soTimeout",
        "transport.soWriteTimeout",
        "transport.socketBufferSize",
        "transport.ioBufferSize",
        "transport.tcpNoDelay",
        "transport.trace",
        "transport.threadName",
        "transport.useInactivityMonitor",
        "transport.readCheckTime",
        "transport.writeCheckTime",
        "transport.initialDelayTime",
        "transport.useKeepAlive",
        "transport.closeAsync",
        "transport.daemon",
        "transport.type",
    ),
    *all_listed("a producer's credit follows producer-window-size and the address", "transport.producerCredit"),
    *all_listed(
        _OPENWIRE,
        "wireFormat",
        "wireFormat.cacheEnabled",
        "wireFormat.cacheSize",
        "wireFormat.host",
        "wireFormat.maxInactivityDuration",
        "wireFormat.maxInactivityDurationInitalDelay",
        "wireFormat.maxInactivityDurationInitialDelay",
        "wireFormat.prefixPacketSize",
        "wireFormat.sizePrefixDisabled",
        "wireFormat.stackTraceEnabled",
        "wireFormat.tcpNoDelayEnabled",
        "wireFormat.tightEncodingEnabled",
        "wireFormat.version",
        "wireFormat.idleTimeout",
        "wireFormat.maxAmqpFrameSize",
        "wireFormat.connectAttemptTimeout",
        "wireFormat.allowNonSaslConnections",
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
        "backup",
        "backupPoolSize",
        "backOffMultiplier",
        "initialReconnectDelay",
        "maxCacheSize",
        "maxReconnectAttempts",
        "maxReconnectDelay",
        "priorityBackup",
        "priorityURIs",
        "rebalanceUpdateURIs",
        "reconnectBackOffMultiplier",
        "reconnectSupported",
        "startupMaxReconnectAttempts",
        "timeout",
        "trackMessages",
        "trackTransactionProducers",
        "updateURIsSupported",
        "updateURIsURL",
        "useExponentialBackOff",
        "useReconnectBackOff",
        "warnAfterReconnectAttempts",
    ),
)


_FAILOVER: Final = re.compile(r"failover:(?://)?\(([^()]*)\)(?:\?(.*))?|failover:(?://)?([^()?]+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ClientUri:
    """Where a client connects: one address or, of ``failover:(...)``, several.

    is_random: they may be tried in any order.
    """

    endpoints: tuple[Endpoint, ...]
    is_random: bool
    notes: tuple[str, ...]


def parse_endpoint(
    text: str, schemes: Iterable[str], scheme: str | None = None, default_port: int | None = None
) -> Endpoint:
    """Return one address with what its options set.

    schemes: the accepted ones; scheme: what the result calls it, None for what was written.
    default_port: of an address that names none, which is an error without.  Raises: ValueError.
    """
    parts = urlsplit(text)
    if parts.scheme not in tuple(schemes):
        raise ValueError
    host, port = parts.hostname, parts.port  # the latter raises on what is no port
    if port is None:
        port = default_port
    if not host or port is None:
        raise ValueError("lacks a host or a port; port 0 picks a free one")
    if parts.username is not None or parts.path not in ("", "/") or parts.fragment:
        raise ValueError("has more than a host, a port and options")
    name = scheme or parts.scheme
    if not parts.query:
        return Endpoint(name, host, port)
    defaults, server_values, notes = _options(parts.query)
    return Endpoint(name, host, port, parts.query, defaults, server_values, notes)


def parse_client_uri(text: str, schemes: Iterable[str], default_port: int | None = None) -> ClientUri:
    """Return where to connect: ``tcp://h:61613``, ``failover:(tcp://a:61613,tcp://b:61613)?randomize=false``.

    Raises: ValueError.
    """
    if not text.startswith("failover:"):
        endpoint = parse_endpoint(text, schemes, default_port=default_port)
        return ClientUri((endpoint,), False, endpoint.notes)
    match = _FAILOVER.fullmatch(text)
    if match is None or not (match[1] or match[3]):
        raise ValueError("has no list of addresses as in failover:(tcp://a:61613,tcp://b:61613)")
    listed = [part.strip() for part in (match[1] or match[3]).split(",")]
    if len(listed) > ADDRESSES_MAX:
        raise ValueError(f"has {len(listed)} addresses, at most {ADDRESSES_MAX} are allowed")
    endpoints = tuple(parse_endpoint(part, schemes, default_port=default_port) for part in listed)
    notes: list[str] = []
    is_random = True
    for name, value in parse_query(match[2] or ""):
        if name.startswith("nested."):
            endpoints = tuple(_with_option(endpoint, name.removeprefix("nested."), value) for endpoint in endpoints)
            continue
        if name in OPTIONS:
            endpoints = tuple(_with_option(endpoint, name, value) for endpoint in endpoints)
            continue
        option = FAILOVER.get(name)
        if option is None:
            raise unknown_option(name, FAILOVER)
        is_random = bool(option.values(value).get("randomize", is_random))
        if option.status == "listed":
            notes.append(_note(option))
    own = (note for endpoint in endpoints for note in endpoint.notes)
    return ClientUri(endpoints, is_random and len(endpoints) > 1, tuple(dict.fromkeys((*own, *notes))))


def subscribe_headers(defaults: ConnectionDefaults, is_topic: bool) -> dict[str, str]:
    """Return the headers of SUBSCRIBE by which a client asks for what its URI says."""
    headers = {
        ACTIVEMQ + name: _shown(defaults.values[path]) for path, name in _NAMES.items() if path in defaults.values
    }
    prefetch = defaults.values.get("prefetch.topic_prefetch" if is_topic else "prefetch.queue_prefetch")
    if prefetch is not None:
        headers[ACTIVEMQ + "prefetchSize"] = _shown(prefetch)
    if defaults.is_retroactive and is_topic:
        headers[ACTIVEMQ + "retroactive"] = "true"
    if defaults.is_exclusive and not is_topic:
        headers[ACTIVEMQ + "exclusive"] = "true"
    if defaults.maximum_pending_message_limit and is_topic:
        headers[ACTIVEMQ + "maximumPendingMessageLimit"] = str(defaults.maximum_pending_message_limit)
    return headers


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with_option(endpoint: Endpoint, name: str, value: str) -> Endpoint:
    query = f"{endpoint.query}&{name}={value}" if endpoint.query else f"{name}={value}"
    defaults, server_values, notes = _options(query)
    return Endpoint(endpoint.scheme, endpoint.host, endpoint.port, query, defaults, server_values, notes)


def _options(query: str) -> tuple[ConnectionDefaults, Mapping[str, object], tuple[str, ...]]:
    settings: dict[str, object] = {}
    own: dict[str, Any] = {}
    server_values: dict[str, object] = {}
    sources: dict[str, str] = {}
    notes: list[str] = []
    for name, text in parse_query(query):
        option = OPTIONS.get(name)
        if option is None:
            raise unknown_option(name, OPTIONS)
        for path, value in option.values(text).items():
            if path.startswith("server."):
                server_values[path.removeprefix("server.")] = value
            elif "." in path:
                settings[path] = value
                sources[path] = name
            else:
                own[path] = value
        if option.status == "listed":
            notes.append(_note(option))
    with_delays(settings)
    if not settings and not own:
        return NO_DEFAULTS, MappingProxyType(server_values), tuple(notes)
    defaults = ConnectionDefaults(MappingProxyType(settings), MappingProxyType(sources), **own)
    return defaults, MappingProxyType(server_values), tuple(notes)


def _note(option: Option) -> str:
    return f"{option.name} has no effect: {option.text}"


def _is_tls(text: str) -> bool:
    return text.partition(":")[0].lower() in TLS_SCHEMES


class ListenerUri(Kind):
    """``scheme://host:port?options``; the first of ``schemes`` is the one that is shown."""

    __slots__ = ("_example", "_has_options", "_schemes")

    def __init__(self, example: str, *schemes: str, has_options: bool = True) -> None:
        self._example = example
        self._schemes = schemes
        self._has_options = has_options

    @property
    def allowed(self) -> str:
        *others, last = [f"{scheme}://" for scheme in self._schemes]
        schemes = f"{', '.join(others)} or {last}" if others else last
        return f"{schemes}HOST:PORT as in {self._example}"

    def parse(self, text: str) -> Endpoint:
        if not self._has_options and "?" in text:
            raise ValueError("has options, which are of messaging listeners only")
        try:
            return parse_endpoint(text, self._schemes, TLS_SCHEME if _is_tls(text) else self._schemes[0])
        except OptionError as error:
            raise ValueError(f"has an option that cannot be taken: {error}") from None

    def show(self, value: object) -> str:
        assert isinstance(value, Endpoint), f"a listener is {type(value)}"
        return f"{value}?{value.query}" if value.query else str(value)


class OptionalListenerUri(Kind):
    """The same, or null for no listener."""

    __slots__ = ("_uri",)

    takes_null: ClassVar[bool] = True

    def __init__(self, example: str, *schemes: str) -> None:
        self._uri = ListenerUri(example, *schemes)

    @property
    def allowed(self) -> str:
        return f"{self._uri.allowed}, or null for no listener"

    def parse(self, text: str) -> Endpoint | None:
        return None if text in ("null", "~") else self._uri.parse(text)

    def show(self, value: object) -> str:
        return "null" if value is None else self._uri.show(value)

    def json_schema(self) -> JsonSchema:
        return {"type": ["string", "null"]}
