"""The last work on the disk, which may hang: it has its own thread, and the stop waits only a limited time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from engine.values.errors import StoreError


async def close_within(close: Callable[[], None], patience_s: float) -> str:
    """Run ``close`` on another thread; return "" once it is done, else why the store is not closed.

    Nothing else may use the store meanwhile.  The thread is a daemon: the process ends even if it hangs in the disk.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[str] = loop.create_future()

    def report(reason: str, fault: Exception | None) -> None:
        if outcome.done():
            return
        if fault is None:
            outcome.set_result(reason)
        else:
            outcome.set_exception(fault)

    def run() -> None:
        reason = ""
        fault: Exception | None = None
        try:
            close()
        except StoreError as error:
            reason = str(error)
        except Exception as error:
            fault = error
        try:
            loop.call_soon_threadsafe(report, reason, fault)
        except RuntimeError:
            pass  # the wait is over, and the loop is gone

    threading.Thread(target=run, name="penstock-close", daemon=True).start()
    try:
        return await asyncio.wait_for(outcome, patience_s)
    except TimeoutError:
        return f"the disk has not answered for {patience_s:g} s"
