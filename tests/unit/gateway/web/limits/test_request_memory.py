"""Bodies and answers of HTTP count in the budget of connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from engine.backlog.context import TurnAgenda
from engine.limits.connection_memory import Holdings
from gateway.web.limits.request_memory import ANSWER_BYTES_LEAST, RequestMemory
from tests.support.engine.snapshots import broker, destination
from tests.support.web import listening

BODY_BYTES = 60_000
LIMIT_S = 60.0


@asynccontextmanager
async def served(holdings: Holdings, destinations: int = 1) -> AsyncIterator[int]:
    """Yield the port."""
    stats = broker(*(destination(f"q.{number}") for number in range(destinations)))
    async with listening(stats, memory=RequestMemory(holdings)) as endpoint:
        yield endpoint.port


def post(size: int, header: str = "Content-Length: {size}") -> bytes:
    return f"POST /api/retry HTTP/1.1\r\nHost: localhost\r\n{header.format(size=size)}\r\n\r\n".encode()


async def until_held(holdings: Holdings, held_bytes: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while holdings.requests_bytes != held_bytes:
            await asyncio.sleep(0.001)


async def answer(port: int, octets: bytes) -> tuple[int, bytes, bytes]:
    """Return status, head and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(octets)
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    body = await reader.readexactly(size)
    writer.close()
    return int(head.split()[1]), head, body


async def test_bodies_count_from_their_headers_on_and_too_many_are_refused() -> None:
    holdings = Holdings(4 * BODY_BYTES - 4, TurnAgenda())
    async with served(holdings) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post(BODY_BYTES) + b"{")
        await until_held(holdings, BODY_BYTES)
        status, head, body = await answer(port, post(2) + b"{}")
        assert (status, json.loads(body)["condition"]) == (503, "connection-memory")
        assert b"Retry-After: 1" in head and b"limits.connection-memory" in body
        for path, allowed in (("/healthz", 200), ("/metrics", 200), ("/api/stat", 200), ("/api/overview", 503)):
            assert (await answer(port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()))[0] == allowed
        assert holdings.requests_bytes == BODY_BYTES
        writer.close()
        await until_held(holdings, 0)
        assert (await answer(port, post(2) + b"{}"))[0] == 400
    assert holdings.used_bytes == 0


async def test_a_body_of_unknown_length_counts_as_the_longest() -> None:
    holdings = Holdings(1 << 20, TurnAgenda())
    async with served(holdings) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post(0, "Transfer-Encoding: chunked") + b"1\r\n{\r\n")
        await until_held(holdings, 64 * 1024)
        writer.close()
        await until_held(holdings, 0)


async def test_an_answer_counts_until_it_is_written() -> None:
    holdings = Holdings(1 << 30, TurnAgenda())
    async with served(holdings, 40_000) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /api/stat HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
        assert size > ANSWER_BYTES_LEAST
        await until_held(holdings, size)
        await reader.readexactly(size)
        await until_held(holdings, 0)
        writer.close()


class Reader(asyncio.Transport):
    """A client that is given an answer, and reads it when it is told to."""

    def __init__(self, memory: RequestMemory, size: int) -> None:
        super().__init__()
        self.is_cut = False
        self._has_read = asyncio.Event()
        self.given = asyncio.create_task(self._give(memory, size))

    async def _give(self, memory: RequestMemory, size: int) -> None:
        with memory.answer(web.Response(body=bytes(size)), self):
            await self._has_read.wait()

    def abort(self) -> None:
        self.is_cut = True
        self._has_read.set()

    def read(self) -> None:
        self._has_read.set()


async def readers(memory: RequestMemory, *sizes: int) -> list[Reader]:
    given = [Reader(memory, size) for size in sizes]
    await asyncio.sleep(0)
    return given


LARGE = 2 * ANSWER_BYTES_LEAST


async def test_slow_readers_of_the_largest_answers_make_room() -> None:
    memory = RequestMemory(Holdings(8 * LARGE, TurnAgenda()), read_time_s=0)
    slow = await readers(memory, LARGE, 3 * LARGE, 2 * LARGE, LARGE)
    assert await memory.made("a", lambda: "made") == "made"
    assert [one.is_cut for one in slow] == [False, True, False, False], "two parts of eight are the quarter"
    assert memory.holdings.requests_bytes == 4 * LARGE
    (more,) = await readers(memory, LARGE)
    await memory.room()
    assert [one.is_cut for one in (*slow, more)] == [False, True, True, False, False]
    for one in (*slow, more):
        one.read()
        await one.given
    assert memory.holdings.used_bytes == 0


async def test_one_answer_alone_may_have_any_size() -> None:
    memory = RequestMemory(Holdings(LARGE, TurnAgenda()), read_time_s=0)
    (slow,) = await readers(memory, 10 * LARGE)
    await memory.room()
    assert not slow.is_cut
    slow.read()
    await slow.given


async def test_a_reader_is_safe_for_a_while() -> None:
    memory = RequestMemory(Holdings(LARGE, TurnAgenda()), LIMIT_S)
    slow = await readers(memory, LARGE, LARGE)
    making = asyncio.create_task(memory.made("a", lambda: "made"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not making.done()
    slow[1].read()
    assert await making == "made"
    assert not slow[0].is_cut
    slow[0].read()
    await slow[0].given
