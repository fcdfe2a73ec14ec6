"""Waiting for another process, with a limit; never a replacement for synchronisation."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], what: str, limit_s: float = 60.0, poll_s: float = 0.02) -> None:
    """Return once ``condition()`` holds; fail with ``what`` if it does not within ``limit_s``."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {limit_s:.0f} s in vain for: {what}")
        time.sleep(poll_s)
