"""Whose turn it is: one at a time, and holders of several places in the line take turns, so that none waits for all of
another's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class TurnOrder:
    """_waiting: places in the line by holder, the next holder first."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}

    @asynccontextmanager
    async def turn(self, holder: str) -> AsyncIterator[None]:
        """Wait for a turn, and have it until the block ends."""
        if self._is_taken:
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(holder, {})[place] = None
            try:
                await place
            except asyncio.CancelledError:
                if place.cancelled():
                    self._leave(holder, place)
                else:
                    self._pass_on()  # the turn had come
                raise
        self._is_taken = True
        try:
            yield
        finally:
            self._pass_on()

    def _leave(self, holder: str, place: asyncio.Future[None]) -> None:
        line = self._waiting.get(holder, {})
        line.pop(place, None)
        if not line:
            self._waiting.pop(holder, None)

    def _pass_on(self) -> None:
        while self._waiting:
            holder, line = next(iter(self._waiting.items()))
            del self._waiting[holder]
            place = next(iter(line))
            del line[place]
            if line:
                self._waiting[holder] = line  # behind the others
            if not place.done():
                place.set_result(None)
                return
        self._is_taken = False
