"""The open transactions of one connection, by its names for them."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.api import EngineApi
from engine.consumers.client import Client
from engine.open_transaction import Transaction, TransactionLimits
from engine.values.errors import TransactionError
from protocols.stomp.codec import frames
from protocols.stomp.codec.frames import Frame
from protocols.stomp.errors import InvalidHeader


@dataclass(slots=True, eq=False)
class Transactions:
    """committing: transactions whose COMMIT waits at a gate, by its frame; the client may reuse their names.

    Their client has ended them, so they do not count as open: ``BlockLimit`` bounds what waits at a gate.
    """

    client: Client
    limits: TransactionLimits
    open: dict[str, Transaction] = field(default_factory=dict)
    committing: dict[Frame, Transaction] = field(default_factory=dict)

    def begin(self, frame: Frame) -> None:
        """Raises: InvalidHeader, TransactionError."""
        name = _name_in(frame)
        if name in self.open:
            raise TransactionError(f"transaction {name[:200]!r} is open already")
        self.limits.check_open(len(self.open))
        self.open[name] = Transaction(self.client, name, self.limits)
        self.client.is_holding = True

    def named(self, name: str) -> Transaction:
        """Return the open transaction ``name``.  Raises: TransactionError."""
        transaction = self.open.get(name)
        if transaction is None:
            raise TransactionError(f"transaction {name[:200]!r} is not open on this connection")
        return transaction

    def take(self, frame: Frame) -> Transaction:
        """Remove and return the transaction that a COMMIT or ABORT ends.

        Raises: InvalidHeader, TransactionError.
        """
        transaction = self.committing.pop(frame, None)
        if transaction is None:
            transaction = self.named(_name_in(frame))
            del self.open[transaction.name]
        return transaction

    def size_bytes(self) -> int:
        """Return the memory of the open ones; the others count in what waits at a gate."""
        return sum(one.memory_bytes() for one in self.open.values())

    def abort_all(self, engine: EngineApi) -> None:
        for transaction in [*self.open.values(), *self.committing.values()]:
            engine.abort(transaction)
        self.open.clear()
        self.committing.clear()


def _name_in(frame: Frame) -> str:
    name = frame.head.headers.get("transaction")
    if name is None:
        raise InvalidHeader(f"{frames.NAMES[frame.command].decode()} needs a header transaction")
    return name
