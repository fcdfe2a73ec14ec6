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
    """_resting: what lets each socket read on, and how much of a turn it may take."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._resting: deque[tuple[Callable[[], None], int]] = deque()

    def rest(self, read_on: Callable[[], None], reads: int = 1) -> None:
        """Call ``read_on`` once the turn that is open has ended, or a later one, before anything more is read.

        reads: how many reads of READS_A_TURN it counts as.
        """
        if not self._resting:
            self._loop.call_soon(self._go_on)
        self._resting.append((read_on, reads))

    def _go_on(self) -> None:
        left = READS_A_TURN
        for _ in range(len(self._resting)):
            read_on, reads = self._resting.popleft()
            read_on()
            left -= reads
            if left <= 0:
                break
        if self._resting:
            self._loop.call_soon(self._go_on)
