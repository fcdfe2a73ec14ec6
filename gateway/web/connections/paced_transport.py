"""The transport of a connection of HTTP whose reading two sides may pause."""

from __future__ import annotations

import asyncio
from typing import Any


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
