"""What nearly all parts of an open store use."""

from __future__ import annotations

from engine.ports.clock import Clock
from engine.ports.timers import Timers, TimerTarget
from engine.ports.workers import Workers
from engine.store.disk.disk_health import Health
from engine.store.disk.files import Files
from engine.store.settings import StoreSettings


class StoreContext:
    """directory: of the store, which has locked it."""

    __slots__ = ("directory", "store_id", "files", "workers", "timers", "clock", "settings", "health")

    def __init__(
        self,
        directory: str,
        store_id: str,
        files: Files,
        workers: Workers,
        timers: Timers,
        clock: Clock,
        settings: StoreSettings,
    ) -> None:
        self.directory = directory
        self.store_id = store_id
        self.files = files
        self.workers = workers
        self.timers = timers
        self.clock = clock
        self.settings = settings
        self.health = Health()

    def call_later(self, wait_ms: int, target: TimerTarget, key: int) -> None:
        """Fire ``key`` at ``target`` in ``wait_ms``."""
        self.timers.call_at(self.clock.monotonic_ms() + wait_ms, target, key)
