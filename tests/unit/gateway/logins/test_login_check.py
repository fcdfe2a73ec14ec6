"""Passwords and open listeners."""

from __future__ import annotations

import asyncio
import dataclasses
import threading

import pytest

from config.access_tokens import new_token, token_line
from config.errors import ConfigError
from config.model import Endpoint, Listeners, ServerConfig
from config.scram import hash_password
from gateway.logins.login_check import LoginCheck
from gateway.logins.users import PASSCODE_MAX_CHARACTERS, REMEMBERED_MAX

ITERATIONS = 4096


def with_users(**passcodes: str) -> ServerConfig:
    return ServerConfig(users={name: tuple(hash_password(code, ITERATIONS)) for name, code in passcodes.items()})


def test_check() -> None:
    login_check = LoginCheck(with_users(alice="secret", bob="other"))
    assert login_check.is_required
    assert login_check.check("alice", "secret")
    assert login_check.check("alice", "secret")
    assert not login_check.check("alice", "other")
    assert login_check.check("bob", "other")
    assert not login_check.check("nobody", "secret")
    assert not login_check.check("", "")


def test_without_users_anything_goes() -> None:
    login_check = LoginCheck(ServerConfig())
    assert not login_check.is_required
    assert login_check.check("anybody", "anything")


def test_what_was_good_is_remembered_what_was_not_is_not() -> None:
    login_check = LoginCheck(with_users(alice="secret"))
    assert not login_check.users.remembers("alice", "secret")
    login_check.check("alice", "wrong")
    login_check.check("alice", "secret")
    assert login_check.users.remembers("alice", "secret")
    assert not login_check.users.remembers("alice", "wrong")
    assert not login_check.users.remembers("bob", "secret")


def test_what_is_remembered_is_bounded() -> None:
    login_check = LoginCheck(with_users(alice="secret"))
    login_check.check("alice", "secret")
    for at in range(REMEMBERED_MAX):
        login_check.users.remember("alice", f"as if {at} were good")
    assert login_check.users.remembers("alice", f"as if {REMEMBERED_MAX - 1} were good")
    assert not login_check.users.remembers("alice", "secret")
    assert login_check.check("alice", "secret")


def test_an_enormous_password_is_refused_unread() -> None:
    passcode = "x" * (PASSCODE_MAX_CHARACTERS + 1)
    assert not LoginCheck(with_users(alice=passcode)).check("alice", passcode)


def test_lone_surrogates_are_no_crash() -> None:
    login_check = LoginCheck(with_users(alice="secret"))
    assert not login_check.check("alice", "\udcff")
    assert not login_check.check("\udcff", "secret")


@pytest.mark.parametrize("element", ["listeners.stomp", "listeners.http"])
@pytest.mark.parametrize(
    ("sources", "place"), [({}, "default"), ({"listeners.stomp": "p.yaml:7", "listeners.http": "p.yaml:7"}, "p.yaml:7")]
)
def test_an_open_listener_needs_users(element: str, sources: dict[str, str], place: str) -> None:
    everywhere = Endpoint("tcp", "0.0.0.0", 61613)
    listeners = Listeners(stomp=everywhere) if element == "listeners.stomp" else Listeners(http=everywhere)
    config = ServerConfig(listeners=listeners, sources=sources)
    with pytest.raises(ConfigError) as caught:
        LoginCheck(config)
    assert str(caught.value).startswith(f"{place}: {element}: tcp://0.0.0.0:61613 is open to the network")
    assert "penstock user add" in str(caught.value)
    LoginCheck(dataclasses.replace(config, users=with_users(alice="x").users))


def test_an_open_listener_by_flag_names_the_flag() -> None:
    config = ServerConfig(listeners=Listeners(stomp=Endpoint("tcp", "::", 1)), sources={"listeners.stomp": "--stomp"})
    with pytest.raises(ConfigError, match=r"^--stomp: listeners\.stomp: tcp://\[::\]:1 is open"):
        LoginCheck(config)


def test_other_users_are_taken_over() -> None:
    config = with_users(alice="secret", bob="other")
    login_check = LoginCheck(config)
    assert login_check.check("alice", "secret") and login_check.check("bob", "other")
    groups = {"alice": frozenset({"ops"})}
    login_check.adopt(
        dataclasses.replace(
            with_users(carl="new"),
            users={**with_users(carl="new").users, "alice": config.users["alice"]},
            groups=groups,
        )
    )
    assert login_check.users.remembers("alice", "secret"), "she has not changed"
    assert not login_check.users.remembers("bob", "other") and not login_check.check("bob", "other")
    assert login_check.check("carl", "new")
    assert login_check.groups_of("alice") == {"ops"} and not login_check.groups_of("bob")


def test_a_check_under_way_counts_for_the_users_of_its_end() -> None:
    """It would have remembered the password of a user who was changed meanwhile."""
    login_check = LoginCheck(ServerConfig(users={"alice": tuple(hash_password("secret", 200_000))}))
    check = threading.Thread(target=login_check.check, args=("alice", "secret"))
    check.start()
    login_check.adopt(with_users(alice="new"))
    check.join()
    assert not login_check.users.remembers("alice", "secret")
    assert login_check.check("alice", "new")


async def test_who_is_removed_while_a_login_waits_is_not_let_in() -> None:
    """A proof waits after failures."""
    config = ServerConfig(users={"ann": tuple(hash_password("secret", 4096))})
    login_check = LoginCheck(config)
    assert await login_check.log_in_proved("192.0.2.1", "ann", False) is None
    waiting = asyncio.ensure_future(login_check.log_in_proved("192.0.2.1", "ann", True))
    await asyncio.sleep(0)
    login_check.adopt(dataclasses.replace(config, users={"bob": config.users["ann"]}))
    assert await waiting is None


def test_an_access_token_is_a_password_of_its_user_alone() -> None:
    token, ended, other = new_token(), new_token(), new_token()
    lines = token_line("ci", "never", token), token_line("old", "2020-01-01", ended)
    config = dataclasses.replace(with_users(alice="secret", bob="other"), access_tokens={"alice": lines})
    login_check = LoginCheck(config)
    assert login_check.users.remembers("alice", token) and login_check.check("alice", token)
    assert (login_check.users.login_of_token(token), login_check.users.login_of_token(ended)) == ("alice", "")
    for login, wrong in (("bob", token), ("", token), ("alice", ended), ("alice", other), ("alice", token + "x")):
        assert not login_check.users.remembers(login, wrong) and not login_check.check(login, wrong)
    assert login_check.check("alice", "secret")
    login_check.adopt(dataclasses.replace(config, access_tokens={}))
    assert not login_check.users.remembers("alice", token) and not login_check.check("alice", token)
    login_check.adopt(dataclasses.replace(config, users=with_users(bob="other").users))
    assert login_check.users.login_of_token(token) == "", "its user is gone"
