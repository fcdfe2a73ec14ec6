"""Messages that expire while no consumer takes them."""

from __future__ import annotations

from typing import Final

from engine.backlog.context import Context
from engine.consumers.turn_steps import Steps
from engine.dispatch.dispatcher import Dispatcher
from engine.fate.expiry_scan import ExpiryScan
from engine.fate.expiry_sweep import Sweep
from engine.fate.spill_expiry import SpillSweep
from engine.ports.timers import TimerTarget
from engine.sources.queue import Queue
from engine.sources.registry import Destinations

EXPIRE_MESSAGES_PERIOD_MS: Final = 30_000  # ActiveMQ expireMessagesPeriod


class Expiry(TimerTarget):
    """Scans messages in memory, and sweeps those in the log and in temporary files, at intervals.

    period_ms: from the beginning of one scan to that of the next.  scan: the last one, which may still run.
    """

    __slots__ = ("context", "destinations", "dispatcher", "steps", "period_ms", "sweep", "spill_sweep", "scan")

    def __init__(
        self,
        context: Context,
        destinations: Destinations,
        dispatcher: Dispatcher,
        steps: Steps,
        sweep: Sweep,
        spill_sweep: SpillSweep | None,
        period_ms: int,
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.dispatcher = dispatcher
        self.steps = steps
        self.period_ms = period_ms
        self.sweep = sweep
        self.spill_sweep = spill_sweep
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
