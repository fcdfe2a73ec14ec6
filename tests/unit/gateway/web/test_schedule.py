"""``/api/schedule``: what it takes and what it answers."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from config.matching import QUEUE, TOPIC
from engine.values.errors import StoreError
from gateway.web.schedule import IDS_MOST, Named, ScheduleRoutes, ScheduleSource


class Remembering(ScheduleSource):
    """Knows every destination but ``gone``."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def listed(self, destination: Named | None, limit: int) -> dict[str, Any]:
        self._check(destination)
        self.asked.append((destination, limit))
        return {"schedules": []}

    async def cancel(self, ids: list[str]) -> dict[str, Any]:
        self.asked.append(ids)
        return {"cancelled": len(ids)}

    async def cancel_all(self, destination: Named, after: int) -> dict[str, Any]:
        self._check(destination)
        self.asked.append((destination, after))
        if destination[1] == "disk":
            raise StoreError("nothing was cancelled: EIO")
        return {"cancelled": 7, "next": ""}

    def _check(self, destination: Named | None) -> None:
        if destination is not None and destination[1] == "gone":
            raise LookupError("no queue 'gone'")


async def ask(source: Remembering, method: str, path: str, body: str = "") -> tuple[int, str]:
    application = web.Application()
    ScheduleRoutes(source).add_to(application.router)
    async with TestClient(TestServer(application)) as client:
        response = await client.request(method, path, data=body)
        return response.status, await response.text()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", (None, 100)),
        ("?limit=7&destination=orders.eu", ((QUEUE, "orders.eu"), 7)),
        ("?destination=topic://prices", ((TOPIC, "prices"), 100)),
    ],
)
async def test_lists(query: str, expected: Any) -> None:
    source = Remembering()
    assert (await ask(source, "GET", f"/api/schedule{query}"))[0] == 200
    assert source.asked == [expected]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"ids": ["a", "b"]}', ["a", "b"]),
        ('{"destination": "q"}', ((QUEUE, "q"), -1)),
        ('{"destination": "q", "after": "700"}', ((QUEUE, "q"), 700)),
        ('{"ids": []}', []),
    ],
)
async def test_cancels(body: str, expected: Any) -> None:
    source = Remembering()
    assert (await ask(source, "POST", "/api/schedule/cancel", body))[0] == 200
    assert source.asked == [expected]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("GET", "/api/schedule?limit=0", "", 400, "limit is '0'; allowed is 1 to 10000"),
        ("GET", "/api/schedule?limit=x", "", 400, "limit is 'x'"),
        ("GET", "/api/schedule?destination=a*", "", 400, "destination is 'a*', allowed is"),
        ("GET", "/api/schedule?destination=gone", "", 404, "no queue 'gone'"),
        ("POST", "/api/schedule/cancel", "", 400, "the body is not a JSON object with either"),
        ("POST", "/api/schedule/cancel", "{}", 400, "the body is not a JSON object with either"),
        ("POST", "/api/schedule/cancel", '{"ids": [], "destination": "q"}', 400, "with either"),
        ("POST", "/api/schedule/cancel", '{"ids": [1]}', 400, "'ids' is not a list of at most"),
        ("POST", "/api/schedule/cancel", f'{{"ids": {["x"] * (IDS_MOST + 1)}}}'.replace("'", '"'), 400, "'ids' is no"),
        ("POST", "/api/schedule/cancel", '{"ids": [], "after": "1"}', 400, "with either"),
        ("POST", "/api/schedule/cancel", '{"destination": "q", "after": 1}', 400, "'after' is '1'; allowed is the"),
        ("POST", "/api/schedule/cancel", '{"destination": "disk"}', 507, "nothing was cancelled: EIO"),
        ("POST", "/api/schedule/cancel", '{"destination": 5}', 400, "'destination' is not a text"),
        ("POST", "/api/schedule/cancel", '{"destination": "gone"}', 404, "no queue 'gone'"),
    ],
)
async def test_what_is_refused(method: str, path: str, body: str, status: int, text: str) -> None:
    found = await ask(Remembering(), method, path, body)
    assert found[0] == status
    assert text in found[1]
