"""How much each replay may request at a time and keep ready: all replays share a part of the memory budget."""

from __future__ import annotations

from typing import Final

from engine.backlog.lane_shares import LEAST_BYTES, LEAST_MESSAGES
from engine.backlog.memory import MESSAGE_OVERHEAD_BYTES, MemoryBudget

PAGE_MESSAGES: Final = 1_024  # per priority and request, and kept ready for hand-over
PAGE_BYTES: Final = 1024 * 1024
SHARED_PART: Final = 8  # all replays hold 1 / SHARED_PART of the memory budget, besides what is in flight


class ReplayPages:
    """size_bytes: of one page while memory is not short."""

    __slots__ = ("memory", "size_bytes")

    def __init__(self, memory: MemoryBudget) -> None:
        self.memory = memory
        self.size_bytes = PAGE_BYTES

    def share(self, count: int) -> None:
        """Divide the part among ``count`` replays; each holds a page of one priority and a ready one."""
        part = self.memory.limit_bytes // SHARED_PART // (2 * max(1, count))
        self.size_bytes = max(LEAST_BYTES, min(PAGE_BYTES, part))

    def limits(self) -> tuple[int, int]:
        """Return how many octets and messages a replay may request now and keep ready."""
        if self.memory.is_short():
            return LEAST_BYTES, LEAST_MESSAGES
        return self.size_bytes, self.messages()

    def messages(self) -> int:
        """Return how many messages a replay may request while memory is not short."""
        return max(LEAST_MESSAGES, min(PAGE_MESSAGES, self.size_bytes // MESSAGE_OVERHEAD_BYTES))
