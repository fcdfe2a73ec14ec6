"""Looks at the gateway about once a second, for all that only show its figures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from engine.values.broker_stats import BrokerStats
from gateway.web.limits.in_turns import in_turns
from gateway.web.management.stats import LiveStats
from gateway.web.samples.history import History
from gateway.web.samples.rates import RateSampler

SAMPLE_INTERVAL_S: Final = 1.0
# Samples of many destinations take long, so they become rarer: at most this part of the loop's time.
SAMPLE_SHARE_MAX: Final = 0.01
# But on a busy machine they seem to take long, too, and nobody can work with figures of minutes ago.
SAMPLE_INTERVAL_MOST_S: Final = 30.0


class Sampler:
    """number: of the last sample, from 1.  alarms: at that time, each with its level.  _next: set by a later one."""

    def __init__(self, source: LiveStats) -> None:
        self.rates = RateSampler()
        self.history = History()
        self.number = 0
        self.alarms: list[tuple[str, str]] = []
        self._source = source
        self._last: BrokerStats | None = None
        self._next = asyncio.Event()

    async def look(self) -> tuple[BrokerStats, float]:
        """Return a snapshot of everything, and how many seconds of the loop it took."""
        inspection = self._source.inspection()
        _, taken_s = await in_turns(inspection.steps())
        return inspection.stats(), taken_s

    async def sampled(self) -> BrokerStats:
        """Return the last sample."""
        if self._last is None:
            self._last, _ = await self.look()
        return self._last

    async def later_than(self, number: int) -> int:
        """Wait for a later sample than one; return its number."""
        while self.number <= number:
            await self._next.wait()
        return self.number

    async def running(self, application: web.Application) -> AsyncIterator[None]:
        """Sample for as long as the application runs."""
        task = asyncio.create_task(self._sample_for_ever())
        yield
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass

    async def _sample_for_ever(self) -> None:
        while True:
            cost_s = 0.0
            if not self._source.has_failed():
                cost_s = await self._sample()
            else:
                self.alarms = self._source.alarms()
            await asyncio.sleep(pause_s(cost_s))

    async def _sample(self) -> float:
        """Return how many seconds of the loop it took."""
        clock = asyncio.get_running_loop().time
        stats, looking_s = await self.look()
        self._last = stats
        self.alarms = self._source.alarms()
        now_s = clock()
        _, rates_s = await in_turns(self.rates.sample(stats.destinations, now_s))
        _, history_s = await in_turns(self.history.sample(stats, self.rates, now_s))
        self.number += 1
        before, self._next = self._next, asyncio.Event()
        before.set()
        return looking_s + rates_s + history_s


def pause_s(cost_s: float) -> float:
    """Return the time until the next sample.  cost_s: what the last one took of the loop."""
    return min(max(SAMPLE_INTERVAL_S, cost_s / SAMPLE_SHARE_MAX), SAMPLE_INTERVAL_MOST_S)
