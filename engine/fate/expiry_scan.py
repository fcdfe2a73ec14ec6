"""One scan for expired messages that no consumer takes: through those in memory, and then for those elsewhere.

It is a chore: each turn scans some queues, and of a queue with many messages some of these.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from engine.backlog.delivery_row import position_of
from engine.backlog.lane import Lane
from engine.consumers.turn_steps import Chore, Steps
from engine.sources.queue import queue_of
from engine.values.delivery import READY, Delivery

if TYPE_CHECKING:
    from engine.dispatch.dispatcher import Dispatcher
    from engine.fate.expiry_sweep import Sweep
    from engine.fate.spill_expiry import SpillSweep
    from engine.sources.queue import Queue

LOOKED_A_STEP: Final = 4  # unexpired messages per step; expired ones are charged separately
QUEUE_STEPS: Final = 4  # for a queue with messages that may expire
ROWS: Final = 4  # of a lane: found ahead, returned, ready, only in memory
BEFORE_ALL: Final = -1 << 62  # below every position


class ExpiryScan(Chore):
    """queues: all that existed at its start; those before ``place`` are done.

    lane_place, row, after: progress in the current queue: which lane, which row of it, and after which position.
    found: queue offsets of the deliveries found ahead in this lane, which are the first row.
    """

    __slots__ = ("queues", "place", "lane_place", "row", "after", "found", "_dispatcher", "_sweep", "_spill_sweep")

    def __init__(
        self, queues: list[Queue], dispatcher: Dispatcher, sweep: Sweep, spill_sweep: SpillSweep | None
    ) -> None:
        self.queues = queues
        self.place = 0
        self.lane_place = 0
        self.row = 0
        self.after = BEFORE_ALL
        self.found: list[int] = []
        self._dispatcher = dispatcher
        self._sweep = sweep
        self._spill_sweep = spill_sweep

    def go_on(self, steps: Steps) -> bool:
        least = steps.left_to_others()
        while self.place < len(self.queues):
            if steps.left <= least:
                return False
            queue = self.queues[self.place]
            steps.left -= 1
            if not queue.is_closed:
                if queue.has_expiring and not self._look_through(queue, steps, least):
                    return False
                self._sweep.add(queue)
                if self._spill_sweep is not None:
                    self._spill_sweep.add(queue)
            self.place += 1
            self.lane_place = self.row = 0
            self.after = BEFORE_ALL
        self._sweep.go_on()
        return True

    def _look_through(self, queue: Queue, steps: Steps, least: int) -> bool:
        """Scan what waits in a queue in memory; say whether that is done."""
        if queue.depth == 0:
            queue.has_expiring = False  # a new message sets it again
            return True
        if self.lane_place == self.row == 0:
            steps.left -= QUEUE_STEPS
        queue.mark_dirty()
        while self.lane_place < len(queue.used_lanes):
            if steps.left <= least:
                return False
            if not self._look_at_row(queue.used_lanes[self.lane_place], steps, steps.left - least):
                self.row += 1
                self.after = BEFORE_ALL
            if self.row == ROWS:
                self.row = 0
                self.lane_place += 1
        return True

    def _look_at_row(self, lane: Lane, steps: Steps, count: int) -> bool:
        """Scan the next ``count`` of the current row; say whether there were any."""
        if self.row == 0:
            return self._look_ahead(lane, steps, count)
        row = (lane.returned, lane.ready, lane.volatile)[self.row - 1]
        return bool(row) and self._look_on(lane, row, steps, count)

    def _look_on(self, lane: Lane, row: deque[Delivery], steps: Steps, count: int) -> bool:
        start = bisect_right(row, self.after, key=position_of)
        part = list(islice(row, start, start + count))
        if not part:
            return False
        self.after = part[-1].position
        wall_ms = self._dispatcher.context.wall_ms
        expired = [one for one in part if 0 < one.message.expires_ms <= wall_ms and one.state == READY]
        steps.left -= 1 + len(part) // LOOKED_A_STEP
        if expired:
            gone = {one.position for one in expired}
            row.rotate(-start)
            for _ in part:
                row.popleft()
            row.extendleft([one for one in reversed(part) if one.position not in gone])
            row.rotate(start)
            if row is not lane.volatile:
                lane.ready_bytes -= sum([one.message.size for one in expired])
            self._expire(lane, expired)
        return True

    def _look_ahead(self, lane: Lane, steps: Steps, count: int) -> bool:
        """Scan deliveries found ahead; they keep their places until their pages are read."""
        if self.after == BEFORE_ALL:
            self.after = 0
            self.found = list(lane.ahead.by_offset)
        part = [lane.ahead.by_offset.get(offset) for offset in self.found[self.after : self.after + count]]
        if not part:
            self.found = []
            return False
        self.after += len(part)
        wall_ms = self._dispatcher.context.wall_ms
        expired = [
            one for one in part if one is not None and one.state == READY and 0 < one.message.expires_ms <= wall_ms
        ]
        steps.left -= 1 + len(part) // LOOKED_A_STEP
        lane.ahead.ready_bytes -= sum([one.message.size for one in expired])
        self._expire(lane, expired)
        return True

    def _expire(self, lane: Lane, expired: list[Delivery]) -> None:
        for delivery in expired:
            self._dispatcher.expire(delivery, queue_of(lane))
