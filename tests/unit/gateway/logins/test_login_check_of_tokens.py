"""Tokens beside passwords: who decides, who is slowed down, what a reload changes."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
import sys
from collections import ChainMap
from pathlib import Path

import pytest

pytest.importorskip("jwt", reason="needs the extra jwt")

from config.errors import ConfigError
from config.login_servers import JwtConfig, SecurityConfig
from config.model import Endpoint, Listeners, ServerConfig
from config.scram import hash_password
from gateway.logins.login_check import EXTERNAL_KEPT, LoginCheck
from gateway.logins.login_queue import CONCURRENT_CHECKS_MAX, WAITING_PER_ADDRESS_MAX
from gateway.process.counters import GatewayCounters
from protocols.peer_socket import LoggedIn
from tests.support.stopped_time import stopped_time, without_delay
from tests.support.token_issuer import AUDIENCE, ISSUER, Issuer

USERS = {"admin": tuple(hash_password("secret", 4096))}
ADDRESS = "192.0.2.1"


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def config(issuer: Issuer, tmp_path: Path) -> ServerConfig:
    keys = tmp_path / "keys.json"
    keys.write_bytes(issuer.jwks())
    return ServerConfig(security=SecurityConfig(JwtConfig(ISSUER, AUDIENCE, str(keys))))


async def test_without_users_only_tokens_let_in(config: ServerConfig, issuer: Issuer) -> None:
    login_check = LoginCheck(config)
    assert login_check.is_required and config.checks_logins
    assert login_check.scram_mechanisms() == () and login_check.token_mechanisms() == ("OAUTHBEARER", "XOAUTH2")
    assert not login_check.check("", "") and not login_check.check("admin", "secret")
    token = issuer.token("ann", ["shop"])
    assert login_check.remembered("whoever", token) is None
    found = await login_check.log_in(ADDRESS, "whoever", token)
    assert found is not None and found == LoggedIn("ann", frozenset({"shop"}), found.ends_s, True)
    assert login_check.remembered("another", token) == found
    assert login_check.user_named("ann") == "", "a certificate does not log in as a user of a token"


async def test_an_open_listener_may_have_tokens_in_place_of_users(config: ServerConfig) -> None:
    listeners = Listeners(stomp=Endpoint("tcp", "0.0.0.0", 61613))
    LoginCheck(dataclasses.replace(config, listeners=listeners))
    with pytest.raises(ConfigError):
        LoginCheck(ServerConfig(listeners=listeners))


async def test_a_token_is_of_no_configured_user(config: ServerConfig, issuer: Issuer) -> None:
    login_check = LoginCheck(dataclasses.replace(config, users=USERS, groups={"admin": frozenset({"ops"})}))
    token = issuer.token("admin", ["shop"])
    assert await login_check.log_in(ADDRESS, "admin", token) is None
    assert await login_check.log_in(ADDRESS, "admin", token) is None, "nor the second time"
    assert login_check.remembered("admin", token) is None
    assert login_check.refusal(token) == "its user is one of the configuration, who has a password"
    found = await login_check.log_in(ADDRESS, "admin", "secret")
    assert found is not None and found == LoggedIn("admin", frozenset({"ops"}), found.ends_s, False)
    assert login_check.refusal("secret") == ""


async def test_a_name_beside_a_token_gives_no_rights(config: ServerConfig, issuer: Issuer) -> None:
    login_check = LoginCheck(dataclasses.replace(config, users=USERS, groups={"admin": frozenset({"ops"})}))
    found = await login_check.log_in(ADDRESS, "admin", issuer.token("ann", ["shop"]))
    assert found is not None and found.user == "ann" and found.groups == {"shop"}


async def test_who_comes_into_the_configuration_has_a_password(config: ServerConfig, issuer: Issuer) -> None:
    login_check = LoginCheck(config)
    token = issuer.token("ann", ["shop"])
    assert await login_check.log_in(ADDRESS, "", token) is not None
    assert login_check.known_groups["ann"] == {"shop"}
    login_check.adopt(dataclasses.replace(config, users={"ann": USERS["admin"]}, groups={"ann": frozenset({"ops"})}))
    assert login_check.remembered("", token) is None and await login_check.log_in(ADDRESS, "", token) is None
    assert login_check.known_groups["ann"] == {"ops"} == login_check.groups_of("ann")


async def test_groups_are_those_of_each_token(config: ServerConfig, issuer: Issuer) -> None:
    """A token with fewer rights must not get those of another one of the same user."""
    login_check = LoginCheck(config)
    wide, narrow = issuer.token("ann", ["shop", "ops"]), issuer.token("ann", ["shop"])
    for token, groups in ((wide, {"shop", "ops"}), (narrow, {"shop"}), (wide, {"shop", "ops"})):
        found = login_check.remembered("", token) or await login_check.log_in(ADDRESS, "", token)
        assert found is not None and found.groups == groups
        assert login_check.known_groups["ann"] == groups
    assert login_check.groups_of("ann") == frozenset()


async def test_the_groups_that_are_known_are_bounded(config: ServerConfig, issuer: Issuer) -> None:
    login_check = LoginCheck(config)
    token = issuer.token("ann", ["shop"])
    await login_check.log_in(ADDRESS, "", token)
    assert isinstance(login_check.known_groups, ChainMap)
    others = login_check.known_groups.maps[1]
    for number in range(EXTERNAL_KEPT):
        others[f"user{number}"] = frozenset()
    del others["user0"]
    assert len(others) == EXTERNAL_KEPT
    login_check.remembered("", token)
    assert len(others) == EXTERNAL_KEPT and "ann" in others


async def test_wrong_tokens_are_wrong_passwords(config: ServerConfig, issuer: Issuer) -> None:
    counters = GatewayCounters()
    login_check = LoginCheck(config, counters)
    loop = asyncio.get_running_loop()
    expired = issuer.token("ann", exp=1)
    begun_s = loop.time()
    for _ in range(3):
        assert await login_check.log_in(ADDRESS, "", expired) is None
    assert counters.failed_logins == 3
    assert loop.time() - begun_s >= 0.3, "0.1 s, then 0.2 s: the delays of passwords"
    assert login_check.refusal(expired) == "it has expired"


async def test_the_wrong_tokens_of_one_user_do_not_delay_another_one(config: ServerConfig, issuer: Issuer) -> None:
    """They may share an address, that of a proxy."""
    login_check = LoginCheck(config)
    expired = issuer.token("ann", exp=1)
    failing = [asyncio.ensure_future(login_check.log_in(ADDRESS, "", expired)) for _ in range(5)]
    await asyncio.gather(*failing)
    waiting = asyncio.ensure_future(login_check.log_in(ADDRESS, "", issuer.token("ann", exp=2)))
    assert await login_check.log_in(ADDRESS, "", issuer.token("bob")) is not None
    assert not waiting.done()
    waiting.cancel()


async def test_wrong_tokens_do_not_delay_those_whom_they_name(config: ServerConfig, issuer: Issuer) -> None:
    """A name in a token with a wrong signature is nobody's; of a shared name some tokens may have expired."""
    login_check = LoginCheck(dataclasses.replace(config, users=USERS))
    await login_check.log_in(ADDRESS, "admin", "secret")
    with stopped_time():
        wrong = [Issuer().token(name, ["shop"]) for name in ("ann", "admin") for _ in range(3)]
        waiting = [asyncio.ensure_future(login_check.log_in(ADDRESS, "", token)) for token in wrong]
        while sum(login_check.refusal(token) != "" for token in wrong) < len(wrong):
            await asyncio.sleep(0)
        for _ in range(2):
            assert await without_delay(login_check.log_in(ADDRESS, "", issuer.token("ann", ["shop"]))) is not None
        login_check.adopt(dataclasses.replace(config, users={"admin": tuple(hash_password("other", 4096))}))
        found = await without_delay(login_check.log_in(ADDRESS, "admin", "other"))
        assert found is not None, "nor users with passwords"
        assert any(not one.done() for one in waiting), "all but the first ones of each name"
        for one in waiting:
            one.cancel()


async def test_a_fleet_with_a_token_for_each_client_comes_in_from_one_address(
    config: ServerConfig, issuer: Issuer
) -> None:
    """All of them connect at once after a restart; the queue of password checks has places for 64."""
    counters = GatewayCounters()
    login_check = LoginCheck(config, counters)
    tokens = [issuer.token(f"device{number}") for number in range(2 * WAITING_PER_ADDRESS_MAX + CONCURRENT_CHECKS_MAX)]
    found = await asyncio.gather(*(login_check.log_in(ADDRESS, "", token) for token in tokens))
    assert None not in found and counters.refused_logins == 0


async def test_right_tokens_come_in_beside_a_flood_of_wrong_ones(config: ServerConfig, issuer: Issuer) -> None:
    counters = GatewayCounters()
    login_check = LoginCheck(config, counters)
    wrong = [issuer.token(f"guess{number}", exp=1) for number in range(2 * WAITING_PER_ADDRESS_MAX)]
    flood = [asyncio.ensure_future(login_check.log_in(ADDRESS, "", token)) for token in wrong]
    assert await login_check.log_in(ADDRESS, "", issuer.token("ann")) is not None
    assert await asyncio.gather(*flood) == [None] * len(wrong)
    assert counters.failed_logins + counters.refused_logins == len(wrong)


async def test_a_client_that_goes_while_its_token_is_checked_takes_no_place(
    config: ServerConfig, issuer: Issuer
) -> None:
    login_check = LoginCheck(config)
    for number in range(5):
        gone = asyncio.ensure_future(login_check.log_in(ADDRESS, "", issuer.token(f"gone{number}")))
        await asyncio.sleep(0)
        gone.cancel()
    assert await login_check.log_in(ADDRESS, "", issuer.token("ann")) is not None


async def test_a_token_that_is_forgotten_before_its_answer_lets_nobody_in(config: ServerConfig, issuer: Issuer) -> None:
    """Else it would be taken as the user that the client has named."""
    login_check = LoginCheck(dataclasses.replace(config, users=USERS, groups={"admin": frozenset({"ops"})}))
    assert login_check.tokens is not None
    source = login_check.tokens.source
    token = issuer.token("ann")
    check = asyncio.ensure_future(login_check.log_in(ADDRESS, "admin", token))
    while login_check.tokens.known(token) is None:
        await asyncio.sleep(0)
    source.keys = None
    assert await check is None


def test_the_extra_is_named_where_it_is_missing(config: ServerConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "jwt" or name.startswith("gateway.logins.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(ConfigError, match=r"security\.jwt\.issuer: needs an extra .* pip install 'penstock\[jwt\]'"):
        LoginCheck(config)


def test_no_library_of_tokens_is_loaded_without_them() -> None:
    code = (
        "import sys; from config.model import ServerConfig; from gateway.logins.login_check import LoginCheck; "
        "LoginCheck(ServerConfig()); print('jwt' in sys.modules or 'cryptography' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
