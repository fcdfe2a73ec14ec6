"""Settings of AMQP connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from config.model import NO_DEFAULTS, ConnectionDefaults
from engine.transaction import TransactionLimits


@dataclass(frozen=True, slots=True)
class AmqpSettings:
    """One value for all connections of a listener.

    needs_login: credentials are checked; otherwise any are accepted, and none.
    max_frame_size: octets of a frame that we accept.  body_bytes: octets of a message, over all its frames.
    partial_bytes: octets of the incomplete messages of a connection.
    delivery_time_ms: from a delivery's first transfer to its last.
    idle_time_ms: silence after which a connection ends; we announce half of it (transport 2.4.5).
    incoming_window: transfer frames that a session may send before it gets a new window.
    link_count: links of all sessions of a connection.
    groups: login -> the groups it is in.
    defaults: options of the listener's URI for the consumers of its connections; credit is the client's own choice.
    link_credit: messages that a producer may send ahead; topped up at half.
    """

    server: str = "Penstock"
    needs_login: bool = False
    max_frame_size: int = 131_072
    body_bytes: int = 100 * 1024 * 1024
    partial_bytes: int = 256 * 1024 * 1024
    channel_max: int = 255
    handle_max: int = 9_999
    link_count: int = 10_000
    idle_time_ms: int = 60_000
    connect_time_ms: int = 30_000
    frame_time_ms: int = 30_000
    delivery_time_ms: int = 300_000
    incoming_window: int = 4_096
    link_credit: int = 1_000
    unread_output_bytes: int = 1024 * 1024
    block_park_bytes: int = 1024 * 1024
    block_park_max_bytes: int = 16 * 1024 * 1024
    ending_time_ms: int = 5_000
    transaction_limits: TransactionLimits = field(default_factory=TransactionLimits)
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    defaults: ConnectionDefaults = NO_DEFAULTS
