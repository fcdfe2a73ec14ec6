"""Output that a peer has not read: counted in the budget of connections, and held back while that is crowded.

A transport tells of its buffer only beyond a limit, and of a burst only afterwards.  So it is asked before each write
that could matter.
"""

from __future__ import annotations

import asyncio
from typing import Final

from engine.consumers.client import Client
from engine.limits.connection_memory import Holdings

LARGE_BYTES: Final = 64 * 1024  # what is smaller waits for nobody


class UnreadOutput:
    """write_limit_bytes: beyond which its peer gets nothing more, while there is room for all.

    is_counted: some output is unread, or limits are short; ``writing`` must then hear of each write, else only of those
    that are large or follow something unread.
    """

    __slots__ = ("is_counted", "_holdings", "_write_limit_bytes", "_client", "_transport", "_is_short")

    def __init__(self, holdings: Holdings, write_limit_bytes: int) -> None:
        self.is_counted = False
        self._holdings = holdings
        self._write_limit_bytes = write_limit_bytes
        self._client: Client | None = None  # that it is counted for
        self._transport: asyncio.Transport | None = None
        self._is_short = False

    def must_wait(self, size_bytes: int) -> bool:
        """Say whether so much is not to be written now, for others have not read what they were sent."""
        return self._holdings.is_crowded(size_bytes)

    def writing(self, client: Client, transport: asyncio.Transport, size_bytes: int) -> None:
        """Take note of what is about to be written: all of it where it is large, else what is left of what came before.

        While it is crowded, a connection with unread output gets nothing more.
        """
        if transport.is_closing():
            return
        unread_bytes = transport.get_write_buffer_size()
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

    def look(self) -> None:
        """Count again what is unread."""
        if self._client is not None and self._transport is not None:
            unread_bytes = self._transport.get_write_buffer_size()
            self._holdings.count_unread(self._client, unread_bytes)
            self.is_counted = self._is_short or unread_bytes > 0

    def gone(self) -> None:
        """The socket is, with what it held."""
        if self._client is not None:
            self._holdings.count_unread(self._client, 0)
            self._client = None
