"""Configurations that are read again: what they change for each connection, and their lines in the log."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import replace
from typing import Final

import pytest

from config.model import ServerConfig
from config.scram import hash_password
from engine.values.errors import EngineError
from gateway.logins.login_check import LoginCheck
from gateway.loop.engine_loop import EngineLoop
from gateway.process.audit_log import AuditLog
from gateway.process.counters import GatewayCounters
from gateway.process.log_lines import LINES_MAX, PeerLines
from gateway.web.management.reload import USERS_A_TURN, LiveReload
from tests.support.connection_world import ConnectionWorld
from tests.support.engine.engine_world import EngineWorld
from tests.support.fakes import FakeClient
from tests.support.store.scripted_store import DurableStore

VERIFIERS: Final = tuple(hash_password("secret", 4_096))


async def test_an_operator_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = EngineWorld(store=DurableStore())
    loop = EngineLoop(asyncio.get_running_loop(), world.broker, world.store, world.clock)
    config = ServerConfig()
    other = replace(config, data_directory="elsewhere")
    counters = GatewayCounters()
    live = LiveReload(config, lambda: other, LoginCheck(config), loop, PeerLines(counters), AuditLog(counters))
    for _ in range(LINES_MAX + 2):
        await live.reload("user 'ann'")
    await live.reload("SIGHUP")
    said = [record.getMessage() for record in caplog.records if record.name == "penstock"]
    assert said[0].startswith("configuration: read again for user 'ann': needs a restart: data: elsewhere, before ")
    assert said[LINES_MAX - 1].endswith("; more of user 'ann' is left out for 60 s")
    assert [line.split(": ")[1] for line in said[LINES_MAX:]] == ["read again for SIGHUP"]
    assert counters.left_out_lines == 2


class User(FakeClient):
    """A connection of a user; it notes the turn in which it hears of its rights."""

    def __init__(self, login: str, loop: EngineLoop, turns: Counter[int]) -> None:
        super().__init__(login)
        self.user = login
        self._loop = loop
        self._turns = turns
        self.heard: list[str] = []

    def rights_changed(self) -> None:
        assert self._loop.is_open, "in a turn"
        self._turns[self._loop.turn] += 1
        self.heard.append(",".join(sorted(self.groups)))

    def give_up(self, error: EngineError) -> None:
        self._turns[self._loop.turn] += 1
        self.heard.append(str(error))


def configuration(**groups: str) -> ServerConfig:
    """Return one with these users, each in one group."""
    users = dict.fromkeys(groups, VERIFIERS)
    return ServerConfig(users=users, groups={login: frozenset((group,)) for login, group in groups.items()})


def reloading(loop: EngineLoop, before: ServerConfig, after: ServerConfig) -> LiveReload:
    counters = GatewayCounters()
    return LiveReload(before, lambda: after, LoginCheck(before), loop, PeerLines(counters), AuditLog(counters))


async def test_a_change_reaches_a_few_connections_a_turn() -> None:
    world = EngineWorld(store=DurableStore())
    loop = EngineLoop(asyncio.get_running_loop(), world.broker, world.store, world.clock)
    turns: Counter[int] = Counter()
    clients = [User(login, loop, turns) for login in ("ann", "bob", "") for _ in range(5_000 // 3)]
    for client in clients:
        world.broker.connect(client)
    gone = clients[-1 - 5_000 // 3]
    live = reloading(loop, configuration(ann="guests", bob="guests"), configuration(ann="ops"))
    reload = asyncio.ensure_future(live.reload("SIGHUP"))
    while not turns:
        await asyncio.sleep(0)
    world.broker.disconnect(gone, is_lost=True)
    await reload
    assert max(turns.values()) <= USERS_A_TURN
    heard = {client.user: client.heard for client in clients if client is not gone}
    assert heard == {"ann": ["ops"], "bob": ["the user bob was removed"], "": []}
    assert all(client.heard == heard[client.user] for client in clients if client is not gone)
    assert gone.heard == [], "it has left before its turn came"


async def test_a_client_that_asks_and_goes_leaves_nobody_out() -> None:
    world = EngineWorld(store=DurableStore())
    loop = EngineLoop(asyncio.get_running_loop(), world.broker, world.store, world.clock)
    turns: Counter[int] = Counter()
    clients = [User("ann", loop, turns) for _ in range(10 * USERS_A_TURN)]
    for client in clients:
        world.broker.connect(client)
    reload = asyncio.ensure_future(reloading(loop, configuration(ann="guests"), configuration(ann="ops")).reload("bob"))
    while not turns:
        await asyncio.sleep(0)
    reload.cancel()
    while not clients[-1].heard:
        await asyncio.sleep(0)
    assert reload.cancelled()
    assert all(client.heard == ["ops"] for client in clients)


async def test_a_defect_at_one_connection_ends_it_and_the_others_hear() -> None:
    world = ConnectionWorld(3)
    for session in world.host.sessions:
        session.user = "ann"
        world.broker.connect(session)
    while not all(session.ticks for session in world.host.sessions):
        await asyncio.sleep(0)  # the first tick, which a reload may come before or after
    broken = world.host.sessions[1]
    broken.is_broken = broken.is_lossy = True
    await reloading(world.engine_loop, configuration(ann="guests"), configuration(ann="ops")).reload("SIGHUP")
    world.turn()
    assert [session.log for session in world.host.sessions] == [["rights changed"], ["lost"], ["rights changed"]]
    assert (world.counters.session_faults, world.engine_loop.failed.is_set()) == (1, False)


async def test_a_defect_in_the_engine_stops_the_gateway() -> None:
    world = ConnectionWorld(2)
    for session in world.host.sessions:
        session.user = "ann"
        world.broker.connect(session)
    world.session.is_engine_broken = True
    await reloading(world.engine_loop, configuration(ann="guests"), configuration(ann="ops")).reload("SIGHUP")
    assert world.engine_loop.failed.is_set(), "no change in the engine may be left half done"
    assert world.host.sessions[1].log == []
