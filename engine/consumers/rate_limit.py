"""Consumers that have used up this second's messages and wait for the next (engine.consumers.token_bucket)."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from engine.ports.clock import Clock
from engine.ports.timers import Timers, TimerTarget

if TYPE_CHECKING:
    from engine.consumers.consumer import Consumer


class Rates(TimerTarget):
    """Wakes the consumers whose second is over.

    waiting: a heap of (when, consumer id, consumer).
    """

    __slots__ = ("clock", "timers", "waiting")

    def __init__(self, clock: Clock, timers: Timers) -> None:
        self.clock = clock
        self.timers = timers
        self.waiting: list[tuple[int, int, Consumer]] = []

    def now_ms(self) -> int:
        return self.clock.monotonic_ms()

    def wait(self, consumer: Consumer, due_ms: int) -> None:
        """Let ``consumer`` take turns again at ``due_ms``."""
        heappush(self.waiting, (due_ms, consumer.consumer_id, consumer))
        self.timers.call_at(due_ms, self, due_ms)

    def timer_fired(self, key: int) -> None:
        waiting = self.waiting
        while waiting and waiting[0][0] <= key:
            consumer = heappop(waiting)[2]
            consumer.window.next_second()
            consumer.queue.list_consumer(consumer)
