"""Messages in temporary files of queues that choose, of temporary queues and of topics, and blocks that are lost."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from engine.consumers.consumer import AUTO, INDIVIDUAL, Consumer
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values import gates
from engine.values.delivery import Delivery
from engine.values.destination import TEMP_QUEUE
from tests.support.engine.engine_world import address
from tests.support.engine.spill_world import SpillWorld
from tests.support.fakes import FakeClient

KIB = 1024
SMALL = {"full__max_size_bytes": 20 * KIB}
COUNT = 2_000


def small_world(memory_limit_bytes: int = 1 << 20, **settings: object) -> SpillWorld:
    """Return a world in which 2,000 messages of 1,000 octets are three times what memory may hold."""
    return SpillWorld(address(">", **settings), memory_limit_bytes=memory_limit_bytes)


def sends(
    world: SpillWorld,
    to: Queue | Topic,
    headers: list[str],
    start: int = 0,
    persistent: bool = False,
    is_grouped: bool = False,
) -> None:
    """Send messages whose bodies are their numbers; none of them may be refused.  is_grouped: headers are groups."""
    for number, text in enumerate(headers, start):
        body = b"%d".ljust(1000) % number
        if is_grouped:
            message = world.message(to, body, persistent=persistent, group=text)
        else:
            message = world.message(to, body, persistent=persistent, headers=text)
        assert world.broker.send(to, message) == gates.OPEN
        if number % 50 == 49:
            world.turn()
    world.turn()


def number_of(delivery: Delivery) -> int:
    return int(delivery.message.body.split()[0])


def drained(world: SpillWorld, client: FakeClient) -> Generator[int]:
    """Take and acknowledge what comes, until nothing does."""
    while taken := client.take():
        for delivery in taken:
            yield number_of(delivery)
            world.broker.acknowledge(delivery)
        world.advance(1)  # what a turn had no time for goes on in the next
        assert world.memory_used() < world.memory_limit_bytes


def assert_nothing_is_left(world: SpillWorld) -> None:
    assert world.paths() == []
    assert (world.memory_used(), world.spiller.blocks.spilled_bytes, world.spiller.blocks.gathered_bytes) == (0, 0, 0)
    for account in world.address_accounts().by_id.values():
        assert (account.used_bytes, account.used_messages) == (0, 0)


def chosen(world: SpillWorld, selector: str, name: str = "q", prefetch: int = 10) -> tuple[FakeClient, Consumer]:
    client = world.client(selector)
    consumer = world.subscribe(client, name, INDIVIDUAL, prefetch, selector=selector)
    return client, consumer


def test_a_queue_whose_consumer_selects_spills_and_its_consumer_finds_what_is_there() -> None:
    world = small_world()
    client, consumer = chosen(world, "n = '7'")
    queue = world.queue("q")
    sends(world, queue, [f"n:{number % 100}" for number in range(COUNT)])
    assert world.paths() != []
    assert not world.is_memory_shut()
    assert list(drained(world, client)) == list(range(7, COUNT, 100))
    assert consumer.describe_gate().startswith("selector")
    world.broker.disconnect(client, is_lost=False)
    rest = world.client("rest")
    world.subscribe(rest, "q", INDIVIDUAL, 100)
    assert list(drained(world, rest)) == [number for number in range(COUNT) if number % 100 != 7]
    assert_nothing_is_left(world)


def test_selectors_that_come_later_find_each_its_own_in_order() -> None:
    world = small_world(full__page_limit_bytes=1 << 30)
    queue = world.queue("q")
    sends(world, queue, [f"n:{number % 100}" for number in range(COUNT)])
    some = [chosen(world, f"n = '{number}'", prefetch=3)[0] for number in range(0, 100, 20)]
    for number, client in enumerate(some):
        assert list(drained(world, client)) == list(range(20 * number, COUNT, 100))
    everything, _ = chosen(world, "n <> '0'", prefetch=10)
    assert list(drained(world, everything)) == [number for number in range(COUNT) if number % 20]
    assert_nothing_is_left(world)


def test_messages_of_the_log_and_others_reach_a_selector_in_the_order_they_came_in() -> None:
    world = small_world()
    queue = world.queue("q")
    for start in range(0, COUNT, 10):
        sends(world, queue, [f"n:{number % 7}" for number in range(start, start + 10)], start, start % 30 == 0)
    client, _ = chosen(world, "n = '3'")
    assert list(drained(world, client)) == [number for number in range(COUNT) if number % 7 == 3]


def test_what_a_selector_left_comes_back_to_others() -> None:
    world = small_world()
    queue = world.queue("q")
    sends(world, queue, [f"n:{number % 100}" for number in range(COUNT)])
    client, _ = chosen(world, "n = '99'", prefetch=5)
    assert [number_of(one) for one in client.take()] == [99, 199, 299, 399, 499]
    world.broker.disconnect(client, is_lost=True)
    world.turn()
    rest = world.client("rest")
    world.subscribe(rest, "q", INDIVIDUAL, 100)
    assert sorted(drained(world, rest)) == list(range(COUNT))
    assert_nothing_is_left(world)


@pytest.mark.parametrize("memory_limit_bytes", [1 << 20, 8 << 20])
def test_a_group_whose_owner_takes_nothing_holds_others_back_only_for_want_of_memory(memory_limit_bytes: int) -> None:
    world = small_world(memory_limit_bytes, **SMALL)
    queue = world.queue("q")
    clients = [world.client(f"c{number}") for number in range(2)]
    consumers = [world.consumer(client, "q", INDIVIDUAL, 10) for client in clients]
    sends(world, queue, ["stuck", "busy"], is_grouped=True)
    taken = [client.take()[0] for client in clients]
    busy = [number_of(one) for one in taken].index(1)
    world.broker.acknowledge(taken[busy])
    groups = ["stuck" if number % 4 else "busy" for number in range(2, COUNT)]
    sends(world, queue, groups, 2, is_grouped=True)
    assert world.paths() != []
    expected = list(range(4, COUNT, 4))
    got = list(drained(world, clients[busy]))
    if memory_limit_bytes > COUNT * 1500:
        assert got == expected
    else:
        assert got == expected[: len(got)]
        assert 50 < len(got) < len(expected)
        assert (
            consumers[busy]
            .describe_gate()
            .startswith("look-ahead: messages found ahead for consumers that do not take them")
        )
    world.broker.acknowledge(taken[1 - busy])
    slow: list[int] = []
    for _ in range(100):
        slow += drained(world, clients[1 - busy])
        got += drained(world, clients[busy])
    assert got == expected
    assert slow == [number for number in range(2, COUNT) if number % 4]
    assert_nothing_is_left(world)


def test_an_exclusive_queue_spills() -> None:
    world = small_world(queue__exclusive_consumer=True)
    client = world.consuming("q", INDIVIDUAL, 10)
    sends(world, world.queue("q"), [""] * COUNT)
    assert world.paths() != []
    assert list(drained(world, client)) == list(range(COUNT))
    assert_nothing_is_left(world)


def test_a_temporary_queue_spills_and_takes_its_files_along() -> None:
    world = small_world()
    client = world.client()
    queue = world.broker.open_temporary(client, TEMP_QUEUE)
    assert isinstance(queue, Queue)
    sends(world, queue, [""] * COUNT)
    assert world.paths() != []
    world.subscribe(client, queue, INDIVIDUAL, 100)
    got = drained(world, client)
    assert [next(got) for _ in range(500)] == list(range(500))
    got.close()
    world.broker.disconnect(client, is_lost=True)
    world.turn()
    assert_nothing_is_left(world)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("limit", [-1, 1 << 30])
def test_a_slow_subscriber_of_a_topic_costs_a_file_and_nobody_waits(persistent: bool, limit: int) -> None:
    world = small_world(full__page_limit_bytes=limit)
    topic = world.topic()
    slow, quick, idle = world.client("slow"), world.client("quick"), world.client("idle")
    world.consumer(slow, topic, INDIVIDUAL, 10)
    world.consumer(quick, topic, AUTO, 100)
    world.consumer(idle, topic, INDIVIDUAL, 10)
    sends(world, topic, [""] * COUNT, persistent=persistent)
    assert len(quick.bodies()) == COUNT
    assert world.paths() != []
    assert world.memory_used() < world.memory_limit_bytes
    assert list(drained(world, slow)) == list(range(COUNT))
    world.broker.disconnect(idle, is_lost=True)
    world.turn()
    if topic.account is not None:
        topic.account.see_durable(world.memory_store)
    assert_nothing_is_left(world)


def test_an_automatic_subscriber_whose_socket_is_full_gets_all_in_order() -> None:
    world = small_world()
    topic = world.topic()
    client = world.consuming(topic, AUTO, 100)
    client.hold_after = 0
    client.is_output_full = True
    sends(world, topic, [""] * COUNT)
    world.holds_workers = True
    client.hold_after = -1
    world.drain_output(client)
    sends(world, topic, [""] * 50, COUNT)
    world.holds_workers = False
    world.turn()
    assert [int(body) for body in client.bodies()] == list(range(COUNT + 50))
    assert_nothing_is_left(world)


def test_a_durable_subscription_spills_what_is_not_in_the_log() -> None:
    world = small_world()
    topic = world.topic()
    client = world.client(client_id="me")
    world.consumer(client, topic, INDIVIDUAL, 10, subscription="d", is_durable=True)
    sends(world, topic, [""] * COUNT)
    assert world.paths() != []
    assert list(drained(world, client)) == list(range(COUNT))
    assert_nothing_is_left(world)


def test_a_subscription_with_a_limit_on_what_waits_drops_instead() -> None:
    world = small_world(pending__strategy="constant", pending__limit=100)
    topic = world.topic()
    client = world.consuming(topic, INDIVIDUAL, 10)
    sends(world, topic, [""] * COUNT)
    assert world.paths() == []
    assert len(list(drained(world, client))) == 110


def test_a_block_that_was_changed_on_the_disk_is_lost_and_the_next_one_comes() -> None:
    world = small_world(full__page_limit_bytes=1 << 30, **SMALL)
    queue = world.queue("q")
    sends(world, queue, [""] * 300)
    path = world.paths()[0]
    file = world.files.open(path)
    file.pwrite(b"#", 5_000)
    file.close()
    client = world.subscriber("q", INDIVIDUAL, 100)
    got = list(drained(world, client))
    assert got == sorted(got)
    lost = 300 - len(got)
    assert 0 < lost < 80
    assert (world.spiller.blocks.lost_count, queue.dropped_count, queue.depth) == (lost, lost, 0)
    assert world.spiller.blocks.notices == [
        f"queue://q: {lost} non-persistent messages are lost: {path}, position 0: the checksum of a block "
        "does not match"
    ]
    assert world.spiller.reason == ""
    assert_nothing_is_left(world)


def test_a_selector_goes_on_behind_a_block_whose_file_is_gone() -> None:
    world = small_world(**SMALL)
    queue = world.queue("q")
    sends(world, queue, [f"n:{number}" for number in range(300)])
    world.files.unlink(world.paths()[0])
    client, consumer = chosen(world, "n = '299'")
    assert [number_of(one) for one in client.take()] == [299]
    assert queue.depth == 300 - world.spiller.blocks.lost_count
    assert world.spiller.blocks.lost_count > 200
    assert consumer.describe_gate().startswith("selector")


def test_where_the_disk_refuses_a_selector_finds_what_waits_in_memory() -> None:
    world = small_world(**SMALL)
    world.files.fail("pwrite", 28, ".spill", count=1 << 30)
    queue = world.queue("q")
    sends(world, queue, [f"n:{number}" for number in range(500)])
    client, _ = chosen(world, "n = '499'")
    assert [number_of(one) for one in client.take()] == [499]
