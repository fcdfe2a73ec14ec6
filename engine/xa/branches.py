"""Branches of distributed transactions, by xid.  Source: X/Open XA; ActiveMQ's TransactionBroker.

    BEGIN -> active --PREPARE--> prepared --COMMIT, ROLLBACK--> gone
               |
               +--COMMIT of one phase, ROLLBACK, end of its connection--> gone

An active branch belongs to the connection that began it; other connections of the same user may take part.  A prepared
one belongs to its user: it is in the log (``branch_record``), nobody sees what it sends, nobody gets what it has
acknowledged, and any connection of that user may finish it.
"""

from __future__ import annotations

from typing import Final

from engine.backlog.context import Context
from engine.consumers.client import Client
from engine.consumers.consumer import consumer_of
from engine.consumers.settlement_log import SettlementLog
from engine.fate.redelivery import Redelivery
from engine.features.duplicate_ids import DuplicateIds
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.identified import IdKey
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.transaction_commit import Commits
from engine.values.broker_stats import BranchStats
from engine.values.delivery import Refusal
from engine.values.destination import PREPARED_QUEUE, QUEUE
from engine.values.errors import BranchInUse, BranchState, TransactionError, UnknownBranch
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE, DROPPED
from engine.values.stored import Range
from engine.values.xid import Xid
from engine.xa.branch import Branch
from engine.xa.branch_record import LANE, records_of
from engine.xa.heuristic_outcomes import HeuristicOutcomes
from engine.xa.prepared_room import BranchLimits, PreparedRoom
from engine.xa.read_back import ReadBack
from engine.xa.start import FoundBranches, found_branches

PUT_BACK: Final = Refusal("requeue")


class Branches:
    """room: of the prepared ones.  committed_count, rolled_back_count: outcomes since the start.

    heuristics: what operators have decided and transaction managers have not forgotten.
    """

    __slots__ = (
        "room",
        "committed_count",
        "rolled_back_count",
        "heuristics",
        "read_back",
        "_context",
        "_commits",
        "_settlements",
        "_redelivery",
        "_duplicate_ids",
        "_branches",
        "_active",
        "_queue_number",
    )

    def __init__(
        self,
        context: Context,
        destinations: Destinations,
        commits: Commits,
        settlements: SettlementLog,
        redelivery: Redelivery,
        duplicate_ids: DuplicateIds,
        limits: BranchLimits,
    ) -> None:
        """Raises: StoreError if the disk cannot be read."""
        self.room = PreparedRoom(limits, context.memory)
        self.committed_count = 0
        self.rolled_back_count = 0
        self.heuristics = HeuristicOutcomes(context, limits.count)
        self.read_back = ReadBack(context)
        self._context = context
        self._commits = commits
        self._settlements = settlements
        self._redelivery = redelivery
        self._duplicate_ids = duplicate_ids
        self._branches: dict[Xid, Branch] = {}
        self._active: dict[int, dict[Xid, Branch]] = {}  # by the number of the client that began them
        self._queue_number = 0
        self._take_up(found_branches(context.store, destinations))

    # -- before it is prepared

    def begin(self, client: Client, xid: Xid, limits: TransactionLimits, replay_key: IdKey | None = None) -> None:
        """Begin a branch, or take part in one of the same user.  Raises: BranchInUse, TransactionError."""
        known = self._branches.get(xid)
        if self.heuristics.find(xid) is not None:
            raise BranchInUse(f"the xid {xid} is in use until its branch is forgotten")
        if known is not None:
            if known.records is not None or known.user != client.user:
                raise BranchInUse(f"the xid {xid} is in use")
            return
        own = self._active.setdefault(client.client_number, {})
        if len(own) >= limits.open_count:
            raise TransactionError(f"{limits.open_count} branches are open on this connection, which is the limit")
        branch = Branch(xid, client.user, Transaction(client, str(xid), limits))
        branch.replay_key = replay_key
        self._branches[xid] = own[xid] = branch

    def active(self, client: Client, xid: Xid) -> Branch:
        """Return a branch that is not prepared yet.  Raises: UnknownBranch, BranchState."""
        branch = self._known(client, xid)
        if branch.records is not None:
            raise BranchState(f"the branch {xid} is prepared; allowed are commit and rollback")
        owner = branch.transaction.client
        if owner is not None and owner is not client:
            owner.count_later()  # what it holds changes by another one's input
        return branch

    def has_active(self, client: Client) -> bool:
        return client.client_number in self._active

    def active_of(self, client: Client) -> list[Branch]:
        """Return the branches that a client has begun and not prepared."""
        return list(self._active.get(client.client_number, {}).values())

    def active_bytes(self, client: Client) -> int:
        """Return the octets of the branches that a client has begun and not prepared."""
        return sum(branch.memory_bytes() for branch in self._active.get(client.client_number, {}).values())

    def client_left(self, client: Client) -> None:
        """Roll back what a connection that has ended had begun and not prepared."""
        for branch in self._active.pop(client.client_number, {}).values():
            del self._branches[branch.xid]
            self._commits.abort(branch.transaction)

    def end(self, branch: Branch) -> Transaction:
        """Take an active branch from the table; return what the caller commits or aborts."""
        assert branch.records is None, "a prepared branch ends by its outcome"
        self._forget_active(branch)
        del self._branches[branch.xid]
        return branch.transaction

    # -- the two phases

    def is_finished(self, replay_key: IdKey) -> bool:
        """Say whether a client begins again, by a replay, what was prepared and has its outcome."""
        return self._duplicate_ids.is_known(replay_key)

    def is_prepared(self, client: Client, xid: Xid) -> bool:
        """Raises: UnknownBranch."""
        return self._known(client, xid).records is not None

    def prepare(self, branch: Branch) -> bool:
        """Log a branch, so that its commit cannot fail any more; return False, and forget it, if it has no work.

        The caller has checked ``commit_refusal``.  Raises: LimitReached.
        """
        if not branch.has_work():
            self.end(branch)
            return False
        self.room.require(branch)
        context = self._context
        store = context.store
        if not self._queue_number:
            self._queue_number = self.heuristics.queue_number = store.open_destination(QUEUE, PREPARED_QUEUE)
        transaction = branch.transaction
        records = records_of(branch, context.wall_ms, self._queue_number)
        context.begin_batch()
        for record in records:
            store.append(record)
        context.commit_batch()
        size_bytes = sum(record.size for record in records)
        self._forget_active(branch)
        transaction.client = None
        self._prepared(branch, Range(LANE, records[0].queue_offset, len(records), 0, size_bytes), context.wall_ms)
        return True

    def xids(self, client: Client) -> list[Xid]:
        """Return the prepared branches that a client may finish, the oldest first."""
        return [one.xid for one in self.prepared() if one.user == client.user]

    def prepared(self) -> list[Branch]:
        """Return all prepared branches, the oldest first."""
        found = [branch for branch in self._branches.values() if branch.records is not None]
        return sorted(found, key=_age)

    def find(self, xid: Xid) -> Branch | None:
        """Return a prepared branch of any user, for an operator; None if it is not there."""
        branch = self._branches.get(xid)
        return None if branch is None or branch.records is None else branch

    def holder_of(self, queue: Queue, priority: int, queue_offset: int) -> Branch | None:
        """Return the prepared branch that has acknowledged an entry of a queue; it searches all of them."""
        return next((one for one in self.prepared() if one.holds(queue, priority, queue_offset)), None)

    def stats(self) -> BranchStats:
        oldest_ms = min((branch.prepared_ms for branch in self.prepared()), default=0)
        room = self.room
        return BranchStats(room.count, room.size_bytes, oldest_ms, self.committed_count, self.rolled_back_count)

    def require_prepared(self, client: Client, xid: Xid) -> Branch:
        """Return a prepared branch.  Raises: UnknownBranch, BranchState."""
        branch = self._known(client, xid)
        if branch.records is None:
            raise BranchState(f"the branch {xid} is not prepared")
        return branch

    def commit(self, branch: Branch, is_heuristic: bool = False) -> None:
        """Apply a prepared branch: one batch with the end of its records.  Space was checked when it was prepared.

        is_heuristic: an operator decides, and the transaction manager is to hear of it.
        """
        context = self._context
        self._settlements.flush()  # earlier settlements are not part of the batch
        context.begin_batch()
        self._commits.apply(branch.transaction)
        for held in branch.held:
            held.settle(context.store)
        for key in branch.keys:
            if not self._duplicate_ids.is_known(key):
                self._duplicate_ids.add(key, is_logged=True)
        self._finish(branch, ACKNOWLEDGED)
        if is_heuristic:
            self.heuristics.add(branch, is_commit=True)
        context.commit_batch()
        self.committed_count += 1

    def roll_back(self, branch: Branch, is_heuristic: bool = False) -> None:
        """Undo a prepared branch.  What it had acknowledged stays with consumers that are still there.

        is_heuristic: an operator decides, and the transaction manager is to hear of it.  What was acknowledged returns
        to the queues instead, as nobody tells these consumers.
        """
        transaction = branch.transaction
        if is_heuristic:
            left = [one for one in transaction.accepted if not consumer_of(one).is_closed]
            transaction.accepted = [one for one in transaction.accepted if consumer_of(one).is_closed]
            self._redelivery.refuse_all(left, PUT_BACK)
        self._commits.abort(transaction)
        self._settlements.flush()
        self._context.begin_batch()
        self._finish(branch, DROPPED)
        if is_heuristic:
            self.heuristics.add(branch, is_commit=False)
        self._context.commit_batch()
        for held in branch.held:
            self.read_back.add(held)
        self.rolled_back_count += 1

    def forget(self, client: Client, xid: Xid) -> None:
        """Forget what an operator has decided.  Raises: UnknownBranch, BranchState."""
        found = self.heuristics.find(xid)
        if found is not None and found.user == client.user:
            self.heuristics.forget(xid)
            return
        self._known(client, xid)
        raise BranchState(f"the branch {xid} has no outcome that could be forgotten")

    # -- the steps

    def _known(self, client: Client, xid: Xid) -> Branch:
        """Raises: UnknownBranch, BranchCommitted, BranchDropped."""
        self.heuristics.require_none(client.user, xid)
        branch = self._branches.get(xid)
        if branch is None or branch.user != client.user:
            raise UnknownBranch(f"Transaction {xid} has not been started.")
        return branch

    def _forget_active(self, branch: Branch) -> None:
        client = branch.transaction.client
        assert client is not None, "an active branch has a client"
        own = self._active[client.client_number]
        del own[branch.xid]
        if not own:
            del self._active[client.client_number]

    def _prepared(self, branch: Branch, records: Range, prepared_ms: int) -> None:
        branch.records = records
        branch.prepared_ms = prepared_ms
        self._branches[branch.xid] = branch
        self.room.enter(branch)

    def _finish(self, branch: Branch, outcome: int) -> None:
        assert branch.records is not None, "a prepared branch has records"
        if branch.replay_key is not None and not self._duplicate_ids.is_known(branch.replay_key):
            self._duplicate_ids.add(branch.replay_key, is_logged=True)
        self._context.store.settle(self._queue_number, 0, outcome, CAUSE_NONE, [branch.records])
        del self._branches[branch.xid]
        self.room.leave(branch)

    def _take_up(self, found: FoundBranches) -> None:
        self._queue_number = self.heuristics.queue_number = found.queue_number
        for one in found.outcomes:
            self.heuristics.restore(one)
        if found.orphans:
            self._context.store.settle(self._queue_number, 0, DROPPED, CAUSE_NONE, found.orphans)
        for branch, records, prepared_ms in found.branches:
            self._prepared(branch, records, prepared_ms)


def _age(branch: Branch) -> int:
    assert branch.records is not None, "a prepared branch has records"
    return branch.records.first
