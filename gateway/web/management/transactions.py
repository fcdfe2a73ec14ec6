"""Prepared transactions of the running gateway: an operator lists them, and decides where nobody else will."""

from __future__ import annotations

import logging
from typing import Any, Final

from engine.values.xid import xid_of
from engine.xa.branch import Branch
from engine.xa.branch_record import HeuristicOutcome
from gateway.loop.durability import check_disk, until_durable
from gateway.loop.engine_loop import EngineLoop
from gateway.process.log_lines import PeerLines

log: Final = logging.getLogger("penstock")

COMMITTED: Final = "committed"
ROLLED_BACK: Final = "rolled back"
FORGOTTEN: Final = "forgotten"


class LiveTransactions:
    def __init__(self, engine_loop: EngineLoop, lines: PeerLines) -> None:
        self._engine_loop = engine_loop
        self._branches = engine_loop.broker.branches
        self._lines = lines

    def listed(self, limit: int) -> dict[str, Any]:
        """Return the oldest prepared transactions, and the oldest that an operator has decided."""
        found = self._branches.prepared()
        decided = self._branches.heuristics.all()
        return {
            "prepared": len(found),
            "transactions": [_described(one) for one in found[:limit]],
            "decided": [_outcome(one) for one in decided[:limit]],
        }

    async def decide(self, xid: str, is_commit: bool, operator: str) -> dict[str, Any]:
        """Commit or roll back; return once that is durable.  operator: who asks, in words.

        Raises: InvalidOption for no xid; LookupError if it is not prepared; StoreError if the disk refuses it.
        """
        check_disk(self._engine_loop, "nothing was decided")
        branch = self._branches.find(xid_of(xid))
        if branch is None:
            raise LookupError(f"no prepared transaction {xid}; 'penstock transactions list' shows them")
        outcome = COMMITTED if is_commit else ROLLED_BACK
        self._lines.done(log, logging.INFO, operator, f"the prepared transaction {xid} is {outcome} by {operator}")
        self._engine_loop.open_turn()
        if is_commit:
            self._branches.commit(branch, is_heuristic=True)
        else:
            self._branches.roll_back(branch, is_heuristic=True)
        await until_durable(
            self._engine_loop, f"{outcome} {xid}", "it is prepared again if the gateway is killed before"
        )
        return {"xid": xid, "outcome": outcome}

    async def forget(self, xid: str, operator: str) -> dict[str, Any]:
        """Forget the outcome that an operator gave, as its transaction manager is gone for good.

        Raises: InvalidOption for no xid; LookupError if there is none; StoreError if the disk refuses it.
        """
        check_disk(self._engine_loop, "nothing was forgotten")
        heuristics = self._branches.heuristics
        name = xid_of(xid)
        if heuristics.find(name) is None:
            raise LookupError(f"no decided transaction {xid}; 'penstock transactions list' shows them")
        self._lines.done(log, logging.INFO, operator, f"the outcome of {xid} is forgotten by {operator}")
        self._engine_loop.open_turn()
        heuristics.forget(name)
        await until_durable(self._engine_loop, f"forgotten {xid}", "it is there again if the gateway is killed before")
        return {"xid": xid, "outcome": FORGOTTEN}


def _described(branch: Branch) -> dict[str, Any]:
    transaction = branch.transaction
    return {
        "xid": str(branch.xid),
        "user": branch.user,
        "prepared_ms": branch.prepared_ms,
        "messages": len(transaction.sends) + len(transaction.scheduled),
        "acknowledged": len(transaction.accepted) + sum(len(held.offsets) for held in branch.held),
        "size_bytes": branch.memory_bytes(),
    }


def _outcome(one: HeuristicOutcome) -> dict[str, Any]:
    return {
        "xid": str(one.xid),
        "user": one.user,
        "decided_ms": one.decided_ms,
        "outcome": COMMITTED if one.is_commit else ROLLED_BACK,
    }
