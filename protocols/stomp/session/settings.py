"""Settings of STOMP connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from config.model import NO_DEFAULTS, ConnectionDefaults
from engine.transaction import TransactionLimits
from protocols.converter import Converter
from protocols.stomp.codec.frame_limits import FrameLimits
from protocols.stomp.mapping.dialects import PENSTOCK, Dialect


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """One value for all connections of a listener.

    needs_login: credentials are checked; otherwise any are accepted.
    groups: login -> the groups it is in.
    converter: for messages that came by another protocol.
    defaults: options of the listener's URI for the subscriptions of its connections.
    dialect: differences that follow another broker.
    """

    server: str = "Penstock"
    defaults: ConnectionDefaults = NO_DEFAULTS
    dialect: Dialect = PENSTOCK
    converter: Converter | None = None
    needs_login: bool = False
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    default_persistent: bool = False
    is_strict: bool = False
    frame_limits: FrameLimits = field(default_factory=FrameLimits)
    subscription_count: int = 10_000
    transaction_limits: TransactionLimits = field(default_factory=TransactionLimits)
    frame_time_ms: int = 30_000
    connect_time_ms: int = 30_000
    heart_beat_grace: float = 2.0
    unread_output_bytes: int = 1024 * 1024
    block_park_bytes: int = 1024 * 1024
    block_park_max_bytes: int = 16 * 1024 * 1024
    ending_time_ms: int = 5_000  # an ERROR that closes waits this long for earlier confirmations
    disconnect_time_ms: int = 60_000  # DISCONNECT waits this long for the frames before it; then an ERROR
