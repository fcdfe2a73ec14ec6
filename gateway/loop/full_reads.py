"""Sockets whose last read was full rest; a few of them read on after each turn, oldest first.

One read brings up to a quarter of a megabyte, and it costs something even if none of its frames is taken yet.  Forty
peers that send as fast as they can would add forty of them to each turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

READS_A_TURN: Final = 4  # of all sockets together: they keep one turn busy


class FullReads:
    """_resting: what lets each socket read on."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._resting: deque[Callable[[], None]] = deque()

    def rest(self, read_on: Callable[[], None]) -> None:
        """Call ``read_on`` once the turn that is open has ended, or a later one, before anything more is read."""
        if not self._resting:
            self._loop.call_soon(self._go_on)
        self._resting.append(read_on)

    def _go_on(self) -> None:
        for _ in range(min(READS_A_TURN, len(self._resting))):
            self._resting.popleft()()
        if self._resting:
            self._loop.call_soon(self._go_on)
