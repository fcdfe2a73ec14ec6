"""``/api/schedule``: what it takes and what it answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from config.matching import QUEUE, TOPIC
from gateway.web.resources.schedule import IDS_MOST, ScheduleRoutes
from gateway.web.routing.problems import with_problems
from gateway.web.routing.routes import add_routes
from tests.support.web import Scheduling


async def ask(source: Scheduling, method: str, path: str, body: str = "") -> tuple[int, str]:
    application = web.Application(middlewares=[with_problems])
    add_routes(application, ScheduleRoutes(source).routes())
    async with TestClient(TestServer(application)) as client:
        response = await client.request(method, path, data=body)
        found = await response.text()
        return response.status, found if response.status == 200 else json.loads(found)["detail"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", (None, 100)),
        ("?limit=7&destination=orders.eu", ((QUEUE, "orders.eu"), 7)),
        ("?destination=topic://prices", ((TOPIC, "prices"), 100)),
    ],
)
async def test_lists(query: str, expected: Any) -> None:
    source = Scheduling()
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
    source = Scheduling()
    assert (await ask(source, "POST", "/api/schedule/cancel", body))[0] == 200
    assert source.asked == [expected]


def test_as_many_ids_as_allowed_fit_the_body() -> None:
    (route,) = [one for one in ScheduleRoutes(Scheduling()).routes() if one.method == "POST"]
    identifier = f"ID:{'x' * 20}-{'9' * 19}"
    assert len(json.dumps({"ids": [identifier] * IDS_MOST})) <= route.body_bytes_max


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("GET", "/api/schedule?limit=0", "", 400, "limit is '0'; allowed is a whole number from 1 to 10000"),
        ("GET", "/api/schedule?limit=x", "", 400, "limit is 'x'"),
        ("GET", "/api/schedule?destination=a*", "", 400, "destination is 'a*'; allowed is"),
        ("GET", "/api/schedule?destination=gone", "", 404, "no queue 'gone'"),
        ("POST", "/api/schedule/cancel", "", 400, "the body is not a JSON object"),
        ("POST", "/api/schedule/cancel", "{}", 400, "allowed is either ids, or destination"),
        (
            "POST",
            "/api/schedule/cancel",
            '{"ids": [], "destination": "q"}',
            400,
            "allowed is either ids, or destination",
        ),
        ("POST", "/api/schedule/cancel", '{"ids": [1]}', 400, "ids is [1]; allowed is a list of at most"),
        (
            "POST",
            "/api/schedule/cancel",
            f'{{"ids": {["x"] * (IDS_MOST + 1)}}}'.replace("'", '"'),
            400,
            "; allowed is a list of at most 10000 texts",
        ),
        ("POST", "/api/schedule/cancel", '{"ids": [], "after": "1"}', 400, "allowed is either ids, or destination"),
        ("POST", "/api/schedule/cancel", '{"destination": "q", "after": 1}', 400, "after is 1; allowed is a text"),
        ("POST", "/api/schedule/cancel", '{"destination": "disk"}', 507, "nothing was cancelled: EIO"),
        ("POST", "/api/schedule/cancel", '{"destination": 5}', 400, "destination is 5; allowed is queue://NAME"),
        ("POST", "/api/schedule/cancel", '{"destination": "gone"}', 404, "no queue 'gone'"),
    ],
)
async def test_what_is_refused(method: str, path: str, body: str, status: int, text: str) -> None:
    found = await ask(Scheduling(), method, path, body)
    assert found[0] == status
    assert text in found[1]
