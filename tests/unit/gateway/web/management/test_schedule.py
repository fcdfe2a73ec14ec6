"""The schedule of a running gateway, gone through so much at a time."""

from __future__ import annotations

import asyncio

from config.matching import QUEUE, AddressMatcher
from engine.broker import Broker
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import Plan
from engine.values import gates
from engine.values.message import STOMP, Message
from gateway.loop.engine_loop import EngineLoop
from gateway.web.management.schedule import CANCELS, KEYS_AT_ONCE, LiveSchedule
from tests.support.engine.broker_view import BrokerView
from tests.support.fakes import HastyClock, VirtualClock, VirtualTimers
from tests.support.store.scripted_store import DurableStore


def world(clock: VirtualClock) -> tuple[Broker, LiveSchedule]:
    store = DurableStore()
    broker = Broker(store, clock, VirtualTimers(clock), AddressMatcher(()), 1 << 20)
    return broker, LiveSchedule(EngineLoop(asyncio.get_running_loop(), broker, store, clock))


def schedule(broker: Broker, name: str, count: int) -> list[str]:
    """Return the ids."""
    target = delayed(BrokerView(broker).queue(name), Plan(delay_ms=3_600_000))
    ids: list[str] = []
    for _ in range(count):
        message = Message(0, STOMP, 0, 4, 0, 0, 0, b"", b"", b"x")
        assert broker.send(target, message) == gates.OPEN
        ids.append(BrokerView(broker).schedule.job_id(message.log_offset))
    return ids


async def test_a_long_cancel_is_done_in_several_requests_that_begin_where_the_last_one_ended() -> None:
    broker, live = world(HastyClock())
    schedule(broker, "other", 3 * KEYS_AT_ONCE)
    schedule(broker, "q", 3 * KEYS_AT_ONCE)
    after, cancelled, requests = -1, 0, 0
    while True:
        done = await live.cancel_all((QUEUE, "q"), after)
        requests += 1
        cancelled += done["cancelled"]
        if not done["next"]:
            break
        assert int(done["next"]) > after
        after = int(done["next"])
    assert cancelled == 3 * KEYS_AT_ONCE
    assert 3 <= requests <= 7
    assert len(BrokerView(broker).schedule) == 3 * KEYS_AT_ONCE


async def test_many_ids_are_cancelled_in_several_turns() -> None:
    broker, live = world(VirtualClock())
    ids = schedule(broker, "q", 2 * CANCELS + 1)
    done = await live.cancel([*ids[1:], ids[1], "ID:c0ffee00-1", "nonsense"])
    assert done == {"cancelled": 2 * CANCELS, "unknown": [ids[1], "ID:c0ffee00-1", "nonsense"]}
    schedules = BrokerView(broker).schedule
    assert schedules.places() == [schedules.place_named(ids[0])]
