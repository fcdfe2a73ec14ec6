"""What expires in temporary files leaves within a period, though nobody has it read."""

from __future__ import annotations

import errno

import pytest

from engine.fate.expiry import EXPIRE_MESSAGES_PERIOD_MS
from engine.sources.topics.topic import Topic
from engine.values import gates
from engine.values.destination import TOPIC
from tests.support.engine.engine_world import address
from tests.support.engine.spill_world import SpillWorld
from tests.support.fakes import FakeClient

KIB = 1024
LITTLE = {"full__max_size_bytes": 4 * KIB}
BODY = b"x" * KIB


def fill(world: SpillWorld, to: str | Topic, *lives_ms: int) -> None:
    """Send one message for each: how long it lives, 0 for ever."""
    now_ms = world.clock.wall_ms()
    for number, life_ms in enumerate(lives_ms):
        expires_ms = now_ms + life_ms if life_ms else 0
        world.send(b"%d " % number + BODY, to=to, persistent=False, expires_ms=expires_ms)


def numbers(client: FakeClient) -> list[int]:
    return [int(body.split()[0]) for body in client.bodies()]


def assert_nothing_is_left(world: SpillWorld) -> None:
    assert (world.paths(), world.spiller.blocks.spilled_bytes, world.spiller.blocks.gathered_bytes) == ([], 0, 0)
    assert world.memory_used() == 0
    for account in world.address_accounts().by_id.values():
        assert (account.used_bytes, account.used_messages) == (0, 0)


def test_producers_that_wait_for_what_has_expired_in_a_file_go_on() -> None:
    """A wildcard subscription spills by its own address, and counts for the topic's limit meanwhile."""
    block = address("t.one", full__address_full_policy="BLOCK", full__max_size_messages=200, full__max_size_bytes=-1)
    world = SpillWorld(address(">", **LITTLE), block)
    reader, producer = world.client("reader"), world.client("producer")
    consumer = world.consumer(reader, world.source(TOPIC, "t.>"), prefetch=1)
    topic = world.topic("t.one")
    fill(world, topic, *[1_000] * 200)
    assert len(reader.take()) == 1 and world.spiller.blocks.spilled_bytes
    assert world.broker.send(topic, world.message(topic, b"more")) == gates.ADDRESS_FULL
    world.park(producer, gates.ADDRESS_FULL, topic)
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert (producer.admissions, consumer.queue.depth) == (1, 1)
    world.leave(reader)
    assert_nothing_is_left(world)


@pytest.mark.parametrize("late", [None, "late"])
def test_what_lives_on_comes_in_its_order(late: str | None) -> None:
    world = SpillWorld(address("q", **LITTLE), address(">", expiry_address=late))
    lives_ms = [(0, 1_000, 100_000)[number % 3] for number in range(300)]
    fill(world, "q", *lives_ms)
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert world.stats().depth == 200
    assert sorted(int(one.body.split()[0]) for one in world.dead_letters("late")) == (
        [] if late is None else [number for number in range(300) if number % 3 == 1]
    )
    client = world.subscriber("q", prefetch=1_000)
    deliveries = [one.delivery for one in client.handed if one.delivery is not None]
    assert numbers(client) == [number for number in range(300) if number % 3 != 1]
    world.acknowledge(*deliveries)
    assert_nothing_is_left(world)


def test_a_later_scan_finds_what_an_earlier_one_left() -> None:
    world = SpillWorld(address("q", **LITTLE))
    fill(world, "q", *[(1_000, 40_000)[number % 2] for number in range(300)])
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert world.stats().depth == 150
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert world.stats().depth == 0
    assert_nothing_is_left(world)


def test_files_are_not_read_as_long_as_nothing_in_them_has_expired() -> None:
    world = SpillWorld(address("q", **LITTLE))
    fill(world, "q", *[100_000] * 300)
    world.holds_workers = True
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert not world.spill_workers.jobs


def test_a_queue_that_ends_while_its_block_is_read() -> None:
    world = SpillWorld(address(">", **LITTLE))
    for name in ("gone", "there"):
        fill(world, name, *[1_000] * 300)
    world.holds_workers = True
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert world.spill_workers.jobs
    world.delete(world.queue("gone"), is_forced=True)
    world.holds_workers = False
    world.turn()
    assert world.stats("there").depth == 0
    assert_nothing_is_left(world)


def test_a_disk_that_refuses_is_asked_again_by_a_later_scan() -> None:
    world = SpillWorld(address("q", **LITTLE))
    fill(world, "q", *[1_000] * 300)
    world.files.fail("pread", errno.EIO, ".spill", count=1)
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert world.stats().depth > 0
    world.advance(2 * EXPIRE_MESSAGES_PERIOD_MS)
    assert world.stats().depth == 0
    assert_nothing_is_left(world)
