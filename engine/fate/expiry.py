"""Messages whose time is over while nobody is there to take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.fate.expiry_sweep import Sweep
from engine.fate.spill_expiry import SpillSweep
from engine.ports.timers import TimerTarget
from engine.sources.queue import Queue

if TYPE_CHECKING:
    from engine.broker import Broker

EXPIRE_MESSAGES_PERIOD_MS: Final = 30_000  # ActiveMQ expireMessagesPeriod
# What is looked at in one turn; the others of that scan follow in the next turns.
QUEUES_AT_ONCE: Final = 512
MESSAGES_AT_ONCE: Final = 10_000  # a queue is looked at as a whole, so it may be more

BEGIN: Final = 0
GO_ON: Final = 1


class Expiry(TimerTarget):
    """Scans what waits in memory, and has what lies in the log and in temporary files swept.

    period_ms: from the beginning of one scan to that of the next.
    _queues: those of the scan that is under way, ``_place`` of which have been looked at.
    """

    __slots__ = ("broker", "period_ms", "sweep", "spill_sweep", "_queues", "_place")

    def __init__(self, broker: Broker, period_ms: int) -> None:
        self.broker = broker
        self.period_ms = period_ms
        self.sweep = Sweep(broker)
        spiller = broker.spiller
        self.spill_sweep = None if spiller is None else SpillSweep(broker.dispatcher, spiller, broker.steps)
        self._queues: list[Queue] = []
        self._place = 0
        self._call_later(self.period_ms, BEGIN)

    def timer_fired(self, key: int) -> None:
        if key == BEGIN:
            self._call_later(self.period_ms, BEGIN)
            if self._queues:
                return  # one takes long
            self._queues = self.broker.destinations.all_queues()
            self._place = 0
        self._scan_some()

    def _call_later(self, wait_ms: int, key: int) -> None:
        broker = self.broker
        broker.timers.call_at(broker.clock.monotonic_ms() + wait_ms, self, key)

    def _scan_some(self) -> None:
        queues = self._queues
        end = min(self._place + QUEUES_AT_ONCE, len(queues))
        seen = 0
        while self._place < end and seen < MESSAGES_AT_ONCE:
            queue = queues[self._place]
            self._place += 1
            if queue.is_closed:
                continue
            if queue.has_expiring:
                seen += queue.depth
                self._scan(queue)
            self.sweep.add(queue)
            if self.spill_sweep is not None:
                self.spill_sweep.add(queue)
        if self._place < len(queues):
            self._call_later(0, GO_ON)
        else:
            self._queues = []
        self.sweep.go_on()

    def _scan(self, queue: Queue) -> None:
        if queue.depth == 0:
            queue.has_expiring = False  # whatever comes says so anew
            return
        broker = self.broker
        for lane in queue.used_lanes:
            for delivery in lane.take_expired(broker.wall_ms):
                broker.dispatcher.expire(delivery, queue)
        queue.mark_dirty()
