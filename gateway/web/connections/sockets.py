"""STOMP and AMQP over WebSocket: a socket of the HTTP listener as the transport of a connection.

sub-protocol                           input             output
amqp                                   binary messages   binary messages
v12.stomp v11.stomp v10.stomp, none    both kinds        a frame a message: text if it is UTF-8, otherwise binary

The octets of the input are one stream, whatever their messages.  The protocol's own login decides who may use it, not
HTTP's.  The sub-protocol is the first of the client's that is known; CONNECTED, not it, names the version of STOMP.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import WSCloseCode, WSMsgType, web

from gateway.connections.connection import Connection
from gateway.web.client_address import address_of
from gateway.web.connections.http_connection import connection_of
from protocols.detect import AMQP_1_0, STOMP
from protocols.stomp.codec.frame_cutter import frames_of

log: Final = logging.getLogger("penstock.listener")

MESSAGES_AT_ONCE: Final = 32  # messages taken before the turn ends and the other sockets have theirs
MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024  # octets of one message of the WebSocket, which may hold many frames


@dataclass(frozen=True, slots=True)
class Carriage:
    """How a protocol's octets travel.  messages: cuts the output of a turn into messages, each with its kind."""

    protocol: int  # of protocols.detect
    accepted: frozenset[WSMsgType]
    messages: Callable[[bytes], Iterable[tuple[bytes, WSMsgType]]]


def _one_message(octets: bytes) -> Iterable[tuple[bytes, WSMsgType]]:
    return ((octets, WSMsgType.BINARY),)


def _message_per_frame(octets: bytes) -> Iterator[tuple[bytes, WSMsgType]]:
    for frame in frames_of(octets):
        yield frame, WSMsgType.TEXT if _is_utf8(frame) else WSMsgType.BINARY


def _is_utf8(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


AMQP_CARRIAGE: Final = Carriage(AMQP_1_0, frozenset((WSMsgType.BINARY,)), _one_message)
STOMP_CARRIAGE: Final = Carriage(STOMP, frozenset((WSMsgType.BINARY, WSMsgType.TEXT)), _message_per_frame)
CARRIAGES: Final = {
    "v12.stomp": STOMP_CARRIAGE,
    "v11.stomp": STOMP_CARRIAGE,
    "v10.stomp": STOMP_CARRIAGE,
    "stomp": STOMP_CARRIAGE,  # ActiveMQ's name for all versions
    "amqp": AMQP_CARRIAGE,
}


class WebSocketTransport(asyncio.Transport):
    """Octets wait here until ``pump`` has sent them; the connection is informed when too many wait, and when few do."""

    def __init__(
        self, socket: web.WebSocketResponse, request: web.Request, connection: Connection, carriage: Carriage
    ) -> None:
        super().__init__()
        self._carriage = carriage
        self._peer = address_of(request)
        self._socket = socket
        self._request = request
        self._connection = connection
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._high_bytes = 64 * 1024
        self._is_paused = False
        self._is_closing = False
        self._wake = asyncio.Event()
        self._readable = asyncio.Event()
        self._readable.set()

    # -- called by the connection

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self._request.transport is None else self._request.transport.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is not None:
            self._high_bytes = high

    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing:
            return
        self._waiting.append(bytes(data))
        self._waiting_bytes += len(data)
        self._wake.set()
        if self._waiting_bytes > self._high_bytes and not self._is_paused:
            self._is_paused = True
            self._connection.pause_writing()

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Close once everything is sent."""
        self._is_closing = True
        self._readable.set()
        self._wake.set()

    def abort(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0
        self.close()
        if self._request.transport is not None:
            self._request.transport.abort()

    def pause_reading(self) -> None:
        self._readable.clear()

    def resume_reading(self) -> None:
        self._readable.set()

    # -- the two directions

    async def pump(self) -> None:
        """Send waiting octets until the transport is closed."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                octets = b"".join(self._waiting)
                self._waiting.clear()
                for message, kind in self._carriage.messages(octets):
                    await self._socket.send_frame(message, kind)
                self._waiting_bytes -= len(octets)
                if self._is_paused and self._waiting_bytes <= self._high_bytes // 4:
                    self._is_paused = False
                    self._connection.resume_writing()
            if self._is_closing:
                await self._socket.close()
                return

    def pump_ended(self, pumping: asyncio.Task[None]) -> None:
        """Cut the connection off if sending has failed: nobody else would notice."""
        error = None if pumping.cancelled() else pumping.exception()
        if error is None:
            return
        if not isinstance(error, ConnectionError):
            log.error("%s: a defect of the gateway while sending ends the WebSocket", self._peer, exc_info=error)
        self.abort()

    async def take(self) -> None:
        """Give the connection incoming octets, while it reads."""
        http = connection_of(self._request)
        taken = 0
        async for message in self._socket:
            if message.type is WSMsgType.PING:
                await self._socket.pong(message.data)
            elif message.type in self._carriage.accepted:
                if http is not None:
                    http.message_taken()
                await self._readable.wait()
                data: bytes | str = message.data
                self._connection.data_received(data.encode() if isinstance(data, str) else data)
            elif message.type is not WSMsgType.PONG:
                return
            taken += 1
            if taken % MESSAGES_AT_ONCE == 0:
                await asyncio.sleep(0)  # messages that have come already would all be taken in this turn


class SocketRoute:
    """new_connection: of the listener, for a transport of that address; returns None without a free place.

    origins: of pages of other sites that may open a WebSocket, in lower case.
    """

    def __init__(self, new_connection: Callable[[str], Connection | None], origins: tuple[str, ...] = ()) -> None:
        self._new_connection = new_connection
        self._origins = frozenset(origins)
        logging.getLogger("aiohttp.websocket").setLevel(logging.ERROR)  # its warnings are of what peers ask for

    def is_meant(self, request: web.Request) -> bool:
        return request.headers.get("Upgrade", "").lower() == "websocket"

    def admits(self, origin: str | None) -> bool:
        """Return whether a request with this Origin may open a WebSocket, whatever its Host.

        A browser always sends Origin here (RFC 6455 section 4.1), and no page can choose its own.
        """
        return origin is None or origin.lower() in self._origins

    async def serve(self, request: web.Request, headers: Mapping[str, str] | None = None) -> web.StreamResponse:
        """headers: of the answer, besides those of a WebSocket."""
        # aiohttp would answer all pings that have come in one turn.
        socket = web.WebSocketResponse(
            protocols=CARRIAGES, compress=False, max_msg_size=MESSAGE_BYTES_MAX, autoping=False
        )
        socket.headers.update(headers or {})
        await socket.prepare(request)
        name = socket.ws_protocol
        if name is None and "Sec-WebSocket-Protocol" in request.headers:
            await socket.close(message=f"no sub-protocol is known; allowed is {', '.join(CARRIAGES)}".encode())
            return socket
        carriage = STOMP_CARRIAGE if name is None else CARRIAGES[name]
        http = connection_of(request)
        connection = self._new_connection(address_of(request))
        if connection is None:
            await socket.close(code=WSCloseCode.TRY_AGAIN_LATER, message=b"too many connections, or the gateway stops")
            return socket
        if http is not None:
            http.upgraded(connection.input_gathered)
        connection.expect(carriage.protocol)
        transport = WebSocketTransport(socket, request, connection, carriage)
        connection.connection_made(transport)
        pumping = asyncio.get_running_loop().create_task(transport.pump())
        pumping.add_done_callback(transport.pump_ended)
        try:
            await transport.take()
        except ConnectionError:
            pass
        finally:
            pumping.cancel()
            connection.connection_lost(None)
            _forget_frames(socket)
        return socket


def _forget_frames(socket: web.WebSocketResponse) -> None:
    """Let reference counts free a WebSocket: it keeps the exception that has ended it, whose frames keep it."""
    error: BaseException | None = socket.exception()
    while error is not None:
        error.__traceback__ = None
        error = error.__context__
