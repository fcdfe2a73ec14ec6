"""The clients behind requests: one for each user and address that sends."""

from __future__ import annotations

import asyncio

import pytest

from config.matching import AddressMatcher
from engine.broker import Broker
from gateway.loop.engine_loop import EngineLoop
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.rest.client_registry import RestClients
from gateway.web.rest.requests import Asking
from tests.support.fakes import VirtualClock, VirtualTimers
from tests.support.store.scripted_store import DurableStore


@pytest.mark.parametrize(("is_login_required", "count"), [(False, 2), (True, 3)])
async def test_logins_make_senders_only_where_they_are_checked(is_login_required: bool, count: int) -> None:
    store, clock = DurableStore(), VirtualClock()
    broker = Broker(store, clock, VirtualTimers(clock), AddressMatcher(()), 1 << 20)
    loop = EngineLoop(asyncio.get_running_loop(), broker, store, clock)
    clients = RestClients(loop, lambda login: frozenset(), is_login_required, RequestMemory())
    asked = [Asking("ann", "192.0.2.1"), Asking("bob", "192.0.2.1"), Asking("ann", "192.0.2.2")]
    senders = {clients.sender(one) for one in asked * 2}
    assert len(senders) == len(broker.clients) == count
    clients.stop()
    assert not broker.clients
