"""Time that stands still until a simulation or a test moves it."""

from __future__ import annotations

import heapq

from engine.ports.clock import Clock
from engine.ports.timers import Timers, TimerTarget


class VirtualClock(Clock):
    """now_ms: of the monotonic clock.  wall_offset_ms: of the wall clock, from the monotonic one."""

    def __init__(self, wall_ms: int, now_ms: int) -> None:
        self.now_ms = now_ms
        self.wall_offset_ms = wall_ms - now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms + self.wall_offset_ms


class VirtualTimers(Timers):
    """Fires in order of time, then of setting; never inside ``call_at``."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._number = 0
        self._due: list[tuple[int, int, TimerTarget, int]] = []

    def call_at(self, when_ms: int, target: TimerTarget, key: int) -> None:
        self._number += 1
        heapq.heappush(self._due, (when_ms, self._number, target, key))

    def next_ms(self) -> int | None:
        """Return when the next timer is due."""
        return self._due[0][0] if self._due else None

    def fire_due(self) -> None:
        """Fire all due timers; timers set meanwhile are for the next call, as in an event loop."""
        last = self._number
        later: list[tuple[int, int, TimerTarget, int]] = []
        while self._due and self._due[0][0] <= self.clock.now_ms:
            timer = heapq.heappop(self._due)
            if timer[1] > last:
                later.append(timer)
                continue
            timer[2].timer_fired(timer[3])
        for timer in later:
            heapq.heappush(self._due, timer)
