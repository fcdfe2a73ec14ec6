"""Which keys may be written, of which kind each value is, and which attribute it sets.

One table for every source of settings: the YAML file reads its tree, a flag or a URI option names one leaf with dots
(``store.retention.time``).  Keys are kebab-case.  An option stands here only once something honours it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from config.model import GIB, HOUR_MS, KIB, MIB, SECOND_MS
from config.policies import MAXIMUM_PREFETCH
from config.values import (
    Boolean,
    Bytes,
    Choice,
    Duration,
    Integer,
    Kind,
    ListenerUri,
    Number,
    QueueName,
    Text,
)

TIB: Final = 1024 * GIB
DAY_MS: Final = 24 * HOUR_MS
YEAR_MS: Final = 365 * DAY_MS


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value.  path: the attribute it sets, dotted from ServerConfig or AddressSettings."""

    path: str
    kind: Kind


Tree = Mapping[str, "Leaf | Tree"]

# Of the settings of an address.  ``blame`` stands with the redelivery it governs, ``prefetch-top-up`` by itself,
# because it is no ActiveMQ prefetch; the model groups them otherwise.
ADDRESS: Final[Tree] = {
    "redelivery": {
        "maximum-redeliveries": Leaf("redelivery.maximum_redeliveries", Integer(0, 1_000_000, unlimited=True)),
        "initial-redelivery-delay-ms": Leaf("redelivery.initial_redelivery_delay_ms", Duration(0, YEAR_MS)),
        "redelivery-delay-ms": Leaf("redelivery.redelivery_delay_ms", Duration(0, YEAR_MS)),
        "use-exponential-back-off": Leaf("redelivery.use_exponential_back_off", Boolean()),
        "back-off-multiplier": Leaf("redelivery.back_off_multiplier", Number(1, 1_000)),
        "maximum-redelivery-delay-ms": Leaf(
            "redelivery.maximum_redelivery_delay_ms", Duration(0, YEAR_MS, unlimited=True)
        ),
        "use-collision-avoidance": Leaf("redelivery.use_collision_avoidance", Boolean()),
        "collision-avoidance-percent": Leaf("redelivery.collision_avoidance_percent", Integer(0, 100)),
        "blame": Leaf("blame", Choice("acked+1", "all", "none")),
    },
    "prefetch": {
        "queue-prefetch": Leaf("prefetch.queue_prefetch", Integer(0, MAXIMUM_PREFETCH)),
        "topic-prefetch": Leaf("prefetch.topic_prefetch", Integer(0, MAXIMUM_PREFETCH)),
    },
    "prefetch-top-up": Leaf("prefetch.top_up", Choice("half", "each-ack")),
    "dead-letter-address": Leaf("dead_letter_address", QueueName()),
    "expiry-address": Leaf("expiry_address", QueueName()),
    "nack": Leaf("nack", Choice("redeliver", "dead-letter", "requeue")),
    "log-non-persistent": Leaf("log_non_persistent", Boolean()),
}

# Of the server, but for ``users`` and ``addresses``, which are no single values.
SERVER: Final[Tree] = {
    "server-name": Leaf("server_name", Text("a name", 128)),
    "data": Leaf("data_directory", Text("a directory", 4096)),
    "listeners": {
        "stomp": Leaf("listeners.stomp", ListenerUri("tcp://127.0.0.1:61613", "tcp")),
        "http": Leaf("listeners.http", ListenerUri("http://127.0.0.1:8161", "http", "tcp")),
    },
    "store": {
        "flush": Leaf("store.flush", Choice("sync", "async")),
        "flush-interval-ms": Leaf("store.flush_interval_ms", Duration(1, 60 * SECOND_MS)),
        "segment-bytes": Leaf("store.segment_bytes", Bytes(4 * KIB, 1 * GIB, multiple=8)),
        "retention": {
            "time": Leaf("store.retention.time_ms", Duration(0, 100 * YEAR_MS)),
            "bytes": Leaf("store.retention.bytes", Bytes(0, 1024 * TIB)),
        },
    },
    "memory-limit-bytes": Leaf("memory_limit_bytes", Bytes(1 * MIB, 1 * TIB)),
    "destinations-max": Leaf("destinations_max", Integer(1, 10_000_000)),
    "stomp": {
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
            "write-stall-time-ms": Leaf("stomp.limits.write_stall_time_ms", Duration(100, DAY_MS)),
        },
    },
}


class UnknownKey(ValueError):
    """A key that the table does not have; the text names the accepted ones and the nearest."""


def unknown_key(key: str, accepted: Iterable[str]) -> UnknownKey:
    """Return the error for ``key``; written in camelCase or snake_case, it is still recognised."""
    names = list(accepted)
    kebab = re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", key).replace("_", "-").lower()
    near = difflib.get_close_matches(kebab, names, n=1, cutoff=0.6)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return UnknownKey(f"unknown key{hint}; accepted are {', '.join(names)}")


def leaf_at(tree: Tree, key: str) -> Leaf:
    """Return the leaf that the dotted ``key`` names.  Raises: UnknownKey."""
    at: Leaf | Tree = tree
    for name in key.split("."):
        if isinstance(at, Leaf) or name not in at:
            raise unknown_key(key, leaves(tree))
        at = at[name]
    if not isinstance(at, Leaf):
        raise unknown_key(key, leaves(tree))
    return at


def leaves(tree: Tree, prefix: str = "") -> dict[str, Leaf]:
    """Return every leaf by its dotted key, in the order of the table."""
    found: dict[str, Leaf] = {}
    for key, at in tree.items():
        if isinstance(at, Leaf):
            found[prefix + key] = at
        else:
            found.update(leaves(at, f"{prefix}{key}."))
    return found


def parse_text(kind: Kind, text: str) -> object:
    """Return the value of ``text``.  Raises: ValueError, a sentence that says what was seen and what is allowed."""
    try:
        return kind.parse(text)
    except ValueError as error:
        # The library's own texts (of int, of urlsplit) say less than ``allowed``; ours begin with a verb.
        said = str(error)
        why = f" {said}" if said.startswith(("has ", "lacks ", "looks ")) else ""
        raise ValueError(f"{text!r}{why}, allowed is {kind.allowed}") from None
