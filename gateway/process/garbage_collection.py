"""Python's garbage collector: when it runs, and over what."""

from __future__ import annotations

import gc
from typing import Final

# A collection looks at all objects made since the last one, or the last few: thousands of queues or messages that stay.
# With these the first kind takes some 3 ms and the second 15; with ten times as many it was 40 and 300.
GC_THRESHOLDS: Final = (5_000, 5, 2_000)


def suspend() -> None:
    """Let the store be opened without it: what that makes stays, and would be looked at again and again."""
    gc.collect()
    gc.disable()


def resume() -> None:
    """Messages are freed by reference counts; cycles are rare, so the collector runs rarely and over little."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
