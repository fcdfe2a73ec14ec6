"""Python's garbage collector: when it runs, and over which objects."""

from __future__ import annotations

import gc
from typing import Final

# A collection visits all objects made since the last one, or the last few: thousands of queues or messages that stay.
# With these thresholds the first kind takes some 3 ms and the second 15; with ten times as many it was 40 and 300.
GC_THRESHOLDS: Final = (5_000, 5, 2_000)


def suspend() -> None:
    """Open the store without the collector: the objects stay, and would be visited again and again."""
    gc.collect()
    gc.disable()


def resume() -> None:
    """Run the collector rarely and over little: reference counts free messages, queues and connections."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
