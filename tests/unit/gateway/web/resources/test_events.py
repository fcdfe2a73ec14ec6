"""``/api/events``, server-sent events, and ``/api/history``."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack

import pytest

from config.matching import BOTH, Pattern
from config.model import ServerConfig
from config.permissions import Permission
from config.scram import hash_password
from gateway.logins.login_check import LoginCheck
from gateway.web.resources.events import STREAMS_PER_ADDRESS_MAX
from gateway.web.samples.history import POINTS
from tests.support.web import GUARDED, basic, serving


async def test_the_first_event_comes_at_once() -> None:
    async with serving() as client:
        response = await client.get("/api/events?for_ms=0")
        assert (response.status, response.content_type) == (200, "text/event-stream")
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Server"] == "Penstock"
        text = await response.text()
    id_line, data, *rest = text.split("\n")
    assert id_line.startswith("id: ")
    assert json.loads(data.removeprefix("data: "))["connections"] == 8
    assert rest == ["", ""]


async def test_each_sample_is_an_event() -> None:
    async with serving() as client, client.get("/api/events") as response:
        numbers: list[int] = []
        while len(numbers) < 3:
            line = (await response.content.readline()).decode()
            if line.startswith("id: "):
                numbers.append(int(line.removeprefix("id: ")))
        assert numbers == sorted(set(numbers))


async def test_an_address_has_a_number_of_streams() -> None:
    async with serving() as client, AsyncExitStack() as streams:
        for _ in range(STREAMS_PER_ADDRESS_MAX):
            await streams.enter_async_context(client.get("/api/events"))
        refused = await client.get("/api/events")
        assert refused.status == 429
        assert "16 streams of events of 127.0.0.1 are open, which is the limit" in await refused.text()


async def test_streams_end_with_the_gateway() -> None:
    async with serving() as client:
        response = await client.get("/api/events")
        await response.content.readline()
        assert client.app is not None
        await client.app.shutdown()
        while await response.content.readline():
            pass


LIMIT_S = 60.0
VERIFIERS = tuple(hash_password("secret", 4096))
EVERYTHING = Pattern.parse(">")


def watched_by(*groups: str, user: str = "alice") -> ServerConfig:
    """Return a configuration with one user, in the group ``ops``, where these groups may see everything."""
    permission = Permission(EVERYTHING, BOTH, {"read": frozenset(groups)})
    return ServerConfig(users={user: VERIFIERS}, groups={user: frozenset({"ops"})}, permissions=(permission,))


@pytest.mark.parametrize("after", [watched_by("ops", user="bob"), watched_by("others")], ids=["removed", "no right"])
async def test_a_stream_ends_with_the_rights_of_who_reads_it(after: ServerConfig) -> None:
    login_check = LoginCheck(watched_by("ops"))
    async with serving(login_check=login_check) as client:
        response = await client.get("/api/events", headers=basic("alice", "secret"))
        assert response.status == 200
        await response.content.readline()
        login_check.adopt(watched_by("ops"))
        before = await response.content.readuntil(b"id: 2")
        assert before, "nothing has changed for its reader"
        login_check.adopt(after)
        async with asyncio.timeout(LIMIT_S):
            while await response.content.readline():
                pass


async def test_events_and_history_need_a_login() -> None:
    async with serving(login_check=GUARDED) as client:
        for path in ("/api/events?for_ms=0", "/api/history"):
            assert (await client.get(path)).status == 401
            assert (await client.get(path, headers=basic("alice", "secret"))).status == 200


async def test_history() -> None:
    async with serving() as client:
        await (await client.get("/api/events?for_ms=1500")).read()  # until there is a sample
        whole = await (await client.get("/api/history")).json()
        assert (whole["interval_s"], len(whole["depth"]), whole["depth"][-1]) == (10, POINTS, 6.0)
        assert whole["connections"][-1] == 8.0
        own = await (await client.get("/api/history?destination=orders")).json()
        assert own["depth"][-1] == 6.0
        assert "connections" not in own
        unknown = await (await client.get("/api/history?destination=topic://orders")).json()
        assert unknown["depth"] == [None] * POINTS
