"""Outcomes that an operator has given to prepared branches.  Source: X/Open XA, "heuristic decisions"; xa_forget.

The transaction manager has not heard of them.  Whatever it asks about such a branch is answered with the outcome, until
it forgets the branch, or an operator does.  They are records in the queue of the prepared ones, so that they survive a
stop.
"""

from __future__ import annotations

from typing import Final

from engine.backlog.context import Context
from engine.values.errors import BranchCommitted, BranchDropped
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE, DROPPED
from engine.values.stored import Range
from engine.values.xid import Xid
from engine.xa.branch import Branch
from engine.xa.branch_record import LANE, HeuristicOutcome, outcome_record

WORDS: Final = {True: "committed", False: "rolled back"}


class HeuristicOutcomes:
    """queue_number: of the queue of prepared branches."""

    __slots__ = ("queue_number", "_context", "_limit", "_by_xid")

    def __init__(self, context: Context, limit: int) -> None:
        """limit: outcomes that are kept; beyond it the oldest is forgotten."""
        self.queue_number = 0
        self._context = context
        self._limit = limit
        self._by_xid: dict[Xid, HeuristicOutcome] = {}

    def all(self) -> list[HeuristicOutcome]:
        """Return them, the oldest first."""
        return list(self._by_xid.values())

    def find(self, xid: Xid) -> HeuristicOutcome | None:
        return self._by_xid.get(xid)

    def xids(self, user: str) -> list[Xid]:
        return [xid for xid, one in self._by_xid.items() if one.user == user]

    def require_none(self, user: str, xid: Xid) -> None:
        """Raises: BranchCommitted, BranchDropped if an operator has decided about this user's branch."""
        found = self._by_xid.get(xid)
        if found is not None and found.user == user:
            kind = BranchCommitted if found.is_commit else BranchDropped
            raise kind(f"an operator has decided: the branch {xid} is {WORDS[found.is_commit]}")

    def add(self, branch: Branch, is_commit: bool) -> None:
        """Remember an outcome, in the batch that applies it."""
        context = self._context
        record = outcome_record(branch.xid, branch.user, context.wall_ms, is_commit, self.queue_number)
        context.store.append(record)
        place = Range(LANE, record.queue_offset, 1, 0, record.size)
        self.restore(HeuristicOutcome(branch.xid, branch.user, context.wall_ms, is_commit, place))
        while len(self._by_xid) > self._limit:
            self._drop(next(iter(self._by_xid)), DROPPED)

    def restore(self, one: HeuristicOutcome) -> None:
        """Take what a start has found."""
        self._by_xid[one.xid] = one

    def forget(self, xid: Xid) -> None:
        self._drop(xid, ACKNOWLEDGED)

    def _drop(self, xid: Xid, outcome: int) -> None:
        one = self._by_xid.pop(xid)
        self._context.store.settle(self.queue_number, 0, outcome, CAUSE_NONE, [one.place])
