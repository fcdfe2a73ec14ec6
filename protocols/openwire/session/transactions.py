"""The open local transactions of one connection, by the client's numbers for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from engine.api import EngineApi
from engine.consumers.client import Client
from engine.transaction import Transaction, TransactionLimits
from engine.values.errors import TransactionError
from protocols.openwire.errors import RequestError, XaRefused
from protocols.openwire.wire.identities import LocalTransactionId, TransactionId


class RolledBack(RequestError):
    """The transaction could not be committed and is rolled back."""

    condition: ClassVar[str] = "rolled-back"


class OpenTransaction:
    """spoiled: why it can only be rolled back, "" if it can be committed.

    The client waits for no response to a send in it.
    """

    __slots__ = ("transaction", "spoiled")

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.spoiled = ""


@dataclass(slots=True, eq=False)
class Transactions:
    """committing: transactions whose commit waits at a gate, by the number of the waiting command."""

    client: Client
    limits: TransactionLimits
    open: dict[int, OpenTransaction] = field(default_factory=dict)
    committing: list[Transaction] = field(default_factory=list)

    def begin(self, name: TransactionId | None) -> None:
        """Raises: RequestError, TransactionError."""
        number = number_of(name)
        if number in self.open:
            return  # a client that reconnects begins again
        most = self.limits.open_count
        if len(self.open) >= most:
            raise TransactionError(f"{most} transactions are open on this connection, which is the limit")
        self.open[number] = OpenTransaction(Transaction(self.client, str(number), self.limits))
        self.client.is_holding = True

    def named(self, name: TransactionId | None) -> OpenTransaction:
        """Raises: RequestError, TransactionError."""
        found = self.open.get(number_of(name))
        if found is None:
            raise TransactionError(f"Transaction {number_of(name)} has not been started.")
        return found

    def take(self, name: TransactionId | None) -> OpenTransaction:
        """Remove and return the transaction that a command ends.  Raises: RequestError, TransactionError."""
        found = self.named(name)
        del self.open[number_of(name)]
        return found

    def spoil(self, name: TransactionId | None, reason: str) -> None:
        """Allow only a rollback."""
        if isinstance(name, LocalTransactionId) and name.value in self.open:
            one = self.open[name.value]
            one.spoiled = one.spoiled or reason

    def size_bytes(self) -> int:
        """Return the octets of the messages of all of them."""
        size = sum(one.transaction.memory_bytes() for one in self.open.values())
        return size + sum(one.memory_bytes() for one in self.committing)

    def abort_all(self, engine: EngineApi) -> None:
        for one in self.open.values():
            engine.abort(one.transaction)
        for committing in self.committing:
            engine.abort(committing)
        self.open.clear()
        self.committing.clear()


def number_of(name: TransactionId | None) -> int:
    """Raises: RequestError for a distributed transaction."""
    if isinstance(name, LocalTransactionId):
        return name.value
    if name is None:
        raise RequestError("a transaction needs an id")
    raise XaRefused("distributed transactions (XA) are not offered here; allowed are local ones.")
