"""Many clients on real sockets with random operations, one step after the other, drawn from a seed."""

from __future__ import annotations

import random
import select
import socket
import struct
import time
from typing import Final, Protocol
from urllib.parse import urlsplit

from protocols.amqp.v1_0.wire.errors import AmqpError
from protocols.stomp.errors import FrameError
from tests.support.hostile import random_http
from tests.support.hostile.hostile_config import HOSTILE_ADDRESS
from tests.support.hostile.random_amqp import RandomAmqp
from tests.support.hostile.random_stomp import RandomStomp
from tests.support.process.gateway_process import GatewayProcess

CLIENTS: Final = 24
LOOKS_EVERY: Final = 6  # operations before clients read the answers
LOOK_S: Final = 0.01
UNSENT_MOST: Final = 256 * 1024
READ_BYTES: Final = 256 * 1024
CONNECT_LIMIT_S: Final = 30.0
LEAVE_LIMIT_S: Final = 60.0
RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: close cuts off
SECRET: Final = b"honest:"  # the beginning of every body that hostile clients must not see


class Violation(AssertionError):
    """A broken law; the text names it."""


class Speaker(Protocol):
    """The protocol of one client.  is_refused: the gateway has announced the end.  bodies: of the received messages."""

    is_refused: bool
    bodies: list[bytes]

    def opening(self) -> bytes: ...
    def operation(self) -> bytes: ...
    def receive_data(self, octets: bytes) -> bytes: ...
    def goodbye(self) -> bytes: ...


class RandomHttp:
    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self.is_refused = False
        self.bodies: list[bytes] = []

    def opening(self) -> bytes:
        return random_http.request(self._draw)

    def operation(self) -> bytes:
        return random_http.request(self._draw)

    def receive_data(self, octets: bytes) -> bytes:
        return b""

    def goodbye(self) -> bytes:
        return b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Client:
    """is_deaf: it no longer reads.  is_over: the socket has ended."""

    def __init__(self, speaker: Speaker, host: str, port: int) -> None:
        self.speaker = speaker
        self.is_deaf = False
        self.is_over = False
        self.unsent = bytearray(speaker.opening())
        self.socket = socket.create_connection((host, port), CONNECT_LIMIT_S, (HOSTILE_ADDRESS, 0))
        self.socket.setblocking(False)

    def write(self, most: int = UNSENT_MOST) -> None:
        if self.is_over or not self.unsent:
            return
        try:
            sent = self.socket.send(self.unsent[:most])
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        del self.unsent[:sent]

    def read(self) -> None:
        """Raises: Violation for octets outside the protocol, or a message that is not for this client."""
        try:
            octets = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            octets = b""
        if not octets:
            self.close()
            return
        try:
            self.unsent += self.speaker.receive_data(octets)
        except (FrameError, AmqpError) as error:
            raise Violation(
                f"a {type(self.speaker).__name__} cannot read what came: {error!r}, {octets[:300]!r}"
            ) from error
        for body in self.speaker.bodies:
            if SECRET in body:
                raise Violation(f"a {type(self.speaker).__name__} got what only the honest may read: {body[:200]!r}")
        self.speaker.bodies.clear()

    def close(self, is_reset: bool = False) -> None:
        if self.is_over:
            return
        self.is_over = True
        if is_reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.socket.close()


class Crowd:
    """operations: the number sent."""

    def __init__(self, gateway: GatewayProcess, draw: random.Random) -> None:
        self._gateway = gateway
        self._draw = draw
        self.clients: list[Client] = []
        self.operations = 0

    def step(self) -> None:
        draw = self._draw
        if len(self.clients) < CLIENTS:
            self._join()
        client = draw.choice(self.clients)
        kind = draw.randrange(2_000)
        if kind < 4:
            client.close(is_reset=draw.randrange(2) == 0)
        elif kind == 4:
            client.is_deaf = True
        elif len(client.unsent) < UNSENT_MOST:
            client.unsent += client.speaker.operation()
            self.operations += 1
            client.write(draw.choice((1, 7, 100, UNSENT_MOST, UNSENT_MOST, UNSENT_MOST)))
        if self.operations % LOOKS_EVERY == 0:
            self._look(LOOK_S)

    def _join(self) -> None:
        draw = self._draw
        kind = draw.randrange(10)
        if kind == 0:
            web = urlsplit(self._gateway.http_url)
            assert web.hostname is not None and web.port is not None
            self.clients.append(Client(RandomHttp(draw), web.hostname, web.port))
            return
        speaker = RandomStomp(draw) if kind < 6 else RandomAmqp(draw)
        self.clients.append(Client(speaker, self._gateway.stomp_host, self._gateway.stomp_port))

    def _look(self, wait_s: float) -> None:
        """Read the answers, and forget ended clients."""
        poll = select.poll()
        by_number = {}
        for client in self.clients:
            if client.is_over:
                continue
            by_number[client.socket.fileno()] = client
            wanted = 0 if client.is_deaf else select.POLLIN
            poll.register(client.socket, wanted | (select.POLLOUT if client.unsent else 0))
        for number, events in poll.poll(wait_s * 1_000):
            client = by_number[number]
            if events & select.POLLOUT:
                client.write()
            if not client.is_over and events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                if client.is_deaf:
                    client.close()
                else:
                    client.read()
        self.clients = [client for client in self.clients if not client.is_over]

    def cut(self) -> None:
        """Cut all connections."""
        for client in self.clients:
            if not client.is_over:
                client.close(is_reset=self._draw.randrange(2) == 0)
        self.clients = []

    def leave(self) -> None:
        """Cut half of the connections and end the others in order, which the gateway must allow.  Raises: Violation."""
        for client in self.clients:
            if client.is_deaf or self._draw.randrange(2):
                client.close(is_reset=self._draw.randrange(2) == 0)
            else:
                client.unsent += client.speaker.goodbye()
        end = time.monotonic() + LEAVE_LIMIT_S
        self._look(0.0)
        while self.clients:
            if time.monotonic() > end:
                stuck = ", ".join(f"{vars(client.speaker)}, {len(client.unsent)} unsent" for client in self.clients)
                raise Violation(f"these clients said that they go and were not let go: {stuck[:3_000]}")
            self._look(0.1)
