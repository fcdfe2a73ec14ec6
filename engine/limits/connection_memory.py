"""What connections hold in memory that is not sent yet: frames under way, transactions, what waits at a gate, links.

All of it counts in one budget.  Past it, the connection that holds the most ends, again and again until the rest fits:
whoever holds little is never the one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

from engine.ports.client import Client
from engine.values.broker_stats import HoldingStats
from engine.values.errors import HoldingsFull

CONNECTION_MEMORY_BYTES: Final = 256 * 1024 * 1024
SHARE_LEAST_BYTES: Final = 1024 * 1024  # who holds less than this is not ended
LARGEST_SHOWN: Final = 10


class Holdings:
    """limit_bytes: of all connections together.  used_bytes: the sum of ``Client.held_bytes``.

    is_over: more has come, and it is too much: ``relieve`` is wanted.  ended_count: connections ended for it.
    """

    __slots__ = ("limit_bytes", "used_bytes", "is_over", "ended_count")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.is_over = False
        self.ended_count = 0

    def count(self, client: Client, held_bytes: int) -> None:
        """Take note of what a client holds now."""
        more = held_bytes - client.held_bytes
        self.used_bytes += more
        client.held_bytes = held_bytes
        if more > 0 and self.used_bytes > self.limit_bytes:
            self.is_over = True

    def stats(self, clients: Iterable[Client]) -> HoldingStats:
        largest = heapq.nlargest(LARGEST_SHOWN, clients, key=_held_bytes)
        return HoldingStats(
            self.used_bytes,
            self.limit_bytes,
            self.ended_count,
            {client.client_number: client.held_bytes for client in largest if client.held_bytes},
        )

    def relieve(self, clients: Iterable[Client]) -> None:
        """End those who hold the most until the rest fits.  It looks at all: call it once a turn, if ``is_over``."""
        self.is_over = False
        by_size = sorted(clients, key=_held_bytes, reverse=True)
        for client in by_size:
            if self.used_bytes <= self.limit_bytes or client.held_bytes < SHARE_LEAST_BYTES:
                return
            self.ended_count += 1
            held_bytes = client.held_bytes
            client.give_up(
                HoldingsFull(
                    f"this connection holds {held_bytes} octets, the most of all ({client.holding()}); all connections "
                    f"together may hold {self.limit_bytes} (limits.connection-memory)"
                )
            )
            self.count(client, 0)


def _held_bytes(client: Client) -> int:
    return client.held_bytes
