"""Lines in the log about configurations that were read again: an operator does not fill the log, a signal may."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from config.model import ServerConfig
from gateway.connections.security import Security
from gateway.loop.engine_loop import EngineLoop
from gateway.process.audit_log import AuditLog
from gateway.process.counters import GatewayCounters
from gateway.process.log_lines import LINES_MAX, PeerLines
from gateway.web.management.reload import LiveReload
from tests.support.engine.engine_world import EngineWorld
from tests.support.store.scripted_store import DurableStore


async def test_an_operator_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = EngineWorld(store=DurableStore())
    loop = EngineLoop(asyncio.get_running_loop(), world.broker, world.store, world.clock)
    config = ServerConfig()
    other = replace(config, data_directory="elsewhere")
    counters = GatewayCounters()
    live = LiveReload(config, lambda: other, Security(config), loop, PeerLines(counters), AuditLog(counters))
    for _ in range(LINES_MAX + 2):
        await live.reload("user 'ann'")
    await live.reload("SIGHUP")
    said = [record.getMessage() for record in caplog.records if record.name == "penstock"]
    assert said[0].startswith("configuration: read again for user 'ann': needs a restart: data: elsewhere, before ")
    assert said[LINES_MAX - 1].endswith("; more of user 'ann' is left out for 60 s")
    assert [line.split(": ")[1] for line in said[LINES_MAX:]] == ["read again for SIGHUP"]
    assert counters.left_out_lines == 2
