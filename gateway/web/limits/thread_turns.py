"""Reads of the store for requests: in a thread, one at a time, addresses in turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from gateway.web.limits.request_memory import RequestMemory
from gateway.web.limits.turn_order import TurnOrder

Result = TypeVar("Result")


class ThreadTurns:
    """memory: of the answers; a read begins once those that are being written leave room."""

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self._order = TurnOrder()

    async def done(
        self, address: str, compute: Callable[[], Result], leave: Callable[[], None] | None = None
    ) -> Result:
        """Return what is computed when the turn has come.  leave: as in ``to_the_end``."""
        async with self._order.turn(address):
            await self._memory.room()
            return await to_the_end(compute, leave)


async def to_the_end(compute: Callable[[], Result], leave: Callable[[], None] | None = None) -> Result:
    """Return what a thread computes.

    leave: tells the thread that nobody waits for it any more.
    Nothing ends a thread, so who is cancelled waits for its end: otherwise its turn would be over before.
    """
    computing = asyncio.get_running_loop().run_in_executor(None, compute)
    try:
        return await asyncio.shield(computing)
    except asyncio.CancelledError:
        if leave is not None:
            leave()
        await asyncio.wait([computing])
        raise
