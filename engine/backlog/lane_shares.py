"""Each lane's share of the memory budget for ready messages that are in the log and could be paged.

A few lanes keep the most that one lane ever keeps; with the overhead per message this is three eighths of the default
budget.  From LANES_FREE lanes on, they share a quarter of the budget: the share shrinks as lanes are added, and grows
as they leave.  It is recomputed when the number of lanes has doubled or fallen to a quarter.  Each lane that joins or
leaves then updates a few others, so that no single change costs more because there are many lanes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.backlog.lane import Lane
from engine.backlog.memory_budget import MESSAGE_OVERHEAD_BYTES

LANES_FREE: Final = 8
SHARED_PART: Final = 4  # lanes share budget / SHARED_PART
LEAST_BYTES: Final = 4 * 1024  # smallest share, however many lanes there are
LEAST_MESSAGES: Final = 8
NO_SHARE: Final = 1 << 62
UPDATED_AT_ONCE: Final = 8  # lanes updated with a new share per lane that joins or leaves


@dataclass(slots=True, eq=False)
class LaneShares:
    """lane_bytes, lane_messages: the present share of each lane; -1 while lanes are limited by their settings only.

    _lanes: all lanes, plus ``_ended_count`` of queues that have ended.  _outdated: lanes not updated yet.
    _least_count, _most_count: the share stays while the number of lanes is between these.
    """

    _budget_bytes: int
    lane_bytes: int = -1
    lane_messages: int = -1
    _lanes: list[Lane] = field(default_factory=list)
    _outdated: list[Lane] = field(default_factory=list)
    _ended_count: int = 0
    _least_count: int = 0
    _most_count: int = LANES_FREE

    def join(self, lane: Lane) -> None:
        """Add one more lane."""
        self._lanes.append(lane)
        if self.lane_bytes >= 0:
            lane.set_share(self.lane_bytes, self.lane_messages)
        if len(self._lanes) >= self._most_count:
            self._reckon()
        if self._outdated:
            self._update_some()

    def leave(self, count: int) -> None:
        """Note that ``count`` lanes have ended with their queue."""
        self._ended_count += count
        if len(self._lanes) - self._ended_count < self._least_count:
            self._reckon()
        if self._outdated:
            self._update_some()

    def _reckon(self) -> None:
        self._lanes = [lane for lane in self._lanes if not lane.queue.is_closed]
        self._ended_count = 0
        most_count = max(LANES_FREE, 2 * len(self._lanes))
        if most_count == self._most_count:
            return
        self._most_count = most_count
        self._least_count = max(most_count // 4, LANES_FREE // 2) if most_count > LANES_FREE else 0
        if most_count == LANES_FREE:
            self.lane_bytes = self.lane_messages = -1
        else:
            self.lane_bytes = max(LEAST_BYTES, self._budget_bytes // SHARED_PART // most_count)
            self.lane_messages = max(LEAST_MESSAGES, self.lane_bytes // MESSAGE_OVERHEAD_BYTES)
        self._outdated = self._lanes[:]

    def _update_some(self) -> None:
        for _ in range(min(UPDATED_AT_ONCE, len(self._outdated))):
            lane = self._outdated.pop()
            if self.lane_bytes < 0:
                lane.set_share(NO_SHARE, NO_SHARE)
            else:
                lane.set_share(self.lane_bytes, self.lane_messages)
