"""Retries of dead letters in the running gateway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.broker import Broker
from engine.features.retry import Retry
from engine.values.errors import LimitReached
from gateway.loop.engine_loop import EngineLoop
from gateway.web.retry import RetrySource

RUNNING_MAX: Final = 16
REMEMBERED_MAX: Final = 256


class LiveRetries(RetrySource):
    def __init__(self, broker: Broker, engine_loop: EngineLoop) -> None:
        self._broker = broker
        self._engine_loop = engine_loop
        self._runs: dict[int, Retry] = {}
        self._next_number = 1

    def start(self, queue: str, selector: str, rate: int, limit: int) -> int:
        found = self._broker.destinations.queues.get(queue)
        if found is None:
            raise LookupError(f"no queue {queue[:200]!r}")
        if sum(not run.is_done for run in self._runs.values()) >= RUNNING_MAX:
            raise LimitReached(f"{RUNNING_MAX} retries are under way, which is the limit")
        self._engine_loop.open_turn()
        number = self._next_number
        self._runs[number] = self._broker.retries.begin(found, selector, rate, limit)
        self._next_number = number + 1
        for old in [one for one, run in self._runs.items() if run.is_done][: len(self._runs) - REMEMBERED_MAX]:
            del self._runs[old]
        return number

    def status(self, number: int) -> Mapping[str, object] | None:
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
