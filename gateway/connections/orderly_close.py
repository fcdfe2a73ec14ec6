"""Closes a socket so that its peer still gets our last octets."""

from __future__ import annotations

import asyncio
from typing import Final

# A close with unread input resets the connection, and the peer may never see our last frame.  So we end only our side
# and read on, this long at a time, until the peer has closed or read everything.
LINGER_S: Final = 1.0
LINGER_ROUNDS: Final = 30


class OrderlyClose:
    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, is_input_ended: bool) -> None:
        """End our side of the connection.  is_input_ended: the peer has ended its side."""
        transport = self._transport
        is_over = is_input_ended and transport.get_write_buffer_size() == 0
        if is_over or transport.is_closing() or not transport.can_write_eof():
            transport.close()
            return
        try:
            transport.write_eof()
        except OSError:  # the peer has gone, and the event loop has not noticed yet
            transport.abort()
            return
        if not transport.is_closing():
            transport.resume_reading()
        self._linger(LINGER_ROUNDS)

    def end_round(self, rounds: int) -> None:
        """Close if the peer has read everything, or nothing for too long.  rounds: left, with this one."""
        if self._transport.get_write_buffer_size() == 0:
            self._transport.close()
        elif rounds > 1:
            self._linger(rounds - 1)
        else:
            self._transport.abort()

    def cancel(self) -> None:
        """The socket is gone."""
        if self._timer is not None:
            self._timer.cancel()

    def _linger(self, rounds: int) -> None:
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self.end_round, rounds)
