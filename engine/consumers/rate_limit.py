"""So many in a second: the bucket of one consumer or producer, and who waits for the next second.

Source: HornetQ consumer-max-rate and producer-max-rate: a token bucket filled once a second.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from engine.ports.clock import Clock
from engine.ports.timers import Timers, TimerTarget

if TYPE_CHECKING:
    from engine.consumers.consumer import Consumer

PERIOD_MS: Final = 1_000


class TokenBucket:
    """``rate`` tokens, there again each second from the first that was taken; what is left of one second is lost.

    refill_ms: monotonic, when the next second begins.
    """

    __slots__ = ("rate", "tokens", "refill_ms")

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.tokens = 0
        self.refill_ms = 0

    def take(self, now_ms: int) -> bool:
        """Take one token; return False if none is left before ``refill_ms``."""
        if now_ms >= self.refill_ms:
            self.tokens = self.rate
            self.refill_ms = now_ms + PERIOD_MS
        if self.tokens == 0:
            return False
        self.tokens -= 1
        return True


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
        """Let ``consumer`` take its turns again at ``due_ms``."""
        heappush(self.waiting, (due_ms, consumer.consumer_id, consumer))
        self.timers.call_at(due_ms, self, due_ms)

    def timer_fired(self, key: int) -> None:
        waiting = self.waiting
        while waiting and waiting[0][0] <= key:
            consumer = heappop(waiting)[2]
            consumer.window.next_second()
            consumer.queue.list_consumer(consumer)
