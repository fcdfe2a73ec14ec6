"""The schedule of the running gateway, listed and cancelled in small steps, so that the engine continues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from engine.features.scheduler.pending_schedules import Schedule, place_of
from engine.store.plain_words import counted
from gateway.loop.durability import check_disk, until_durable
from gateway.loop.engine_loop import EngineLoop
from gateway.web.rest.named_destination import Named, named_destination

KEYS_AT_ONCE: Final = 512  # in one turn
CANCELS: Final = 512  # likewise
CANCEL_MS: Final = 2_000  # time limit of one request for a destination; the client continues with the next request


class LiveSchedule:
    def __init__(self, engine_loop: EngineLoop) -> None:
        self._engine_loop = engine_loop
        self._destinations = engine_loop.broker.destinations
        self._scheduler = engine_loop.broker.scheduler

    async def listed(self, destination: Named | None, limit: int) -> dict[str, Any]:
        """Return the messages that are due first.  Raises: LookupError if the destination does not exist."""
        number = None if destination is None else named_destination(self._destinations, destination).destination_id
        found: list[Schedule] = []
        is_more = False
        async for _, schedules in self._walk(number):
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
        """Cancel messages by their ids; return once that is durable.  Raises: StoreError if the disk refuses it."""
        check_disk(self._engine_loop, "nothing was cancelled")
        pending = self._scheduler.pending
        cancelled = 0
        unknown: list[str] = []
        for start in range(0, len(ids), CANCELS):
            some = ids[start : start + CANCELS]
            self._engine_loop.open_turn()
            places = {self._scheduler.place_named(one): one for one in some}
            found = [one for place in places if (one := pending.find(place)) is not None]
            if found:
                self._scheduler.cancel(found)
            known = {one.place for one in found}
            unknown += [one for one in some if self._scheduler.place_named(one) not in known]
            cancelled += len(found)
            await asyncio.sleep(0)
        await self._durable(cancelled)
        return {"cancelled": cancelled, "unknown": unknown}

    async def cancel_all(self, destination: Named, after: int) -> dict[str, Any]:
        """Cancel the messages for a destination, for at most some seconds; return once that is durable.

        "next" of the answer is "", or the place from which the next request continues.  Raises: StoreError; LookupError
        if the destination does not exist.
        """
        check_disk(self._engine_loop, "nothing was cancelled")
        number = named_destination(self._destinations, destination).destination_id
        until_ms = self._engine_loop.clock.monotonic_ms() + CANCEL_MS
        cancelled = 0
        key = after
        following = ""
        async for key, schedules in self._walk(number, after):
            if schedules:
                self._engine_loop.open_turn()
                self._scheduler.cancel(schedules)
                cancelled += len(schedules)
            if self._engine_loop.clock.monotonic_ms() >= until_ms:
                following = str(key)
                break
        await self._durable(cancelled)
        return {"cancelled": cancelled, "unknown": [], "next": following}

    async def _walk(self, number: int | None, after: int = -1) -> AsyncIterator[tuple[int, list[Schedule]]]:
        """Yield the schedules in steps, in the order of their times, after a key; with each step its last key.

        number: of the destination whose schedules are yielded, None for any.
        """
        scheduler = self._scheduler
        while keys := scheduler.keys.after(after, KEYS_AT_ONCE):
            after = keys[-1]
            found = [scheduler.pending.find(place_of(key)) for key in keys]
            yield after, [one for one in found if one is not None and (number is None or one.target == number)]
            await asyncio.sleep(0)

    async def _durable(self, cancelled: int) -> None:
        """Wait until the cancellation survives a crash.  Raises: StoreError if that takes too long."""
        otherwise = "the cancelled messages are scheduled again if the gateway is killed before"
        await until_durable(self._engine_loop, f"cancelled {counted(cancelled, 'message')}", otherwise)

    def _described(self, schedule: Schedule) -> dict[str, Any]:
        scheduler = self._scheduler
        return {
            "id": scheduler.job_id(schedule.place),
            "destination": self._destinations.uri_of(schedule.target) if schedule.target else "",
            "due_ms": schedule.due_ms,
            "size_bytes": schedule.size,
            "repeats": scheduler.is_repeating(schedule),
            "fired": scheduler.fired.get(schedule.place, 0),
            "held": scheduler.reason(schedule),
        }
