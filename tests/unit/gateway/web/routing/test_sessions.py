"""Sessions end in time, are bounded, and protect what changes something; how they are asked for."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from config.model import ServerConfig
from config.scram import Verifier, hash_password
from gateway.logins.login_check import LoginCheck
from gateway.web.routing.sessions import (
    GROUPS_MOST_S,
    IDLE_S,
    SESSION_MOST_S,
    SESSIONS_MAX,
    SESSIONS_PER_USER_MAX,
    Sessions,
    is_token_of,
)
from protocols.peer_socket import LoggedIn
from tests.support.web import GUARDED, basic, serving

USERS = {"alice": tuple(Verifier.parse(text) for text in hash_password("secret", 4096))}


class World:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.users = dict(USERS)
        self.sessions = Sessions(lambda login: self.users.get(login, ()), lambda: self.now_s)


def test_a_session_goes_on_while_it_is_used_and_not_for_ever() -> None:
    world = World()
    key, session = world.sessions.begin(LoggedIn("alice", frozenset()))
    uses = int(SESSION_MOST_S / IDLE_S)
    for _ in range(uses):
        world.now_s += IDLE_S
        assert world.sessions.find(key) is session
    world.now_s += 1
    assert world.sessions.find(key) is None


def test_an_idle_session_ends() -> None:
    world = World()
    key, _ = world.sessions.begin(LoggedIn("alice", frozenset()))
    world.now_s += IDLE_S + 1
    assert world.sessions.find(key) is None
    world.now_s -= IDLE_S
    assert world.sessions.find(key) is None, "it has ended"


def test_a_removed_user_and_one_with_another_password_have_no_session() -> None:
    world = World()
    key, _ = world.sessions.begin(LoggedIn("alice", frozenset()))
    world.users["alice"] = tuple(Verifier.parse(text) for text in hash_password("other", 4096))
    assert world.sessions.find(key) is None
    key, _ = world.sessions.begin(LoggedIn("alice", frozenset()))
    del world.users["alice"]
    assert world.sessions.find(key) is None


def test_a_session_of_a_directory_ends_when_the_configuration_gets_such_a_user() -> None:
    users: dict[str, tuple[Verifier, ...]] = {}
    sessions = Sessions(users.get, lambda: 100.0)
    ann = LoggedIn("ann", frozenset({"ops"}), is_external=True)
    key, session = sessions.begin(ann)
    assert sessions.find(key) is session and session.user.groups == {"ops"}
    users["ann"] = USERS["alice"]
    assert sessions.find(key) is None


def test_groups_of_a_directory_that_nobody_reads_again_end_a_session() -> None:
    now = [100.0]
    sessions = Sessions(lambda login: None, lambda: now[0])
    ann = LoggedIn("ann", frozenset({"ops"}), is_external=True)
    key, session = sessions.begin(ann)
    for _ in range(3):
        now[0] += GROUPS_MOST_S / 4
        assert sessions.find(key) is session
    sessions.was_read(session, LoggedIn("ann", frozenset(), is_external=True))
    for _ in range(4):
        now[0] += GROUPS_MOST_S / 4
        assert sessions.find(key) is session and session.user.groups == set()
    now[0] += 1
    assert sessions.find(key) is None


def test_groups_are_due_once_in_their_time() -> None:
    now = [100.0]
    sessions = Sessions(lambda login: None, lambda: now[0])
    _, session = sessions.begin(LoggedIn("ann", frozenset(), is_external=True))
    assert not sessions.is_due(session, 60.0)
    now[0] += 60
    assert sessions.is_due(session, 60.0) and not sessions.is_due(session, 60.0), "whether or not there is an answer"
    assert not sessions.is_due(session, math.inf)
    _, own = sessions.begin(LoggedIn("alice", frozenset()))
    now[0] += 60
    assert not sessions.is_due(own, 60.0), "the configuration has the groups"


def test_the_number_of_sessions_is_bounded() -> None:
    world = World()
    keys = [world.sessions.begin(LoggedIn("alice", frozenset()))[0] for _ in range(SESSIONS_PER_USER_MAX)]
    assert world.sessions.find(keys[0]) is not None
    world.sessions.begin(LoggedIn("alice", frozenset()))
    assert world.sessions.find(keys[1]) is None, "the one used longest ago"
    assert world.sessions.find(keys[0]) is not None
    for number in range(SESSIONS_MAX):
        world.sessions.begin(LoggedIn(f"user{number}", frozenset()))
    assert world.sessions.find(keys[0]) is None


def test_tokens_and_cookies_differ() -> None:
    world = World()
    (key, first), (other, second) = (
        world.sessions.begin(LoggedIn("alice", frozenset())),
        world.sessions.begin(LoggedIn("alice", frozenset())),
    )
    assert len({key, other, first.csrf, second.csrf}) == 4
    assert is_token_of(first, first.csrf)
    assert not is_token_of(first, second.csrf)
    assert not is_token_of(first, "é\udcff")


async def logged_in(client: TestClient[Any, Any], passcode: str = "secret") -> dict[str, str]:
    """Log in; return the header that requests need.  The client keeps the cookie."""
    response = await client.post("/api/session", json={"login": "alice", "passcode": passcode})
    assert response.status == 201
    cookie = response.headers["Set-Cookie"]
    assert {"HttpOnly", "Path=/", "SameSite=Strict"} <= {part.strip() for part in cookie.split(";")}
    return {"X-Penstock-CSRF": (await response.json())["csrf"]}


async def cookies_kept(client: TestClient[Any, Any]) -> None:
    """Let the client keep cookies of an IP address, as browsers do."""
    client.session.cookie_jar._unsafe = True  # type: ignore[attr-defined]


async def test_a_session_lets_in_and_ends() -> None:
    async with serving(login_check=GUARDED) as client:
        await cookies_kept(client)
        assert (await client.get("/api/session")).status == 401
        token = await logged_in(client)
        assert await (await client.get("/api/session")).json() == {"login": "alice", "csrf": token["X-Penstock-CSRF"]}
        assert (await client.get("/api/stat")).status == 200
        assert (await client.delete("/api/session")).status == 403, "it needs the token, too"
        assert (await client.delete("/api/session", headers=token)).status == 200
        assert (await client.get("/api/stat")).status == 401


@pytest.mark.parametrize("headers", [{}, {"X-Penstock-CSRF": ""}, {"X-Penstock-CSRF": "0" * 64}])
async def test_what_changes_something_needs_the_token(headers: dict[str, str]) -> None:
    async with serving(login_check=GUARDED) as client:
        await cookies_kept(client)
        token = await logged_in(client)
        refused = await client.post("/api/pause", json={"destination": "q"}, headers=headers)
        assert refused.status == 403
        assert "X-Penstock-CSRF is wrong or missing" in await refused.text()
        assert (await client.post("/api/pause", json={"destination": "q"}, headers=token)).status == 200
        foreign = {**token, "Origin": "http://evil.example"}
        assert (await client.post("/api/pause", json={"destination": "q"}, headers=foreign)).status == 403


async def test_basic_needs_no_token() -> None:
    async with serving(login_check=GUARDED) as client:
        headers = basic("alice", "secret")
        assert (await client.post("/api/pause", json={"destination": "q"}, headers=headers)).status == 200
        assert await (await client.get("/api/session", headers=headers)).json() == {"login": "alice", "csrf": ""}


async def test_wrong_logins() -> None:
    async with serving(login_check=GUARDED) as client:
        for login, passcode in (("alice", "wrong"), ("nobody", "secret"), ("", "")):
            response = await client.post("/api/session", json={"login": login, "passcode": passcode})
            assert (response.status, "Set-Cookie" in response.headers) == (401, False)
        foreign = {"Origin": "http://evil.example"}
        asked = {"login": "alice", "passcode": "secret"}
        assert (await client.post("/api/session", json=asked, headers=foreign)).status == 403


async def test_a_browser_asks_for_no_password_where_the_page_does() -> None:
    async with serving(login_check=GUARDED) as client:
        assert (await client.get("/api/stat")).headers["WWW-Authenticate"].startswith("Basic")
        own = await client.get("/api/stat", headers={"X-Penstock-CSRF": ""})
        assert own.headers["WWW-Authenticate"].startswith("Session")


async def test_without_users_nobody_logs_in() -> None:
    async with serving() as client:
        response = await client.post("/api/session", json={"login": "alice", "passcode": "secret"})
        assert response.status == 409
        assert await (await client.get("/api/session")).json() == {"login": "", "csrf": ""}


async def test_passwords_are_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(
        login_check=LoginCheck(ServerConfig(users={"alice": tuple(hash_password("right", 4096))}))
    ) as client:
        await client.post("/api/session", json={"login": "alice", "passcode": "hush-hush"})
    assert any("logIn" in str(vars(record)) for record in caplog.records), "a denied login is in the audit log"
    assert not any("hush-hush" in str(vars(record)) for record in caplog.records)
