"""AMQP over WebSocket (sub-protocol ``amqp``): a socket of the HTTP listener as the transport of a connection.

The octets of its binary messages are one stream, whatever their pieces.  The protocol's own login decides who may use
it, not HTTP's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from aiohttp import WSCloseCode, WSMsgType, web

from gateway.connections.connection import Connection
from gateway.web.http_connection import connection_of
from protocols.detect import AMQP_1_0

PROTOCOLS: Final = ("amqp",)
MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024  # octets of one message of the WebSocket, which may hold many frames


class WebSocketTransport(asyncio.Transport):
    """Octets wait here until ``pump`` has sent them; the connection is informed when too many wait, and when few do."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request, connection: Connection) -> None:
        super().__init__()
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
                await self._socket.send_bytes(octets)
                self._waiting_bytes -= len(octets)
                if self._is_paused and self._waiting_bytes <= self._high_bytes // 4:
                    self._is_paused = False
                    self._connection.resume_writing()
            if self._is_closing:
                await self._socket.close()
                return

    async def take(self) -> None:
        """Give the connection incoming octets, while it reads."""
        http = connection_of(self._request)
        async for message in self._socket:
            if message.type != WSMsgType.BINARY:
                return
            if http is not None:
                http.message_taken()
            await self._readable.wait()
            self._connection.data_received(message.data)


class SocketRoute:
    """new_connection: of the listener, for a transport of that address; returns None without a free place."""

    def __init__(self, new_connection: Callable[[str], Connection | None]) -> None:
        self._new_connection = new_connection

    def is_meant(self, request: web.Request) -> bool:
        return request.headers.get("Upgrade", "").lower() == "websocket"

    async def serve(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=PROTOCOLS, compress=False, max_msg_size=MESSAGE_BYTES_MAX)
        await socket.prepare(request)
        if socket.ws_protocol is None:
            await socket.close(message=b"the sub-protocol is missing; offered is amqp")
            return socket
        http = connection_of(request)
        connection = self._new_connection(request.remote or "?")
        if connection is None:
            await socket.close(code=WSCloseCode.TRY_AGAIN_LATER, message=b"too many connections")
            return socket
        if http is not None:
            http.upgraded(connection.input_gathered)
        connection.expect(AMQP_1_0)
        transport = WebSocketTransport(socket, request, connection)
        connection.connection_made(transport)
        pumping = asyncio.ensure_future(transport.pump())
        try:
            await transport.take()
        except ConnectionError:
            pass
        finally:
            pumping.cancel()
            connection.connection_lost(None)
        return socket
