"""An HTTP connection's place and times, with aiohttp behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from config.model import Endpoint
from gateway.connections.acceptor import Acceptor, listening_socket
from gateway.connections.admission import Admission, Place
from gateway.process.counters import GatewayCounters
from gateway.web.connections.http_connection import PARSED_AT_ONCE_BYTES, HttpConnection, connection_of

LIMIT_S = 60.0
SHORT_S = 0.05
LARGE = b"x" * (8 * 1024 * 1024)


class Served:
    def __init__(self) -> None:
        self.admission = Admission(2, 2, GatewayCounters())
        self.request_time_s = LIMIT_S
        self.stall_time_s = LIMIT_S
        self.taken: asyncio.Queue[HttpConnection] = asyncio.Queue()
        self.may_answer = asyncio.Event()
        self.endpoint = Endpoint("http", "127.0.0.1", 0)

    async def answer(self, request: web.Request) -> web.Response:
        await request.read()
        connection = connection_of(request)
        assert connection is not None
        connection.request_taken()
        self.taken.put_nowait(connection)
        await self.may_answer.wait()
        connection.request_answered()
        return web.Response(body=LARGE if request.path == "/large" else b"answered")

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.endpoint.host, self.endpoint.port)

    async def emptied(self) -> None:
        async with asyncio.timeout(LIMIT_S):
            while self.admission.open_count:
                await asyncio.sleep(0.001)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    served = Served()
    application = web.Application()
    application.router.add_route("*", "/{path}", served.answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    server = runner.server
    assert server is not None
    listening = await listening_socket(served.endpoint)
    served.endpoint = Endpoint("http", "127.0.0.1", listening.getsockname()[1])

    def factory(place: Place) -> HttpConnection | None:
        return None if place.refusal else HttpConnection(server(), place, served.request_time_s, served.stall_time_s)

    acceptor = Acceptor(listening, served.admission, factory, lambda: None, False, LIMIT_S)
    acceptor.start()
    yield served
    acceptor.close()
    await runner.cleanup()


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"GET /x HT",
        b"GET /x HTTP/1.1\r\nHost: a\r\n",
        b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab",
    ],
)
async def test_half_a_request_is_given_up(served: Served, octets: bytes) -> None:
    served.request_time_s = SHORT_S
    reader, writer = await served.connect()
    writer.write(octets)
    async with asyncio.timeout(LIMIT_S):
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            pass
    writer.close()
    await served.emptied()


async def test_a_whole_request_takes_as_long_as_it_takes(served: Served) -> None:
    reader, writer = await served.connect()
    writer.write(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    async with asyncio.timeout(LIMIT_S):
        connection = await served.taken.get()
        assert connection._timer is None
        served.may_answer.set()
        assert await reader.readuntil(b"answered")
    writer.close()
    await served.emptied()


async def test_who_takes_no_answer_is_given_up(served: Served) -> None:
    served.stall_time_s = SHORT_S
    served.may_answer.set()
    _, writer = await served.connect()
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    await served.emptied()
    writer.close()


async def test_only_so_many_are_taken(served: Served) -> None:
    first, second = [await served.connect() for _ in range(2)]
    reader, writer = await served.connect()
    async with asyncio.timeout(LIMIT_S):
        assert await reader.read() == b""
    for _, one in (first, second, (reader, writer)):
        one.close()
    await served.emptied()


class Inner(asyncio.Protocol):
    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)


async def test_one_read_is_parsed_in_pieces() -> None:
    inner = Inner()
    place = Admission(1, 1, GatewayCounters()).admit("127.0.0.1")
    assert place is not None
    connection = HttpConnection(inner, place)
    connection.data_received(LARGE[: 2 * PARSED_AT_ONCE_BYTES + 1])
    connection.request_taken()
    assert [len(piece) for piece in inner.pieces] == [PARSED_AT_ONCE_BYTES, PARSED_AT_ONCE_BYTES, 1]
