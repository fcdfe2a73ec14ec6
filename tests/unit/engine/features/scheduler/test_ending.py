"""Destinations that end while messages are scheduled for them."""

from __future__ import annotations

from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.ending import CANCELS, CHUNKS
from engine.features.scheduler.pending_schedules import CHUNK_COUNT
from engine.features.scheduler.plan import Plan
from engine.features.scheduler.scheduler import TICK_MS
from engine.values import gates
from engine.values.destination import TEMP_QUEUE
from tests.support.engine.engine_world import EngineWorld, address, world_with_consumer
from tests.support.engine.restart_world import RestartWorld

HOUR = Plan(delay_ms=3_600_000)


def schedule(world: EngineWorld, name: str, count: int, plan: Plan = HOUR) -> None:
    target = delayed(world.queue(name), plan)
    for _ in range(count):
        assert world.broker.send(target, world.message(target, b"x")) == gates.OPEN
    world.turn()


def delete(world: EngineWorld, name: str) -> None:
    world.delete(world.queue_there(name), is_forced=True)


def test_a_turn_cancels_so_many() -> None:
    world = EngineWorld()
    schedule(world, "q", 3 * CANCELS)
    schedule(world, "other", 5)
    pending = world.schedule
    delete(world, "q")
    most = CANCELS + CHUNK_COUNT
    left = len(pending)
    assert left >= 3 * CANCELS + 5 - most
    while world.schedule.is_cancelling():
        world.begin_later(1)
        assert left - len(pending) <= most
        left = len(pending)
    assert pending.targets() == [world.queue_there("other").destination_id] * 5
    assert world.schedule.cancelled_count() == 3 * CANCELS


def test_a_turn_looks_at_so_many() -> None:
    world = EngineWorld()
    schedule(world, "other", CHUNKS * CHUNK_COUNT)
    schedule(world, "q", 3)
    delete(world, "q")
    assert world.schedule.cancelled_count() == 0
    world.advance(1)
    assert world.schedule.cancelled_count() == 3


def test_what_is_due_meanwhile_does_not_fire() -> None:
    world = EngineWorld()
    schedule(world, "other", CHUNKS * CHUNK_COUNT)
    schedule(world, "q", 3, Plan(delay_ms=1_000))
    world.clock.now_ms += 1_100
    world.broker.begin_turn()
    delete(world, "q")
    world.schedule.fire_due()
    assert world.schedule.fired_count() == 0
    assert world.schedule.cancelled_count() == 3
    assert not world.has_queue("q")


def test_what_is_held_back_goes_with_its_destination() -> None:
    world = EngineWorld(address("q", full__max_size_messages=1, full__address_full_policy="BLOCK"))
    schedule(world, "q", 10, Plan(delay_ms=1_000))
    world.advance(1_100)
    scheduler = world.broker.scheduler
    assert scheduler.firing.held.count == 9
    delete(world, "q")
    world.advance(TICK_MS)
    assert (scheduler.firing.held.count, len(scheduler.pending), scheduler.ahead.loaded) == (0, 0, {})


def test_a_stop_in_the_middle_is_made_up_for() -> None:
    world = RestartWorld()
    schedule(world, "q", 2 * CANCELS + CHUNK_COUNT)
    schedule(world, "other", 1)
    delete(world, "q")
    world.sync()
    assert len(world.schedule) > CANCELS
    world.crash()
    assert not world.has_queue("q")
    schedule(world, "q", 1)
    world.advance(100)
    assert len(world.schedule) == 2
    assert not world.schedule.is_cancelling()


def test_a_temporary_queue_takes_what_is_scheduled_for_it_along() -> None:
    world = EngineWorld()
    owner, other = world.client(), world.client()
    for client in (owner, other):
        target = delayed(world.broker.open_temporary(client, TEMP_QUEUE), HOUR)
        world.broker.send(target, world.message(target, b"x"))
    world.leave(owner)
    world.advance(TICK_MS)
    assert len(world.schedule) == 1
    assert list(world.schedule.counts()) == [one.destination_id for one in world.temporaries_of(other)]


def test_a_queue_that_was_spared_for_a_schedule_goes_after_it() -> None:
    world, client = world_with_consumer(address("q", queue__auto_delete=True, queue__auto_delete_delay_ms=500))
    schedule(world, "q", 1)
    world.leave(client)
    world.advance(2_000)
    assert world.has_queue("q")
    scheduler = world.broker.scheduler
    scheduler.cancel(list(scheduler.pending))
    world.advance(499)
    assert world.has_queue("q")
    world.advance(2)
    assert not world.has_queue("q")


def test_a_queue_in_which_the_scheduled_message_waits_stays() -> None:
    world, client = world_with_consumer(address("q", queue__auto_delete=True))
    schedule(world, "q", 1, Plan(delay_ms=1_000))
    world.leave(client)
    world.advance(60_000)
    assert world.stats().depth == 1
    late = world.subscriber()
    [one] = late.handed
    assert one.delivery is not None
    world.acknowledge(one.delivery)
    world.leave(late)
    world.advance(1_000)
    assert not world.has_queue("q")
