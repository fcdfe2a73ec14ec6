"""Timed checks of connections: after their sockets have been polled, never before.

An event loop runs its timers before it reads its sockets.  After a stall of the process, or one long turn, every timer
is late and every socket has unread octets.  A check in the timer itself would cut off peers whose heart-beats came in
time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from engine.ports.clock import Clock

# Rounds of the event loop from the timer to the check.  The sockets are polled between the first and the second; the
# others are for octets that reach their connection through a task, as those of a WebSocket do.
ROUNDS: Final = 4


Tick = Callable[[int], None]  # with the time, in ms, by which all octets that had reached the socket have been read


class Ticks:
    """Checks that are due in one round of the event loop share one poll."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._due: list[Tick] = []

    def call_later(self, delay_ms: int, tick: Tick) -> asyncio.TimerHandle:
        """Call ``tick`` once, ``delay_ms`` from now; a cancelled one may still be called if it was due."""
        return self._loop.call_later(delay_ms / 1000, self._is_due, tick)

    def _is_due(self, tick: Tick) -> None:
        self._due.append(tick)
        if len(self._due) == 1:
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        due = self._due
        self._due = []
        self._loop.call_soon(self._wait, due, self._clock.monotonic_ms(), ROUNDS - 1)

    def _wait(self, due: list[Tick], now_ms: int, rounds: int) -> None:
        if rounds > 1:
            self._loop.call_soon(self._wait, due, now_ms, rounds - 1)
            return
        for tick in due:
            tick(now_ms)
