"""Many clients with random operations, one after the other, drawn from a seed; on real sockets or simulated ones."""

from __future__ import annotations

import random
import select
import socket
import struct
import time
from collections.abc import Iterable
from typing import Final, Protocol
from urllib.parse import urlsplit

from protocols.amqp.v1_0.wire.errors import AmqpError
from protocols.detect import UNDECIDED, detect
from protocols.errors import FrameError, ProtocolError
from tests.support.hostile.hostile_config import HOSTILE_ADDRESS, KINDS
from tests.support.hostile.random_amqp import RandomAmqp
from tests.support.hostile.random_http import RandomHttp
from tests.support.hostile.random_openwire import RandomOpenWire
from tests.support.hostile.random_stomp import RandomStomp
from tests.support.hostile.random_websocket import OverWebSocket
from tests.support.process.gateway_process import GatewayProcess

CLIENTS: Final = 24
WEBSOCKETS_EVERY: Final = 4  # clients of STOMP and AMQP
LOOKS_EVERY: Final = 6  # operations before clients read the answers
LOOK_S: Final = 0.01
UNSENT_MOST: Final = 256 * 1024
READ_BYTES: Final = 256 * 1024
CONNECT_LIMIT_S: Final = 60.0
LEAVE_LIMIT_S: Final = 120.0  # twice what stomp.limits.disconnect-time-ms is by default
RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: close cuts off
SHOWN_BYTES: Final = 16  # more than the longest beginning by which the gateway knows a protocol
TIMED_OUT: Final = b"ERROR\nmessage:timed out\n"  # to who has shown no protocol in its time
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


class Socket(Protocol):
    """What a client uses of its socket, which does not block."""

    def fileno(self) -> int: ...
    def send(self, octets: bytes | bytearray, /) -> int: ...
    def recv(self, size: int, /) -> bytes: ...
    def setsockopt(self, level: int, name: int, value: bytes, /) -> None: ...
    def close(self) -> None: ...


class Network(Protocol):
    """How clients reach a gateway.  has_web: also by HTTP."""

    has_web: bool

    def connect(self, *, is_web: bool) -> Socket: ...

    def poll(self, wanted: Iterable[tuple[Socket, int]], wait_s: float) -> list[tuple[int, int]]:
        """Wait for events; return them by number of the socket.  wanted: sockets with the events to wait for."""
        ...

    def now_s(self) -> float: ...


class RealNetwork:
    def __init__(self, gateway: GatewayProcess) -> None:
        self.has_web = True
        self._gateway = gateway

    def connect(self, *, is_web: bool) -> Socket:
        host, port = self._gateway.stomp_host, self._gateway.stomp_port
        if is_web:
            web = urlsplit(self._gateway.http_url)
            assert web.hostname is not None and web.port is not None
            host, port = web.hostname, web.port
        connected = socket.create_connection((host, port), CONNECT_LIMIT_S, (HOSTILE_ADDRESS, 0))
        connected.setblocking(False)
        return connected

    def poll(self, wanted: Iterable[tuple[Socket, int]], wait_s: float) -> list[tuple[int, int]]:
        poll = select.poll()
        for one, events in wanted:
            poll.register(one, events)
        return poll.poll(wait_s * 1_000)

    def now_s(self) -> float:
        return time.monotonic()


class Client:
    """is_deaf: it no longer reads.  is_over: the socket has ended.

    sent: its first octets, enough to tell its protocol.  shown: as many of these as the gateway must have read.
    """

    def __init__(self, speaker: Speaker, connected: Socket) -> None:
        self.speaker = speaker
        self.is_deaf = False
        self.is_over = False
        self.sent = b""
        self.shown = b""
        self._is_told_in_stomp = False
        self.unsent = bytearray(speaker.opening())
        self.socket = connected

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
        self.sent += bytes(self.unsent[: min(sent, SHOWN_BYTES - len(self.sent))])
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
        if detect(self.shown) == UNDECIDED and (octets.startswith(TIMED_OUT) or TIMED_OUT.startswith(octets)):
            self._is_told_in_stomp = self.speaker.is_refused = True
        if self._is_told_in_stomp:
            return
        try:
            self.unsent += self.speaker.receive_data(octets)
        except (FrameError, AmqpError, ProtocolError) as error:
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
    """operations: the number sent.  kinds: of the addresses that the clients name."""

    def __init__(self, network: Network, draw: random.Random, kinds: tuple[str, ...] = KINDS) -> None:
        self._network = network
        self._kinds = kinds
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
            self.look(LOOK_S)

    def _join(self) -> None:
        draw = self._draw
        has_web = self._network.has_web
        kind = draw.randrange(-2 if has_web else 1, 10)
        is_web = kind < 1
        speaker: Speaker
        if is_web:
            speaker = RandomHttp(draw, self._kinds)
        else:
            speaker = RandomStomp(draw, self._kinds) if kind < 6 else RandomAmqp(draw, self._kinds)
            if kind in (5, 9):
                self.clients.append(Client(RandomOpenWire(draw, self._kinds), self._network.connect(is_web=False)))
                return
            is_web = has_web and draw.randrange(WEBSOCKETS_EVERY) == 0
            if is_web:
                speaker = OverWebSocket(draw, speaker, is_amqp=kind >= 6)
        self.clients.append(Client(speaker, self._network.connect(is_web=is_web)))

    def look(self, wait_s: float) -> None:
        """Read the answers, and forget ended clients."""
        wanted = []
        by_number = {}
        for client in self.clients:
            if client.is_over:
                continue
            by_number[client.socket.fileno()] = client
            events = (0 if client.is_deaf else select.POLLIN) | (select.POLLOUT if client.unsent else 0)
            wanted.append((client.socket, events))
        for number, events in self._network.poll(wanted, wait_s):
            client = by_number[number]
            if events & select.POLLOUT:
                client.write()
            if not client.is_over and events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                if client.is_deaf:
                    client.close()
                else:
                    client.read()
        self.clients = [client for client in self.clients if not client.is_over]
        for client in self.clients:
            client.shown = client.sent

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
        end = self._network.now_s() + LEAVE_LIMIT_S
        self.look(0.0)
        while self.clients:
            if self._network.now_s() > end:
                stuck = ", ".join(f"{vars(client.speaker)}, {len(client.unsent)} unsent" for client in self.clients)
                raise Violation(f"these clients said that they go and were not let go: {stuck[:3_000]}")
            self.look(0.1)
