"""Work in steps on the event loop: other work of the loop runs between two steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TypeVar

Step = TypeVar("Step")


async def in_turns(steps: Iterator[Step]) -> tuple[list[Step], float]:
    """Take all steps; return their results, and how many seconds of the loop they took together."""
    clock = asyncio.get_running_loop().time
    given: list[Step] = []
    taken_s = 0.0
    while True:
        began_s = clock()
        try:
            given.append(next(steps))
        except StopIteration:
            return given, taken_s + clock() - began_s
        taken_s += clock() - began_s
        await asyncio.sleep(0)
