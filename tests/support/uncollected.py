"""Tests that ask what Python's garbage collector would find."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Run without the collector, which sees nothing of what was there before, also afterwards.

    To look through what hundreds of tests have left behind takes a second in a run of the whole suite.  It is not
    unfrozen in the end, because with it would come what ``conftest.py`` freezes: all collected tests.
    """
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
