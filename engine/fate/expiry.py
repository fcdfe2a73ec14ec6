"""Messages that expire while no consumer takes them: scanned in memory, and then swept elsewhere.

engine.backlog.intake sets when a message expires, from its own time and the limits of its address.
engine.dispatch.dispatcher finds a message that has expired when a consumer should get it.  Both ways end in
engine.fate.dead_letters, which sends it to the expiry destination or drops it.

A scan is a chore: each turn scans some queues, and of a queue with many messages some of these.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from engine.backlog.context import Context
from engine.backlog.delivery_row import position_of
from engine.backlog.lane import Lane
from engine.consumers.turn_steps import Chore, Steps
from engine.dispatch.dispatcher import Dispatcher
from engine.fate.expiry_sweep import Sweep
from engine.fate.spill_expiry import SpillSweep
from engine.ports.timers import TimerTarget
from engine.sources.queue import Queue, queue_of
from engine.sources.registry import Destinations
from engine.values.delivery import READY, Delivery

EXPIRE_MESSAGES_PERIOD_MS: Final = 30_000  # ActiveMQ expireMessagesPeriod
EXAMINED_A_STEP: Final = 4  # unexpired messages per step; expired ones are charged separately
QUEUE_STEPS: Final = 4  # for a queue with messages that may expire
ROWS: Final = 4  # of a lane: found ahead, returned, ready, only in memory
BEFORE_ALL: Final = -1 << 62  # below every position


@dataclass(slots=True, eq=False)
class ExpiryScan(Chore):
    """queues: all that existed at its start; those before ``place`` are done.

    lane_place, row, after: progress in the current queue: which lane, which row of it, and after which position.
    found: queue offsets of the deliveries found ahead in this lane, which are the first row.
    """

    queues: list[Queue]
    _dispatcher: Dispatcher
    _sweep: Sweep
    _spill_sweep: SpillSweep | None
    place: int = 0
    lane_place: int = 0
    row: int = 0
    after: int = BEFORE_ALL
    found: list[int] = field(default_factory=list)

    def go_on(self, steps: Steps) -> bool:
        least = steps.left_to_others()
        while self.place < len(self.queues):
            if steps.left <= least:
                return False
            queue = self.queues[self.place]
            steps.left -= 1
            if not queue.is_closed:
                if queue.has_expiring and not self._examine(queue, steps, least):
                    return False
                self._sweep.add(queue)
                if self._spill_sweep is not None:
                    self._spill_sweep.add(queue)
            self.place += 1
            self.lane_place = self.row = 0
            self.after = BEFORE_ALL
        self._sweep.go_on()
        return True

    def _examine(self, queue: Queue, steps: Steps, least: int) -> bool:
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
            if not self._examine_row(queue.used_lanes[self.lane_place], steps, steps.left - least):
                self.row += 1
                self.after = BEFORE_ALL
            if self.row == ROWS:
                self.row = 0
                self.lane_place += 1
        return True

    def _examine_row(self, lane: Lane, steps: Steps, count: int) -> bool:
        """Scan the next ``count`` of the current row; say whether there were any."""
        if self.row == 0:
            return self._examine_ahead(lane, steps, count)
        row = (lane.returned, lane.ready, lane.volatile)[self.row - 1]
        return bool(row) and self._examine_part(lane, row, steps, count)

    def _examine_part(self, lane: Lane, row: deque[Delivery], steps: Steps, count: int) -> bool:
        start = bisect_right(row, self.after, key=position_of)
        part = list(islice(row, start, start + count))
        if not part:
            return False
        self.after = part[-1].position
        wall_ms = self._dispatcher.context.wall_ms
        expired = [one for one in part if 0 < one.message.expires_ms <= wall_ms and one.state == READY]
        steps.left -= 1 + len(part) // EXAMINED_A_STEP
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

    def _examine_ahead(self, lane: Lane, steps: Steps, count: int) -> bool:
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
        steps.left -= 1 + len(part) // EXAMINED_A_STEP
        lane.ahead.ready_bytes -= sum([one.message.size for one in expired])
        self._expire(lane, expired)
        return True

    def _expire(self, lane: Lane, expired: list[Delivery]) -> None:
        for delivery in expired:
            self._dispatcher.expire(delivery, queue_of(lane))


@dataclass(slots=True, eq=False)
class Expiry(TimerTarget):
    """Scans messages in memory, and sweeps those in the log and in temporary files, at intervals.

    period_ms: from the beginning of one scan to that of the next.  scan: the last one, which may still run.
    """

    context: Context
    destinations: Destinations
    dispatcher: Dispatcher
    steps: Steps
    sweep: Sweep
    spill_sweep: SpillSweep | None
    period_ms: int
    scan: ExpiryScan = field(init=False)

    def __post_init__(self) -> None:
        self.scan = self._scan_of([])
        self._call_later()

    def timer_fired(self, key: int) -> None:
        self._call_later()
        if self.scan.place < len(self.scan.queues):
            return  # the last one still runs
        self.scan = self._scan_of(self.destinations.all_queues())
        if not self.scan.go_on(self.steps):
            self.steps.begin(self.scan)

    def _scan_of(self, queues: list[Queue]) -> ExpiryScan:
        return ExpiryScan(queues, self.dispatcher, self.sweep, self.spill_sweep)

    def _call_later(self) -> None:
        self.context.call_later(self.period_ms, self, 0)
