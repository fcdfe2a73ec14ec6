"""Non-persistent messages past their budget: to temporary files and back in order, and what becomes of accounts."""

from __future__ import annotations

import errno

import pytest

from engine.backlog.spiller import BLOCK_BYTES
from engine.consumers.consumer import INDIVIDUAL, Consumer
from engine.dispatch.selector_view import VIEW_BYTES
from engine.ports.workers import READ_LANE
from engine.values import gates
from tests.support.engine.engine_world import address
from tests.support.engine.spill_world import SpillWorld
from tests.support.fakes import FakeClient

KIB = 1024
SMALL = {"full__max_size_bytes": 20 * KIB}


def bodies(count: int, start: int = 0, size: int = 1000) -> list[bytes]:
    return [(b"%d " % number).ljust(size, b".") for number in range(start, start + count)]


def fill(world: SpillWorld, count: int = 1000, to: str = "q", start: int = 0) -> list[bytes]:
    sent = bodies(count, start)
    for at in range(0, count, 50):
        world.send(*sent[at : at + 50], to=to, persistent=False)
    return sent


def sent_until_memory_is_full(world: SpillWorld) -> list[bytes]:
    """Return the messages that were taken before producers had to wait."""
    queue = world.queue("q")
    sent = bodies(2000)
    for taken, body in enumerate(sent):
        gate = world.broker.send(queue, world.message(queue, body, persistent=False))
        world.turn()
        if gate != gates.OPEN:
            assert gate == gates.MEMORY
            return sent[:taken]
    raise AssertionError("memory has taken everything")


def drained(world: SpillWorld, client: FakeClient, count: int) -> list[bytes]:
    """Take and acknowledge what comes until nothing does."""
    got: list[bytes] = []
    for _ in range(count):
        taken = client.take()
        if not taken:
            break
        got += [delivery.message.body for delivery in taken]
        for delivery in taken:
            world.broker.acknowledge(delivery)
        world.turn()
    return got


def consumer(world: SpillWorld, client: FakeClient, name: str = "q", prefetch: int = 100) -> Consumer:
    found = world.subscribe(client, name, INDIVIDUAL, prefetch)
    return found


def assert_nothing_is_left(world: SpillWorld) -> None:
    assert world.paths() == []
    assert world.memory_used() == 0
    assert world.spiller.blocks.spilled_bytes == 0
    for account in world.address_accounts().by_id.values():
        assert (account.used_bytes, account.used_messages) == (0, 0)


def test_what_an_address_is_not_to_hold_in_memory_waits_in_temporary_files_and_comes_in_order() -> None:
    world = SpillWorld(address(">", **SMALL), memory_limit_bytes=256 * KIB * KIB)
    sent = fill(world)
    assert world.paths() == ["data/spill/00000000.spill"]
    assert world.memory_used() < 20 * KIB + 2 * BLOCK_BYTES
    assert world.queue("q").depth == 1000
    assert world.spiller.blocks.spilled_bytes > 800 * 1000
    client = world.client()
    consumer(world, client)
    assert drained(world, client, 1000) == sent
    assert_nothing_is_left(world)


def test_memory_as_a_whole_stays_within_its_limit() -> None:
    world = SpillWorld(memory_limit_bytes=4 << 20)
    sent = {name: fill(world, 1000, name) for name in ("a", "b", "c", "d", "e", "f")}
    assert 2 << 20 < world.memory_used() < 4 << 20
    assert not world.is_memory_shut()
    for name, expected in sent.items():
        client = world.client(name)
        consumer(world, client, name)
        assert drained(world, client, 1000) == expected
    assert_nothing_is_left(world)


def test_priorities_and_what_came_meanwhile_keep_their_order() -> None:
    world = SpillWorld(address(">", **SMALL))
    first = fill(world, 300)
    world.send(b"urgent", persistent=False, priority=9)
    client = world.client()
    consumer(world, client, prefetch=10)
    later = fill(world, 300, start=300)
    got = drained(world, client, 1000)
    assert [body for body in got if body != b"urgent"] == first + later
    assert got.index(b"urgent") < 20
    assert_nothing_is_left(world)


def test_messages_of_the_log_and_others_stay_in_the_order_they_came_in() -> None:
    world = SpillWorld(address(">", **SMALL))
    sent = bodies(600)
    for number, body in enumerate(sent):
        world.send(body, persistent=number % 7 == 0 or 200 <= number < 260)
    client = world.client()
    consumer(world, client)
    world.sync()
    assert drained(world, client, 1000) == sent
    world.sync()
    assert_nothing_is_left(world)


def test_a_redelivered_message_comes_before_what_is_spilled() -> None:
    world = SpillWorld(address(">", **SMALL))
    sent = fill(world, 300)
    client = world.client("first")
    consumer(world, client, prefetch=5)
    world.broker.disconnect(client, is_lost=True)
    world.turn()
    second = world.client("second")
    consumer(world, second)
    assert drained(world, second, 1000) == sent
    assert_nothing_is_left(world)


def test_a_restart_knows_nothing_of_it() -> None:
    world = SpillWorld(address(">", **SMALL))
    fill(world)
    assert world.paths() != []
    world.crash()
    assert world.paths() == []
    world.broker.begin_turn()
    assert world.queue("q").depth == 0
    assert world.memory_used() == 0


def test_a_queue_that_is_deleted_takes_it_along() -> None:
    world = SpillWorld(address(">", full__page_limit_bytes=1 << 30, **SMALL))
    fill(world)
    queue = world.queue("q")
    assert queue.account is not None
    assert queue.account.used_messages == 1000
    world.let_go(queue)
    world.turn()
    assert queue.depth == 0
    assert_nothing_is_left(world)


@pytest.mark.parametrize("holds", [False, True])
def test_a_queue_that_is_deleted_while_a_block_is_on_its_way(holds: bool) -> None:
    world = SpillWorld(address(">", **SMALL))
    world.holds_workers = holds
    fill(world, 300)
    client = world.client()
    world.holds_workers = True
    consumer(world, client, prefetch=100)
    for delivery in client.take():
        world.broker.acknowledge(delivery)
    world.broker.disconnect(client, is_lost=False)
    world.let_go(world.queue("q"))
    world.holds_workers = False
    world.turn()
    assert_nothing_is_left(world)


def test_a_disk_that_refuses_leaves_them_in_memory_and_the_gate_shuts_as_ever() -> None:
    world = SpillWorld(memory_limit_bytes=512 * KIB)
    world.files.fail("pwrite", errno.ENOSPC, ".spill", count=1 << 30)
    sent = sent_until_memory_is_full(world)
    assert "No space left" in world.spiller.reason
    assert world.memory_store.is_accepting()
    world.files.heal()
    client = world.client()
    consumer(world, client)
    assert drained(world, client, 2000) == sent
    assert_nothing_is_left(world)


def test_producers_go_on_once_the_disk_takes_what_it_refused() -> None:
    world = SpillWorld(memory_limit_bytes=512 * KIB)
    world.files.fail("pwrite", errno.ENOSPC, ".spill", count=1 << 30)
    sent = sent_until_memory_is_full(world)
    world.advance(10_000)
    assert world.is_memory_shut() and "No space left" in world.spiller.reason
    world.files.heal()
    world.advance(1_000)
    assert not world.is_memory_shut() and world.spiller.reason == ""
    client = world.client()
    consumer(world, client)
    assert drained(world, client, 2000) == sent
    assert_nothing_is_left(world)


def test_blocks_that_have_left_are_not_written_again() -> None:
    world = SpillWorld(memory_limit_bytes=512 * KIB)
    world.files.fail("pwrite", errno.ENOSPC, ".spill", count=1 << 30)
    sent = fill(world, 300)
    client = world.client()
    consumer(world, client)
    assert drained(world, client, 2000) == sent
    world.files.heal()
    world.advance(1_000)
    assert_nothing_is_left(world)


def test_a_block_that_cannot_be_read_is_asked_for_again() -> None:
    world = SpillWorld(address(">", **SMALL))
    sent = fill(world, 300)
    world.files.fail("pread", errno.EIO, ".spill", count=2)
    client = world.client()
    found = consumer(world, client)
    got = drained(world, client, 1000)
    assert got == sent[: len(got)]
    assert len(got) < 100
    assert "Input/output error" in world.spiller.reason
    assert found.describe_gate() == "paging"
    for _ in range(3):
        world.advance(1_000)
        got += drained(world, client, 1000)
    assert got == sent
    assert world.spiller.reason == ""
    assert_nothing_is_left(world)


def test_what_expires_there_is_expired_when_it_comes_back() -> None:
    world = SpillWorld(address(">", expiry_address=None, **SMALL))
    soon = world.broker.wall_ms + 1_000
    sent = bodies(300)
    for body in sent:
        world.send(body, persistent=False, expires_ms=soon)
    world.send(b"stays", persistent=False)
    world.advance(5_000)
    client = world.client()
    consumer(world, client)
    world.advance(60_000)
    assert drained(world, client, 1000) == [b"stays"]
    assert_nothing_is_left(world)


def test_more_than_a_selector_may_keep_was_spilled_behind_a_page_that_comes_later() -> None:
    world = SpillWorld(address("q", full__max_size_bytes=2 * KIB), memory_limit_bytes=64 << 20)
    world.spiller.block_bytes = 2 * VIEW_BYTES
    world.send(*[b"other".ljust(KIB)] * 3)
    logged, spilled = bodies(5), bodies(40, 5, 30 * KIB)  # the latter take more than VIEW_BYTES
    world.send(*logged, headers="colour:red")
    world.send(*spilled, headers="colour:red", persistent=False)
    client = world.client()
    world.consumer(client, "q", INDIVIDUAL, 1, selector="colour = 'red'")
    got: list[bytes] = []
    pages = 0
    for _ in range(100):
        world.end_turn()
        world.broker.begin_turn()
        pages += world.workers.finish(READ_LANE)
        for delivery in client.take():
            got.append(delivery.message.body)
            world.broker.acknowledge(delivery)
    assert (got, pages) == (logged + spilled, 1)


def test_a_selector_finds_what_was_spilled_before_it_came() -> None:
    world = SpillWorld(address(">", **SMALL))
    for number, body in enumerate(bodies(300)):
        world.send(body, persistent=False, headers=f"n:{number}")
    client = world.subscriber("q", INDIVIDUAL, 10, selector="n = '250'")
    assert [one.message.body.split()[0] for one in client.take()] == [b"250"]


@pytest.mark.parametrize("policy", ["BLOCK", "FAIL", "DROP"])
def test_only_addresses_that_page_spill(policy: str) -> None:
    world = SpillWorld(address(">", full__address_full_policy=policy))
    queue = world.queue("q")
    for body in bodies(2000):
        if world.broker.send(queue, world.message(queue, body, persistent=False)) != gates.OPEN:
            break
        world.turn()
    assert world.paths() == []


def test_files_are_removed_as_their_blocks_come_back() -> None:
    world = SpillWorld(address(">", **SMALL), memory_limit_bytes=1 << 30)
    fill(world, 20_000)
    count = len(world.paths())
    assert count == 2
    client = world.client()
    consumer(world, client, prefetch=1000)
    got: list[bytes] = []
    while len(got) < 17_000:
        got += drained(world, client, 1)
    assert len(world.paths()) == 1


@pytest.mark.parametrize("size", [0, 1])
def test_messages_of_next_to_no_octets_go_too(size: int) -> None:
    world = SpillWorld(memory_limit_bytes=4 << 20)
    for _ in range(400):
        world.send(*[b"x" * size] * 50, persistent=False)
    assert not world.is_memory_shut()
    assert world.memory_used() < 4 << 20
    client = world.client()
    consumer(world, client)
    assert len(drained(world, client, 20_000)) == 20_000
    assert_nothing_is_left(world)


def test_what_subscriptions_that_take_nothing_share_goes_too() -> None:
    world = SpillWorld(memory_limit_bytes=4 << 20)
    client = world.client()
    for _ in range(20):
        world.consumer(client, world.topic(), INDIVIDUAL, 1)
    for _ in range(100):
        world.send(*[b""] * 20, to=world.topic(), persistent=False)
    assert not world.is_memory_shut()
    assert world.memory_used() < 4 << 20


def test_what_is_written_out_while_a_block_comes_back_keeps_its_place() -> None:
    world = SpillWorld(memory_limit_bytes=4 << 20)
    sent = fill(world, 4000)
    client = world.client()
    consumer(world, client, prefetch=50)
    (lane,) = world.queue("q").used_lanes
    world.holds_workers = True
    got: list[bytes] = []
    while lane.spill is None or lane.spill.reading is None:
        taken = client.take()
        got += [delivery.message.body for delivery in taken]
        world.acknowledge(*taken)
    assert lane.ready_bytes > 100 * KIB
    while world.spiller.write_out(lane):
        pass
    world.holds_workers = False
    world.turn()
    assert got + drained(world, client, 4000) == sent
    assert_nothing_is_left(world)
