"""Which keys may be written, the kind of each value, and the attribute that it sets.

One table for every source of settings: the YAML file reads its tree, a flag or a URI option names one leaf with dots
(``store.retention.time``).  Keys are kebab-case.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from config.login_servers import ALGORITHMS
from config.model import GIB, HOUR_MS, KIB, MIB, SECOND_MS
from config.names import TimeZone
from config.permissions import Action
from config.sources.uri import TLS_SCHEMES, ListenerUri, OptionalListenerUri
from config.values import (
    Boolean,
    Bytes,
    Choice,
    Duration,
    Integer,
    Kind,
    Number,
    OptionalFile,
    OptionalText,
    Origins,
    Text,
    Words,
)

TIB: Final = 1024 * GIB
DAY_MS: Final = 24 * HOUR_MS
YEAR_MS: Final = 365 * DAY_MS


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value.

    path: the attribute it sets, dotted from ServerConfig or AddressSettings.
    is_alias: another spelling of a key that has a leaf of its own; read, never shown.
    """

    path: str
    kind: Kind
    is_alias: bool = False


Tree = Mapping[str, "Leaf | Tree"]

INTEGER_MAX: Final = 2**31 - 1
MANY: Final = Integer(0, 10_000_000, unlimited=True)
MEMORY_OF_ONE: Final = Bytes(1 * KIB, 1 * TIB, unlimited=True)

# Settings of the server, without those that are not a single value: ``users``, ``addresses`` and other lists.
SERVER: Final[Tree] = {
    "server-name": Leaf("server_name", Text("a name", 128)),
    "data": Leaf("data_directory", Text("a directory", 4096)),
    "listeners": {
        "stomp": Leaf("listeners.stomp", ListenerUri("tcp://127.0.0.1:61613", "tcp", "stomp", *TLS_SCHEMES)),
        "amqp": Leaf("listeners.amqp", OptionalListenerUri("tcp://127.0.0.1:5672", "tcp", "amqp", *TLS_SCHEMES)),
        "openwire": Leaf(
            "listeners.openwire", OptionalListenerUri("tcp://127.0.0.1:61616", "tcp", "nio", *TLS_SCHEMES)
        ),
        "http": Leaf("listeners.http", ListenerUri("http://127.0.0.1:8161", "http", "tcp", "https", has_options=False)),
    },
    "store": {
        "flush": Leaf("store.flush", Choice("sync", "async")),
        "flush-interval-ms": Leaf("store.flush_interval_ms", Duration(1, 60 * SECOND_MS)),
        "segment-bytes": Leaf("store.segment_bytes", Bytes(4 * KIB, 1 * GIB, multiple=8)),
        "retention": {
            "time": Leaf("store.retention.time_ms", Duration(0, 100 * YEAR_MS)),
            "bytes": Leaf("store.retention.bytes", Bytes(0, 1024 * TIB)),
            "lease-max": Leaf("store.retention.lease_max_ms", Duration(0, 7 * 24 * HOUR_MS)),
        },
        "compaction": {
            "live-percent": Leaf("store.compaction.live_percent", Integer(0, 100)),
            "min-age": Leaf("store.compaction.min_age_ms", Duration(0, YEAR_MS)),
            "bytes-per-second": Leaf("store.compaction.bytes_per_second", Bytes(64 * KIB, 1 * TIB)),
        },
        "index": {
            "slots": Leaf("store.index.slots", Integer(0, 100_000_000)),
            "entries": Leaf("store.index.entries", Integer(1, 100_000_000)),
        },
    },
    "memory-limit-bytes": Leaf("memory_limit_bytes", Bytes(1 * MIB, 1 * TIB)),
    "limits": {
        "global-max-size": Leaf("limits.global_max_size_bytes", Bytes(0, 1024 * TIB, unlimited=True)),
        "global-max-messages": Leaf("limits.global_max_messages", Integer(0, 10**12, unlimited=True)),
        "max-disk-usage": Leaf("limits.max_disk_usage_percent", Integer(1, 100, unlimited=True)),
        "connection-memory": Leaf("limits.connection_memory_bytes", Bytes(1 * MIB, 1 * TIB)),
        "copies": Leaf("limits.copies", Integer(1, 10_000_000)),
        "copies-bytes": Leaf("limits.copies_bytes", Bytes(1 * MIB, 1 * TIB)),
        "duplicate-ids": Leaf("limits.duplicate_ids", Integer(0, 10_000_000)),
        "duplicate-ids-per-address": Leaf("limits.duplicate_ids_per_address", Integer(0, 10_000_000)),
        "prepared-transactions": Leaf("limits.prepared_transactions", Integer(0, 1_000_000)),
        "prepared-transactions-bytes": Leaf("limits.prepared_transactions_bytes", MEMORY_OF_ONE),
        "connections-per-user": Leaf("limits.connections_per_user", Integer(1, 1_000_000, unlimited=True)),
        "destinations-per-user": Leaf("limits.destinations_per_user", Integer(1, 10_000_000, unlimited=True)),
        "subscriptions-per-user": Leaf("limits.subscriptions_per_user", MANY),
        "durable-subscriptions-per-user": Leaf("limits.durable_subscriptions_per_user", MANY),
        "schedules-per-user": Leaf("limits.schedules_per_user", Integer(0, 1_000_000_000, unlimited=True)),
        "durable-wildcards-per-user": Leaf("limits.durable_wildcards_per_user", MANY),
        "durable-wildcard-topics-per-user": Leaf("limits.durable_wildcard_topics_per_user", MANY),
        "unsettled-memory-per-user": Leaf("limits.unsettled_memory_per_user_bytes", MEMORY_OF_ONE),
        "pending-memory-per-user": Leaf("limits.pending_memory_per_user_bytes", MEMORY_OF_ONE),
        "late-memory-per-user": Leaf("limits.late_memory_per_user_bytes", MEMORY_OF_ONE),
        "messages-per-second-per-user": Leaf("limits.messages_per_second_per_user", Integer(0, 1_000_000_000)),
        "bytes-per-second-per-user": Leaf("limits.bytes_per_second_per_user", Bytes(0, 1 * TIB)),
        "connections-per-address": Leaf("limits.connections_per_address", Integer(1, 1_000_000, unlimited=True)),
        "min-disk-free": Leaf("limits.min_disk_free_bytes", Bytes(0, 1024 * TIB, unlimited=True)),
    },
    "schedule": {
        "max-count": Leaf("schedule.max_count", Integer(0, 1_000_000_000)),
        "max-delay": Leaf("schedule.max_delay_ms", Duration(0, 100 * YEAR_MS)),
        "min-period": Leaf("schedule.min_period_ms", Duration(1, YEAR_MS)),
        "max-repeats": Leaf("schedule.max_repeats", Integer(0, 65_535)),
        "time-zone": Leaf("schedule.time_zone", TimeZone()),
    },
    "stop": {"drain-time-ms": Leaf("stop.drain_time_ms", Duration(0, DAY_MS))},
    "advisory-support": Leaf("advisory_support", Boolean()),
    "destinations-max": Leaf("destinations_max", Integer(1, 10_000_000)),
    "temporary-destinations-max": Leaf("temporary_destinations_max", Integer(1, 10_000_000)),
    "expire-messages-period": Leaf("expire_messages_period_ms", Duration(100, DAY_MS)),
    "stomp": {
        "dialect": Leaf("stomp.dialect", Choice("penstock", "activemq")),
        "default-persistent": Leaf("stomp.default_persistent", Boolean()),
        "strict-headers": Leaf("stomp.strict_headers", Boolean()),
        "heart-beat-grace": Leaf("stomp.heart_beat_grace", Number(1, 100)),
        "limits": {
            "header-count": Leaf("stomp.limits.header_count", Integer(16, 100_000)),
            "header-line-bytes": Leaf("stomp.limits.header_line_bytes", Bytes(128, 1 * MIB)),
            "body-bytes": Leaf("stomp.limits.body_bytes", Bytes(0, 1 * GIB)),
            "frame-time-ms": Leaf("stomp.limits.frame_time_ms", Duration(100, DAY_MS)),
            "connect-time-ms": Leaf("stomp.limits.connect_time_ms", Duration(100, DAY_MS)),
            "connections": Leaf("stomp.limits.connections", Integer(1, 1_000_000)),
            "subscriptions": Leaf("stomp.limits.subscriptions", Integer(1, 1_000_000)),
            "transactions": Leaf("stomp.limits.transactions", Integer(1, 100_000)),
            "transaction-actions": Leaf("stomp.limits.transaction_actions", Integer(1, 10_000_000)),
            "transaction-bytes": Leaf("stomp.limits.transaction_bytes", Bytes(1 * KIB, 1 * GIB)),
            "unread-output-bytes": Leaf("stomp.limits.unread_output_bytes", Bytes(1 * KIB, 1 * GIB)),
            "block-park-bytes": Leaf("stomp.limits.block_park_bytes", Bytes(1 * KIB, 1 * GIB)),
            "block-park-max-bytes": Leaf("stomp.limits.block_park_max_bytes", Bytes(1 * KIB, 1 * GIB)),
            "disconnect-time-ms": Leaf("stomp.limits.disconnect_time_ms", Duration(100, DAY_MS)),
            "write-stall-time-ms": Leaf("stomp.limits.write_stall_time_ms", Duration(100, DAY_MS)),
        },
    },
    "amqp": {
        "limits": {
            "max-frame-size": Leaf("amqp.limits.max_frame_size", Bytes(512, 16 * MIB)),
            "body-bytes": Leaf("amqp.limits.body_bytes", Bytes(512, 1 * GIB)),
            "partial-bytes": Leaf("amqp.limits.partial_bytes", Bytes(512, 16 * GIB)),
            "channel-max": Leaf("amqp.limits.channel_max", Integer(0, 65_535)),
            "handle-max": Leaf("amqp.limits.handle_max", Integer(0, 1_000_000)),
            "links": Leaf("amqp.limits.links", Integer(1, 1_000_000)),
            "idle-time-ms": Leaf("amqp.limits.idle_time_ms", Duration(0, DAY_MS)),
            "frame-time-ms": Leaf("amqp.limits.frame_time_ms", Duration(100, DAY_MS)),
            "delivery-time-ms": Leaf("amqp.limits.delivery_time_ms", Duration(100, DAY_MS)),
            "connect-time-ms": Leaf("amqp.limits.connect_time_ms", Duration(100, DAY_MS)),
            "close-time-ms": Leaf("amqp.limits.close_time_ms", Duration(100, DAY_MS)),
            "incoming-window": Leaf("amqp.limits.incoming_window", Integer(2, 1_000_000)),
            "link-credit": Leaf("amqp.limits.link_credit", Integer(2, 1_000_000)),
            "transactions": Leaf("amqp.limits.transactions", Integer(1, 100_000)),
            "transaction-actions": Leaf("amqp.limits.transaction_actions", Integer(1, 10_000_000)),
            "transaction-bytes": Leaf("amqp.limits.transaction_bytes", Bytes(1 * KIB, 1 * GIB)),
            "unread-output-bytes": Leaf("amqp.limits.unread_output_bytes", Bytes(1 * KIB, 1 * GIB)),
            "block-park-bytes": Leaf("amqp.limits.block_park_bytes", Bytes(1 * KIB, 1 * GIB)),
            "block-park-max-bytes": Leaf("amqp.limits.block_park_max_bytes", Bytes(1 * KIB, 1 * GIB)),
        },
    },
    "openwire": {
        "limits": {
            "frame-bytes": Leaf("openwire.limits.frame_bytes", Bytes(1 * KIB, 1 * GIB)),
            "idle-time-ms": Leaf("openwire.limits.idle_time_ms", Duration(0, DAY_MS)),
            "frame-time-ms": Leaf("openwire.limits.frame_time_ms", Duration(100, DAY_MS)),
            "connect-time-ms": Leaf("openwire.limits.connect_time_ms", Duration(100, DAY_MS)),
            "consumers": Leaf("openwire.limits.consumers", Integer(1, 1_000_000)),
            "producers": Leaf("openwire.limits.producers", Integer(1, 1_000_000)),
            "transactions": Leaf("openwire.limits.transactions", Integer(1, 100_000)),
            "transaction-actions": Leaf("openwire.limits.transaction_actions", Integer(1, 10_000_000)),
            "transaction-bytes": Leaf("openwire.limits.transaction_bytes", Bytes(1 * KIB, 1 * GIB)),
            "unread-output-bytes": Leaf("openwire.limits.unread_output_bytes", Bytes(1 * KIB, 1 * GIB)),
            "block-park-bytes": Leaf("openwire.limits.block_park_bytes", Bytes(1 * KIB, 1 * GIB)),
            "block-park-max-bytes": Leaf("openwire.limits.block_park_max_bytes", Bytes(1 * KIB, 1 * GIB)),
            "close-time-ms": Leaf("openwire.limits.close_time_ms", Duration(100, DAY_MS)),
        },
    },
    "http": {"origins": Leaf("http.origins", Origins())},
    "metrics": {"histograms": Leaf("metrics.histograms", Boolean())},
    "telemetry": {
        "traces": Leaf("telemetry.traces", Boolean()),
        "endpoint": Leaf("telemetry.endpoint", OptionalText("a URL as in http://127.0.0.1:4318/v1/traces", 2048)),
        "service-name": Leaf("telemetry.service_name", OptionalText("a name", 255)),
        "sampling-ratio": Leaf("telemetry.sampling_ratio", Number(0, 1)),
    },
    "tls": {
        "certificate": Leaf("tls.certificate", OptionalFile()),
        "key": Leaf("tls.key", OptionalFile()),
        "client-ca": Leaf("tls.client_ca", OptionalFile()),
        "client-certificate": Leaf("tls.client_certificate", Choice("wanted", "required")),
    },
    "security": {
        "jwt": {
            "issuer": Leaf("security.jwt.issuer", OptionalText("the claim iss of tokens")),
            "audience": Leaf("security.jwt.audience", OptionalText("a text of their claim aud")),
            "keys": Leaf("security.jwt.keys", OptionalText("a file or URL of public keys (JWKS)", 2048)),
            "ca": Leaf("security.jwt.ca", OptionalFile()),
            "algorithms": Leaf("security.jwt.algorithms", Words("algorithms", *ALGORITHMS)),
            "leeway": Leaf("security.jwt.leeway_ms", Duration(0, 10 * 60 * SECOND_MS)),
            "user-claim": Leaf("security.jwt.user_claim", Text("the name of a claim", 255)),
            "user-prefix": Leaf("security.jwt.user_prefix", OptionalText("a beginning of names", 100)),
            "groups-claim": Leaf("security.jwt.groups_claim", OptionalText("the name of a claim", 255)),
            "groups-prefix": Leaf("security.jwt.groups_prefix", OptionalText("a beginning of names", 100)),
            "scope": Leaf("security.jwt.scope", OptionalText("a scope", 255)),
            "refresh": Leaf("security.jwt.refresh_ms", Duration(1 * SECOND_MS, DAY_MS)),
            "fetch-time": Leaf("security.jwt.fetch_time_ms", Duration(100, 60 * SECOND_MS)),
        },
        "ldap": {
            "url": Leaf("security.ldap.url", OptionalText("a URL")),
            "start-tls": Leaf("security.ldap.start_tls", Boolean()),
            "ca": Leaf("security.ldap.ca", OptionalFile()),
            "user-dn": Leaf("security.ldap.user_dn", OptionalText("a distinguished name with {user}")),
            "user-base": Leaf("security.ldap.user_base", OptionalText("a distinguished name")),
            "user-filter": Leaf("security.ldap.user_filter", Text("a filter with {user}")),
            "user-name": Leaf("security.ldap.user_name", Text("the name of an attribute", 255)),
            "user-prefix": Leaf("security.ldap.user_prefix", OptionalText("a beginning of names", 100)),
            "bind-dn": Leaf("security.ldap.bind_dn", OptionalText("a distinguished name")),
            "bind-password-file": Leaf("security.ldap.bind_password_file", OptionalFile()),
            "member-of": Leaf("security.ldap.member_of", OptionalText("the name of an attribute", 255)),
            "group-base": Leaf("security.ldap.group_base", OptionalText("a distinguished name")),
            "group-filter": Leaf("security.ldap.group_filter", OptionalText("a filter with {dn} or {user}")),
            "group-name": Leaf("security.ldap.group_name", Text("the name of an attribute", 255)),
            "groups-prefix": Leaf("security.ldap.groups_prefix", OptionalText("a beginning of names", 100)),
            "time": Leaf("security.ldap.time_ms", Duration(1 * SECOND_MS, 60 * SECOND_MS)),
            "remember": Leaf("security.ldap.remember_ms", Duration(1 * SECOND_MS, HOUR_MS)),
        },
    },
}

# Keys of a file besides SERVER that are not a single value.
LISTS: Final = ("users", "permissions", "virtual-topics", "destinations", "addresses")
ENTRY_KEYS: Final = ("match", "kind")
GROUP_KEY: Final = "group"
UNITES_KEY: Final = "unites"
USER_KEYS: Final = ("verifiers", "groups", "access-tokens")
VIRTUAL_TOPIC_KEYS: Final = ("match", "prefix", "selective")

# Key of a permission -> the granted actions; ``admin`` is ActiveMQ's word for two.
GRANTS: Final[Mapping[str, tuple[Action, ...]]] = {
    "read": ("read",),
    "write": ("write",),
    "admin": ("create", "delete"),
    "create": ("create",),
    "delete": ("delete",),
    "browse": ("browse",),
    "subscribe": ("subscribe",),
    "subscribe-durable": ("subscribe-durable",),
    "unsubscribe": ("unsubscribe",),
    "export": ("export",),
}
ADMIN: Final = "admin"
ADMIN_PARTS: Final[tuple[Action, ...]] = GRANTS[ADMIN]  # keys that an entry with ``admin`` may not have beside it
PERMISSION_KEYS: Final = (*ENTRY_KEYS, UNITES_KEY, *GRANTS)


class UnknownKey(ValueError):
    """An unknown key; the text names the accepted ones and the nearest."""


def unknown_key(key: str, accepted: Iterable[str]) -> UnknownKey:
    """Return the error for ``key``; it recognises camelCase and snake_case."""
    names = list(accepted)
    kebab = re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", key).replace("_", "-").lower()
    near = difflib.get_close_matches(kebab, names, n=1, cutoff=0.6)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return UnknownKey(f"unknown key{hint}; accepted are {', '.join(names)}")


def leaf_at(tree: Tree, key: str) -> Leaf:
    """Return the leaf of the dotted ``key``.  Raises: UnknownKey."""
    at: Leaf | Tree = tree
    for name in key.split("."):
        if isinstance(at, Leaf) or name not in at:
            raise unknown_key(key, leaves(tree))
        at = at[name]
    if not isinstance(at, Leaf):
        raise unknown_key(key, leaves(tree))
    return at


def leaves(tree: Tree, prefix: str = "") -> dict[str, Leaf]:
    """Return every leaf by its dotted key, in the order of the table, without other spellings."""
    found: dict[str, Leaf] = {}
    for key, at in tree.items():
        if isinstance(at, Leaf):
            if not at.is_alias:
                found[prefix + key] = at
        else:
            found.update(leaves(at, f"{prefix}{key}."))
    return found


def parse_text(kind: Kind, text: str) -> object:
    """Return the value of ``text``.  Raises: ValueError with a sentence on what was seen and what is allowed."""
    try:
        return kind.parse(text)
    except ValueError as error:
        # Texts of libraries (int, urlsplit) say less than ``allowed``; ours begin with a verb.
        said = str(error)
        why = f" {said}" if said.startswith(("has ", "lacks ", "looks ")) else ""
        raise ValueError(f"{text!r}{why}, allowed is {kind.allowed}") from None
