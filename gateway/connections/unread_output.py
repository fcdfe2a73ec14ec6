"""Output that a peer has not read: counted in the budget of connections, and held back while the budget is crowded.

A transport reports its buffer only beyond a limit, and a burst only afterwards.  So its size is read before each write
that could matter.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from engine.consumers.client import Client
from engine.limits.connection_memory import Holdings

LARGE_BYTES: Final = 64 * 1024  # smaller output never waits


@dataclass(slots=True, eq=False)
class UnreadOutput:
    """write_limit_bytes: unread output beyond which the peer gets nothing more, while there is room for all.

    is_counted: some output is unread, or limits are short.  Then ``writing`` must be called for each write, otherwise
    only for writes that are large or follow unread output.
    """

    _holdings: Holdings
    _write_limit_bytes: int
    is_counted: bool = False
    _client: Client | None = None  # the client that it is counted for
    _transport: asyncio.Transport | None = None
    _is_short: bool = False

    def must_wait(self, size_bytes: int) -> bool:
        """Say whether so much must wait, because the unread output of others fills the budget."""
        return self._holdings.is_crowded(size_bytes)

    def writing(self, client: Client, transport: asyncio.Transport, size_bytes: int, more_bytes: int) -> None:
        """Count a write that is about to happen: all of it if it is large, else only earlier unread output.

        more_bytes: output that follows once the socket has room.
        While it is crowded, a connection with unread output gets nothing more.
        """
        if transport.is_closing():
            return
        unread_bytes = transport.get_write_buffer_size() + more_bytes
        if size_bytes > LARGE_BYTES:
            unread_bytes += size_bytes
        self._client = client
        self._transport = transport
        self._holdings.count_unread(client, unread_bytes)
        is_short = self._holdings.is_crowded()
        if is_short != self._is_short:
            self._is_short = is_short
            transport.set_write_buffer_limits(high=0 if is_short else self._write_limit_bytes)
        self.is_counted = is_short or unread_bytes > 0

    def check(self) -> None:
        """Count the unread output again."""
        if self._client is not None and self._transport is not None:
            unread_bytes = self._client.unread_now()
            self._holdings.count_unread(self._client, unread_bytes)
            self.is_counted = self._is_short or unread_bytes > 0

    def gone(self) -> None:
        """The socket is gone, and its unread output with it."""
        if self._client is not None:
            self._holdings.count_unread(self._client, 0)
            self._client = self._transport = None
