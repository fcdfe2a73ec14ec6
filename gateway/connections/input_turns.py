"""What has come on many sockets is taken in pieces, a few in each turn of the event loop.

One read may bring a quarter of a megabyte and uvloop reads a socket up to 32 times in a turn.  Forty thousand chunks of
HTTP, fragments of a WebSocket's message or records of TLS with one octet each fit in one read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

PIECES_A_TURN: Final = 4  # of all connections together


class InputTurns:
    """number: of this turn.  _waiting: what goes on in the next turns, in its order.  _left: pieces of this turn."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self.number = 0
        self._left = PIECES_A_TURN
        self._is_counting = False

    def take(self) -> bool:
        """Return whether a piece may be taken in this turn."""
        if self._waiting or not self._left:
            return False
        self._count()
        return True

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` for one piece when it is its turn."""
        self._waiting.append(go_on)
        self.begin_soon()

    def begin_soon(self) -> None:
        """Give the next turn a new number."""
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _count(self) -> None:
        self._left -= 1
        self.begin_soon()

    def _begin(self) -> None:
        """Begin a turn: all that have come before have had theirs."""
        self._is_counting = False
        self.number += 1
        self._left = PIECES_A_TURN
        while self._waiting and self._left:
            self._count()
            self._waiting.popleft()()
