"""Purging and deleting in a running gateway: bounded, and refused while the disk takes nothing."""

from __future__ import annotations

import asyncio

import pytest

from config.matching import QUEUE, TOPIC, AddressMatcher
from engine.broker import Broker
from engine.values import gates
from engine.values.errors import DestinationInUse, LimitReached, StoreError
from engine.values.message import STOMP, Message
from gateway.live.upkeep import EMPTYING_MS, RUNNING_MAX, LiveUpkeep
from gateway.loop.engine_loop import EngineLoop
from tests.support.engine.broker_view import BrokerView
from tests.support.engine.engine_world import EngineWorld
from tests.support.fakes import HastyClock, VirtualClock, VirtualTimers
from tests.support.store.scripted_store import DurableStore


def world(clock: VirtualClock) -> tuple[Broker, DurableStore, LiveUpkeep]:
    """Return a broker whose queue ``q`` holds a message; its timers never fire."""
    store = DurableStore()
    broker = Broker(store, clock, VirtualTimers(clock), AddressMatcher(()), 1 << 20)
    assert broker.send(BrokerView(broker).queue("q"), Message(0, STOMP, 0, 4, 0, 0, 0, b"", b"", b"x")) == gates.OPEN
    return broker, store, LiveUpkeep(EngineLoop(asyncio.get_running_loop(), broker, store, clock))


async def test_so_many_purges_run_at_a_time() -> None:
    _, _, live = world(VirtualClock())
    numbers = [live.purge("q", "") for _ in range(RUNNING_MAX)]
    with pytest.raises(LimitReached, match=f"{RUNNING_MAX} purges are under way"):
        live.purge("q", "")
    live.stop(numbers[0])
    assert live.status(numbers[0])["done"] is True
    assert live.purged(live.purge("q", "")) == "q"
    assert live.purged(99) is None


async def test_an_empty_queue_is_deleted_though_the_purge_has_not_looked_yet() -> None:
    broker, _, live = world(HastyClock())
    assert await live.delete((QUEUE, "q"), True) == {"deleted": "queue://q"}
    assert BrokerView(broker).queue_names() == [] and broker.clients == {}


async def test_a_queue_that_does_not_get_empty_in_time_is_not_deleted() -> None:
    world = EngineWorld(store=DurableStore())
    client = world.client()
    world.consumer(client)
    world.send(b"1")
    world.refuse(*client.take())  # it waits for its redelivery, where no purge finds it
    world.lose(client)
    live = LiveUpkeep(EngineLoop(asyncio.get_running_loop(), world.broker, world.store, world.clock))
    deleting = asyncio.create_task(live.delete((QUEUE, "q"), True))
    await asyncio.sleep(0)  # it has begun
    assert not deleting.done()
    world.clock.now_ms += EMPTYING_MS
    with pytest.raises(DestinationInUse, match="queue://q still holds 1 messages after 5000 ms; purging it first"):
        await deleting
    assert world.has_queue("q")
    assert world.queue("q").consumer_count() == 0


async def test_nothing_is_dropped_while_the_disk_takes_nothing() -> None:
    broker, store, live = world(VirtualClock())
    store.fail("full")
    with pytest.raises(StoreError, match="nothing was purged, because the disk refuses writes: full"):
        live.purge("q", "")
    with pytest.raises(StoreError, match="queue://q was not deleted, because the disk refuses writes: full"):
        await live.delete((QUEUE, "q"), True)
    assert BrokerView(broker).queue("q").depth == 1


async def test_what_is_not_there_is_said() -> None:
    _, _, live = world(VirtualClock())
    with pytest.raises(LookupError, match="no queue 'other'"):
        live.purge("other", "")
    with pytest.raises(LookupError, match="no topic 't'"):
        await live.delete((TOPIC, "t"), False)
