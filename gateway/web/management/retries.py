"""Retries of dead letters in the running gateway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from config.matching import QUEUE
from engine.features.retry import Retry
from engine.sources.queue import Queue
from engine.values.errors import LimitReached
from gateway.loop.engine_loop import EngineLoop
from gateway.web.rest.named_destination import named_destination

RUNNING_MAX: Final = 16
REMEMBERED_MAX: Final = 256


class LiveRetries:
    def __init__(self, engine_loop: EngineLoop) -> None:
        self._retries = engine_loop.broker.retries
        self._destinations = engine_loop.broker.destinations
        self._engine_loop = engine_loop
        self._runs: dict[int, Retry] = {}
        self._next_number = 1

    def start(self, queue: str, selector: str, rate: int, limit: int) -> int:
        """Return the number of the run.  Raises: EngineError; LookupError if the queue does not exist."""
        found = named_destination(self._destinations, (QUEUE, queue))
        assert isinstance(found, Queue)
        if sum(not run.is_done for run in self._runs.values()) >= RUNNING_MAX:
            raise LimitReached(f"{RUNNING_MAX} retries are under way, which is the limit")
        self._engine_loop.open_turn()
        number = self._next_number
        self._runs[number] = self._retries.begin(found, selector, rate, limit)
        self._next_number = number + 1
        ended = [one for one, run in self._runs.items() if run.is_done]
        for old in ended[: max(0, len(self._runs) - REMEMBERED_MAX)]:
            del self._runs[old]
        return number

    def status(self, number: int) -> Mapping[str, object] | None:
        """Return None if there is no such run."""
        run = self._runs.get(number)
        if run is None:
            return None
        return {
            "queue": run.queue.name,
            "moved": run.moved_count,
            "skipped": run.skipped_count,
            "done": run.is_done,
            "failure": run.failure,
        }

    def stop(self, number: int) -> None:
        run = self._runs.get(number)
        if run is not None:
            self._engine_loop.open_turn()
            run.stop("stopped")
