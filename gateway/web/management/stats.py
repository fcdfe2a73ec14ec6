"""The figures of a running gateway."""

from __future__ import annotations

import asyncio
from typing import Final

from engine.broker import Broker
from engine.inspection import Inspection
from engine.values.broker_stats import StoreStats
from gateway.answers.jolokia import DiskUse
from gateway.loop.engine_loop import EngineLoop
from gateway.process.counters import GatewayCounters

FAILED: Final = "the gateway has failed and stops; its log has the details"


class LiveStats:
    def __init__(
        self, broker: Broker, engine_loop: EngineLoop, counters: GatewayCounters, stopping: asyncio.Event
    ) -> None:
        self._stopping = stopping
        self._inspector = broker.inspector
        self._engine_loop = engine_loop
        self._counters = counters

    def inspection(self) -> Inspection:
        """Begin an inspection of everything."""
        return Inspection(self._inspector)

    def store_stats(self) -> StoreStats:
        return self._inspector.store_stats()

    def disk_use(self) -> DiskUse | None:
        """Return None if the disk has no limits, or was not looked at yet."""
        engine_loop = self._engine_loop
        room_bytes = None if engine_loop.disk_watch is None else engine_loop.disk_watch.room_bytes()
        return None if room_bytes is None else DiskUse(engine_loop.store.log_disk_bytes(), room_bytes)

    def counters(self) -> GatewayCounters:
        return self._counters

    def has_failed(self) -> bool:
        """Say whether a fault of the gateway itself has stopped the engine; the other answers may then be stale."""
        return self._engine_loop.is_shut

    def alarms(self) -> list[tuple[str, str]]:
        """Return what is wrong now, each with its level, ``error`` or ``warning``."""
        return [("error", FAILED)] if self.has_failed() else self._engine_loop.present_alarms()

    def is_stopping(self) -> bool:
        return self._stopping.is_set()
