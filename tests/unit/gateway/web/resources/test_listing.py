"""Pages of the last sample, and the files of the console."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.values.broker_stats import BrokerStats, ConsumerStats
from tests.support.engine.snapshots import broker, destination
from tests.support.web import GUARDED, basic, serving

NAMES = [f"orders.{number:03}" for number in range(120)]


def many() -> BrokerStats:
    rows = [replace(destination(name), depth=int(name[-3:]) % 7) for name in NAMES]
    consumers = [ConsumerStats(n, n, f"queue://orders.{n % 2:03}", "", 100, n, 0, "", False) for n in range(1, 9)]
    return replace(broker(*rows), consumers=consumers)


async def page(path: str, stats: BrokerStats | None = None) -> dict[str, Any]:
    async with serving(stats or many()) as client:
        response = await client.get(path)
        assert response.status == 200, await response.text()
        document: dict[str, Any] = await response.json()
        return document


async def test_a_page_of_destinations() -> None:
    found = await page("/api/destinations")
    assert (found["total"], found["matching"], found["offset"]) == (120, 120, 0)
    assert [row["name"] for row in found["destinations"]] == NAMES[:50]
    assert {"kind", "depth", "rates"} <= found["destinations"][0].keys()


async def test_search_sort_and_offset() -> None:
    found = await page("/api/destinations?search=ERS.01&sort=-depth&offset=2&limit=3")
    assert (found["total"], found["matching"], found["offset"]) == (120, 10, 2)
    assert [row["depth"] for row in found["destinations"]] == [5, 4, 4]


async def test_a_page_beyond_the_end_is_empty() -> None:
    assert (await page("/api/destinations?offset=1000"))["destinations"] == []


async def test_exact_columns() -> None:
    found = await page("/api/consumers?destination=queue://orders.001&sort=-in_flight")
    assert [row["consumer_id"] for row in found["consumers"]] == [7, 5, 3, 1]
    found = await page("/api/destinations?kind=queue&name=orders.007")
    assert [row["name"] for row in found["destinations"]] == ["orders.007"]
    assert (await page("/api/destinations?kind=topic&name=orders.007"))["destinations"] == []


async def test_the_overview_has_no_lists() -> None:
    found = await page("/api/overview", replace(many(), blocked_producers={5: "memory limit"}, blocked_ms={5: 90}))
    assert found["blocked_producers"] == [{"connection_id": 5, "reason": "memory limit", "waited_ms": 90}]
    assert found["store"]["is_accepting"]
    assert not {"destinations", "consumers", "addresses"} & found.keys()


async def test_the_overview_has_the_alarms() -> None:
    async with serving(broker(destination("orders"), accepting=False)) as client:
        await (await client.get("/api/events?for_ms=1500")).read()  # until there is a sample
        found = await (await client.get("/api/overview")).json()
    assert found["alarms"] == [{"level": "error", "text": "store: failed"}]


async def test_connections_are_found_by_what_their_client_says() -> None:
    found = await page("/api/connections")
    assert [row["connection_id"] for row in found["connections"]] == [7, 9]
    assert [row["login"] for row in (await page("/api/connections?search=BILL"))["connections"]] == ["alice"]
    assert [row["protocol"] for row in (await page("/api/connections?connection_id=9"))["connections"]] == ["amqp"]
    assert (await page("/api/connections?sort=-held_bytes"))["connections"][0]["waits_for"] == "memory"


async def test_addresses_and_the_consumers_of_a_connection() -> None:
    found = await page("/api/addresses?address=queue://orders")
    assert [row["limit_bytes"] for row in found["addresses"]] == [100]
    found = await page("/api/consumers?connection_id=3")
    assert [row["consumer_id"] for row in found["consumers"]] == [3]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/api/destinations?limit=501", "limit is '501'; allowed is a whole number from 1 to 500"),
        ("/api/destinations?limit=0", "limit is '0'; allowed is a whole number from 1 to 500"),
        ("/api/destinations?offset=-1", "offset is '-1'; allowed is a whole number from 0 to 100000000"),
        ("/api/destinations?offset=9999999999999", "offset is '9999999999999'; allowed is a whole number"),
        (
            "/api/destinations?sort=size",
            "sort is 'size'; allowed is a column, with - before it for the largest first: name",
        ),
        ("/api/destinations?sort=--name", "sort is '--name'; allowed is a column"),
        (
            "/api/destinations?page=1",
            "parameter 'page' is not known; allowed are search, sort, offset, limit, kind, name",
        ),
        ("/api/consumers?name=x", "parameter 'name' is not known"),
        ("/api/overview?x=1", "parameter 'x' is not known; none is allowed"),
        ("/api/destinations?search=" + "x" * 201, "search is 'xxx"),
    ],
)
async def test_bad_parameters_are_named(path: str, text: str) -> None:
    async with serving(many()) as client:
        response = await client.get(path)
        assert response.status == 400
        assert (await response.json())["detail"].startswith(text)


async def test_the_console_is_at_the_root() -> None:
    async with serving() as client:
        response = await client.get("/")
        assert response.url.path == "/console/"
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "default-src 'none'; script-src 'self'" in response.headers["Content-Security-Policy"]
        for name, kind in (("console.js", "text/javascript"), ("console.css", "text/css")):
            assert name in await response.text()
            assert (await client.get(f"/console/{name}")).headers["Content-Type"] == f"{kind}; charset=utf-8"


@pytest.mark.parametrize("path", ["/console/none.js", "/console/..%2fapi.py", "/console/%2e%2e/api.py", "/console/a/b"])
async def test_the_console_has_only_its_own_files(path: str) -> None:
    async with serving() as client:
        assert (await client.get(path)).status == 404


@pytest.mark.parametrize("path", ["/", "/console/", "/console/console.js"])
async def test_the_page_is_there_to_log_in(path: str) -> None:
    async with serving(None, GUARDED) as client:
        assert (await client.get(path)).status == 200


@pytest.mark.parametrize("path", ["/api/overview", "/api/destinations"])
async def test_with_users_the_console_needs_a_login(path: str) -> None:
    async with serving(None, GUARDED) as client:
        assert (await client.get(path)).status == 401
        assert (await client.get(path, headers=basic("alice", "secret"))).status == 200
