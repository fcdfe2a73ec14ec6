"""Purging and deleting of destinations in the running gateway, on an operator's command."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from config.matching import QUEUE
from engine.features.purge import Purge
from engine.sources.queue import Queue
from engine.values.errors import DestinationInUse, LimitReached
from gateway.live.named_destination import named_destination
from gateway.loop.durability import check_disk, until_durable
from gateway.loop.engine_loop import EngineLoop
from gateway.web.upkeep import Named, UpkeepSource

RUNNING_MAX: Final = 16
REMEMBERED_MAX: Final = 256
EMPTYING_MS: Final = 5_000  # time limit of one request to delete; a larger backlog must be purged first
POLL_S: Final = 0.02


class LiveUpkeep(UpkeepSource):
    def __init__(self, engine_loop: EngineLoop) -> None:
        self._engine_loop = engine_loop
        self._upkeep = engine_loop.broker.upkeep
        self._destinations = engine_loop.broker.destinations
        self._purges: dict[int, Purge] = {}
        self._next_number = 1

    def purge(self, queue: str, selector: str) -> int:
        found = named_destination(self._destinations, (QUEUE, queue))
        assert isinstance(found, Queue)
        check_disk(self._engine_loop, "nothing was purged")
        if sum(not run.is_done for run in self._purges.values()) >= RUNNING_MAX:
            raise LimitReached(f"{RUNNING_MAX} purges are under way, which is the limit")
        self._engine_loop.open_turn()
        number = self._next_number
        self._purges[number] = self._upkeep.purge(found, selector)
        self._next_number = number + 1
        for old in [one for one, run in self._purges.items() if run.is_done][: len(self._purges) - REMEMBERED_MAX]:
            del self._purges[old]
        return number

    def purged(self, number: int) -> str | None:
        run = self._purges.get(number)
        return None if run is None else run.queue.name

    def status(self, number: int) -> Mapping[str, object]:
        run = self._purges[number]
        return {"queue": run.queue.name, "dropped": run.count, "done": run.is_done}

    def stop(self, number: int) -> None:
        run = self._purges[number]
        if not run.is_done:
            self._engine_loop.open_turn()
            run.end()

    async def delete(self, destination: Named, is_forced: bool) -> dict[str, Any]:
        found = named_destination(self._destinations, destination)
        uri = found.uri()
        check_disk(self._engine_loop, f"{uri} was not deleted")
        if is_forced and isinstance(found, Queue) and not found.consumer_count():
            await self._emptied(found)
        self._engine_loop.open_turn()
        if not found.is_closed:  # it was unused, so auto-delete may have removed it meanwhile
            self._upkeep.delete(found, is_forced)
        await until_durable(self._engine_loop, f"deleted {uri}", "it exists again if the gateway is killed before")
        return {"deleted": uri}

    async def _emptied(self, queue: Queue) -> None:
        """Drop the backlog over many turns, so that little is left for the turn of the deletion.

        Raises: DestinationInUse if that takes too long.
        """
        if not queue.depth:
            return
        self._engine_loop.open_turn()
        run = self._upkeep.purge(queue)
        until_ms = self._engine_loop.clock.monotonic_ms() + EMPTYING_MS
        while not run.is_done and not queue.is_closed:
            if self._engine_loop.clock.monotonic_ms() >= until_ms:
                self._engine_loop.open_turn()
                run.end()
                if not queue.depth:
                    return
                raise DestinationInUse(
                    f"{queue.uri()} still holds {queue.depth} messages after {EMPTYING_MS} ms; purging it first helps"
                )
            await asyncio.sleep(POLL_S)
