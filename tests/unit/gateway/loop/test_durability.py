"""Commands that the log must keep."""

from __future__ import annotations

import asyncio

import pytest

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.values.errors import StoreError
from engine.values.message import PERSISTENT, STOMP, Message
from gateway.loop.durability import until_durable
from gateway.loop.engine_loop import EngineLoop
from tests.support.engine.broker_view import BrokerView
from tests.support.fakes import VirtualClock, VirtualTimers
from tests.support.store.scripted_store import ScriptedStore


async def test_a_command_is_not_done_where_the_engine_has_stopped_before_its_sync() -> None:
    store, clock = ScriptedStore(), VirtualClock()
    broker = Broker(store, clock, VirtualTimers(clock), AddressMatcher(()), 1 << 20)
    engine_loop = EngineLoop(asyncio.get_running_loop(), broker, store, clock)
    queue = BrokerView(broker).queue("q")
    broker.send(queue, Message(queue.destination_id, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", b"x"))
    assert store.durable_offset() < store.append_offset()
    engine_loop.shut()
    told = "deleted q, but the disk has not taken that yet: the gateway stops; it may be there again"
    with pytest.raises(StoreError, match=told):
        await until_durable(engine_loop, "deleted q", "it may be there again")
