"""Threads for what requests and logins wait for: questions about files, copies of the store, checks of passwords.

Nothing ends a thread.  A stop that waits for one waits for a disk that hangs, or for a copy of hours, whose answer
nobody takes any more.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, NoReturn, TypeVar

from gateway.process.closing import close_within

Result = TypeVar("Result")

THREADS_PATIENCE_S: Final = 2.0  # for threads at the end

log: Final = logging.getLogger("penstock")


class RequestThreads:
    """are_left: some still work after the wait for them, so the process must end itself."""

    def __init__(self, patience_s: float = THREADS_PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._executor = ThreadPoolExecutor(thread_name_prefix="penstock-request")
        self.are_left = False

    async def around(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Have the threads while ``work`` is done, and wait for their end for a limited time."""
        loop = asyncio.get_running_loop()
        loop.set_default_executor(self._executor)
        try:
            return await work
        finally:
            if await close_within(lambda: self._executor.shutdown(cancel_futures=True), self._patience_s):
                self.are_left = True
                log.warning("stopping: a request still waits for files after %g s, and is given up", self._patience_s)
                loop.set_default_executor(ThreadPoolExecutor(1))  # the end of the loop waits for its executor


def end_process(code: int) -> NoReturn:
    """End the process although threads still work, for which Python would wait."""
    logging.shutdown()
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(code)
