"""Who may ask over HTTP, and from where."""

from __future__ import annotations

import base64

import pytest
from aiohttp import ClientSession

from config.matching import BOTH, Pattern
from config.model import Endpoint, ServerConfig
from config.permissions import Permission
from config.scram import hash_password
from gateway.logins.login_check import LoginCheck
from gateway.web.server import HttpServer
from tests.support.web import GUARDED, NO_TLS, OPEN, basic, listening, serving, sources


@pytest.mark.parametrize("path", ["/metrics", "/api/stat", "/nothing"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        (basic("alice", "wrong"), 401),
        (basic("nobody", "secret"), 401),
        ({"Authorization": "Basic !!!"}, 401),
        ({"Authorization": "Basic \udcff"}, 401),
        ({"Authorization": "Basic " + base64.b64encode(b"no colon").decode()}, 401),
        ({"Authorization": "Basic " + base64.b64encode(b"\xff:\xff").decode()}, 401),
        ({"Authorization": "Bearer secret"}, 401),
        (basic("alice", "secret"), 200),
        ({"Authorization": basic("alice", "secret")["Authorization"].replace("Basic", "bAsIc")}, 200),
    ],
)
async def test_credentials(path: str, headers: dict[str, str], status: int) -> None:
    async with serving(login_check=GUARDED) as client:
        response = await client.get(path, headers=headers)
        assert response.status == (404 if status == 200 and path == "/nothing" else status)
        assert ("WWW-Authenticate" in response.headers) is (status == 401)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8161",
        "[::1]:8161",
        "localhost",
        "localhost:",
        "LocalHost:1",
        "10.1.2.3",
        "gw.example.com:8161",
        "127.0.0.1:65535",
    ],
)
async def test_own_hosts(host: str) -> None:
    async with serving(host="GW.example.com", login_check=GUARDED) as client:
        assert (await client.get("/healthz", headers={"Host": host})).status == 200
        assert (await client.get("/api/stat", headers={"Host": host})).status == 401


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "",
        "a@127.0.0.1",
        "[::1",
        "localhost.",
        "0x7f.1",
        "localhost:65536",
        "localhost:http",
        "127.0.0.1:-1",
        "127.0.0.1:80:80",
        "localhost:8161/x",
        "localhost?x",
        "[::1]x",
    ],
)
async def test_other_hosts_are_refused(host: str) -> None:
    async with serving(host="gw.example.com", login_check=GUARDED) as client:
        response = await client.get("/api/stat", headers={"Host": host})
        assert response.status == 403
        assert "allowed is a literal IP address, localhost or gw.example.com" in await response.text()


async def test_a_foreign_host_is_refused_before_its_password_is_looked_at() -> None:
    async with serving(login_check=GUARDED) as client:
        response = await client.get("/api/stat", headers={"Host": "evil.example", **basic("alice", "secret")})
        assert response.status == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8161", 200),
        ("http://127.0.0.1:9999", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
        ("http://[::1", 403),
    ],
)
async def test_origin_must_be_our_own(origin: str, status: int) -> None:
    async with serving() as client:
        response = await client.get("/api/stat", headers={"Host": "127.0.0.1:8161", "Origin": origin})
        assert response.status == status
        if status == 403:
            assert "Origin is" in await response.text()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_the_listener_says_which_port_it_got_and_stops(host: str) -> None:
    server = await HttpServer.start(Endpoint("http", host, 0), sources(), OPEN, NO_TLS)
    assert server.endpoint.port > 0
    async with ClientSession() as session, session.get(f"{server.endpoint}/healthz") as response:
        assert response.status == 200
    await server.stop()


async def test_a_port_in_use_is_an_error_of_the_start() -> None:
    async with listening() as endpoint:
        with pytest.raises(OSError, match="Address already in use"):
            await HttpServer.start(endpoint, sources(), OPEN, NO_TLS)


async def test_a_foreign_page_cannot_start_a_retry() -> None:
    async with serving() as client:
        response = await client.post("/api/retry", json={"queue": "dead"}, headers={"Origin": "http://evil.example"})
        assert response.status == 403


def _permitted(pattern: str, login: str) -> LoginCheck:
    """Return a gateway with two users, of which one reads everything and the other manages everything."""
    grants = {"read": frozenset({"readers"}), "delete": frozenset({"managers"})}
    users = {name: tuple(hash_password("secret", 4096)) for name in ("alice", "bob")}
    return LoginCheck(
        ServerConfig(
            users=users if login else {},
            groups={"alice": frozenset({"readers"}), "bob": frozenset({"managers"})},
            permissions=(Permission(Pattern.parse(pattern), BOTH, grants),),  # type: ignore[arg-type]
        )
    )


@pytest.mark.parametrize(
    ("login", "pattern", "path", "is_post", "is_allowed"),
    [
        ("alice", ">", "/api/store/dump", False, True),
        ("alice", "#", "/api/store/query?id=ID:s-8", False, True),
        ("alice", "orders.>", "/api/store/dump", False, False),
        ("bob", ">", "/api/store/dump", False, False),
        ("bob", ">", "/api/store/backup", True, True),
        ("bob", "*", "/api/store/backup", True, True),
        ("bob", ">", "/api/store/verify", True, True),
        ("bob", "orders.>", "/api/store/verify", True, False),
        ("alice", ">", "/api/store/backup", True, False),
        ("alice", ">", "/api/store/rebuild", True, False),
        ("alice", ">", "/api/retry", True, False),
        ("alice", ">", "/api/schedule", False, True),
        ("alice", "orders.>", "/api/schedule", False, False),
        ("alice", ">", "/api/schedule/cancel", True, False),
        ("bob", ">", "/api/schedule/cancel", True, True),
        ("alice", ">", "/api/store/du?why=true", False, True),
        ("alice", ">", "/api/stat", False, True),
        ("bob", ">", "/api/stat", False, True),
        ("bob", ">", "/api/why/consumer/1", False, True),
        ("bob", ">", "/api/why/message/ID:s-3", False, False),
        ("alice", ">", "/api/why/message/ID:s-3", False, True),
        ("bob", "orders.>", "/api/store/du", False, False),
        ("bob", "orders.>", "/api/store/readers", False, False),
        ("bob", ">", "/api/store/readers", False, True),
        ("bob", "orders.>", "/api/stat", False, False),
        ("alice", "orders.>", "/metrics", False, False),
        ("alice", "orders.>", "/api/why/consumer/1", False, False),
        ("alice", "orders.>", "/api/why/producer/2", False, False),
        ("alice", "orders.>", "/api/why/message/ID:s-3", False, False),
        ("alice", "orders.>", "/api/explain/consumer/1", False, False),
        ("alice", "orders.>", "/api/explain/destination/other", False, False),
        ("alice", "orders.>", "/healthz", False, True),
        ("", ">", "/api/store/dump", False, False),
    ],
)
async def test_what_concerns_all_destinations_needs_a_permission_for_all(
    login: str, pattern: str, path: str, is_post: bool, is_allowed: bool
) -> None:
    headers = basic(login, "secret") if login else {}
    async with serving(login_check=_permitted(pattern, login)) as client:
        if is_post:
            response = await client.post(path, data='{"directory": "new"}', headers=headers)
        else:
            response = await client.get(path, headers=headers)
        assert (response.status != 403) is is_allowed
        if not is_allowed:
            assert "for all destinations" in await response.text()
