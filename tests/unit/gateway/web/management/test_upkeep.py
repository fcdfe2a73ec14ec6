"""Purging and deleting in a running gateway: bounded, and refused while the disk takes nothing."""

from __future__ import annotations

import asyncio
import logging

import pytest

from config.matching import QUEUE, TOPIC, AddressMatcher
from engine.broker import Broker
from engine.values import gates
from engine.values.errors import DestinationInUse, LimitReached, StoreError
from engine.values.message import STOMP, Message
from gateway.loop.engine_loop import EngineLoop
from gateway.process.counters import GatewayCounters
from gateway.process.log_lines import LINES_MAX, PeerLines
from gateway.web.management.retries import LiveRetries
from gateway.web.management.upkeep import EMPTYING_MS, REMEMBERED_MAX, RUNNING_MAX, RUNNING_PER_USER_MAX, LiveUpkeep
from tests.support.engine.broker_view import BrokerView
from tests.support.engine.engine_world import EngineWorld
from tests.support.fakes import HastyClock, VirtualClock, VirtualTimers
from tests.support.store.scripted_store import DurableStore


def world(clock: VirtualClock) -> tuple[Broker, DurableStore, LiveUpkeep]:
    """Return a broker whose queue ``q`` holds a message; its timers never fire."""
    store = DurableStore()
    broker = Broker(store, clock, VirtualTimers(clock), AddressMatcher(()), 1 << 20)
    assert broker.send(BrokerView(broker).queue("q"), Message(0, STOMP, 0, 4, 0, 0, 0, b"", b"", b"x")) == gates.OPEN
    return (
        broker,
        store,
        LiveUpkeep(EngineLoop(asyncio.get_running_loop(), broker, store, clock), PeerLines(GatewayCounters())),
    )


async def test_so_many_purges_run_at_a_time() -> None:
    _, _, live = world(VirtualClock())
    numbers = [live.purge("q", "", "user 'ann'") for _ in range(RUNNING_PER_USER_MAX)]
    with pytest.raises(LimitReached, match=f"{RUNNING_PER_USER_MAX} purges of user 'ann' are under way"):
        live.purge("q", "", "user 'ann'")
    for number in range(RUNNING_MAX - RUNNING_PER_USER_MAX):
        live.purge("q", "", f"address 192.0.2.{number}")
    with pytest.raises(LimitReached, match=f"{RUNNING_MAX} purges are under way"):
        live.purge("q", "", "user 'bob'")
    live.stop(numbers[0])
    assert live.status(numbers[0])["done"] is True
    assert live.purged(live.purge("q", "", "user 'ann'")) == "q"
    assert live.purged(99) is None


@pytest.mark.parametrize("kind", ["purge", "retry"])
async def test_the_last_runs_are_remembered_after_their_end(kind: str) -> None:
    broker, store, live = world(VirtualClock())
    retries = LiveRetries(EngineLoop(asyncio.get_running_loop(), broker, store, VirtualClock()))

    def start() -> int:
        return live.purge("q", "", "user 'ann'") if kind == "purge" else retries.start("q", "", 0, 0)

    def known(number: int) -> object:
        return live.purged(number) if kind == "purge" else retries.status(number)

    for number in range(1, REMEMBERED_MAX + 1):
        assert start() == number
        (live if kind == "purge" else retries).stop(number)
    assert all(known(number) for number in range(1, REMEMBERED_MAX + 1))
    start()
    assert known(1) is None
    assert known(2) is not None


async def test_an_empty_queue_is_deleted_though_the_purge_has_not_looked_yet() -> None:
    broker, _, live = world(HastyClock())
    assert await live.delete((QUEUE, "q"), True) == {"deleted": "queue://q"}
    assert BrokerView(broker).queue_names() == [] and broker.clients == {}


async def test_a_queue_that_does_not_get_empty_in_time_is_not_deleted() -> None:
    world = EngineWorld(store=DurableStore())
    client = world.consuming()
    world.send(b"1")
    world.refuse(*client.take())  # it waits for its redelivery, where no purge finds it
    world.lose(client)
    live = LiveUpkeep(
        EngineLoop(asyncio.get_running_loop(), world.broker, world.store, world.clock), PeerLines(GatewayCounters())
    )
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
        live.purge("q", "", "user 'ann'")
    with pytest.raises(StoreError, match="queue://q was not deleted, because the disk refuses writes: full"):
        await live.delete((QUEUE, "q"), True)
    assert BrokerView(broker).queue("q").depth == 1


async def test_what_is_not_there_is_said() -> None:
    _, _, live = world(VirtualClock())
    with pytest.raises(LookupError, match="no queue 'other'"):
        live.purge("other", "", "user 'ann'")
    with pytest.raises(LookupError, match="no topic 't'"):
        await live.delete((TOPIC, "t"), False)


async def test_an_operator_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    _, _, live = world(VirtualClock())
    for _ in range(LINES_MAX):
        live.pause("q", "user 'ann'")
        live.resume("q", "user 'ann'")
    live.pause("q", "user 'bob'")
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "queue://q is paused by user 'ann'"
    assert said[LINES_MAX - 1 :] == [
        "queue://q is resumed by user 'ann'; more of user 'ann' is left out for 60 s",
        "queue://q is paused by user 'bob'",
    ]
