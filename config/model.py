"""All settings of one gateway, frozen; the defaults run without any file.

Names, units and defaults are here; ``schema.py`` has the accepted texts and ranges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from config.errors import Problem
from config.login_servers import SecurityConfig
from config.matching import AddressEntry
from config.permissions import Permission
from config.policies import UNLIMITED

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
SECOND_MS: Final = 1_000
HOUR_MS: Final = 3_600 * SECOND_MS
TLS_SCHEME: Final = "tls"
HTTPS_SCHEME: Final = "https"

SERVER_NAME: Final = "Penstock"

Flush = Literal["sync", "async"]
ClientCertificate = Literal["wanted", "required"]
StompDialect = Literal["penstock", "activemq"]

LOCAL_ZONE: Final = "local"  # of cron expressions: the machine's time zone


@dataclass(frozen=True, slots=True)
class ConnectionDefaults:
    """Settings of a URI for the consumers and producers of a connection; they override those of their addresses.

    values: dotted attribute path of AddressSettings -> value, for ``config.matching.with_values``.
    sources: the same paths -> the option that set them.
    client_id: for connections without one; empty for none.
    is_retroactive, is_exclusive: defaults for consumers that do not say.
    maximum_pending_message_limit: default for consumers of topics; 0: not set.
    """

    values: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    client_id: str = ""
    is_retroactive: bool = False
    is_exclusive: bool = False
    maximum_pending_message_limit: int = 0


NO_DEFAULTS: Final = ConnectionDefaults()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a listener.  ``port`` 0 picks a free one.

    query: the URI's options as written.
    defaults: their settings for connections; server_values: their settings in ServerConfig, by dotted attribute path.
    notes: options without an effect, each with the reason.
    """

    scheme: str
    host: str
    port: int
    query: str = ""
    defaults: ConnectionDefaults = NO_DEFAULTS
    server_values: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    notes: tuple[str, ...] = ()

    def is_tls(self) -> bool:
        """Say whether it accepts only TLS."""
        return self.scheme in (TLS_SCHEME, HTTPS_SCHEME)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listeners:
    stomp: Endpoint = field(default_factory=lambda: Endpoint("tcp", "127.0.0.1", 61613))
    amqp: Endpoint | None = None  # an address of its own; AMQP is also accepted on STOMP's
    openwire: Endpoint | None = None  # the same for OpenWire
    http: Endpoint = field(default_factory=lambda: Endpoint("http", "127.0.0.1", 8161))


@dataclass(frozen=True, slots=True)
class Retention:
    """How long consumed messages stay readable; the limit reached first applies.  Live messages always stay."""

    time_ms: int = 72 * HOUR_MS
    bytes: int = 10 * GIB
    lease_max_ms: int = HOUR_MS  # for which a reader, such as an export, may keep segments past both; 0: not at all


@dataclass(frozen=True, slots=True)
class Compaction:
    """When a full segment that retention would drop is thinned to its few live messages."""

    live_percent: int = 25  # at or below this share of live octets; 0: never
    min_age_ms: int = 600 * SECOND_MS  # of its last record
    bytes_per_second: int = 16 * MIB  # read for it


@dataclass(frozen=True, slots=True)
class KeyIndexConfig:
    """The index from keys to messages: sizes of one file."""

    slots: int = 65_536  # 4 octets each; 0: no index, a query by key reads the log
    entries: int = 262_144  # 24 octets each, one per message and key


@dataclass(frozen=True, slots=True)
class StoreConfig:
    flush: Flush = "sync"
    flush_interval_ms: int = 500  # of flush async: a power cut may lose this much
    segment_bytes: int = 64 * MIB
    retention: Retention = field(default_factory=Retention)
    compaction: Compaction = field(default_factory=Compaction)
    index: KeyIndexConfig = field(default_factory=KeyIndexConfig)


@dataclass(frozen=True, slots=True)
class StompLimits:
    """Limits of one STOMP connection, in size, number and time."""

    header_count: int = 1_000
    header_line_bytes: int = 10 * KIB
    body_bytes: int = 100 * MIB
    frame_time_ms: int = 30 * SECOND_MS  # from a frame's first octet to its last
    connect_time_ms: int = 30 * SECOND_MS  # from accept to a valid CONNECT
    connections: int = 10_000  # of all clients together
    subscriptions: int = 10_000
    transactions: int = 16  # open at once
    transaction_actions: int = 10_000
    transaction_bytes: int = 64 * MIB
    unread_output_bytes: int = 1 * MIB  # beyond it, the peer's input is not read
    block_park_bytes: int = 1 * MIB  # waiting SENDs of a connection that only sends
    block_park_max_bytes: int = 16 * MIB  # waiting SENDs of a connection that also receives
    disconnect_time_ms: int = 60 * SECOND_MS  # for which DISCONNECT waits for earlier frames
    write_stall_time_ms: int = 60 * SECOND_MS  # for which output waits without the peer reading any


@dataclass(frozen=True, slots=True)
class StompConfig:
    dialect: StompDialect = "penstock"  # activemq: an ERROR keeps the connection, NACK gives up, the name in CONNECTED
    default_persistent: bool = False  # of a SEND without ``persistent``; ActiveMQ's default, not JMS's
    strict_headers: bool = False  # an unknown ``activemq.*`` header is an ERROR
    heart_beat_grace: float = 2.0  # times the agreed interval, after which a silent peer is disconnected
    limits: StompLimits = field(default_factory=StompLimits)


@dataclass(frozen=True, slots=True)
class AmqpLimits:
    """Limits of one AMQP connection, in size, number and time."""

    max_frame_size: int = 128 * KIB  # of a frame, both ways
    body_bytes: int = 100 * MIB  # of a message, over all its frames
    partial_bytes: int = 256 * MIB  # of incomplete messages of a connection
    channel_max: int = 255  # the highest channel, one less than the number of sessions
    handle_max: int = 9_999  # the highest handle, for the links of a session
    links: int = 10_000  # of all sessions of a connection
    idle_time_ms: int = 60 * SECOND_MS  # of silence, then a peer is disconnected; half of it is advertised; 0: no limit
    frame_time_ms: int = 30 * SECOND_MS  # from a frame's first octet to its last
    delivery_time_ms: int = 300 * SECOND_MS  # from a delivery's first transfer to its last
    connect_time_ms: int = 30 * SECOND_MS  # from accept to open
    close_time_ms: int = 5 * SECOND_MS  # for which close waits for owed confirmations
    incoming_window: int = 4_096  # transfer frames of a session between our flow frames
    link_credit: int = 1_000  # messages granted to a producer
    transactions: int = 16  # open at once
    transaction_actions: int = 10_000
    transaction_bytes: int = 64 * MIB
    unread_output_bytes: int = 1 * MIB  # beyond it, the peer's input is not read
    block_park_bytes: int = 1 * MIB  # waiting messages of a connection that only sends
    block_park_max_bytes: int = 16 * MIB  # waiting messages of a connection that also receives


@dataclass(frozen=True, slots=True)
class AmqpConfig:
    limits: AmqpLimits = field(default_factory=AmqpLimits)


@dataclass(frozen=True, slots=True)
class OpenWireLimits:
    """Limits of one OpenWire connection, in size, number and time."""

    frame_bytes: int = 100 * MIB  # of a command, both ways; advertised as MaxFrameSize
    idle_time_ms: int = 30 * SECOND_MS  # of silence, then a peer is disconnected; MaxInactivityDuration; 0: no limit
    frame_time_ms: int = 30 * SECOND_MS  # from a command's first octet to its last
    connect_time_ms: int = 60 * SECOND_MS  # from accept to ConnectionInfo; a failover client may send it late
    consumers: int = 10_000
    producers: int = 10_000
    transactions: int = 1_000  # open at once: one for each transacted session
    transaction_actions: int = 10_000
    transaction_bytes: int = 64 * MIB
    unread_output_bytes: int = 1 * MIB  # beyond it, the peer's input is not read
    block_park_bytes: int = 1 * MIB  # waiting messages of a connection that only sends
    block_park_max_bytes: int = 16 * MIB  # waiting messages of a connection that also receives
    close_time_ms: int = 5 * SECOND_MS  # for which the end of a connection waits for owed responses


@dataclass(frozen=True, slots=True)
class OpenWireConfig:
    limits: OpenWireLimits = field(default_factory=OpenWireLimits)


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """origins: of pages that may open a WebSocket, besides pages of the listener itself; in lower case."""

    origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """histograms: whether it measures how long messages and syncs take."""

    histograms: bool = False


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    """traces: whether the way of messages is exported as spans of OpenTelemetry.

    endpoint: URL of a collector (OTLP over HTTP); "" for what the environment says.  service_name: likewise.
    sampling_ratio: of the messages whose sender has begun no trace.
    """

    traces: bool = False
    endpoint: str = ""
    service_name: str = ""
    sampling_ratio: float = 0.0


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """Files in PEM.  certificate: of the gateway, with intermediate ones up to a known authority; "" for no TLS.

    key: its private key, unencrypted; "" if it is in the same file.
    client_ca: authority of clients' certificates; if set, clients are asked for them and log in by EXTERNAL.
    client_certificate: whether clients without one are let in, to log in in another way.
    """

    certificate: str = ""
    key: str = ""
    client_ca: str = ""
    client_certificate: ClientCertificate = "wanted"


@dataclass(frozen=True, slots=True)
class VirtualTopic:
    """A topic whose messages are also copied to queues, one per group of consumers.  Terms: ActiveMQ virtualTopic.

    pattern: of the topic's name.
    prefix: of a queue's name, before the topic's: the queue ``Consumer.billing.VirtualTopic.Orders`` gets what is sent
    to the topic ``VirtualTopic.Orders``.
    is_selective: a copy is made only if a consumer's selector matches it.
    """

    pattern: str = "VirtualTopic.>"
    prefix: str = "Consumer.*."
    is_selective: bool = False


@dataclass(frozen=True, slots=True)
class NamedDestination:
    """A destination that exists from the start.  kind: QUEUE or TOPIC of config.matching."""

    kind: int
    name: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the whole gateway.  When a global one is reached, each address follows its address_full_policy."""

    global_max_size_bytes: int = UNLIMITED
    global_max_messages: int = UNLIMITED
    max_disk_usage_percent: int = UNLIMITED  # of the disk that holds the store; then producers wait
    min_disk_free_bytes: int = UNLIMITED  # of the same disk; UNLIMITED: two segments and some more, 0: none
    connection_memory_bytes: int = 256 * MIB  # of all: partial frames, transactions, waiting input; then one ends
    copies: int = 5_000  # of one message to several destinations or a virtual topic: all of them in one turn
    copies_bytes: int = 64 * MIB  # of all of these together
    duplicate_ids: int = 200_000  # remembered of all addresses together; of one: duplicate_ids_per_address
    duplicate_ids_per_address: int = 20_000  # the last ones; 0: ids of messages mean nothing
    prepared_transactions: int = 1_000  # of distributed transactions, prepared and not decided
    prepared_transactions_bytes: int = UNLIMITED  # memory of all these; UNLIMITED: a third of memory_limit
    connections_per_user: int = UNLIMITED  # logged in at once; UNLIMITED: nine tenths of stomp.limits.connections
    destinations_per_user: int = UNLIMITED  # made since the start; UNLIMITED: nine tenths of destinations-max
    subscriptions_per_user: int = 10_000  # of topics, not durable: each message of a topic is work for each of them
    durable_subscriptions_per_user: int = 10_000
    schedules_per_user: int = UNLIMITED  # pending, made since the start; UNLIMITED: nine tenths of max_count
    durable_wildcards_per_user: int = 200  # a new topic is work for each of them
    durable_wildcard_topics_per_user: int = 20_000  # of all these together: some kilobytes of memory each
    unsettled_memory_per_user_bytes: int = UNLIMITED  # in flight or in transactions; UNLIMITED: a third of memory_limit
    pending_memory_per_user_bytes: int = UNLIMITED  # waits in subscriptions; UNLIMITED: a sixteenth of memory_limit
    late_memory_per_user_bytes: int = UNLIMITED  # committed, not yet published; UNLIMITED: a sixteenth of memory_limit
    messages_per_second_per_user: int = 0  # sent over all its connections, then they wait; 0: no limit
    bytes_per_second_per_user: int = 0  # the same in octets
    connections_per_address: int = UNLIMITED  # open at once; UNLIMITED: nine tenths of stomp.limits.connections


@dataclass(frozen=True, slots=True)
class StopConfig:
    """drain_time_ms: how long a stop waits for consumers to settle what they hold; 0: not at all."""

    drain_time_ms: int = 10_000


@dataclass(frozen=True, slots=True)
class ScheduleConfig:
    """Limits of schedules.  time_zone: of cron expressions, a name as in ``Europe/Berlin``, or LOCAL."""

    max_count: int = 10_000_000  # pending at once
    max_delay_ms: int = 10 * 365 * 24 * HOUR_MS
    min_period_ms: int = 100
    max_repeats: int = 65_535  # if they end; a record of the log counts no further
    time_zone: str = LOCAL_ZONE


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One gateway.

    server_name: the server's name in CONNECTED.
    memory_limit_bytes: non-persistent messages and pending topic deliveries together; then producers wait.
    destinations_max: queues and topics together; one more is an error.
    temporary_destinations_max: of one connection.
    expire_messages_period_ms: interval of the scans for expired messages that no consumer takes.
    users: login -> SCRAM verifiers of one password.  Where ``checks_logins`` is False: loopback only, any credentials.
    access_tokens: login -> texts of its tokens (config.access_tokens); only of users.
    groups: login -> its groups.
    permissions: of groups; without any, everybody may do everything.
    addresses: in the order of the file.
    virtual_topics: in the order of the file; the first that matches a topic counts.
    destinations: made at the start if missing.
    advisory_support: report connections, consumers, producers and destinations on ``ActiveMQ.Advisory.>``.
    sources: dotted key as written -> ``file:line`` or the flag that set it; missing keys have the default.
    notes: settings in files without an effect, or with another effect than in their original broker.
    """

    server_name: str = SERVER_NAME
    data_directory: str = "data"
    listeners: Listeners = field(default_factory=Listeners)
    store: StoreConfig = field(default_factory=StoreConfig)
    memory_limit_bytes: int = 256 * MIB
    destinations_max: int = 100_000
    temporary_destinations_max: int = 1_000
    expire_messages_period_ms: int = 30_000
    stomp: StompConfig = field(default_factory=StompConfig)
    amqp: AmqpConfig = field(default_factory=AmqpConfig)
    openwire: OpenWireConfig = field(default_factory=OpenWireConfig)
    http: HttpConfig = field(default_factory=HttpConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    telemetry: TelemetryConfig = field(default_factory=TelemetryConfig)
    tls: TlsConfig = field(default_factory=TlsConfig)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    limits: Limits = field(default_factory=Limits)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    stop: StopConfig = field(default_factory=StopConfig)
    advisory_support: bool = True
    users: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    access_tokens: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    groups: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    permissions: tuple[Permission, ...] = ()
    virtual_topics: tuple[VirtualTopic, ...] = (VirtualTopic(),)
    destinations: tuple[NamedDestination, ...] = ()
    addresses: tuple[AddressEntry, ...] = ()
    sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    notes: tuple[Problem, ...] = ()

    @property
    def checks_logins(self) -> bool:
        """Say whether clients must log in, because there are users, tokens of an issuer, or a directory."""
        return bool(self.users or self.security.jwt.issuer or self.security.ldap.url)
