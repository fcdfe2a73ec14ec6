"""The transport of a WebSocket: back-pressure both ways, messages of each protocol, closing once all has left."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Iterable
from copy import copy
from typing import cast

import pytest
from aiohttp import WSMessage, WSMsgType, web
from aiohttp.test_utils import TestClient, TestServer

from gateway.connections.admission import Admission, Place
from gateway.connections.connection import Connection
from gateway.web.connections.sockets import (
    AMQP_CARRIAGE,
    MESSAGES_AT_ONCE,
    STOMP_CARRIAGE,
    Carriage,
    SocketRoute,
    WebSocketTransport,
)
from tests.support.connection_world import ConnectionWorld
from tests.support.uncollected import uncollected


class Socket:
    """Sends only when ``gate`` is set."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.sent: list[bytes] = []
        self.kinds: list[WSMsgType] = []
        self.is_closed = False
        self.messages: Iterable[WSMessage] = []
        self.pongs: list[bytes] = []

    async def pong(self, octets: bytes) -> None:
        self.pongs.append(octets)

    async def send_frame(self, octets: bytes, kind: WSMsgType) -> None:
        await self.gate.wait()
        self.sent.append(octets)
        self.kinds.append(kind)

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
    remote = "10.0.0.1"


def made(carriage: Carriage = AMQP_CARRIAGE) -> tuple[WebSocketTransport, Socket, Protocol]:
    socket, protocol = Socket(), Protocol()
    transport = WebSocketTransport(
        cast(web.WebSocketResponse, socket), cast(web.Request, Request()), cast(Connection, protocol), carriage
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


@pytest.mark.parametrize(("error", "lines"), [(ConnectionResetError("gone"), 0), (ValueError("ours"), 1)])
async def test_sending_that_fails_ends_the_connection(
    error: Exception, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    transport, socket, _ = made()

    async def send_frame(octets: bytes, kind: WSMsgType) -> None:
        raise error

    socket.send_frame = send_frame  # type: ignore[method-assign]
    pumping = asyncio.get_running_loop().create_task(transport.pump())
    pumping.add_done_callback(transport.pump_ended)
    transport.write(b"x")
    await turns()
    assert transport.is_closing()
    assert transport.get_write_buffer_size() == 0
    assert caplog.text.count("10.0.0.1: a defect of the gateway while sending") == lines


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


async def test_a_message_of_stomp_is_one_frame_and_text_where_it_can_be() -> None:
    transport, socket, _ = made(STOMP_CARRIAGE)
    pumping = asyncio.ensure_future(transport.pump())
    text, octets = "MESSAGE\nid:ü\n\nbody\0\n".encode(), b"MESSAGE\ncontent-length:2\n\n\xff\0\0\n"
    transport.write(text + octets)
    transport.write(b"\n")
    socket.gate.set()
    await turns()
    assert socket.sent == [text, octets, b"\n"]
    assert socket.kinds == [WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.TEXT]
    assert transport.get_write_buffer_size() == 0
    pumping.cancel()


async def test_stomp_takes_text_and_octets_as_one_stream() -> None:
    transport, socket, protocol = made(STOMP_CARRIAGE)
    socket.messages = [
        WSMessage(WSMsgType.TEXT, "ü", None),
        WSMessage(WSMsgType.BINARY, b"\xff", None),
        WSMessage(WSMsgType.CLOSE, 1000, None),
        WSMessage(WSMsgType.TEXT, "never", None),
    ]
    await transport.take()
    assert protocol.calls == ["ü".encode(), b"\xff"]


async def test_a_turn_ends_between_many_messages_that_have_come() -> None:
    transport, socket, protocol = made()
    socket.messages = [WSMessage(WSMsgType.BINARY, b"a", None)] * (2 * MESSAGES_AT_ONCE + 1)
    taken: list[int] = []

    async def turn() -> None:
        while True:
            taken.append(len(protocol.calls))
            await asyncio.sleep(0)

    turning = asyncio.ensure_future(turn())
    await transport.take()
    turning.cancel()
    assert MESSAGES_AT_ONCE in taken and 2 * MESSAGES_AT_ONCE in taken


@pytest.mark.parametrize("kind", [WSMsgType.PING, WSMsgType.PONG])
async def test_a_turn_ends_between_many_pings_and_pongs(kind: WSMsgType) -> None:
    transport, socket, protocol = made()
    given = iter([WSMessage(kind, b"a", None)] * (2 * MESSAGES_AT_ONCE + 1))
    left: list[int] = []

    async def turn() -> None:
        while True:
            left.append(sum(1 for _ in copy(given)))
            await asyncio.sleep(0)

    socket.messages = given
    turning = asyncio.ensure_future(turn())
    await transport.take()
    turning.cancel()
    assert MESSAGES_AT_ONCE + 1 in left and 1 in left
    assert protocol.calls == []
    assert socket.pongs == ([b"a"] * (2 * MESSAGES_AT_ONCE + 1) if kind is WSMsgType.PING else [])


@pytest.mark.parametrize("is_aborted", [False, True])
async def test_one_that_has_ended_leaves_nothing_to_the_garbage_collector(is_aborted: bool) -> None:
    world = ConnectionWorld()
    known: list[weakref.ref[Connection]] = []

    def new_connection(address: str) -> Connection:
        place = Place(Admission(1, 1, world.counters), address, "")
        connection = Connection(world.host, world.engine_loop, world.counters, place, 4096, 60_000)
        known.append(weakref.ref(connection))
        return connection

    app = web.Application()
    app.router.add_get("/", SocketRoute(new_connection).serve)
    with uncollected():
        async with TestClient(TestServer(app)) as client:
            socket = await client.ws_connect("/")
            await socket.send_bytes(b"SEND\n\n\0")
            transport = client.session.connector
            assert transport is not None
            await (transport.close() if is_aborted else socket.close())
            while not world.host.closed:
                await asyncio.sleep(0)
            world.host.sessions.clear()
            await turns()
            assert [one() for one in known] == [None]
