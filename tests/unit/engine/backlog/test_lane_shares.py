"""What many lanes keep in memory of messages that are in the log."""

from __future__ import annotations

from engine.backlog.lane import Lane
from engine.backlog.lane_entries import IDLE_LANE_BYTES, LANE_BYTES, LANE_MESSAGES
from engine.backlog.lane_shares import LANES_FREE, LEAST_BYTES, LEAST_MESSAGES, SHARED_PART, UPDATED_AT_ONCE
from engine.backlog.memory_budget import MESSAGE_OVERHEAD_BYTES
from engine.consumers.consumer import INDIVIDUAL
from tests.support.engine.engine_world import MIB, EngineWorld, address


def lanes(world: EngineWorld) -> list[Lane]:
    return [lane for queue in world.queues() for lane in queue.used_lanes]


def test_few_lanes_keep_what_one_does() -> None:
    world = EngineWorld()
    for number in range(LANES_FREE - 1):
        world.send(b"x", to=f"q{number}")
    assert {(lane.memory_bytes, lane.memory_messages) for lane in lanes(world)} == {(LANE_BYTES, LANE_MESSAGES)}


def test_many_lanes_share_a_part_of_the_budget_with_the_room_for_their_next_doubling() -> None:
    world = EngineWorld(memory_limit_bytes=256 * MIB)
    for number in range(1000):
        world.send(b"x", to=f"q{number}")
    # The last time was at 512 lanes: LANES_FREE doubled five times.
    size_bytes = 256 * MIB // SHARED_PART // 1024
    assert {lane.memory_bytes for lane in lanes(world)} == {size_bytes}
    assert {lane.idle_bytes for lane in lanes(world)} == {min(size_bytes, IDLE_LANE_BYTES)}
    assert {lane.memory_messages for lane in lanes(world)} == {size_bytes // MESSAGE_OVERHEAD_BYTES}
    assert sum(lane.memory_bytes for lane in lanes(world)) <= 64 * MIB


def test_each_lane_keeps_something() -> None:
    world = EngineWorld(memory_limit_bytes=MIB)
    for number in range(200):
        world.send(b"x", to=f"q{number}")
    assert {(lane.memory_bytes, lane.memory_messages) for lane in lanes(world)} == {(LEAST_BYTES, LEAST_MESSAGES)}
    client = world.client()
    world.send(*[b"%d" % number for number in range(100)], to="q0")
    world.subscribe(client, "q0", INDIVIDUAL, 1000)
    assert [one.message.body for one in client.take()] == [b"x", *(b"%d" % number for number in range(100))]


def test_an_address_may_keep_less() -> None:
    world = EngineWorld(address("small", full__max_size_bytes=100, full__max_size_messages=2))
    for name in ["small", *(f"q{number}" for number in range(100))]:
        world.send(b"x", to=name)
    (lane,) = world.queue("small").used_lanes
    assert (lane.memory_bytes, lane.memory_messages, lane.pages.size_bytes) == (100, 2, 100)


def test_what_a_new_queue_costs_does_not_grow_with_their_number() -> None:
    world = EngineWorld()
    queue = world.queue("q")
    shares = world.shares()
    seen = set()
    for _ in range(LANES_FREE * 256):
        shares.join(Lane(queue, 4))
        seen.add(shares.lane_bytes)
    # At each doubling, so that a lane is told twice or so, however many there are.
    assert len(seen) == 1 + 9


def test_lanes_of_queues_that_are_gone_count_no_more() -> None:
    world = EngineWorld()
    for number in range(1000):
        queue = world.queue(f"q{number}")
        queue.lane(4)
        queue.is_closed = True
    (last,) = world.queue("q999").used_lanes
    assert last.memory_bytes == LANE_BYTES


def test_lanes_may_keep_more_again_once_there_are_fewer() -> None:
    world = EngineWorld()
    for number in range(1000):
        world.send(b"x", to=f"q{number}")
    small = lanes(world)[0].memory_bytes
    sizes = []
    for number in range(10, 1000):
        world.delete(world.queue(f"q{number}"), is_forced=True)
        sizes.append(max(lane.memory_bytes for lane in lanes(world)))
    assert sizes[0] == small and sizes == sorted(sizes)
    few = lanes(world)
    assert len(few) == 10
    assert {lane.memory_bytes for lane in few} == {256 * MIB // SHARED_PART // 28} and small < few[0].memory_bytes
    for number in range(3, 10):
        world.delete(world.queue(f"q{number}"), is_forced=True)
    assert {(lane.memory_bytes, lane.memory_messages) for lane in lanes(world)} == {(LANE_BYTES, LANE_MESSAGES)}


def test_one_that_comes_or_goes_tells_few_others() -> None:
    world = EngineWorld()
    queue = world.queue("q")
    shares = world.shares()
    made = [Lane(queue, 4) for _ in range(5_000)]
    for number, lane in enumerate(made):
        before = [one.memory_bytes for one in made[:number]]
        shares.join(lane)
        if number % 97 == 0 or number in (512, 1024, 2048, 4096):
            told = sum(one.memory_bytes != was for one, was in zip(made[:number], before, strict=True))
            assert told <= UPDATED_AT_ONCE
    assert len({lane.memory_bytes for lane in made}) == 1
