"""Requests that wait for messages: their number is limited, however they take them."""

from __future__ import annotations

import asyncio

import pytest

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.values.errors import LimitReached
from gateway.loop.engine_loop import EngineLoop
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.rest.client_registry import RestClients
from gateway.web.rest.leases import WAITING_MAX, WAITING_PER_ADDRESS_MAX, Leases
from gateway.web.rest.requests import Asking, Took, Watch
from tests.support.fakes import VirtualClock, VirtualTimers
from tests.support.store.scripted_store import DurableStore

TOOK = Took("", 1, 60_000, 60_000, False, "auto")


def clients() -> RestClients:
    store, clock = DurableStore(), VirtualClock()
    broker = Broker(store, clock, VirtualTimers(clock), AddressMatcher(()), 1 << 20)
    loop = EngineLoop(asyncio.get_running_loop(), broker, store, clock)
    return RestClients(loop, lambda login: frozenset(), False, RequestMemory())


def waiting(leases: Leases, address: str, count: int) -> list[asyncio.Task[list[bytes]]]:
    return [asyncio.ensure_future(leases.take(Asking("", address), "q", TOOK, Watch(None))) for _ in range(count)]


async def test_so_many_requests_wait_for_messages_at_a_time() -> None:
    leases = Leases(clients())
    first = waiting(leases, "192.0.2.1", WAITING_PER_ADDRESS_MAX)
    await asyncio.sleep(0)
    with pytest.raises(LimitReached, match=f"{WAITING_PER_ADDRESS_MAX} of 192.0.2.1, take messages"):
        await leases.take(Asking("", "192.0.2.1"), "q", TOOK, Watch(None))
    others = waiting(leases, "192.0.2.2", WAITING_MAX - WAITING_PER_ADDRESS_MAX)
    await asyncio.sleep(0)
    with pytest.raises(LimitReached, match=f"{WAITING_MAX} requests"):
        await leases.take(Asking("", "192.0.2.3"), "q", TOOK, Watch(None))
    for one in (*first, *others):
        one.cancel()
    await asyncio.gather(*first, *others, return_exceptions=True)
    last = waiting(leases, "192.0.2.1", WAITING_PER_ADDRESS_MAX)
    await asyncio.sleep(0)
    assert not any(one.done() for one in last), "those that have ended do not count"
    leases.stop()
    assert await asyncio.gather(*last) == [[]] * WAITING_PER_ADDRESS_MAX
