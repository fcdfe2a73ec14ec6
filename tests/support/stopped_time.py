"""An event loop for which no time passes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import pytest

T = TypeVar("T")
LIMIT_S: Final = 60.0


@contextmanager
def stopped_time() -> Iterator[None]:
    """Let no time pass for the event loop: no delay of a failed login ends, however slow the machine is."""
    loop = asyncio.get_running_loop()
    now_s = loop.time()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "time", lambda: now_s)
        yield


async def without_delay(asked: Coroutine[Any, Any, T]) -> T:
    """Return the result of what waits for threads only, not for a time."""
    task = asyncio.ensure_future(asked)
    until_s = time.monotonic() + LIMIT_S
    while not task.done():
        if time.monotonic() > until_s:
            task.cancel()
            raise AssertionError("it waits for a time to pass")
        await asyncio.sleep(0)
    return task.result()
