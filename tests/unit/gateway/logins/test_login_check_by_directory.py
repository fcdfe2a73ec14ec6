"""A directory beside the users of the configuration: who is asked, and who waits for whom."""

from __future__ import annotations

import asyncio
import math
import threading
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    pytest.importorskip("ldap3", reason="needs the extra ldap")

from config.login_servers import LdapConfig, SecurityConfig
from config.model import Endpoint, Listeners, ServerConfig
from config.scram import hash_password
from gateway.logins.directory import Directory
from gateway.logins.login_check import DIRECTORY_PLACES_PER_ADDRESS, LoginCheck
from gateway.process.counters import GatewayCounters
from protocols.peer_socket import LoggedIn

LDAP = LdapConfig("ldap://localhost", user_dn="uid={user},dc=shop")
ADDRESS = "192.0.2.1"
LIMIT_S = 60.0


class Scripted(Directory):
    """Knows each login by the password "secret", spelt in lower case.  gate: answers wait for it."""

    def __init__(self) -> None:
        super().__init__(LDAP)
        self.gate = threading.Event()
        self.gate.set()
        self.asked: list[str] = []
        self.groups = frozenset({"shop"})
        self.has_binder = True

    @property
    def can_look_up(self) -> bool:
        return self.has_binder

    def look_up(self, user: str) -> tuple[LoggedIn | None, bool]:
        self.gate.wait()
        return LoggedIn(user, self.groups, is_external=True), True

    def _asked(self, login: str, passcode: str) -> LoggedIn | None:
        self.asked.append(login)
        self.gate.wait()
        return LoggedIn(login.lower(), self.groups, is_external=True) if passcode == "secret" else None


def secured(counters: GatewayCounters | None = None, **users: str) -> tuple[LoginCheck, Scripted]:
    verifiers = {name: tuple(hash_password(code, 4096)) for name, code in users.items()}
    login_check = LoginCheck(ServerConfig(users=verifiers, security=SecurityConfig(ldap=LDAP)), counters)
    found = login_check.directory = Scripted()
    return login_check, found


async def test_who_is_asked() -> None:
    login_check, directory = secured(admin="own")
    assert login_check.is_required and login_check.scram_mechanisms() == ()
    found = await login_check.log_in(ADDRESS, "ann", "secret")
    assert found == LoggedIn("ann", frozenset({"shop"}), is_external=True) == login_check.remembered("ann", "secret")
    assert login_check.known_groups["ann"] == {"shop"}
    assert await login_check.log_in(ADDRESS, "bob", "other") is None
    assert await login_check.log_in(ADDRESS, "admin", "secret") is None
    assert await login_check.log_in(ADDRESS, "admin", "own") is not None
    assert directory.asked == ["ann", "bob"], "never about a user of the configuration"


async def test_another_spelling_is_no_user_of_the_configuration() -> None:
    login_check, directory = secured(admin="own")
    assert await login_check.log_in(ADDRESS, "ADMIN", "secret") is None
    assert directory.asked == ["ADMIN"] and login_check.remembered("ADMIN", "secret") is None


async def test_a_directory_that_does_not_answer_keeps_nobody_else_waiting() -> None:
    login_check, directory = secured(admin="own")
    directory.gate.clear()
    waiting = [asyncio.ensure_future(login_check.log_in(ADDRESS, f"ann{number}", "secret")) for number in range(20)]
    while len(directory.asked) < 2:
        await asyncio.sleep(0.001)
    assert await login_check.log_in(ADDRESS, "admin", "own") is not None
    assert len(directory.asked) == 2 and not any(one.done() for one in waiting)
    directory.gate.set()
    assert all(await asyncio.gather(*waiting))


async def test_a_fleet_of_users_of_one_address_comes_in_at_once() -> None:
    """After a restart all of them connect: the places for passwords of the configuration would not do."""
    counters = GatewayCounters()
    login_check, directory = secured(counters)
    directory.gate.clear()
    logins = [f"device{number}" for number in range(DIRECTORY_PLACES_PER_ADDRESS)]
    fleet = [asyncio.ensure_future(login_check.log_in(ADDRESS, login, "secret")) for login in logins]
    same = [asyncio.ensure_future(login_check.log_in(ADDRESS, "device0", "secret")) for _ in range(20)]
    await asyncio.sleep(0)
    directory.gate.set()
    found = await asyncio.gather(*fleet, *same)
    assert [one.user if one is not None else None for one in found] == [*logins, *["device0"] * len(same)]
    assert sorted(directory.asked) == sorted(logins), "equal logins share a question"
    assert counters.refused_logins == 0


async def test_groups_are_read_again_for_one_user_at_a_time() -> None:
    login_check, directory = secured()
    ann = await login_check.log_in(ADDRESS, "ann", "secret")
    assert ann is not None and login_check.groups_last_s == 60.0
    directory.groups = frozenset({"ops"})
    directory.gate.clear()
    first = asyncio.ensure_future(login_check.read_again(ann))
    await asyncio.sleep(0)
    assert await login_check.read_again(ann) == (None, False), "another one is asked for"
    first.cancel()
    assert await login_check.read_again(ann) == (None, False), "although its client has gone"
    directory.gate.set()
    async with asyncio.timeout(LIMIT_S):
        while (found := await login_check.read_again(ann)) == (None, False):
            await asyncio.sleep(0.001)
    assert found == (LoggedIn("ann", frozenset({"ops"}), is_external=True), True)
    assert login_check.known_groups["ann"] == {"ops"}


async def test_without_a_binder_nothing_is_read_again() -> None:
    login_check, directory = secured()
    directory.has_binder = False
    assert login_check.groups_last_s == math.inf
    assert await login_check.read_again(LoggedIn("ann", frozenset(), is_external=True)) == (None, False)


async def test_no_question_without_a_password() -> None:
    login_check, directory = secured()
    for login, passcode in (("ann", ""), ("", "secret"), ("", ""), ("ann\0", "secret"), ("ann", "x" * 5_000)):
        assert await login_check.log_in(ADDRESS, login, passcode) is None
    assert directory.asked == []


def test_an_open_listener_may_have_a_directory_in_place_of_users() -> None:
    listeners = Listeners(stomp=Endpoint("tcp", "0.0.0.0", 61613))
    LoginCheck(ServerConfig(listeners=listeners, security=SecurityConfig(ldap=LDAP)))
