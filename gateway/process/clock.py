"""Time for the engine, from the operating system."""

from __future__ import annotations

import time
from typing import Final

from engine.ports.clock import Clock


class SystemClock(Clock):
    __slots__ = ()

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


SYSTEM_CLOCK: Final = SystemClock()
