"""Prepared transactions of the running gateway: an operator lists them, and decides where nobody else will."""

from __future__ import annotations

import logging
from typing import Any, Final

from engine.branches.branch import Branch
from engine.values.xid import xid_of
from gateway.loop.durability import check_disk, until_durable
from gateway.loop.engine_loop import EngineLoop
from gateway.process.log_lines import PeerLines

log: Final = logging.getLogger("penstock")

COMMITTED: Final = "committed"
ROLLED_BACK: Final = "rolled back"


class LiveTransactions:
    def __init__(self, engine_loop: EngineLoop, lines: PeerLines) -> None:
        self._engine_loop = engine_loop
        self._branches = engine_loop.broker.branches
        self._lines = lines

    def listed(self, limit: int) -> dict[str, Any]:
        """Return the oldest prepared transactions."""
        found = self._branches.prepared()
        return {"prepared": len(found), "transactions": [_described(one) for one in found[:limit]]}

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
            self._branches.commit(branch)
        else:
            self._branches.roll_back(branch, leaves_consumers=True)
        await until_durable(
            self._engine_loop, f"{outcome} {xid}", "it is prepared again if the gateway is killed before"
        )
        return {"xid": xid, "outcome": outcome}


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
