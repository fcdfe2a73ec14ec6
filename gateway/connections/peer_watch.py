"""Whether a peer still reads its output, and whether it is still there."""

from __future__ import annotations

import asyncio
import select
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class PeerWatch:
    """stall_ms: how long output may wait if the peer reads none of it.

    taken_ms: when the peer last read something, or had nothing to read.
    """

    stall_ms: int
    written_bytes: int = 0
    taken_ms: int = 0
    _taken_bytes: int = 0  # of the written octets, at the last look

    def has_stalled(self, transport: asyncio.Transport, now_ms: int) -> bool:
        """Say whether output has waited for too long without the peer reading any of it."""
        waiting_bytes = transport.get_write_buffer_size()
        taken_bytes = self.written_bytes - waiting_bytes
        if waiting_bytes == 0 or taken_bytes > self._taken_bytes:
            self._taken_bytes = taken_bytes
            self.taken_ms = now_ms
            return False
        return now_ms - self.taken_ms >= self.stall_ms


def has_hung_up(transport: asyncio.Transport) -> bool:
    """Ask the socket, which the event loop does not watch while reading is paused."""
    endpoint = transport.get_extra_info("socket")
    if endpoint is None or endpoint.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(endpoint.fileno(), select.POLLRDHUP)  # POLLHUP and POLLERR are always reported
    return bool(poll.poll(0))
