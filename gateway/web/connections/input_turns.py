"""What has come on the sockets of HTTP is parsed in pieces, a few in each turn of the event loop.

One read may bring a quarter of a megabyte and uvloop reads a socket up to 32 times in a turn.  Forty thousand chunks of
one octet or fragments of a WebSocket's message fit in one read, and aiohttp looks at each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

PIECE_BYTES: Final = 16 * 1024  # also because aiohttp's error for what is no request repeats all octets it was given
PIECES_A_TURN: Final = 4  # of all connections together


class InputTurns:
    """_waiting: what goes on in the next turns, in its order.  _left: pieces of this turn."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._left = PIECES_A_TURN
        self._is_counting = False

    def take(self) -> bool:
        """Return whether a piece may be parsed in this turn."""
        if self._waiting or not self._left:
            return False
        self._count()
        return True

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` for one piece when it is its turn."""
        self._waiting.append(go_on)
        self._begin_soon()

    def _count(self) -> None:
        self._left -= 1
        self._begin_soon()

    def _begin_soon(self) -> None:
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Begin a turn: all that have come before have had theirs."""
        self._is_counting = False
        self._left = PIECES_A_TURN
        while self._waiting and self._left:
            self._count()
            self._waiting.popleft()()


class PacedTransport(asyncio.Transport):
    """The transport as aiohttp uses it: it is read only while neither aiohttp nor the connection has paused it."""

    def __init__(self, inner: asyncio.Transport) -> None:
        super().__init__()
        self._inner = inner
        self._is_paused = False
        self._is_resting = False

    def rest(self, is_resting: bool) -> None:
        """Let the connection pause, or go on, with reading."""
        if is_resting is not self._is_resting:
            self._is_resting = is_resting
            self._apply()

    def pause_reading(self) -> None:
        self._is_paused = True
        self._apply()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._apply()

    def is_reading(self) -> bool:
        return not self._is_paused

    def _apply(self) -> None:
        if self._inner.is_closing():
            return
        if self._is_paused or self._is_resting:
            self._inner.pause_reading()
        else:
            self._inner.resume_reading()

    # -- the rest is the inner one's

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._inner.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._inner.is_closing()

    def close(self) -> None:
        self._inner.close()

    def abort(self) -> None:
        self._inner.abort()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._inner.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._inner.get_protocol()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._inner.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._inner.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._inner.get_write_buffer_limits()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._inner.write(data)

    def writelines(self, pieces: Any) -> None:
        self._inner.writelines(pieces)

    def write_eof(self) -> None:
        self._inner.write_eof()

    def can_write_eof(self) -> bool:
        return self._inner.can_write_eof()
