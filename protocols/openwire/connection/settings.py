"""Settings of OpenWire connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from config.model import NO_DEFAULTS, ConnectionDefaults, OpenWireLimits
from engine.limits.parked_producers import BlockLimit
from engine.open_transaction import TransactionLimits
from protocols.converter import Converter, Converters
from protocols.openwire.connection.connection_ids import ConnectionIds
from protocols.openwire.connection.peers import Peers
from protocols.session.lifecycle import SessionLimits


@dataclass(frozen=True, slots=True)
class OpenWireSettings(OpenWireLimits):
    """One value for all connections: the limits, and what else they need.

    needs_login: credentials are checked; otherwise any are accepted.  groups: login -> the groups it is in.
    converter: for messages that came by another protocol.  peers: what connections know of each other.
    connection_ids: whose they are.
    defaults: options of the listener's URI for the consumers of its connections.
    """

    server: str = "Penstock"
    defaults: ConnectionDefaults = NO_DEFAULTS
    needs_login: bool = False
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    converter: Converter = field(default_factory=lambda: Converters({}))
    peers: Peers = field(default_factory=Peers)
    connection_ids: ConnectionIds = field(default_factory=ConnectionIds)

    @property
    def session_limits(self) -> SessionLimits:
        block = BlockLimit(self.block_park_bytes, self.block_park_max_bytes)
        return SessionLimits(self.unread_output_bytes, block, self.close_time_ms, self.close_time_ms)

    @property
    def transaction_limits(self) -> TransactionLimits:
        return TransactionLimits(self.transactions, self.transaction_actions, self.transaction_bytes)
