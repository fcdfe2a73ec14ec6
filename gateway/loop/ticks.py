"""When connections are looked at: after their sockets have been polled, never before.

An event loop runs its timers before it reads its sockets.  After a stall, of the process or of one long turn, every
timer is late and every socket holds what came meanwhile: judging a peer's silence in the timer itself would cut
off peers that had beaten in time.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Final

from engine.ports.clock import Clock

# Rounds of the event loop from "it is time" to the look.  The sockets are polled between the first and the second; the
# others are for octets that reach their connection by way of a task, as those of a WebSocket do.
ROUNDS: Final = 4


class Ticking(ABC):
    @abstractmethod
    def tick(self, now_ms: int) -> None:
        """Do what time asks for.  now_ms: all that had reached the socket by then has been read."""


class Ticks:
    """All that are due in one round of the event loop share one poll."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._due: list[Ticking] = []

    def call_later(self, delay_ms: int, ticking: Ticking) -> asyncio.TimerHandle:
        """Look at ``ticking`` once, ``delay_ms`` from now; a cancelled one may still be looked at if it was due."""
        return self._loop.call_later(delay_ms / 1000, self._is_due, ticking)

    def _is_due(self, ticking: Ticking) -> None:
        self._due.append(ticking)
        if len(self._due) == 1:
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        due = self._due
        self._due = []
        self._loop.call_soon(self._wait, due, self._clock.monotonic_ms(), ROUNDS - 1)

    def _wait(self, due: list[Ticking], now_ms: int, rounds: int) -> None:
        if rounds > 1:
            self._loop.call_soon(self._wait, due, now_ms, rounds - 1)
            return
        for ticking in due:
            ticking.tick(now_ms)
