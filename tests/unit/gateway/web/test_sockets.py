"""The transport of a WebSocket: back-pressure both ways, closing once everything has left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

from aiohttp import WSMessage, WSMsgType, web

from gateway.connections.connection import Connection
from gateway.web.sockets import WebSocketTransport


class Socket:
    """Sends only when ``gate`` is set."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.sent: list[bytes] = []
        self.is_closed = False
        self.messages: list[WSMessage] = []

    async def send_bytes(self, octets: bytes) -> None:
        await self.gate.wait()
        self.sent.append(octets)

    async def close(self) -> None:
        self.is_closed = True

    async def __aiter__(self) -> AsyncIterator[WSMessage]:
        for message in self.messages:
            yield message


class Protocol:
    def __init__(self) -> None:
        self.calls: list[object] = []

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def data_received(self, octets: bytes) -> None:
        self.calls.append(octets)


class Request:
    transport = None


def made() -> tuple[WebSocketTransport, Socket, Protocol]:
    socket, protocol = Socket(), Protocol()
    transport = WebSocketTransport(
        cast(web.WebSocketResponse, socket), cast(web.Request, Request()), cast(Connection, protocol)
    )
    transport.set_write_buffer_limits(high=10)
    return transport, socket, protocol


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_peer_that_takes_nothing_is_known() -> None:
    transport, socket, protocol = made()
    pumping = asyncio.ensure_future(transport.pump())
    transport.write(b"x" * 8)
    await turns()
    assert protocol.calls == []
    transport.write(b"y" * 8)
    assert protocol.calls == ["pause"]
    assert transport.get_write_buffer_size() == 16
    socket.gate.set()
    await turns()
    assert protocol.calls == ["pause", "resume"]
    assert b"".join(socket.sent) == b"x" * 8 + b"y" * 8
    assert transport.get_write_buffer_size() == 0
    pumping.cancel()


async def test_it_closes_once_everything_has_left() -> None:
    transport, socket, _ = made()
    pumping = asyncio.ensure_future(transport.pump())
    transport.write(b"last")
    transport.close()
    transport.write(b"too late")
    await turns()
    assert not socket.is_closed
    socket.gate.set()
    await pumping
    assert socket.sent == [b"last"]
    assert socket.is_closed


async def test_abort_drops_what_waits() -> None:
    transport, socket, _ = made()
    transport.write(b"x")
    transport.abort()
    assert transport.get_write_buffer_size() == 0
    socket.gate.set()
    await transport.pump()
    assert socket.sent == []
    assert socket.is_closed


async def test_what_comes_waits_while_nobody_reads() -> None:
    transport, socket, protocol = made()
    socket.messages = [
        WSMessage(WSMsgType.BINARY, b"a", None),
        WSMessage(WSMsgType.BINARY, b"b", None),
        WSMessage(WSMsgType.TEXT, "no octets", None),
        WSMessage(WSMsgType.BINARY, b"never", None),
    ]
    transport.pause_reading()
    taking = asyncio.ensure_future(transport.take())
    await turns()
    assert protocol.calls == []
    transport.resume_reading()
    await taking
    assert protocol.calls == [b"a", b"b"]
