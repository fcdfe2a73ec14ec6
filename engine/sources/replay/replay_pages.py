"""How much each replay may ask for at a time, and keep ready: all of them hold a part of the memory budget together."""

from __future__ import annotations

from typing import Final

from engine.backlog.lane_shares import LEAST_BYTES, LEAST_MESSAGES
from engine.backlog.memory import MESSAGE_OVERHEAD_BYTES, MemoryBudget

PAGE_MESSAGES: Final = 1_024  # of one priority asked for at a time, and kept ready to be handed over
PAGE_BYTES: Final = 1024 * 1024
SHARED_PART: Final = 8  # of the memory budget, one part of so many: what all replays hold beside what is in flight


class ReplayPages:
    """size_bytes: of one page while memory is not short."""

    __slots__ = ("memory", "size_bytes")

    def __init__(self, memory: MemoryBudget) -> None:
        self.memory = memory
        self.size_bytes = PAGE_BYTES

    def share(self, count: int) -> None:
        """Let ``count`` replays hold the part: each a page of one priority and one that is ready."""
        part = self.memory.limit_bytes // SHARED_PART // (2 * max(1, count))
        self.size_bytes = max(LEAST_BYTES, min(PAGE_BYTES, part))

    def limits(self) -> tuple[int, int]:
        """Return how many octets and messages a replay may ask for now, and keep ready."""
        if self.memory.is_short():
            return LEAST_BYTES, LEAST_MESSAGES
        return self.size_bytes, self.messages()

    def messages(self) -> int:
        """Return how many messages a replay may ask for while memory is not short."""
        return max(LEAST_MESSAGES, min(PAGE_MESSAGES, self.size_bytes // MESSAGE_OVERHEAD_BYTES))
