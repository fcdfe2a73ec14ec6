"""What expires on the disk leaves within a period, though nobody is there to have it read."""

from __future__ import annotations

from itertools import pairwise

import pytest

from engine.backlog.lane_entries import IDLE_LANE_BYTES
from engine.consumers.consumer import AUTO
from engine.fate.expiry import EXPIRE_MESSAGES_PERIOD_MS
from engine.fate.expiry_sweep import MOVED_MESSAGES, SWEPT_ENTRIES
from engine.ports.workers import READ_LANE
from engine.values import gates
from engine.values.stored import NEVER_MS
from tests.support.engine.engine_world import address
from tests.support.engine.restart_world import RestartWorld

DROPPED = {"dead_letters__process_expired": False}
BIG = b"x" * (IDLE_LANE_BYTES // 4)


def fill(world: RestartWorld, count: int, expires_ms: int = 1_000, body: bytes = BIG) -> None:
    world.send(*[b"%d " % number + body for number in range(count)], expires_ms=world.clock.wall_ms() + expires_ms)


@pytest.mark.parametrize("values", [DROPPED, {"expiry_address": "late"}], ids=["dropped", "moved"])
def test_a_full_address_opens_for_its_producers_without_a_consumer(values: dict[str, object]) -> None:
    world = RestartWorld(address("q", full__address_full_policy="BLOCK", full__max_size_messages=40, **values))
    fill(world, 40)
    client = world.client()
    queue = world.queue("q")
    assert queue.has_backlog() and world.try_send(b"more", queue) == gates.ADDRESS_FULL
    world.park(client, gates.ADDRESS_FULL, queue)
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert (queue.depth, queue.fates.expired_count, client.admissions) == (0, 40, 1)
    world.send(b"fresh")
    world.restart()
    assert world.stats().depth == 1
    late = world.dead_letters("late")
    assert [one.body.split()[0] for one in late] == (
        [b"%d" % number for number in range(40)] if values != DROPPED else []
    )
    assert world.memory_held() == world.memory_paged() == 0


@pytest.mark.parametrize("selector", ["", "colour = 'red'"])
def test_a_durable_subscription_without_a_consumer(selector: str) -> None:
    world = RestartWorld(address("t", expiry_address="late"))
    topic = world.topic()
    client = world.client(client_id="c")
    world.consumer(client, topic, subscription="s", is_durable=True, selector=selector)
    world.leave(client)
    for number in range(6):
        colour = ("red", "blue")[number % 2]
        expires_ms = world.clock.wall_ms() + 1_000 if number < 4 else 0
        world.send(b"%d" % number, to=topic, headers=f"colour:{colour}", expires_ms=expires_ms)
    (queue,) = topic.subscriptions.values()
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert [one.body for one in world.dead_letters("late")] == ([b"0", b"2"] if selector else [b"0", b"1", b"2", b"3"])
    world.restart()
    again = world.client(client_id="c")
    world.subscribe(again, world.topic(), subscription="s", is_durable=True, selector=selector)
    assert again.bodies() == ([b"4"] if selector else [b"4", b"5"])
    assert queue.fates.expired_count == (2 if selector else 4)


def test_a_durable_subscription_whose_expired_messages_go_nowhere() -> None:
    world = RestartWorld(address("t", **DROPPED))
    client = world.client(client_id="c")
    world.consumer(client, world.topic(), subscription="s", is_durable=True)
    world.leave(client)
    for body, expires_ms in ((b"1", 1_000), (b"2", 0), (b"3", 1_000), (b"4", 1_000)):
        world.send(body, to=world.topic(), expires_ms=world.clock.wall_ms() + expires_ms if expires_ms else 0)
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    (queue,) = world.topic().subscriptions.values()
    assert (queue.depth, queue.fates.expired_count) == (1, 3)
    again = world.client(client_id="c")
    world.subscribe(again, world.topic(), subscription="s", is_durable=True)
    assert again.bodies() == [b"2"]


def test_who_listens_hears_of_all_that_is_dropped_from_the_disk() -> None:
    world = RestartWorld(address("q", **DROPPED))
    listener = world.consuming(world.topic("ActiveMQ.Advisory.Expired.Queue.q"), AUTO)
    fill(world, MOVED_MESSAGES + 10)
    assert world.queue("q").has_backlog()
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert (len(listener.handed), world.stats().depth) == (MOVED_MESSAGES + 10, 0)
    assert world.memory_paged() == 0


def test_what_is_found_at_the_start_is_swept_once_and_then_only_when_something_may_have_expired() -> None:
    world = RestartWorld(address("q", **DROPPED))
    fill(world, 5, 50_000)
    world.send(b"for ever")
    world.restart()
    (lane,) = world.queue("q").used_lanes
    assert world.workers.submitted[READ_LANE] == 0
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert world.workers.submitted[READ_LANE] == 1 and world.stats().depth == 6
    assert 0 < lane.first_expiry_ms <= world.clock.wall_ms() + 50_000
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert world.workers.submitted[READ_LANE] == 2 and world.stats().depth == 1
    world.advance(5 * EXPIRE_MESSAGES_PERIOD_MS)
    assert world.workers.submitted[READ_LANE] == 2 and lane.first_expiry_ms == NEVER_MS


def test_a_queue_where_nothing_expires_is_never_looked_at() -> None:
    world = RestartWorld()
    world.send(*[BIG] * 20)
    before = world.workers.submitted[READ_LANE]
    world.advance(3 * EXPIRE_MESSAGES_PERIOD_MS)
    assert world.workers.submitted[READ_LANE] == before and world.stats().depth == 20


@pytest.mark.parametrize(("values", "most"), [(DROPPED, SWEPT_ENTRIES), ({"expiry_address": "late"}, MOVED_MESSAGES)])
def test_one_turn_settles_only_so_many(values: dict[str, object], most: int) -> None:
    world = RestartWorld(address("q", **values))
    world.send(*[BIG] * 5)
    fill(world, 2 * most + 10, body=b"")
    world.begin_later(EXPIRE_MESSAGES_PERIOD_MS)
    queue = world.queue("q")
    depths = [queue.depth]
    for _ in range(12):
        world.broker.end_turn()
        world.broker.begin_turn()
        world.workers.finish(READ_LANE)
        depths.append(queue.depth)
    assert depths[-1] == 5
    assert max(before - after for before, after in pairwise(depths)) <= most


def test_a_consumer_that_comes_meanwhile_gets_what_has_not_expired_and_nothing_twice() -> None:
    world = RestartWorld(address("q", expiry_address="late"))
    for number in range(60):
        expires_ms = world.clock.wall_ms() + 1_000 if number % 3 else 0
        world.send(b"%d " % number + BIG, expires_ms=expires_ms)
    world.begin_later(EXPIRE_MESSAGES_PERIOD_MS)
    client = world.subscriber("q", prefetch=100)
    assert [int(body.split()[0]) for body in client.bodies()] == list(range(0, 60, 3))
    late = [int(one.body.split()[0]) for one in world.dead_letters("late")]
    assert sorted(late) == [number for number in range(60) if number % 3]
    assert world.stats().depth == 20


def test_a_queue_that_is_deleted_while_it_is_swept() -> None:
    world = RestartWorld(address("q", expiry_address="late"))
    fill(world, 20)
    world.begin_later(EXPIRE_MESSAGES_PERIOD_MS)
    assert world.is_sweeping()
    world.delete(world.queue("q"), is_forced=True)
    world.advance(2 * EXPIRE_MESSAGES_PERIOD_MS)
    assert not world.is_sweeping()
    assert world.memory_held() == world.memory_paged()


def test_the_newest_of_a_key_that_has_expired_on_the_disk_is_not_dropped_again() -> None:
    world = RestartWorld(address("q", queue__last_value=True, queue__last_value_key="key", **DROPPED))
    world.send(*[b"%d" % number + BIG for number in range(8)])
    world.send(b"old", headers="key:a", expires_ms=world.clock.wall_ms() + 1_000)
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert world.stats().depth == 8
    world.send(b"new", headers="key:a")
    assert world.stats().depth == 9
