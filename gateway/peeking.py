"""One address for what is plain and what is TLS: the first octet of a connection tells, before anything reads it.

A TLS connection begins with a handshake record, 0x16, which is no first octet of any protocol that is taken here.  The
octet is only looked at (MSG_PEEK), so that whoever takes the connection finds it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

HANDSHAKE: Final = 0x16
ACCEPTS_MAX: Final = 100  # in one turn of the event loop
RETRY_S: Final = 1.0  # after the machine has refused a connection: no descriptors, no memory

log: Final = logging.getLogger("penstock.listener")


class PeekingServer:
    """waiting: accepted sockets that have said nothing -> the timer that gives them up.

    first_octet_s: how long one may say nothing, and how long a handshake may take.  waiting_max: so many may wait.
    """

    def __init__(
        self,
        listening: socket.socket,
        backlog: int,
        factory: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext,
        first_octet_s: float,
        waiting_max: int,
    ) -> None:
        self._listening = listening
        self._backlog = backlog
        self._factory = factory
        self._context = context
        self._first_octet_s = first_octet_s
        self._waiting_max = waiting_max
        self._waiting: dict[socket.socket, asyncio.TimerHandle] = {}
        self._starting: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._retry: asyncio.TimerHandle | None = None

    async def start_serving(self) -> None:
        self._listening.listen(self._backlog)
        self._listen()

    def close(self) -> None:
        """Accept nothing more, and let go of whoever has said nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._listening.fileno())
        self._listening.close()
        if self._retry is not None:
            self._retry.cancel()
        for endpoint in list(self._waiting):
            self._give_up(endpoint)
        for task in self._starting:
            task.cancel()

    def _listen(self) -> None:
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                endpoint, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # the kernel keeps the connection, and would tell us again at once
                log.warning("cannot accept, trying again after %g s: %s", RETRY_S, error)
                self._loop.remove_reader(self._listening.fileno())
                self._retry = self._loop.call_later(RETRY_S, self._listen)
                return
            endpoint.setblocking(False)
            if len(self._waiting) >= self._waiting_max:
                endpoint.close()
                continue
            self._waiting[endpoint] = self._loop.call_later(self._first_octet_s, self._give_up, endpoint)
            self._loop.add_reader(endpoint.fileno(), self._peek, endpoint)

    def _peek(self, endpoint: socket.socket) -> None:
        try:
            octet = endpoint.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._give_up(endpoint)
            return
        self._forget(endpoint)
        is_tls = octet[:1] == bytes((HANDSHAKE,))
        task = self._loop.create_task(self._start(endpoint, is_tls))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _start(self, endpoint: socket.socket, is_tls: bool) -> None:
        """Hand the connection over; a handshake that fails is the end of it."""
        try:
            peer = endpoint.getpeername()
            await self._loop.connect_accepted_socket(
                self._factory,
                endpoint,
                ssl=self._context if is_tls else None,
                ssl_handshake_timeout=self._first_octet_s if is_tls else None,
            )
        except (OSError, EOFError) as error:  # ssl.SSLError is an OSError
            endpoint.close()
            if is_tls:
                log.warning("%s:%s: no TLS handshake: %s", peer[0], peer[1], error or type(error).__name__)

    def _give_up(self, endpoint: socket.socket) -> None:
        self._forget(endpoint)
        endpoint.close()

    def _forget(self, endpoint: socket.socket) -> None:
        self._loop.remove_reader(endpoint.fileno())
        timer = self._waiting.pop(endpoint, None)
        if timer is not None:
            timer.cancel()
