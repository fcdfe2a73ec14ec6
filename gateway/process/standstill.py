"""Reports an event loop that stands still: the stacks of all threads go to stderr while it does.

An endless loop or a disk that hangs leaves no other trace: nothing is logged, and HTTP does not answer.  The report
comes from a thread of faulthandler, which needs no interpreter lock.  Of compiled modules it shows only their callers.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import time
from collections.abc import Callable
from typing import Final

STANDSTILL_S: Final = 10.0
STDERR: Final = 2
CHECK_INTERVAL_S: Final = 1.0

log: Final = logging.getLogger("penstock")


class StandstillWatch:
    """``check`` belongs in the event loop, several times within ``limit_s``; ``stop`` goes before its end."""

    def __init__(self, limit_s: float = STANDSTILL_S, seconds: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = limit_s
        self._seconds = seconds
        self._checked_at = seconds()

    def check(self) -> None:
        """Begin to wait anew; log how long the loop stood still if that was too long."""
        faulthandler.dump_traceback_later(self._limit_s, file=STDERR)
        now = self._seconds()
        passed_s = now - self._checked_at
        self._checked_at = now
        if passed_s > self._limit_s:
            log.warning("the event loop stood still for %.0f s; the stacks of its threads are above", passed_s)

    def stop(self) -> None:
        faulthandler.cancel_dump_traceback_later()


async def check_each_second(*checks: Callable[[], None]) -> None:
    """Do the work of each second outside turns, as delayed log lines and renewed certificates, and watch the loop."""
    standstill = StandstillWatch()
    try:
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            standstill.check()
            for check in checks:
                check()
    finally:
        standstill.stop()
