"""What many connections want at once is done for a few of them after each turn, oldest first.

One read of a full socket brings up to a quarter of a megabyte, and it costs something even if none of its frames is
taken yet.  Forty peers that send as fast as they can would add forty of them to each turn.  The tokens of a fleet may
end in one second, and each connection that ends gives back what it holds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class FewATurn:
    """most: calls after one turn.  _waiting: the calls that are to be made."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self._loop = loop
        self._most = most
        self._waiting: deque[Callable[[], None]] = deque()

    def later(self, call: Callable[[], None]) -> None:
        """Make the call once the turn that is open has ended, or a later one, before anything more is read."""
        if not self._waiting:
            self._loop.call_soon(self._go_on)
        self._waiting.append(call)

    def _go_on(self) -> None:
        try:
            for _ in range(min(self._most, len(self._waiting))):
                self._waiting.popleft()()
        finally:
            if self._waiting:
                self._loop.call_soon(self._go_on)
