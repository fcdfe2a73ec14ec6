"""Messages whose time is over while nobody is there to take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.ports import TimerTarget
from engine.queue import Queue

if TYPE_CHECKING:
    from engine.broker import Broker

EXPIRY_SCAN_MS: Final = 30_000  # ActiveMQ expireMessagesPeriod


class Expiry(TimerTarget):
    """Scans what waits in memory; what lies on disk is looked at when it is paged in."""

    __slots__ = ("broker",)

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._set_timer()

    def timer_fired(self, key: int) -> None:
        for queue in self.broker.destinations.all_queues():
            self._scan(queue)
        self._set_timer()

    def _set_timer(self) -> None:
        broker = self.broker
        broker.timers.call_at(broker.clock.monotonic_ms() + EXPIRY_SCAN_MS, self, 0)

    def _scan(self, queue: Queue) -> None:
        if not queue.has_expiring:
            return
        broker = self.broker
        for lane in queue.used_lanes:
            for delivery in lane.take_expired(broker.wall_ms):
                broker.dispatcher.expire(delivery, queue)
        queue.mark_dirty()
