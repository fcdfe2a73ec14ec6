"""The HTTP listener: health, metrics, stat."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.engine.snapshots import broker, destination
from tests.support.web import GUARDED, Fixed, serving


async def test_healthz() -> None:
    async with serving() as client:
        response = await client.get("/healthz")
        assert (response.status, await response.text()) == (200, "ok\n")


async def test_healthz_says_why_not() -> None:
    async with serving(broker(accepting=False)) as client:
        response = await client.get("/healthz")
        assert (response.status, await response.text()) == (503, "unavailable: disk full at commitlog/0\n")


async def test_healthz_tells_of_space_that_is_not_freed() -> None:
    found = broker()
    found = replace(found, store=replace(found.store, retention="space waits for an export"))
    async with serving(found) as client:
        response = await client.get("/healthz")
        assert (response.status, await response.text()) == (200, "ok\nwarning: space waits for an export\n")
        assert "penstock_retention_held 1.0" in await (await client.get("/metrics")).text()
    async with serving(found, GUARDED) as client:
        assert await (await client.get("/healthz")).text() == "ok\n"


async def test_healthz_with_users_is_open_and_says_no_more_than_that() -> None:
    async with serving(broker(accepting=False), GUARDED) as client:
        response = await client.get("/healthz")
        assert (response.status, await response.text()) == (503, "unavailable\n")


async def test_probes_on_a_full_disk_ask_for_no_restart() -> None:
    async with serving(broker(accepting=False), GUARDED) as client:
        assert (await client.get("/readyz")).status == 503
        assert (await client.get("/livez")).status == 200


@pytest.mark.parametrize(("path", "status"), [("/readyz", 503), ("/livez", 200), ("/healthz", 200)])
async def test_probes_while_the_gateway_stops(path: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fixed, "is_ending", True)
    async with serving() as client:
        assert (await client.get(path)).status == status


@pytest.mark.parametrize("path", ["/readyz", "/livez", "/healthz"])
async def test_probes_after_a_fault(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fixed, "is_failed", True)
    async with serving() as client:
        response = await client.get(path)
        assert (response.status, await response.text()) == (503, "unavailable: the gateway failed and stops\n")


async def test_metrics() -> None:
    async with serving() as client:
        response = await client.get("/metrics")
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/plain; version=")
        assert 'penstock_destination_depth{destination="orders",kind="queue"} 6.0' in await response.text()


async def test_stat() -> None:
    async with serving(broker(destination("orders"), blocked={5: "memory limit"})) as client:
        response = await client.get("/api/stat")
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
    async with serving() as client:
        response = await client.get("/api/stat")
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/api", "/api/stat/x", "/metrics/"])
async def test_other_paths_are_not_found(path: str) -> None:
    async with serving() as client:
        assert (await client.get(path)).status == 404
