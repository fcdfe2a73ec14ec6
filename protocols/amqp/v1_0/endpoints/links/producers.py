"""The producers of one connection: the deliveries that they have begun, and those that wait."""

from __future__ import annotations

from protocols.amqp.v1_0.endpoints.connection_endpoint import ConnectionEndpoint
from protocols.amqp.v1_0.endpoints.links.blocked_transfers import BlockedTransfers
from protocols.amqp.v1_0.endpoints.links.multi_transfers import MultiTransfers
from protocols.amqp.v1_0.endpoints.links.transactions import Transactions
from protocols.amqp.v1_0.wire.messages.scanner import Scanned, Scanner
from protocols.amqp.v1_0.wire.messages.sections import check_body


class Producers:
    """scanner: reads the messages that they send.  The other fields are parts of the engine."""

    __slots__ = (
        "transactions",
        "blocked",
        "multi_transfers",
        "scanner",
        "producer_gates",
        "access",
        "advisories",
        "schedule_limits",
    )

    def __init__(self, connection: ConnectionEndpoint) -> None:
        self.transactions = Transactions(connection)
        self.blocked = BlockedTransfers(connection)
        self.multi_transfers = MultiTransfers(connection)
        self.scanner = Scanner()
        engine = connection.engine
        self.producer_gates = engine.producer_gates
        self.access = engine.access
        self.advisories = engine.advisories
        self.schedule_limits = engine.scheduler.limits

    def check_sender(self, connection: ConnectionEndpoint, scanned: Scanned) -> None:
        """Look whether a message of a client whose login was checked names nobody else as its sender.

        Raises: AccessDenied, DecodeError.
        """
        if scanned.user_id:
            self.access.require_own_name(connection, scanned.user_id.decode("utf-8", "replace"))
        check_body(scanned.body)

    def held(self) -> tuple[int, int, int]:
        """Return the octets of partial messages, transactions, and messages at a gate."""
        return self.multi_transfers.held_bytes, self.transactions.size_bytes(), self.blocked.size_bytes
