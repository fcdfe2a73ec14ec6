"""How much room the prepared branches take, and how much they may."""

from __future__ import annotations

from dataclasses import dataclass

from engine.backlog.memory_budget import MemoryBudget
from engine.values.errors import LimitReached
from engine.xa.branch import Branch


@dataclass(frozen=True, slots=True)
class BranchLimits:
    """Of all prepared branches together.  size_bytes: of what they send, and a little for each action.

    user_count: of these, those of one login, so that one user cannot keep all others out.
    """

    count: int = 1_000
    size_bytes: int = 128 * 1024 * 1024
    user_count: int = 900


class PreparedRoom:
    """count: of the prepared branches.  size_bytes: of them in memory."""

    __slots__ = ("count", "size_bytes", "_limits", "_memory", "_by_user")

    def __init__(self, limits: BranchLimits, memory: MemoryBudget) -> None:
        self.count = 0
        self.size_bytes = 0
        self._limits = limits
        self._memory = memory
        self._by_user: dict[str, int] = {}

    def require(self, branch: Branch) -> None:
        """Check that one more may be prepared.  Raises: LimitReached."""
        limits = self._limits
        if self.count >= limits.count:
            raise LimitReached(
                f"{self.count} transactions are prepared, which is the limit (limits.prepared-transactions)"
            )
        if branch.user and self._by_user.get(branch.user, 0) >= limits.user_count:
            raise LimitReached(
                f"{limits.user_count} transactions of {branch.user} are prepared, which is the limit of one user "
                "(nine tenths of limits.prepared-transactions)"
            )
        size_bytes = self.size_bytes + branch.memory_bytes()
        if size_bytes > limits.size_bytes:
            raise LimitReached(
                f"prepared transactions would hold {size_bytes} octets, the limit is {limits.size_bytes} "
                "(limits.prepared-transactions-bytes)"
            )

    def enter(self, branch: Branch) -> None:
        self._by_user[branch.user] = self._by_user.get(branch.user, 0) + 1
        self._count(1, branch.memory_bytes())

    def leave(self, branch: Branch) -> None:
        self._by_user[branch.user] -= 1
        if not self._by_user[branch.user]:
            del self._by_user[branch.user]
        self._count(-1, -branch.memory_bytes())

    def _count(self, count: int, size_bytes: int) -> None:
        self.count += count
        self.size_bytes += size_bytes
        self._memory.keep_prepared(size_bytes)
