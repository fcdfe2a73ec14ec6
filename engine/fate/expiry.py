"""Messages whose time is over while nobody is there to take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.fate.expiry_scan import ExpiryScan
from engine.fate.expiry_sweep import Sweep
from engine.fate.spill_expiry import SpillSweep
from engine.ports.timers import TimerTarget
from engine.sources.queue import Queue

if TYPE_CHECKING:
    from engine.broker import Broker

EXPIRE_MESSAGES_PERIOD_MS: Final = 30_000  # ActiveMQ expireMessagesPeriod


class Expiry(TimerTarget):
    """Has what waits in memory scanned, and what lies in the log and in temporary files swept.

    period_ms: from the beginning of one scan to that of the next.  scan: the last one; it may be under way.
    """

    __slots__ = ("broker", "period_ms", "sweep", "spill_sweep", "scan")

    def __init__(self, broker: Broker, period_ms: int) -> None:
        self.broker = broker
        self.period_ms = period_ms
        self.sweep = Sweep(broker)
        spiller = broker.spiller
        self.spill_sweep = None if spiller is None else SpillSweep(broker.dispatcher, spiller, broker.steps)
        self.scan = self._scan_of([])
        self._call_later()

    def timer_fired(self, key: int) -> None:
        self._call_later()
        if self.scan.place < len(self.scan.queues):
            return  # one takes long
        self.scan = self._scan_of(self.broker.destinations.all_queues())
        if not self.scan.go_on(self.broker.steps):
            self.broker.steps.begin(self.scan)

    def _scan_of(self, queues: list[Queue]) -> ExpiryScan:
        return ExpiryScan(queues, self.broker.dispatcher, self.sweep, self.spill_sweep)

    def _call_later(self) -> None:
        broker = self.broker
        broker.timers.call_at(broker.clock.monotonic_ms() + self.period_ms, self, 0)
