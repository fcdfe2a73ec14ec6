"""The schedule of the running gateway, looked at and cut down so much at a time that the engine goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from config.matching import QUEUE
from engine.schedule.pending import Schedule
from gateway.engine_loop import EngineLoop
from gateway.web.schedule import Named, ScheduleSource

LOOK_KEYS: Final = 2_000
DURABLE_POLL_S: Final = 0.005


class LiveSchedule(ScheduleSource):
    def __init__(self, engine_loop: EngineLoop) -> None:
        self._engine_loop = engine_loop
        self._broker = engine_loop.broker
        self._scheduler = engine_loop.broker.scheduler

    async def listed(self, destination: Named | None, limit: int) -> dict[str, Any]:
        number = None if destination is None else self._number(destination)
        found: list[Schedule] = []
        is_more = False
        async for schedules in self._walk(number):
            found += schedules
            if len(found) > limit:
                is_more = True
                break
        return {
            "pending": len(self._scheduler.pending),
            "held": self._scheduler.firing.held.count,
            "next_due_ms": self._scheduler.next_due_ms(),
            "schedules": [self._described(one) for one in found[:limit]],
            "more": is_more,
        }

    async def cancel(self, ids: list[str]) -> dict[str, Any]:
        self._engine_loop.open_turn()
        wanted = {self._scheduler.place_named(one): one for one in ids}
        found = [one for place in wanted if (one := self._scheduler.pending.find(place)) is not None]
        if found:
            self._scheduler.cancel(found)
        known = {one.place for one in found}
        unknown = [one for one in ids if self._scheduler.place_named(one) not in known]
        await self._durable()
        return {"cancelled": len(found), "unknown": unknown}

    async def cancel_all(self, destination: Named) -> dict[str, Any]:
        number = self._number(destination)
        count = 0
        async for schedules in self._walk(number):
            self._engine_loop.open_turn()
            self._scheduler.cancel(schedules)
            count += len(schedules)
        await self._durable()
        return {"cancelled": count, "unknown": []}

    async def _walk(self, number: int | None) -> AsyncIterator[list[Schedule]]:
        """Yield all that is for the destination of that number, None for any, in the order of its times."""
        scheduler = self._scheduler
        after = -1
        while keys := scheduler.keys.after(after, LOOK_KEYS):
            after = keys[-1]
            found = [scheduler.pending.find(scheduler.place_of(key)) for key in keys]
            wanted = [one for one in found if one is not None and (number is None or one.target == number)]
            if wanted:
                yield wanted
            await asyncio.sleep(0)

    async def _durable(self) -> None:
        """Wait until what was cancelled stays so over a crash."""
        store = self._broker.store
        offset = store.append_offset()
        while store.durable_offset() < offset and not self._engine_loop.is_failed:
            self._broker.sync()
            await asyncio.sleep(DURABLE_POLL_S)

    def _number(self, destination: Named) -> int:
        kind, name = destination
        destinations = self._broker.destinations
        found = destinations.queues.get(name) if kind == QUEUE else destinations.topics.get(name)
        if found is None:
            raise LookupError(f"no {'queue' if kind == QUEUE else 'topic'} {name[:200]!r}")
        return found.destination_id

    def _described(self, schedule: Schedule) -> dict[str, Any]:
        scheduler = self._scheduler
        return {
            "id": scheduler.job_id(schedule.place),
            "destination": self._broker.destinations.uri_of(schedule.target) if schedule.target else "",
            "due_ms": schedule.due_ms,
            "size_bytes": schedule.size,
            "repeats": scheduler.is_repeating(schedule),
            "fired": scheduler.fired.get(schedule.place, 0),
            "held": scheduler.firing.reason(schedule),
        }
