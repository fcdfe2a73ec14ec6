"""Clients that ask and leave: nothing is done for them, and they keep nobody waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from config.model import ServerConfig
from engine.store.read.records import UnknownMessage
from gateway.settings.retention import keeping_of
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.management.store import LiveStore
from gateway.web.management.why import Answer
from tests.support.store.sample_store import SampleStore
from tests.support.web import Knowing, listening

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")

LIMIT_S = 60.0
LEAVING = 5
PATHS = (
    "/api/store/file?path=store.json",
    "/api/store/files",
    "/api/store/readers",
    "/api/store/dump",
    "/api/store/du",
    "/api/store/query?destination=orders",
    "/api/why/message/ID:s-3",
    "/api/destinations",
    "/api/jolokia/version",
    "/api/history",
    "/api/stat",
    "/metrics",
)


class Gate(RequestMemory):
    """Counts whose turn it is, in every line, and keeps them all waiting until it opens."""

    def __init__(self) -> None:
        super().__init__()
        self.turn_count = 0
        self.opened = asyncio.Event()

    async def room(self) -> None:
        self.turn_count += 1
        await self.opened.wait()

    async def until(self, turn_count: int) -> None:
        async with asyncio.timeout(LIMIT_S):
            while self.turn_count < turn_count:
                await asyncio.sleep(0)


class Remembering(Knowing):
    """Reads the history of a message in the store's line."""

    def __init__(self, store: LiveStore) -> None:
        super().__init__()
        self._store = store

    async def message(self, address: str, message_id: str, before: int) -> Answer:
        with suppress(UnknownMessage):
            await self._store.lives(address, message_id, before)
        return await super().message(address, message_id, before)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def status(self) -> int:
        async with asyncio.timeout(LIMIT_S):
            answer = await self._reader.readline()
        self._writer.close()
        return int(answer.split()[1])

    async def leave(self) -> None:
        """Return once the gateway has seen it."""
        self._writer.write_eof()
        async with asyncio.timeout(LIMIT_S):
            await self._reader.read()
        self._writer.close()


@asynccontextmanager
async def gateway(tmp_path: Path, gate: Gate) -> AsyncIterator[int]:
    def never() -> Any:
        raise AssertionError("not asked for")

    with SampleStore(tmp_path / "data") as sample:
        sample.send(sample.destination("orders"), b"x" * 500)
        sample.publish(is_clean=True)
        store = LiveStore(str(sample.directory), never, partial(keeping_of, ServerConfig()), gate)
        async with listening(memory=gate, store=store, why=Remembering(store)) as endpoint:
            yield endpoint.port


async def asking(port: int, path: str, accept: str = "*/*") -> Client:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n".encode())
    return Client(reader, writer)


async def until_taken(port: int) -> None:
    """Return when what was asked before has come to its line."""
    other = await asking(port, "/livez")
    assert await other.status() == 200


@pytest.mark.parametrize("are_in_line", [True, False])
@pytest.mark.parametrize("path", PATHS)
async def test_nothing_is_done_for_who_has_left(tmp_path: Path, path: str, are_in_line: bool) -> None:
    gate = Gate()
    async with gateway(tmp_path, gate) as port:
        first = await asking(port, path)
        await gate.until(1)
        # Different formats of one document are different documents.
        leaving = [await asking(port, path, f"text/{number}") for number in range(LEAVING)]
        if are_in_line:
            await until_taken(port)
        for client in leaving:
            await client.leave()
        last = await asking(port, path)
        gate.opened.set()
        assert (await first.status(), await last.status()) == (200, 200)
    turns_each = 2 if path == "/metrics" else 1  # it also asks how far the log was read
    assert gate.turn_count == 2 * turns_each, f"of {LEAVING} questions some were answered to nobody"


@pytest.mark.parametrize("path", [path for path in PATHS if path not in ("/api/stat", "/metrics")])
async def test_who_leaves_in_its_turn_gives_it_to_the_next(tmp_path: Path, path: str) -> None:
    gate = Gate()
    async with gateway(tmp_path, gate) as port:
        first = await asking(port, path)
        await gate.until(1)
        second = await asking(port, path)
        await until_taken(port)
        await first.leave()
        await gate.until(2)
        gate.opened.set()
        assert await second.status() == 200


async def test_what_changes_something_is_done_for_nobody_too(tmp_path: Path) -> None:
    gate = Gate()
    copy = tmp_path / "copy"
    async with gateway(tmp_path, gate) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = f'{{"directory": "{copy}"}}'
        writer.write(
            b"POST /api/store/backup HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            + f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        client = Client(reader, writer)
        await gate.until(1)
        await client.leave()
        gate.opened.set()
        after = await asking(port, "/api/store/du")
        assert await after.status() == 200
    assert (copy / "store.json").exists()
