"""The scan for expired messages: all of them go, however many queues there are, in parts."""

from __future__ import annotations

from typing import Final

import pytest

from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.consumers.turn_steps import TURN_STEPS
from engine.fate.expiry import EXPIRE_MESSAGES_PERIOD_MS
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import Plan
from engine.values.delivery import Refusal
from engine.values.gates import OPEN
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.engine.restart_world import RestartWorld

QUEUES: Final = TURN_STEPS  # more than one turn looks at
MESSAGES: Final = 3 * TURN_STEPS


def waiting(world: EngineWorld) -> int:
    return world.total_depth()


def scan_once(world: EngineWorld) -> None:
    """Let only what is due at this very moment fire, once."""
    world.clock.now_ms += EXPIRE_MESSAGES_PERIOD_MS
    world.broker.begin_turn()
    world.look_for_expired()
    world.turn()


def test_a_scan_of_many_queues_takes_several_turns() -> None:
    world = EngineWorld()
    for number in range(QUEUES):
        world.send(b"x", to=f"q.{number}", expires_ms=world.clock.wall_ms() + 1_000)
    scan_once(world)
    assert 0 < waiting(world) < QUEUES
    world.advance(0)
    assert waiting(world) == 0


def test_a_scan_of_many_messages_takes_several_turns_and_keeps_the_others_in_order() -> None:
    world = EngineWorld()
    soon_ms = world.clock.wall_ms() + 1_000
    bodies = [b"%d" % number for number in range(MESSAGES)]
    for body in bodies:
        queue = world.queue("deep")
        expires_ms = (0, soon_ms, soon_ms + 10**6)[int(body) % 3]
        message = world.message(queue, body, persistent=False, expires_ms=expires_ms)
        assert world.broker.send(queue, message) == OPEN
    world.turn()
    world.send(b"x", to="next", persistent=False, expires_ms=soon_ms)
    scan_once(world)
    assert MESSAGES * 2 // 3 + 1 < waiting(world) < MESSAGES
    world.advance(0)
    assert waiting(world) == MESSAGES * 2 // 3
    reader = world.client("reader")
    world.subscribe(reader, "deep", AUTO)
    assert reader.bodies() == [body for body in bodies if int(body) % 3 != 1]
    assert world.memory_held() == 0


def test_messages_may_be_taken_and_come_back_while_a_scan_goes_on() -> None:
    world = EngineWorld()
    soon_ms = world.clock.wall_ms() + 1_000
    world.send(*[b"x"] * MESSAGES, persistent=False, expires_ms=soon_ms)
    world.send(*[b"y"] * MESSAGES, persistent=False)
    client = world.subscriber("q", INDIVIDUAL, 100)
    held = client.take()
    client.is_output_full = True
    scan_once(world)
    for delivery in held:
        world.broker.refuse(delivery, Refusal("requeue"))
    world.advance(0)
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    world.advance(0)
    assert world.stats().depth == MESSAGES
    client.is_output_full = False
    world.broker.disconnect(client, is_lost=False)
    reader = world.client("reader")
    world.subscribe(reader, "q", AUTO)
    assert reader.bodies() == [b"y"] * MESSAGES


def test_a_scan_ends_before_the_next_one_begins() -> None:
    world = EngineWorld()
    for number in range(QUEUES):
        world.send(b"x", to=f"q.{number}", expires_ms=world.clock.wall_ms() + 1_000)
    scan_once(world)
    left = waiting(world)
    world.look_for_expired()
    assert waiting(world) == left  # those that the first one has not come to
    world.advance(0)
    assert waiting(world) == 0


def test_a_queue_that_was_removed_meanwhile_is_passed_over() -> None:
    world = EngineWorld()
    for number in range(QUEUES):
        world.send(b"x", to=f"q.{number}", expires_ms=world.clock.wall_ms() + 1_000)
    scan_once(world)
    world.delete(world.queue(f"q.{QUEUES - 1}"), is_forced=True)
    world.advance(0)
    assert waiting(world) == 0


def test_the_queue_behind_one_that_was_removed_meanwhile_is_looked_at_from_its_beginning() -> None:
    world = EngineWorld()
    soon_ms = world.clock.wall_ms() + 1_000
    world.send(*[b"x"] * MESSAGES, to="deep", persistent=False, expires_ms=soon_ms + 10**6)
    world.send(b"x", to="next", persistent=False, expires_ms=soon_ms)
    world.clock.now_ms += EXPIRE_MESSAGES_PERIOD_MS
    world.broker.begin_turn()
    world.leave_steps(TURN_STEPS // 4)
    world.look_for_expired()
    world.broker.end_turn()
    assert waiting(world) == MESSAGES + 1, "the first one takes long"
    world.delete(world.queue("deep"), is_forced=True)
    world.advance(0)
    assert waiting(world) == 0


def test_a_queue_that_was_empty_is_looked_at_once_something_that_expires_has_come() -> None:
    world = EngineWorld()
    queue = world.queue("q")
    for _ in range(2):
        world.send(b"x", expires_ms=world.clock.wall_ms() + 1_000)
        assert queue.has_expiring
        world.advance(EXPIRE_MESSAGES_PERIOD_MS)
        assert queue.depth == 0
        world.advance(EXPIRE_MESSAGES_PERIOD_MS)
        assert not queue.has_expiring
    assert queue.fates.expired_count == 2


HOUR_MS: Final = 3_600_000


@pytest.mark.parametrize("persistent", [True, False])
def test_after_the_wall_clock_went_forward_and_back_fresh_messages_live_as_long_as_they_say(persistent: bool) -> None:
    world = EngineWorld()
    for by_ms in (HOUR_MS, -HOUR_MS):
        world.clock.set_wall(by_ms)
        world.advance(1)
    world.send(b"fresh", persistent=persistent, expires_ms=world.clock.wall_ms() + 10_000)
    client = world.subscriber("q", AUTO)
    assert client.bodies() == [b"fresh"]
    world.leave(client)
    world.send(b"late", persistent=persistent, expires_ms=world.clock.wall_ms() + 10_000)
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert waiting(world) == 0 and world.queue("q").fates.expired_count == 1


def test_what_is_stored_while_the_wall_clock_is_behind_has_the_last_time_that_it_showed() -> None:
    world = EngineWorld()
    world.clock.set_wall(HOUR_MS)
    world.advance(1)
    highest_ms = world.clock.wall_ms()
    world.clock.set_wall(-HOUR_MS)
    world.advance(1)
    world.send(b"1")
    world.send(b"2", persistent=False)
    client = world.subscriber("q", AUTO)
    assert [one.message.store_time_ms for one in client.handed] == [highest_ms, highest_ms]


def test_a_delay_is_as_long_as_asked_for_after_the_wall_clock_went_back() -> None:
    world = EngineWorld()
    world.clock.set_wall(HOUR_MS)
    world.advance(1)
    world.clock.set_wall(-HOUR_MS)
    world.advance(1)
    target = delayed(world.queue("q"), Plan(delay_ms=5_000))
    world.broker.send(target, world.message(target, b"x"))
    world.advance(4_000)
    assert waiting(world) == 0
    world.advance(2_000)
    assert waiting(world) == 1


def test_what_waits_without_its_content_while_memory_is_short_expires_all_the_same() -> None:
    """The first in the queue has returned, nobody takes it, and memory has no room for the content of the others."""
    world = RestartWorld(
        address("q", redelivery__initial_redelivery_delay_ms=200, redelivery__redelivery_delay_ms=200),
        memory_limit_bytes=20_000,
    )
    client = world.consuming("q", INDIVIDUAL, 10)
    world.send(b"x" * 500)
    world.send(b"y" * 500, b"y" * 500, expires_ms=world.broker.wall_ms + 1_000)
    world.send(*[b"z" * 600] * 16, to="full", persistent=False)
    assert world.is_memory_short()
    world.refuse(*client.take(), refusal=Refusal("redeliver"))
    world.leave(client)
    world.advance(1_000)
    assert (world.queue().depth, world.queue().fates.delayed_count) == (3, 2)
    world.advance(2 * EXPIRE_MESSAGES_PERIOD_MS)
    assert world.queue().depth == 1
