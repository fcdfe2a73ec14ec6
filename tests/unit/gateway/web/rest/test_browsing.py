"""Browsing over HTTP: a browser whose client has left."""

from __future__ import annotations

import asyncio

import pytest

from config.matching import AddressMatcher
from engine.broker import Broker
from gateway.loop.engine_loop import EngineLoop
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.rest.browsing import Browsing
from gateway.web.rest.client_registry import RestClients
from gateway.web.rest.requests import Asking
from tests.support.engine.broker_view import BrokerView
from tests.support.fakes import VirtualClock, VirtualTimers
from tests.support.store.scripted_store import DurableStore


async def test_a_browser_leaves_with_its_client() -> None:
    store, clock = DurableStore(), VirtualClock()
    broker = Broker(store, clock, VirtualTimers(clock), AddressMatcher(()), 1 << 20)
    BrokerView(broker).own_queue("q")
    clients = RestClients(
        EngineLoop(asyncio.get_running_loop(), broker, store, clock), lambda login: frozenset(), False, RequestMemory()
    )
    page = asyncio.create_task(Browsing(clients).browse(Asking("", "192.0.2.1"), "q", "", 5, "auto"))
    await asyncio.sleep(0)
    assert broker.clients
    page.cancel()
    with pytest.raises(asyncio.CancelledError):
        await page
    assert not broker.clients
