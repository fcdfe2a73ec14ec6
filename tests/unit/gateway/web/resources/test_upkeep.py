"""Purging and deleting over HTTP: what may be asked, and by whom."""

from __future__ import annotations

import pytest

from config.matching import BOTH, QUEUE, Pattern
from config.model import ServerConfig
from config.permissions import Permission
from config.scram import hash_password
from gateway.logins.login_check import LoginCheck
from tests.support.web import Keeping, basic, serving


async def test_a_purge_is_started_told_of_and_stopped() -> None:
    source = Keeping()
    async with serving(upkeep=source) as client:
        response = await client.post("/api/purge", json={"destination": "queue://q", "filter": "a = 1"})
        assert response.status == 201
        assert await response.json() == {"purge": 1, "queue": "q", "dropped": 3, "done": False}
        assert source.asked == [("q", "a = 1")]
        assert (await (await client.get("/api/purge/1")).json())["done"] is False
        assert (await (await client.delete("/api/purge/1")).json())["done"] is True
        assert (await client.get("/api/purge/2")).status == 404


async def test_a_destination_is_deleted() -> None:
    source = Keeping()
    async with serving(upkeep=source) as client:
        response = await client.post("/api/delete", json={"destination": "orders.eu", "force": True})
        assert (response.status, await response.json()) == (200, {"deleted": "it"})
        assert source.asked == [(QUEUE, "orders.eu", True)]


@pytest.mark.parametrize(
    ("path", "body", "status", "expected"),
    [
        ("purge", "x", 400, "the body is not a JSON object"),
        ("purge", '{"destination": "q", "force": true}', 400, "'force' is not known; allowed are destination, filter"),
        ("purge", '{"destination": "q", "filter": 1}', 400, "filter is 1; allowed is a JMS selector"),
        ("purge", '{"destination": "q", "filter": "bad"}', 400, "selector 'bad': nothing to compare"),
        ("purge", '{"destination": "a.>"}', 400, "destination is 'a.>'; allowed is queue://NAME"),
        ("purge", '{"destination": "topic://t"}', 400, "destination is a topic, which has no messages"),
        ("purge", '{"destination": "other"}', 404, "no queue 'other'"),
        ("purge", '{"destination": "full"}', 507, "the disk refuses writes"),
        ("pause", '{"destination": "topic://t"}', 400, "destination is a topic, which cannot be paused"),
        ("pause", '{"destination": "other"}', 404, "no queue 'other'"),
        ("resume", '{"destination": "other"}', 404, "no queue 'other'"),
        ("delete", '{"destination": "q", "filter": ""}', 400, "'filter' is not known; allowed are destination, force"),
        ("delete", '{"destination": "q", "force": 1}', 400, "force is 1; allowed is true or false"),
        ("delete", '{"destination": "q"}', 409, "queue://q has 1 consumers"),
    ],
)
async def test_what_is_wrong_is_said(path: str, body: str, status: int, expected: str) -> None:
    async with serving() as client:
        response = await client.post(f"/api/{path}", data=body)
        assert response.status == status
        assert expected in await response.text()


async def test_it_needs_the_permission_for_that_destination_only() -> None:
    users = {name: tuple(hash_password("secret", 4096)) for name in ("ann", "bob")}
    entries = (Permission(Pattern.parse("orders.>"), BOTH, {"delete": frozenset({"sales"})}),)
    login_check = LoginCheck(ServerConfig(users=users, groups={"ann": frozenset({"sales"})}, permissions=entries))
    source = Keeping()
    ann, bob = basic("ann", "secret"), basic("bob", "secret")
    async with serving(login_check=login_check, upkeep=source) as client:
        orders = {"destination": "orders.eu"}
        assert (await client.post("/api/purge", json=orders)).status == 401
        for path in ("/api/purge", "/api/delete", "/api/pause", "/api/resume"):
            refused = await client.post(path, json=orders, headers=bob)
            assert refused.status == 403
            assert "needs the permission delete for queue://orders.eu" in await refused.text()
            assert (await client.post(path, json={"destination": "q"}, headers=ann)).status == 403
        assert source.asked == []
        assert (await client.post("/api/purge", json=orders, headers=ann)).status == 201
        for method in ("GET", "DELETE"):
            refused = await client.request(method, "/api/purge/1", headers=bob)
            unknown = await client.request(method, "/api/purge/2", headers=bob)
            assert refused.status == unknown.status == 404
            assert (await refused.text()).replace("/1", "/2").replace("purge 1", "purge 2") == await unknown.text()
        assert (await client.get("/api/purge/1", headers=ann)).status == 200
        assert (await client.post("/api/delete", json=orders, headers=ann)).status == 200
        assert (await client.get("/api/stat", headers=ann)).status == 403


async def test_a_queue_is_paused_and_resumed_for_somebody() -> None:
    source = Keeping()
    async with serving(upkeep=source) as client:
        for path in ("pause", "resume"):
            response = await client.post(f"/api/{path}", json={"destination": "q"})
            assert (response.status, await response.json()) == (200, {"queue": "q", "paused": path == "pause"})
        assert source.asked == [("q", one, "address 127.0.0.1") for one in ("pause", "resume")]


async def test_a_connection_is_closed_for_somebody() -> None:
    source = Keeping()
    async with serving(upkeep=source) as client:
        assert await (await client.delete("/api/connections/7")).json() == {"closed": 7}
        assert source.asked == [(7, "address 127.0.0.1")]
        assert (await client.delete("/api/connections/8")).status == 404
        assert (await client.get("/api/connections/7")).status == 405
