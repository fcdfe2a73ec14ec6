"""Counts what users have committed to topics and later turns publish, and limits it for each user.

A transaction is one batch, so its messages cannot wait outside memory until there are steps for their copies.  A user
with as much as the limit gets no further COMMIT to a topic until some of it is published.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Final

from engine.backlog.address_account import Gates
from engine.backlog.memory_budget import MESSAGE_OVERHEAD_BYTES
from engine.values.broker_stats import LateStats
from engine.values.message import Message

LATE_MEMORY: Final = "limits.late-memory-per-user"
LARGEST_SHOWN: Final = 10


@dataclass(slots=True, eq=False)
class LateMemory:
    """limit_bytes: per holder, -1 for no limit; one transaction may exceed it.

    used: by holder, octets with the overhead of each message.  over: the holders at or above the limit.
    """

    limit_bytes: int
    _gates: Gates
    used: dict[str, int] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)

    def add(self, holder: str, message: Message) -> None:
        """Count a message of a holder, "" for what has no limit."""
        if not holder:
            return
        used_bytes = self.used.get(holder, 0) + message.size + MESSAGE_OVERHEAD_BYTES
        self.used[holder] = used_bytes
        if 0 <= self.limit_bytes <= used_bytes and holder not in self.over:
            self.over.add(holder)
            self._gates.block()

    def remove(self, holder: str, message: Message) -> None:
        """A message is published, or nobody is left who would get it."""
        if not holder:
            return
        used_bytes = self.used[holder] - message.size - MESSAGE_OVERHEAD_BYTES
        if used_bytes:
            self.used[holder] = used_bytes
        else:
            del self.used[holder]
        if used_bytes < self.limit_bytes:
            self.over.discard(holder)

    def stats(self) -> LateStats:
        return LateStats(self.limit_bytes, dict(heapq.nlargest(LARGEST_SHOWN, self.used.items(), key=_second)))

    def describe(self, holder: str) -> str:
        return (
            f"{self.used.get(holder, 0)} octets that {holder} has committed are still being published to topics; "
            f"the limit is {self.limit_bytes} ({LATE_MEMORY})"
        )


def _second(pair: tuple[str, int]) -> int:
    return pair[1]
