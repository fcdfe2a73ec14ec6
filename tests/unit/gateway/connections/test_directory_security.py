"""A directory beside the users of the configuration: who is asked, and who waits for whom."""

from __future__ import annotations

import asyncio
import threading
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    pytest.importorskip("ldap3", reason="needs the extra ldap")

from config.login_servers import LdapConfig, SecurityConfig
from config.model import Endpoint, Listeners, ServerConfig
from config.scram import hash_password
from gateway.connections.security import Security
from gateway.logins.directory import Directory
from protocols.peer_socket import LoggedIn

LDAP = LdapConfig("ldap://localhost", user_dn="uid={user},dc=shop")
ADDRESS = "192.0.2.1"


class Scripted(Directory):
    """Knows each login by the password "secret", spelt in lower case.  gate: answers wait for it."""

    def __init__(self) -> None:
        super().__init__(LDAP)
        self.gate = threading.Event()
        self.gate.set()
        self.asked: list[str] = []

    def _asked(self, login: str, passcode: str) -> LoggedIn | None:
        self.asked.append(login)
        self.gate.wait()
        return LoggedIn(login.lower(), frozenset({"shop"}), is_external=True) if passcode == "secret" else None


def secured(**users: str) -> tuple[Security, Scripted]:
    verifiers = {name: tuple(hash_password(code, 4096)) for name, code in users.items()}
    security = Security(ServerConfig(users=verifiers, security=SecurityConfig(ldap=LDAP)))
    found = security.directory = Scripted()
    return security, found


async def test_who_is_asked() -> None:
    security, directory = secured(admin="own")
    assert security.is_required and security.scram_mechanisms() == ()
    found = await security.log_in(ADDRESS, "ann", "secret")
    assert found == LoggedIn("ann", frozenset({"shop"}), is_external=True) == security.remembered("ann", "secret")
    assert security.known_groups["ann"] == {"shop"}
    assert await security.log_in(ADDRESS, "bob", "other") is None
    assert await security.log_in(ADDRESS, "admin", "secret") is None
    assert await security.log_in(ADDRESS, "admin", "own") is not None
    assert directory.asked == ["ann", "bob"], "never about a user of the configuration"


async def test_another_spelling_is_no_user_of_the_configuration() -> None:
    security, directory = secured(admin="own")
    assert await security.log_in(ADDRESS, "ADMIN", "secret") is None
    assert directory.asked == ["ADMIN"] and security.remembered("ADMIN", "secret") is None


async def test_a_directory_that_does_not_answer_keeps_nobody_else_waiting() -> None:
    security, directory = secured(admin="own")
    directory.gate.clear()
    waiting = [asyncio.ensure_future(security.log_in(ADDRESS, f"ann{number}", "secret")) for number in range(20)]
    while len(directory.asked) < 2:
        await asyncio.sleep(0.001)
    assert await security.log_in(ADDRESS, "admin", "own") is not None
    assert len(directory.asked) == 2 and not any(one.done() for one in waiting)
    directory.gate.set()
    assert all(await asyncio.gather(*waiting))


async def test_no_question_without_a_password() -> None:
    security, directory = secured()
    for login, passcode in (("ann", ""), ("", "secret"), ("", ""), ("ann\0", "secret"), ("ann", "x" * 5_000)):
        assert await security.log_in(ADDRESS, login, passcode) is None
    assert directory.asked == []


def test_an_open_listener_may_have_a_directory_in_place_of_users() -> None:
    listeners = Listeners(stomp=Endpoint("tcp", "0.0.0.0", 61613))
    Security(ServerConfig(listeners=listeners, security=SecurityConfig(ldap=LDAP)))
