"""Holds producers back while the disk is far behind with its syncs.

Octets stay in memory until a sync has covered them. A disk may also hang: no call fails, none returns, and whatever
producers send meanwhile would stay.
"""

from __future__ import annotations

from typing import Final

from engine.ports.timers import TimerTarget
from engine.store.context import StoreContext
from engine.store.disk import disk_health as parts
from engine.store.log.log_port import DurableLog

ASK: Final = 0
JUDGE: Final = 1


class SyncLag(TimerTarget):
    """Looks at a log that is too far behind until it no longer is: asks for a sync first, and judges a while later."""

    __slots__ = ("_context", "_log", "_is_watching")

    def __init__(self, context: StoreContext, log: DurableLog) -> None:
        self._context = context
        self._log = log
        self._is_watching = False

    def look(self) -> None:
        """Note that more was written."""
        size_bytes = self._unsynced_bytes()
        most_bytes = self._context.settings.unsynced_bytes
        if size_bytes <= most_bytes:
            return
        if not self._is_watching:
            self._is_watching = True
            self._wait(ASK)
        if size_bytes > 2 * most_bytes:
            self._hold()  # producers are too quick to wait for the judgement

    def synced(self) -> None:
        """Note that more is durable."""
        if self._context.health.is_failing(parts.SYNC):
            if self._is_far_behind():
                self._log.sync()
            else:
                self._context.health.heal(parts.SYNC)

    def timer_fired(self, key: int) -> None:
        if not self._is_far_behind():
            self._is_watching = False
        elif key == ASK:
            self._log.sync()  # with an interval none may be under way
            self._wait(JUDGE)
        else:
            self._is_watching = False
            self._hold()

    def _hold(self) -> None:
        if not self._context.health.is_failing(parts.SYNC):
            what = f"the last {self._unsynced_bytes()} octets of the log"
            self._context.health.fail(parts.SYNC, f"the disk has not synced {what}")

    def _wait(self, key: int) -> None:
        self._context.call_later(self._context.settings.retry_interval_ms, self, key)

    def _is_far_behind(self) -> bool:
        return self._unsynced_bytes() > self._context.settings.unsynced_bytes

    def _unsynced_bytes(self) -> int:
        return self._log.written - self._log.durable
