"""Accepts the connections of one address: each is counted first, and may be plain or TLS.

A TLS connection begins with a handshake record, 0x16, which is the first octet of no protocol here.  The octet is only
peeked at (MSG_PEEK), so the connection still has it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from config.model import Endpoint
from engine.limits.connection_memory import Holdings
from gateway.connections.accept_failures import AcceptFailures
from gateway.connections.admission import Admission, Place
from gateway.connections.tls_stream import TlsInput, TlsStream
from gateway.process.passed_sockets import PassedSockets

HANDSHAKE: Final = 0x16
BACKLOG: Final = 1024  # connections that the kernel may hold before they are accepted
ACCEPTS_MAX: Final = 25  # connections accepted in one turn of the event loop: each takes some 0.15 ms with its session
HANDSHAKES_AT_ONCE: Final = 8  # of TLS that begin in one turn: each takes about a millisecond of processor time
RETRY_S: Final = 1.0  # pause after the machine has refused a connection: no descriptors, no memory

log: Final = logging.getLogger("penstock.listener")


@dataclass(slots=True, eq=False)
class Acceptor:
    """factory: makes the protocol of a connection, which gives its place back; None cuts the connection off.

    context: returns that of TLS for the next connection, None for plain connections only.
    is_tls_only: plain connections are refused.
    first_octet_s: limit for the first octet where TLS is possible, and for a handshake.
    tls_input: shared by the connections of all addresses.
    holdings: count the handshakes.  _shaking: handshakes under way, the oldest first.
    """

    _listening: socket.socket
    _admission: Admission
    _factory: Callable[[Place], asyncio.Protocol | None]
    _context: Callable[[], ssl.SSLContext | None]
    _is_tls_only: bool
    _first_octet_s: float
    _holdings: Holdings
    _tls_input: TlsInput
    _waiting: dict[socket.socket, tuple[asyncio.TimerHandle, Place]] = field(default_factory=dict)
    _handshakes: deque[tuple[socket.socket, Place, asyncio.Protocol, ssl.SSLContext | None]] = field(
        default_factory=deque
    )
    _shaking: dict[asyncio.Task[bool], Place] = field(default_factory=dict)
    _starting: set[asyncio.Task[bool]] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _failures: AcceptFailures = field(default_factory=AcceptFailures)
    _is_closed: bool = False
    _retry: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to accept clients.  Raises: OSError."""
        self._listening.listen(BACKLOG)
        self._listen()

    def close(self) -> None:
        """Accept nothing more, and cut off connections without an octet."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._listening.fileno())
        self._listening.close()
        self._failures.stop()
        if self._retry is not None:
            self._retry.cancel()
        for endpoint in list(self._waiting):
            self._give_up(endpoint)
        for endpoint, place, *_ in self._handshakes:
            endpoint.close()
            place.leave()
        self._handshakes.clear()
        for task in self._starting:
            task.cancel()

    def _listen(self) -> None:
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                endpoint, peer = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:  # the kernel keeps the connection, and would report it again at once
                self._failures.failed(self._where(), error, RETRY_S)
                self._loop.remove_reader(self._listening.fileno())
                self._retry = self._loop.call_later(RETRY_S, self._try_again)
                return
            endpoint.setblocking(False)
            place = self._admission.admit(str(peer[0]))
            if place is None:
                endpoint.close()
            elif self._context() is None or self._is_tls_only:
                self._begin(endpoint, place, self._is_tls_only)
            else:
                timer = self._loop.call_later(self._first_octet_s, self._give_up, endpoint)
                self._waiting[endpoint] = timer, place
                self._loop.add_reader(endpoint.fileno(), self._peek, endpoint)
        if self._failures.count:
            self._failures.accepted(self._where())

    def _try_again(self) -> None:
        self._listen()
        self._accept()  # nobody may be waiting: then this says whether it is over

    def _where(self) -> str:
        host, port = self._listening.getsockname()[:2]
        return f"{host}:{port}"

    def _peek(self, endpoint: socket.socket) -> None:
        try:
            octet = endpoint.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._give_up(endpoint)
            return
        self._begin(endpoint, self._forget(endpoint), octet[:1] == bytes((HANDSHAKE,)))

    def _begin(self, endpoint: socket.socket, place: Place, is_tls: bool) -> None:
        # A handshake only for a refusal costs more than it helps.
        protocol = None if is_tls and place.refusal else self._factory(place)
        if protocol is None:
            place.leave()
            endpoint.close()
            return
        if not is_tls:
            self._hand_over(endpoint, place, protocol, None)
            return
        self._handshakes.append((endpoint, place, protocol, self._context()))
        if len(self._handshakes) == 1:
            self._loop.call_soon(self._begin_handshakes)

    def _begin_handshakes(self) -> None:
        for _ in range(min(HANDSHAKES_AT_ONCE, len(self._handshakes))):
            if self._shaking and not self._holdings.has_room_for_handshake():
                self._cut_oldest()
            self._hand_over(*self._handshakes.popleft())
        if self._handshakes:
            self._loop.call_soon(self._begin_handshakes)

    def _hand_over(
        self, endpoint: socket.socket, place: Place, protocol: asyncio.Protocol, context: ssl.SSLContext | None
    ) -> None:
        stream = None if context is None else TlsStream(context, protocol, self._tls_input)
        task = self._loop.create_task(self._start(endpoint, place, protocol, stream))
        self._starting.add(task)
        task.add_done_callback(partial(self._started, endpoint, place, stream))
        if context is not None:
            self._shaking[task] = place
            self._holdings.handshake_begun()
            task.add_done_callback(self._shaken)

    def _shaken(self, task: asyncio.Task[bool]) -> None:
        self._shaking.pop(task, None)
        self._holdings.handshake_ended()

    def _cut_oldest(self) -> None:
        """Cut off the oldest handshake: an honest one takes few round trips, so others pile up in front of it."""
        task = next(iter(self._shaking))
        place = self._shaking.pop(task)
        self._admission.cut(place, "its TLS handshake was the oldest of those that have a quarter of connection-memory")
        task.cancel()

    async def _start(
        self, endpoint: socket.socket, place: Place, protocol: asyncio.Protocol, stream: TlsStream | None
    ) -> bool:
        """Hand the connection over; return False after a failed handshake."""
        try:
            await self._loop.connect_accepted_socket(lambda: stream or protocol, endpoint)
            if stream is not None:
                await stream.handshake(self._first_octet_s)
        except OSError as error:  # ssl.SSLError is one
            if stream is not None:
                self._admission.lines.warn(log, place.address, f"no TLS handshake: {error or type(error).__name__}")
            return False
        return True

    def _started(
        self, endpoint: socket.socket, place: Place, stream: TlsStream | None, task: asyncio.Task[bool]
    ) -> None:
        """End a connection that has not started.  A task that is cancelled before its first step can do nothing."""
        self._starting.discard(task)
        is_started = False
        try:
            is_started = task.result()
        except asyncio.CancelledError:
            pass
        finally:
            if not is_started:
                if stream is not None:
                    stream.close()
                endpoint.close()
                place.leave()

    def _give_up(self, endpoint: socket.socket) -> None:
        self._forget(endpoint).leave()
        endpoint.close()

    def _forget(self, endpoint: socket.socket) -> Place:
        self._loop.remove_reader(endpoint.fileno())
        timer, place = self._waiting.pop(endpoint)
        timer.cancel()
        return place


async def listening_socket(endpoint: Endpoint, passed: PassedSockets | None = None) -> socket.socket:
    """Return a socket bound to the address: one that was passed, or a new one.  Raises: OSError."""
    # One family: with port 0, localhost would otherwise be two addresses with two ports.
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    found = await asyncio.get_running_loop().getaddrinfo(
        endpoint.host, endpoint.port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    taken = None if passed is None else passed.take(found[0][4])
    if taken is not None:
        return taken
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.setblocking(False)
        listening.bind(found[0][4])
    except OSError:
        listening.close()
        raise
    return listening
