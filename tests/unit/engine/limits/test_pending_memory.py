"""What waits in memory in the subscriptions of one user; other users go on whatever it is."""

from __future__ import annotations

from errno import ENOSPC
from typing import Any

import pytest

from config.matching import AddressEntry
from engine.consumers.consumer import INDIVIDUAL, Consumer
from engine.consumers.user_quota import UserLimits
from engine.sources.queue import Queue
from engine.sources.topics.topic import AT_ONCE_MOST
from engine.values import gates
from engine.values.destination import QUEUE
from engine.values.wildcard import Wildcard
from tests.support.engine.engine_world import MIB, address
from tests.support.engine.spill_world import SpillWorld
from tests.support.fakes import FakeClient

MEMORY = 2 * MIB
LIMIT = MEMORY // 16
MANY = 600
TOPIC = "prices"


def world_with(*addresses: AddressEntry) -> SpillWorld:
    limits = UserLimits(unsettled_bytes=MEMORY // 3, pending_bytes=LIMIT)
    return SpillWorld(*addresses, memory_limit_bytes=MEMORY, user_limits=limits)


def enter(world: SpillWorld, user: str) -> FakeClient:
    client = world.client(user)
    client.user = user
    world.enter(client, user, "192.0.2.1")
    return client


def subscribe(world: SpillWorld, client: FakeClient, count: int = 1, **asked: Any) -> list[Queue]:
    queues = []
    for number in range(count):
        consumer = world.consumer(client, world.topic(TOPIC), name=f"{number}", **asked)
        queues.append(consumer.queue)
    world.turn()
    return queues


def publish(world: SpillWorld, count: int, size: int = 10, to: str = TOPIC) -> None:
    """Publish; none may be held back."""
    for number in range(count):
        message = world.message(world.topic(to), b"%0*d" % (size, number), persistent=False)
        assert world.broker.send(world.topic(to), message) == gates.OPEN, f"message {number} is held back"
        world.turn()
        world.advance(1)  # what a turn leaves goes on


@pytest.mark.parametrize(
    "asked", [{}, {"pending_limit": 1_000_000}, {"selector": "TRUE"}], ids=["plain", "pending", "selector"]
)
def test_many_subscriptions_that_take_nothing_hold_back_no_producer(asked: dict[str, Any]) -> None:
    world = world_with()
    mallory, alice = enter(world, "mallory"), enter(world, "alice")
    many = subscribe(world, mallory, MANY, prefetch=1, ack_mode=INDIVIDUAL, **asked)
    (own,) = subscribe(world, alice, prefetch=1, ack_mode=INDIVIDUAL)
    publish(world, 100)
    assert own.depth == 100, "another user's subscription loses nothing"
    assert own.dropped_count == 0
    assert sum(queue.dropped_count for queue in many) > 0
    assert all(queue.depth + queue.dropped_count == 100 for queue in many)


def fill(world: SpillWorld, count: int = MANY) -> list[Queue]:
    """Let another user's subscriptions take what they may."""
    many = subscribe(world, enter(world, "mallory"), count, prefetch=1, ack_mode=INDIVIDUAL)
    publish(world, 60)
    return many


def test_what_can_go_to_temporary_files_goes_there_and_nothing_is_dropped() -> None:
    """One slow subscription has most of the memory while nobody else needs it."""
    world = world_with()
    alice = enter(world, "alice")
    slow = world.consumer(alice, world.topic("news"), prefetch=1, ack_mode=INDIVIDUAL)
    publish(world, 1_000, 1_000, "news")
    assert world.memory_used() > MEMORY // 2
    fill(world)
    assert world.spiller.blocks.spilled_bytes > MEMORY // 4
    assert (slow.queue.depth, slow.queue.dropped_count) == (1_000, 0)
    bodies = []
    while slow.ledger:
        bodies += [one.message.body for one in alice.handed]
        world.acknowledge(*alice.take())
        world.turn()
    assert bodies == [b"%01000d" % number for number in range(1_000)]


def test_while_memory_is_ample_nothing_is_dropped_however_much_waits() -> None:
    world = world_with()
    many = subscribe(world, enter(world, "u"), 300, prefetch=1, ack_mode=INDIVIDUAL)
    publish(world, 25)
    assert LIMIT * 8 < world.memory_used() < MEMORY * 9 // 10
    assert all(queue.dropped_count == 0 for queue in many)


def test_while_no_temporary_file_can_be_written_producers_wait_as_before() -> None:
    world = world_with()
    many = subscribe(world, enter(world, "u"), 40, prefetch=1, ack_mode=INDIVIDUAL)
    world.files.fail("pwrite", ENOSPC, count=1_000_000)
    for number in range(2_000):
        message = world.message(world.topic(TOPIC), b"%0900d" % number, persistent=False)
        if world.broker.send(world.topic(TOPIC), message) != gates.OPEN:
            break
        world.turn()
        world.advance(1)
    assert number < 1_999
    assert all(queue.dropped_count == 0 for queue in many)


def test_the_fullest_subscriptions_of_a_user_lose_messages_first() -> None:
    world = world_with()
    mallory = enter(world, "mallory")
    many = subscribe(world, mallory, 60, prefetch=1, ack_mode=INDIVIDUAL, pending_limit=1_000_000)
    topic = world.topic("other")
    other = [world.consumer(mallory, topic, name=f"o{number}", prefetch=1).queue for number in range(10)]
    publish(world, 4, to="other")
    publish(world, 200)
    assert all(queue.dropped_count > 0 for queue in many)
    assert [queue.dropped_count for queue in other] == [0] * 10


def test_the_oldest_are_dropped_and_the_newest_stay_in_order() -> None:
    world = world_with()
    mallory = enter(world, "mallory")
    consumers = [
        world.consumer(mallory, world.topic(TOPIC), name=f"{number}", prefetch=1, ack_mode=INDIVIDUAL)
        for number in range(MANY)
    ]
    publish(world, 100)
    first = consumers[0]
    bodies = []
    while first.ledger:
        bodies += [one.message.body for one in mallory.handed if one.consumer is first]
        mallory.handed.clear()
        world.acknowledge(*first.ledger.values())
        world.turn()
    numbers = [int(body) for body in bodies]
    assert numbers[0] == 0, "what was handed over stays"
    assert numbers[1:] == list(range(100 - len(numbers) + 1, 100)) and len(numbers) < 100


def test_messages_that_only_memory_has_for_absent_durable_subscribers_are_dropped_too() -> None:
    world = world_with()
    client = enter(world, "mallory")
    client.client_id = "m"
    queues = []
    for number in range(MANY):
        consumer = world.consumer(client, world.topic(TOPIC), subscription=f"{number}", is_durable=True)
        queues.append(consumer.queue)
        world.broker.leave([consumer])
    world.turn()
    world.send(b"logged", to=world.topic(TOPIC))
    publish(world, 100)
    assert sum(queue.dropped_count for queue in queues) > 0
    assert all(queue.depth + queue.dropped_count == 101 for queue in queues)
    back = world.subscribe(client, world.topic(TOPIC), subscription="0", is_durable=True)
    assert client.bodies()[0] == b"logged", "what the log has stays"
    assert back.queue.is_logged


def test_browsers_of_one_user_end_before_producers_wait() -> None:
    world = world_with()
    mallory, alice = enter(world, "mallory"), enter(world, "alice")
    world.send(*[b"x"] * 500)
    own = world.consumer(alice, "q", is_browser=True, prefetch=1)
    ended = 0
    for number in range(20):
        world.subscribe(mallory, "q", name=f"{number}", is_browser=True, prefetch=1)
        world.advance(1)  # a snapshot is copied over several turns
        for consumer, error, _ in mallory.expelled:
            assert "limits.pending-memory-per-user" in str(error)
            world.broker.leave([consumer])
            ended += 1
        mallory.expelled.clear()
        world.turn()
    assert ended and not alice.expelled
    publish(world, 50)
    assert not own.is_closed


def test_a_subscription_to_several_queues_ends_as_a_whole() -> None:
    """Its adapter knows the lead alone until all have taken their first turns."""
    world = world_with(address("kept.>", queue__non_destructive=True))
    mallory = enter(world, "mallory")
    for number in range(5):
        world.send(*[b"x"] * 100, to=world.queue(f"kept.{number}"), persistent=False)
    leads: list[Consumer] = []
    while not mallory.expelled and len(leads) < 100:
        leads.append(world.subscribe(mallory, Wildcard(QUEUE, "kept.>"), prefetch=1, name=f"{len(leads)}"))
        world.advance(1)
    assert {consumer for consumer, _, _ in mallory.expelled} <= set(leads) and mallory.expelled


def test_it_is_told_who_lost_how_much() -> None:
    world = world_with()
    many = fill(world)
    told = world.pending_memory
    assert list(told.waiting) == ["user 'mallory'"]
    (text,) = told.take_notices()
    assert "octets wait in memory for user 'mallory', in 600 subscriptions and browsers; the limit is 131072" in text
    assert told.take_notices() == []
    dropped = sum(queue.dropped_count for queue in many)
    assert told.stats().dropped == {"user 'mallory'": dropped}
    consumer = next(iter(many[0].consumers))
    view = world.why.consumer(consumer)
    assert view is not None and view.remarks == (
        f"{dropped} messages that waited for user 'mallory' were dropped (limits.pending-memory-per-user)",
    )


def test_what_waits_is_told_as_it_is_after_the_check_and_only_while_memory_is_short() -> None:
    world = world_with()
    fill(world)
    told = world.pending_memory
    assert told.stats().largest == {}, "those subscriptions have given way"
    told._memory.keep_unwritten(MEMORY)
    ((holder, waiting_bytes),) = told.stats().largest.items()
    assert holder == "user 'mallory'"
    assert 0 < waiting_bytes <= LIMIT


def test_after_its_user_has_gone_the_memory_is_back() -> None:
    world = world_with()
    mallory = enter(world, "mallory")
    subscribe(world, mallory, MANY, prefetch=1, ack_mode=INDIVIDUAL)
    publish(world, 100)
    world.broker.disconnect(mallory, True)
    for _ in range(100):
        world.turn()
    assert world.memory_used() == 0
    assert world.spiller.blocks.spilled_bytes == 0
    assert world.spiller.blocks.gathered_bytes == 0


def test_messages_offered_over_several_turns_wait_while_memory_is_relieved() -> None:
    world = world_with()
    mallory = enter(world, "mallory")
    many = subscribe(world, mallory, AT_ONCE_MOST + MANY, prefetch=1, ack_mode=INDIVIDUAL)
    topic = world.topic(TOPIC)
    count = 0
    while world.broker.send(topic, world.message(topic, b"x", persistent=False)) == gates.OPEN:
        count += 1
        world.broker.end_turn()
        world.broker.begin_turn()
    most = 0
    for _ in range(300):
        world.broker.end_turn()
        world.timers.fire_due()
        world.broker.begin_turn()
        most = max(most, world.memory_used())
    assert most < MEMORY * 5 // 4, "it does not fill up beside the relief"
    world.advance(1_000)
    assert all(queue.depth + queue.dropped_count == count for queue in many)
    publish(world, 1, to="another")


def test_what_the_log_has_goes_to_no_temporary_file() -> None:
    world = world_with()
    mallory = enter(world, "mallory")
    mallory.client_id = "m"
    kept = world.topic("kept")
    durable = world.subscribe(mallory, kept, subscription="d", is_durable=True, prefetch=1)
    world.send(*[b"x" * 5_000] * 20, to=kept)
    paged_bytes = world.memory_paged()
    assert paged_bytes > 50_000
    many = subscribe(world, mallory, MANY, prefetch=1, ack_mode=INDIVIDUAL)
    publish(world, 60)
    assert sum(queue.dropped_count for queue in many) > 0
    assert (world.memory_paged(), durable.queue.dropped_count) == (paged_bytes, 0)
    assert all(lane.spill is None for lane in durable.queue.used_lanes)


def test_a_message_that_came_back_from_between_those_behind_the_log_is_dropped_like_them() -> None:
    world = world_with()
    mallory = enter(world, "mallory")
    mallory.client_id = "m"
    topic = world.topic(TOPIC)
    queue = world.subscribe(mallory, topic, subscription="d", is_durable=True, prefetch=1).queue
    lane = queue.lane(4)
    lane.add_behind(world.message(topic, b"logged"))
    lane.tail = lane.next_load + 1
    publish(world, 3)
    taken = lane.volatile[1]
    del lane.volatile[1]
    lane.give_back([taken])
    assert lane.volatile[0].position < lane.returned[0].position
    list(world.pending_memory.discard(queue, 1 << 30))
    assert (len(lane.volatile), len(lane.returned), queue.dropped_count) == (0, 0, 3)


def test_who_waits_at_the_memory_reads_why_and_nothing_about_holders_of_nothing() -> None:
    """A queue's own messages fill the memory, and subscribers have taken theirs."""
    world = world_with()
    subscribe(world, enter(world, "u"), 2, prefetch=1_000)
    producer = enter(world, "p")
    world.files.fail("pwrite", ENOSPC, count=1_000_000)
    gate = gates.OPEN
    while gate == gates.OPEN:
        gate = world.try_send(bytes(900), persistent=False)
        world.turn()
        world.advance(1)
    world.park(producer, gate, world.queue("q"))
    (reason,) = world.reasons(producer)
    assert reason.startswith("memory: queue://q; no temporary file can be written: ") and "No space left" in reason
    assert "wait in memory" not in reason
