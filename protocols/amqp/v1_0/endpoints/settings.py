"""Settings of AMQP connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from config.model import NO_DEFAULTS, AmqpLimits, ConnectionDefaults
from engine.open_transaction import TransactionLimits
from protocols.converter import Converter


@dataclass(frozen=True, slots=True)
class AmqpSettings(AmqpLimits):
    """One value for all connections of a listener: the limits, and what else they need.

    needs_login: credentials are checked; otherwise any are accepted, and none.
    groups: login -> the groups it is in.  converter: for messages that are neither of AMQP nor of STOMP.
    defaults: options of the listener's URI for the consumers of its connections; credit is the client's own choice.
    """

    server: str = "Penstock"
    needs_login: bool = False
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    defaults: ConnectionDefaults = NO_DEFAULTS
    converter: Converter | None = None

    @property
    def transaction_limits(self) -> TransactionLimits:
        return TransactionLimits(self.transactions, self.transaction_actions, self.transaction_bytes)
