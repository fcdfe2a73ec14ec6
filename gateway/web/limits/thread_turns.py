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

    async def done(self, address: str, compute: Callable[[], Result]) -> Result:
        """Return what is computed when the turn has come."""
        async with self._order.turn(address):
            await self._memory.room()
            return await to_the_end(compute)


async def to_the_end(compute: Callable[[], Result]) -> Result:
    """Return what a thread computes.

    Nothing ends a thread, so who is cancelled waits for its end: otherwise its turn would be over before.
    """
    computing = asyncio.get_running_loop().run_in_executor(None, compute)
    try:
        return await asyncio.shield(computing)
    except asyncio.CancelledError:
        await asyncio.wait([computing])
        raise
