"""The open transactions of one connection: local ones by the client's numbers, branches of distributed ones by xid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from engine.api import EngineApi
from engine.consumers.client import Client
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.identified import id_key
from engine.values.errors import BranchInUse, EngineError, TransactionError
from engine.values.xid import Xid
from engine.xa.branch import Branch
from protocols.openwire.errors import RequestError
from protocols.openwire.wire.identities import LocalTransactionId, TransactionId, XaTransactionId

REPLAYS: Final = "replayed-branches"  # in the place of an address, so that their outcomes are remembered as one's ids


class RolledBack(RequestError):
    """The transaction could not be committed and is rolled back."""

    condition: ClassVar[str] = "rolled-back"


class BranchRolledBack(RolledBack):
    """The same of a distributed one (XA_RBROLLBACK)."""

    condition: ClassVar[str] = "branch-rolled-back"


class OpenTransaction:
    """spoiled: why it can only be rolled back, "" if it can be committed.

    The client waits for no response to a send in it.
    """

    __slots__ = ("transaction", "spoiled")

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.spoiled = ""


class SentAgain:
    """begin_id: of the command that began it.  send_count: its messages since."""

    __slots__ = ("begin_id", "send_count")

    def __init__(self, begin_id: int) -> None:
        self.begin_id = begin_id
        self.send_count = 0


@dataclass(slots=True, eq=False)
class Transactions:
    """open: the local ones.  committing: transactions whose commit waits at a gate.

    replayed: prepared branches that a client sends again, with all their work, because it has connected again.
    is_replaying: the client has connected again and sends again what has no outcome; the end shows by its first ack.
    sent_again: branches that began anew in this way, each with the id of its BEGIN and how many messages have come.
    finished: those of which it did not hear the outcome, or which another connection has decided.
    """

    engine: EngineApi
    client: Client
    limits: TransactionLimits
    open: dict[int, OpenTransaction] = field(default_factory=dict)
    committing: list[Transaction] = field(default_factory=list)
    replayed: set[Xid] = field(default_factory=set)
    is_replaying: bool = False
    sent_again: dict[Xid, SentAgain] = field(default_factory=dict)
    finished: set[Xid] = field(default_factory=set)

    def begin(self, name: TransactionId | None, replay: str) -> None:
        """replay: what is the same when a client connects and begins it again; "" if the client never does.

        Raises: RequestError, EngineError.
        """
        if isinstance(name, XaTransactionId):
            self._begin_branch(Xid(*name), replay)
            return
        number = number_of(name)
        if number in self.open:
            return  # a client that reconnects begins again
        self.limits.check_open(len(self.open))
        self.open[number] = OpenTransaction(Transaction(self.client, str(number), self.limits))
        self.client.is_holding = True

    def named(self, name: TransactionId | None) -> OpenTransaction | Branch:
        """Raises: RequestError, EngineError."""
        if isinstance(name, XaTransactionId):
            return self.engine.branches.active(self.client, Xid(*name))
        found = self.open.get(number_of(name))
        if found is None:
            raise TransactionError(f"Transaction {number_of(name)} has not been started.")
        return found

    def take(self, name: TransactionId | None) -> OpenTransaction | Branch:
        """Remove and return the transaction that a command ends.  Raises: RequestError, EngineError."""
        found = self.named(name)
        if isinstance(found, Branch):
            self.engine.branches.end(found)
        else:
            del self.open[number_of(name)]
        return found

    def is_replayed(self, name: TransactionId) -> bool:
        """Say whether work in a transaction has been done before, and is prepared or finished."""
        if not (self.replayed or self.finished) or not isinstance(name, XaTransactionId):
            return False
        return Xid(*name) in self.replayed or Xid(*name) in self.finished

    def note_again(self, xid: Xid, begin_id: int) -> None:
        """A client that has connected again has begun a branch anew."""
        if xid not in self.replayed and xid not in self.finished and len(self.sent_again) < self.limits.open_count:
            self.sent_again[xid] = SentAgain(begin_id)

    def count_again(self, name: TransactionId) -> None:
        """Count a message in a transaction."""
        found = self.sent_again.get(Xid(*name)) if isinstance(name, XaTransactionId) else None
        if found is not None:
            found.send_count += 1

    def check_again(self, xid: Xid, end_id: int) -> None:
        """Allow only a rollback of a branch that is sent again but not whole.

        Clients do not send its acknowledgements again, so others get its messages.  A client does not notice if it
        loses the connection while it prepares the branch.  Its commands are numbered, so it shows here.
        Raises: UnknownBranch, BranchState if it has ended meanwhile.
        """
        found = self.sent_again.pop(xid, None)
        if found is None or self.engine.branches.active(self.client, xid).transaction.accepted:
            return
        if end_id - found.begin_id - 1 > found.send_count:
            name = XaTransactionId(*xid)
            self.spoil(name, "its client has lost the connection and not sent its acknowledgements again")

    def spoil(self, name: TransactionId | None, reason: str) -> None:
        """Allow only a rollback."""
        try:
            one = self.named(name)
        except (EngineError, RequestError):
            return
        one.spoiled = one.spoiled or reason

    def spoil_all(self, reason: str) -> None:
        """Allow only rollbacks."""
        for one in self.open.values():
            one.spoiled = one.spoiled or reason
        for branch in self.engine.branches.active_of(self.client):
            branch.spoiled = branch.spoiled or reason

    def is_any(self) -> bool:
        """Say whether the connection has an open transaction."""
        return bool(self.open) or self.engine.branches.has_active(self.client)

    def size_bytes(self) -> int:
        """Return the octets of the messages of all of them."""
        size = sum(one.transaction.memory_bytes() for one in self.open.values())
        size += self.engine.branches.active_bytes(self.client)
        return size + sum(one.memory_bytes() for one in self.committing)

    def abort_all(self) -> None:
        for one in self.open.values():
            self.engine.abort(one.transaction)
        for committing in self.committing:
            self.engine.abort(committing)
        self.engine.branches.client_left(self.client)
        self.open.clear()
        self.committing.clear()
        self.replayed.clear()
        self.finished.clear()
        self.sent_again.clear()

    def _begin_branch(self, xid: Xid, replay: str) -> None:
        branches = self.engine.branches
        replay_key = id_key(REPLAYS, f"{self.client.user}\n{replay}\n{xid}") if replay else None
        self.finished.discard(xid)
        if replay_key is not None and branches.is_finished(replay_key):
            if len(self.finished) >= self.limits.open_count:
                raise TransactionError(f"{self.limits.open_count} finished branches are sent again, the limit")
            self.finished.add(xid)
            return
        try:
            branches.begin(self.client, xid, self.limits, replay_key)
        except BranchInUse:
            if replay_key is None or xid not in branches.xids(self.client):
                raise
            self.replayed.add(xid)
        self.client.is_holding = True


def number_of(name: TransactionId | None) -> int:
    """Return the number of a local transaction.  Raises: RequestError for none."""
    if name is None:
        raise RequestError("a transaction needs an id")
    assert isinstance(name, LocalTransactionId), "branches have xids"
    return name.value


def rolled_back(name: TransactionId | None, reason: str) -> RolledBack:
    """Return the error of a transaction that could not be committed or prepared."""
    kind = BranchRolledBack if isinstance(name, XaTransactionId) else RolledBack
    return kind(f"the transaction is rolled back: {reason}")
