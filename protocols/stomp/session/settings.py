"""Settings of STOMP connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from config.model import NO_DEFAULTS, ConnectionDefaults, StompLimits
from engine.limits.parked_producers import BlockLimit
from engine.open_transaction import TransactionLimits
from protocols.converter import Converter
from protocols.session.lifecycle import SessionLimits
from protocols.stomp.codec.frame_limits import FrameLimits
from protocols.stomp.mapping.dialects import PENSTOCK, Dialect


@dataclass(frozen=True, slots=True)
class SessionSettings(StompLimits):
    """One value for all connections of a listener: the limits, and what else they need.

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
    heart_beat_grace: float = 2.0
    ending_time_ms: int = 5_000  # an ERROR that closes waits this long for earlier confirmations

    @property
    def frame_limits(self) -> FrameLimits:
        return FrameLimits(self.header_count, self.header_line_bytes, body_bytes=self.body_bytes)

    @property
    def session_limits(self) -> SessionLimits:
        block = BlockLimit(self.block_park_bytes, self.block_park_max_bytes)
        return SessionLimits(self.unread_output_bytes, block, self.ending_time_ms, self.disconnect_time_ms)

    @property
    def transaction_limits(self) -> TransactionLimits:
        return TransactionLimits(self.transactions, self.transaction_actions, self.transaction_bytes)
