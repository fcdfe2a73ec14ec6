"""Purging and deleting over HTTP: what may be asked, and by whom."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from config.matching import BOTH, QUEUE, Pattern
from config.model import ServerConfig
from config.permissions import Permission
from config.scram import hash_password
from engine.values.errors import DestinationInUse, InvalidSelector, StoreError
from gateway.connections.security import Security
from gateway.web.api import create_app
from gateway.web.upkeep import Named, UpkeepSource
from tests.support.engine.snapshots import broker
from tests.support.web import OPEN, Fixed, Knowing, Retrying, Storing, basic

Client = TestClient[Any, Any]


class Keeping(UpkeepSource):
    """Knows the queues ``q``, which is in use, and ``orders.eu``; the disk refuses what is about ``full``."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.is_stopped = False

    def purge(self, queue: str, selector: str) -> int:
        if queue == "full":
            raise StoreError("nothing was purged, because the disk refuses writes: x")
        if queue not in ("q", "orders.eu"):
            raise LookupError(f"no queue {queue!r}")
        if selector == "bad":
            raise InvalidSelector("selector 'bad': nothing to compare")
        self.asked.append((queue, selector))
        return len(self.asked)

    def purged(self, number: int) -> str | None:
        return str(self.asked[number - 1][0]) if 0 < number <= len(self.asked) else None

    def status(self, number: int) -> dict[str, object]:
        return {"queue": self.purged(number), "dropped": 3, "done": self.is_stopped}

    def stop(self, number: int) -> None:
        self.is_stopped = True

    async def delete(self, destination: Named, is_forced: bool) -> dict[str, Any]:
        if destination == (QUEUE, "q"):
            raise DestinationInUse("queue://q has 1 consumers")
        self.asked.append((*destination, is_forced))
        return {"deleted": "it"}


@asynccontextmanager
async def serving(source: Keeping, security: Security = OPEN) -> AsyncIterator[Client]:
    application = create_app(Fixed(broker()), Knowing(), Retrying(), Storing(), security, upkeep=source)
    async with TestClient(TestServer(application, host="127.0.0.1")) as client:
        yield client


async def test_a_purge_is_started_told_of_and_stopped() -> None:
    source = Keeping()
    async with serving(source) as client:
        response = await client.post("/api/purge", json={"destination": "queue://q", "filter": "a = 1"})
        assert response.status == 201
        assert await response.json() == {"purge": 1, "queue": "q", "dropped": 3, "done": False}
        assert source.asked == [("q", "a = 1")]
        assert (await (await client.get("/api/purge/1")).json())["done"] is False
        assert (await (await client.delete("/api/purge/1")).json())["done"] is True
        assert (await client.get("/api/purge/2")).status == 404


async def test_a_destination_is_deleted() -> None:
    source = Keeping()
    async with serving(source) as client:
        response = await client.post("/api/delete", json={"destination": "orders.eu", "force": True})
        assert (response.status, await response.json()) == (200, {"deleted": "it"})
        assert source.asked == [(QUEUE, "orders.eu", True)]


@pytest.mark.parametrize(
    ("path", "body", "status", "expected"),
    [
        ("purge", "x", 400, "not a JSON object with a text 'destination'"),
        ("purge", '{"destination": "q", "force": true}', 400, "'force' is not known; allowed are destination, filter"),
        ("purge", '{"destination": "q", "filter": 1}', 400, "'filter' is 1; allowed is a JMS selector"),
        ("purge", '{"destination": "q", "filter": "bad"}', 400, "selector 'bad': nothing to compare"),
        ("purge", '{"destination": "a.>"}', 400, "destination is 'a.>', allowed is queue://NAME"),
        ("purge", '{"destination": "topic://t"}', 400, "destination is a topic, which has no messages"),
        ("purge", '{"destination": "other"}', 404, "no queue 'other'"),
        ("purge", '{"destination": "full"}', 507, "the disk refuses writes"),
        ("delete", '{"destination": "q", "filter": ""}', 400, "'filter' is not known; allowed are destination, force"),
        ("delete", '{"destination": "q", "force": 1}', 400, "'force' is 1; allowed is true or false"),
        ("delete", '{"destination": "q"}', 409, "queue://q has 1 consumers"),
    ],
)
async def test_what_is_wrong_is_said(path: str, body: str, status: int, expected: str) -> None:
    async with serving(Keeping()) as client:
        response = await client.post(f"/api/{path}", data=body)
        assert response.status == status
        assert expected in await response.text()


async def test_it_needs_the_permission_for_that_destination_only() -> None:
    users = {name: tuple(hash_password("secret", 4096)) for name in ("ann", "bob")}
    entries = (Permission(Pattern.parse("orders.>"), BOTH, {"delete": frozenset({"sales"})}),)
    security = Security(ServerConfig(users=users, groups={"ann": frozenset({"sales"})}, permissions=entries))
    source = Keeping()
    ann, bob = basic("ann", "secret"), basic("bob", "secret")
    async with serving(source, security) as client:
        orders = {"destination": "orders.eu"}
        assert (await client.post("/api/purge", json=orders)).status == 401
        for path in ("/api/purge", "/api/delete"):
            refused = await client.post(path, json=orders, headers=bob)
            assert refused.status == 403
            assert "needs the permission delete for queue://orders.eu" in await refused.text()
            assert (await client.post(path, json={"destination": "q"}, headers=ann)).status == 403
        assert source.asked == []
        assert (await client.post("/api/purge", json=orders, headers=ann)).status == 201
        assert (await client.get("/api/purge/1", headers=bob)).status == 403
        assert (await client.delete("/api/purge/1", headers=bob)).status == 403
        assert (await client.get("/api/purge/1", headers=ann)).status == 200
        assert (await client.post("/api/delete", json=orders, headers=ann)).status == 200
        assert (await client.get("/api/stat", headers=ann)).status == 403
