"""The HTTP listener: health, metrics, stat."""

from __future__ import annotations

from dataclasses import replace

import pytest
from aiohttp.test_utils import TestClient, TestServer

from gateway.web.api import create_app
from tests.support.engine.snapshots import broker, destination
from tests.support.web import GUARDED, OPEN, Fixed, Knowing, Retrying, Storing, serving


async def test_healthz() -> None:
    async with serving() as get:
        response = await get("/healthz")
        assert (response.status, await response.text()) == (200, "ok\n")


async def test_healthz_says_why_not() -> None:
    async with serving(broker(accepting=False)) as get:
        response = await get("/healthz")
        assert (response.status, await response.text()) == (503, "unavailable: disk full at commitlog/0\n")


async def test_healthz_tells_of_space_that_is_not_freed() -> None:
    found = broker()
    found = replace(found, store=replace(found.store, retention="space waits for an export"))
    async with serving(found) as get:
        response = await get("/healthz")
        assert (response.status, await response.text()) == (200, "ok\nwarning: space waits for an export\n")
        assert "penstock_retention_held 1.0" in await (await get("/metrics")).text()
    async with serving(found, GUARDED) as get:
        assert await (await get("/healthz")).text() == "ok\n"


async def test_healthz_with_users_is_open_and_says_no_more_than_that() -> None:
    async with serving(broker(accepting=False), GUARDED) as get:
        response = await get("/healthz")
        assert (response.status, await response.text()) == (503, "unavailable\n")


async def test_metrics() -> None:
    async with serving() as get:
        response = await get("/metrics")
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/plain; version=")
        assert 'penstock_destination_depth{destination="orders",kind="queue"} 6.0' in await response.text()


async def test_stat() -> None:
    async with serving(broker(destination("orders"), blocked={5: "memory limit"})) as get:
        response = await get("/api/stat")
        document = await response.json()
    assert document["destinations"][0]["name"] == "orders"
    assert document["destinations"][0]["depth"] == 6
    assert document["consumers"][0]["prefetch"] == 1000
    expected = {"append_offset": 4096, "durable_offset": 2048, "is_accepting": True, "reason": "", "retention": ""}
    assert document["store"] == expected
    assert document["connections"] == 8
    assert document["blocked_producers"] == [{"connection_id": 5, "reason": "memory limit", "waited_ms": 1_500}]
    assert document["addresses"][0]["used_bytes"] == 120


async def test_answers_are_neither_kept_nor_guessed_at() -> None:
    async with serving() as get:
        response = await get("/api/stat")
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/api", "/api/stat/x", "/metrics/"])
async def test_other_paths_are_not_found(path: str) -> None:
    async with serving() as get:
        assert (await get(path)).status == 404


async def test_health_after_a_fault_of_the_gateway_itself() -> None:
    source = Fixed(broker())
    source.is_failed = True
    async with TestClient(
        TestServer(create_app(source, Knowing(), Retrying(), Storing(), OPEN), host="127.0.0.1")
    ) as client:
        response = await client.get("/healthz")
        assert (response.status, await response.text()) == (503, "unavailable: the gateway failed and stops\n")
