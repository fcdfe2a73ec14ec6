"""An HTTP connection's place and times, with aiohttp behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import cast

import pytest
from aiohttp import web

from config.model import Endpoint
from gateway.connections.acceptor import Acceptor, listening_socket
from gateway.connections.admission import Admission, Place
from gateway.connections.input_turns import PIECES_A_TURN, InputTurns
from gateway.connections.tls_stream import TlsInput
from gateway.process.counters import GatewayCounters
from gateway.web.connections.http_connection import PIECE_BYTES, HttpConnection, connection_of
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.server import SLOW

LIMIT_S = 60.0
SHORT_S = 0.05
HALF = b"GET /x HTTP/1.1\r\nHost: localhost"
WHOLE = HALF + b"\r\n\r\n"
LARGE = b"x" * (8 * 1024 * 1024)


class Served:
    def __init__(self) -> None:
        self.admission = Admission(2, 2, GatewayCounters())
        self.request_time_s = LIMIT_S
        self.stall_time_s = LIMIT_S
        self.half_closed_s = LIMIT_S
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

    async def connect(self, address: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.endpoint.host, self.endpoint.port, local_addr=(address, 0))

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
        if place.refusal:
            return None
        times_s = served.request_time_s, served.stall_time_s, served.half_closed_s
        return HttpConnection(server(), place, *times_s, yielding=served.admission.yielding, slow_answer=SLOW)

    acceptor = Acceptor(
        listening, served.admission, factory, lambda: None, False, LIMIT_S, RequestMemory().holdings, TlsInput()
    )
    acceptor.start()
    yield served
    acceptor.close()
    await runner.cleanup()


async def test_half_a_request_that_came_with_the_one_before_is_given_up(served: Served) -> None:
    served.request_time_s = SHORT_S
    served.may_answer.set()
    reader, writer = await served.connect()
    half = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab"
    writer.write(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n" + half)
    async with asyncio.timeout(LIMIT_S):
        assert (await reader.read()).endswith(b"answered")
    await served.emptied()
    writer.close()


@pytest.mark.parametrize(
    "octets",
    [
        b"GET /x HT",
        b"GET /x HTTP/1.1\r\nHost: a\r\n",
        b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab",
    ],
)
async def test_half_a_request_is_answered_and_given_up(served: Served, octets: bytes) -> None:
    served.request_time_s = SHORT_S
    reader, writer = await served.connect()
    writer.write(octets)
    async with asyncio.timeout(LIMIT_S):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n") and b"Connection: close" in head
    assert json.loads(body)["detail"] == "the request is not complete after 20 s, which is the limit"
    writer.close()
    await served.emptied()


async def test_who_asks_nothing_is_given_up_in_silence(served: Served) -> None:
    served.request_time_s = SHORT_S
    reader, writer = await served.connect()
    async with asyncio.timeout(LIMIT_S):
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            pass
    writer.close()
    await served.emptied()


async def test_who_ends_its_output_behind_a_request_gets_the_answer(served: Served) -> None:
    reader, writer = await served.connect()
    writer.write(WHOLE)
    writer.write_eof()
    async with asyncio.timeout(LIMIT_S):
        await served.taken.get()
        served.may_answer.set()
        assert (await reader.read()).endswith(b"answered")
    writer.close()
    await served.emptied()


@pytest.mark.parametrize("octets", [b"", HALF])
async def test_who_ends_its_output_without_a_request_is_gone(served: Served, octets: bytes) -> None:
    served.half_closed_s = SHORT_S
    reader, writer = await served.connect()
    writer.write(octets)
    writer.write_eof()
    async with asyncio.timeout(LIMIT_S):
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            pass
    writer.close()
    await served.emptied()


@pytest.mark.parametrize("is_heard", [True, False])
async def test_who_ends_its_output_within_a_request_has_left_if_that_matters(served: Served, is_heard: bool) -> None:
    served.half_closed_s = LIMIT_S if is_heard else SHORT_S
    lost = asyncio.Event()
    reader, writer = await served.connect()
    writer.write(WHOLE)
    async with asyncio.timeout(LIMIT_S):
        connection = await served.taken.get()
        if is_heard:
            connection.when_lost(None, lost.set)
        writer.write_eof()
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            pass
    assert lost.is_set() is is_heard
    served.may_answer.set()
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
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.is_read = True

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


def connected(turns: InputTurns) -> tuple[HttpConnection, Inner, Transport]:
    place = Admission(1, 1, GatewayCounters()).admit("127.0.0.1")
    assert place is not None
    inner, transport = Inner(), Transport()
    connection = HttpConnection(cast(web.RequestHandler, inner), place, turns=turns)
    connection.connection_made(transport)
    return connection, inner, transport


MANY = LARGE[: 2 * PIECES_A_TURN * PIECE_BYTES + 1]


async def test_what_one_read_brings_is_parsed_over_turns() -> None:
    connection, inner, transport = connected(InputTurns())
    connection.data_received(MANY)
    counts = []
    while not transport.is_read:
        counts.append(len(inner.pieces))
        await asyncio.sleep(0)
    assert counts == [PIECES_A_TURN, 2 * PIECES_A_TURN]
    assert [len(piece) for piece in inner.pieces] == [PIECE_BYTES] * (2 * PIECES_A_TURN) + [1]
    connection.connection_lost(None)


async def test_all_connections_together_have_so_many_pieces_a_turn() -> None:
    turns = InputTurns()
    crowd = [connected(turns) for _ in range(3)]
    for connection, _, _ in crowd:
        connection.data_received(MANY)
    before = sum(len(inner.pieces) for _, inner, _ in crowd)
    assert before == PIECES_A_TURN
    while not all(transport.is_read for _, _, transport in crowd):
        await asyncio.sleep(0)
        parsed = sum(len(inner.pieces) for _, inner, _ in crowd)
        assert parsed - before <= PIECES_A_TURN
        assert before == parsed or min(len(inner.pieces) for _, inner, _ in crowd) >= 1, "each has its turn"
        before = parsed
    assert [b"".join(inner.pieces) for _, inner, _ in crowd] == [MANY] * 3
    for connection, _, _ in crowd:
        connection.connection_lost(None)


async def test_reading_goes_on_only_if_both_want_it() -> None:
    connection, inner, transport = connected(InputTurns())
    connection.data_received(MANY)
    assert inner.transport is not None
    inner.transport.resume_reading()
    assert not transport.is_read, "octets wait for their turn"
    inner.transport.pause_reading()
    while len(inner.pieces) <= 2 * PIECES_A_TURN:
        await asyncio.sleep(0)
    assert not transport.is_read, "the server wants nothing"
    inner.transport.resume_reading()
    assert transport.is_read
    connection.connection_lost(None)


async def test_the_end_comes_behind_the_octets_before_it() -> None:
    connection, inner, _ = connected(InputTurns())
    connection.data_received(MANY)
    connection.eof_received()
    assert b"".join(inner.pieces) == MANY
    connection.connection_lost(None)


async def test_a_lost_connection_parses_nothing_more() -> None:
    connection, inner, _ = connected(InputTurns())
    connection.data_received(MANY)
    connection.connection_lost(None)
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(inner.pieces) == PIECES_A_TURN


async def test_the_oldest_without_a_whole_request_gives_its_place_to_another_address(served: Served) -> None:
    served.may_answer.set()
    halves = []
    for count in (1, 2):
        halves.append(await served.connect())
        halves[-1][1].write(HALF)
        async with asyncio.timeout(LIMIT_S):
            while len(served.admission.yielding) < count:
                await asyncio.sleep(0.001)
    same, writer = await served.connect()
    async with asyncio.timeout(LIMIT_S):
        assert await same.read() == b"", "its address has its part"
        writer.close()
        reader, writer = await served.connect("127.0.0.5")
        writer.write(WHOLE)
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        assert await halves[0][0].read() == b""
    halves[1][1].write(b"\r\n\r\n")
    async with asyncio.timeout(LIMIT_S):
        assert await halves[1][0].readline() == b"HTTP/1.1 200 OK\r\n"
    for one in (writer, *(half for _, half in halves)):
        one.close()
    await served.emptied()
    assert not served.admission.yielding


async def test_a_request_that_is_being_answered_keeps_its_place(served: Served) -> None:
    peers = [await served.connect() for _ in range(2)]
    for _, writer in peers:
        writer.write(WHOLE)
        await served.taken.get()
    refused, writer = await served.connect("127.0.0.5")
    async with asyncio.timeout(LIMIT_S):
        assert await refused.read() == b""
    writer.close()
    served.may_answer.set()
    for reader, writer in peers:
        async with asyncio.timeout(LIMIT_S):
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        writer.close()
    await served.emptied()
