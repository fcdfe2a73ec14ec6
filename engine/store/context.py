"""What nearly all parts of an open store use."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.ports.clock import Clock
from engine.ports.timers import Timers, TimerTarget
from engine.ports.workers import Workers
from engine.store.disk.disk_health import Health
from engine.store.disk.files import Files
from engine.store.settings import StoreSettings


@dataclass(slots=True, eq=False)
class StoreContext:
    """directory: of the store, which has locked it."""

    directory: str
    store_id: str
    files: Files
    workers: Workers
    timers: Timers
    clock: Clock
    settings: StoreSettings
    health: Health = field(default_factory=Health)

    def call_later(self, wait_ms: int, target: TimerTarget, key: int) -> None:
        """Fire ``key`` at ``target`` in ``wait_ms``."""
        self.timers.call_at(self.clock.monotonic_ms() + wait_ms, target, key)
