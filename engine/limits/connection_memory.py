"""Memory that connections hold: partial frames, transactions, input at a gate, links, unread output, HTTP requests,
TLS handshakes.

All of it counts in one budget.  Past it, the connection that holds the most is ended, repeatedly until the rest fits.
A connection that holds no more than its equal share of what requests and handshakes leave of the limit is never ended.
Requests take at most a quarter of it, as an answer that holds more ends no connection, and handshakes another.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from engine.backlog.context import TurnAgenda
from engine.consumers.client import Client
from engine.values.broker_stats import HoldingStats
from engine.values.errors import HoldingsFull

CONNECTION_MEMORY_BYTES: Final = 256 * 1024 * 1024
UNREAD_PERCENT: Final = 50  # of the limit; while more is unread, a client with unread output gets no more
CROWD_LEFT_PERCENT: Final = 25  # of the limit; clients that do not read are ended down to this while others wait
REQUESTS_PERCENT: Final = 25  # of the limit; further bodies over HTTP are refused, further answers wait
HANDSHAKES_PERCENT: Final = 25  # of the limit; then the oldest handshake makes room for the next one
HANDSHAKE_BYTES: Final = 32 * 1024  # of a TLS handshake under way: OpenSSL's and the event loop's, about 29 kB measured
LARGEST_SHOWN: Final = 10


@dataclass(slots=True, eq=False)
class Holdings:
    """limit_bytes: of all together.  used_bytes: ``held_bytes`` and ``unread_bytes`` of clients, and of requests.

    requests_bytes: of the used ones, what requests over HTTP and their answers hold.  bodies_bytes: of these, bodies.
    handshakes_bytes: of the used ones, a fixed cost for each TLS handshake under way.
    unread_bytes: likewise, output that sockets have not accepted, including connections that left the engine.
    is_over: the sum has grown past the limit, so ``relieve`` must be called.  ended_count: connections ended for it.
    """

    limit_bytes: int
    _agenda: TurnAgenda
    used_bytes: int = 0
    requests_bytes: int = 0
    bodies_bytes: int = 0
    handshakes_bytes: int = 0
    unread_bytes: int = 0
    is_over: bool = False
    ended_count: int = 0
    _unread: dict[int, Client] = field(default_factory=dict)  # by client number

    def count(self, client: Client, held_bytes: int) -> None:
        """Record what a client holds now."""
        more = held_bytes - client.held_bytes
        client.held_bytes = held_bytes
        self._add(more)

    def count_unread(self, client: Client, unread_bytes: int) -> None:
        """Record how much output its socket has not accepted; 0 once the socket is closed."""
        more = unread_bytes - client.unread_bytes
        client.unread_bytes = unread_bytes
        if unread_bytes:
            self._unread[client.client_number] = client
        else:
            self._unread.pop(client.client_number, None)
        self.unread_bytes += more
        self._add(more)

    def hold_body(self, size_bytes: int) -> bool:
        """Count the body of a request, unless it is too much; return whether it is counted.

        The first one may hold more than the part of all requests.  Answers keep no body out.
        """
        bodies_bytes = self.bodies_bytes + size_bytes
        if self.bodies_bytes and bodies_bytes * 100 > self.limit_bytes * REQUESTS_PERCENT:
            return False
        if size_bytes and self.used_bytes - self.requests_bytes + bodies_bytes > self.limit_bytes:
            return False
        self._count_body(size_bytes)
        return True

    def body_done(self, size_bytes: int) -> None:
        self._count_body(-size_bytes)

    def count_requests(self, more_bytes: int) -> None:
        """Record that requests hold this much more; negative for less."""
        self.requests_bytes += more_bytes
        self._add(more_bytes)

    def has_room_for_handshake(self) -> bool:
        """Say whether one more is no more than the part of handshakes; the first one always is."""
        handshakes_bytes = self.handshakes_bytes
        return (
            not handshakes_bytes or (handshakes_bytes + HANDSHAKE_BYTES) * 100 <= self.limit_bytes * HANDSHAKES_PERCENT
        )

    def handshake_begun(self) -> None:
        self.handshakes_bytes += HANDSHAKE_BYTES
        self._add(HANDSHAKE_BYTES)

    def handshake_ended(self) -> None:
        self.handshakes_bytes -= HANDSHAKE_BYTES
        self._add(-HANDSHAKE_BYTES)

    def is_crowded(self, more_bytes: int = 0) -> bool:
        """Say whether this much more output is too much, given the unread output of others."""
        unread_bytes = self.unread_bytes
        return unread_bytes > 0 and (unread_bytes + more_bytes) * 100 > self.limit_bytes * UNREAD_PERCENT

    def count_again(self) -> None:
        """Count again what sockets have accepted."""
        for client in list(self._unread.values()):
            self.count_unread(client, client.unread_now())

    def stats(self, clients: Iterable[Client]) -> HoldingStats:
        self.count_again()
        largest = heapq.nlargest(LARGEST_SHOWN, self._holders(clients), key=Client.all_held_bytes)
        return HoldingStats(
            self.used_bytes,
            self.limit_bytes,
            self.ended_count,
            {client.client_number: client.all_held_bytes() for client in largest if client.all_held_bytes()},
            self.requests_bytes,
            self.handshakes_bytes,
        )

    def relieve(self, clients: Iterable[Client]) -> None:
        """End the largest holders until the rest fits.  It scans all: call it once per turn, if ``is_over``."""
        self.is_over = False
        self.count_again()
        if not self._is_too_much():
            return
        for client in sorted(self._holders(clients), key=Client.all_held_bytes, reverse=True):
            self._end(client)
            if not self._is_too_much():
                return

    def make_room(self) -> None:
        """End the clients with the most unread output; others have waited for them long enough."""
        self.count_again()
        for client in sorted(self._unread.values(), key=Client.all_held_bytes, reverse=True):
            if self.unread_bytes * 100 <= self.limit_bytes * CROWD_LEFT_PERCENT:
                return
            self._end(client)

    def _holders(self, clients: Iterable[Client]) -> Iterable[Client]:
        return ({client.client_number: client for client in clients} | self._unread).values()

    def _end(self, client: Client) -> None:
        self.ended_count += 1
        client.give_up(
            HoldingsFull(
                f"this connection holds {client.all_held_bytes()} octets, the most of all ({client.all_holding()}); "
                f"all connections together may hold {self.limit_bytes} (limits.connection-memory)"
            )
        )
        self.count(client, 0)
        self.count_unread(client, 0)

    def _count_body(self, more_bytes: int) -> None:
        self.bodies_bytes += more_bytes
        self.count_requests(more_bytes)

    def _add(self, more: int) -> None:
        self.used_bytes += more
        if more > 0 and self.used_bytes > self.limit_bytes and self._is_too_much():
            self.is_over = True
            self._agenda.is_open = True

    def _is_too_much(self) -> bool:
        """Say whether connections hold more than is left: no request takes more than the part of all requests."""
        requests_bytes = min(self.requests_bytes, self.limit_bytes * REQUESTS_PERCENT // 100)
        return self.used_bytes - self.requests_bytes + requests_bytes > self.limit_bytes
