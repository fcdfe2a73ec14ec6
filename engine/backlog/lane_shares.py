"""How much of the memory budget each lane may keep ready of messages that are in the log, and could be paged.

A few lanes keep as much as one lane ever does; with what is around their octets that is three eighths of the default
budget.  From LANES_FREE on they share a quarter of the budget: what a lane may keep shrinks as there are more of them,
and is set anew for all each time their number has doubled, so that neither a message nor a new queue costs more
because there are many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.backlog.memory import MESSAGE_OVERHEAD_BYTES

if TYPE_CHECKING:
    from engine.backlog.lane import Lane

LANES_FREE: Final = 8
SHARED_PART: Final = 4  # of the budget, one part of so many
LEAST_BYTES: Final = 4 * 1024  # that a lane may keep, whatever their number
LEAST_MESSAGES: Final = 8


class LaneShares:
    """lane_bytes, lane_messages: what each lane may keep at present; -1 while each may keep what it likes.

    shared_count: how often that was set anew for all.
    """

    __slots__ = ("lane_bytes", "lane_messages", "shared_count", "_budget_bytes", "_lanes", "_next_count")

    def __init__(self, budget_bytes: int) -> None:
        self.lane_bytes = -1
        self.lane_messages = -1
        self.shared_count = 0
        self._budget_bytes = budget_bytes
        self._lanes: list[Lane] = []
        self._next_count = LANES_FREE

    def join(self, lane: Lane) -> None:
        """Let one more lane share."""
        self._lanes.append(lane)
        if len(self._lanes) >= self._next_count:
            self._share_anew()
        elif self.lane_bytes >= 0:
            lane.set_share(self.lane_bytes, self.lane_messages)

    def _share_anew(self) -> None:
        self._lanes = [lane for lane in self._lanes if not lane.queue.is_closed]
        count = self._next_count = max(LANES_FREE, 2 * len(self._lanes))
        if count == LANES_FREE:
            return
        self.lane_bytes = max(LEAST_BYTES, self._budget_bytes // SHARED_PART // count)
        self.lane_messages = max(LEAST_MESSAGES, self.lane_bytes // MESSAGE_OVERHEAD_BYTES)
        self.shared_count += 1
        for lane in self._lanes:
            lane.set_share(self.lane_bytes, self.lane_messages)
