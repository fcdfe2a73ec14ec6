"""The one budget of messages: what counts in it, and that it is kept whatever is read."""

from __future__ import annotations

from engine.backlog.memory_budget import HOLDER_BYTES, MESSAGE_OVERHEAD_BYTES, MemoryBudget
from engine.consumers.consumer import INDIVIDUAL
from engine.values import gates
from engine.values.delivery import Refusal
from engine.values.message import STOMP, Message
from engine.values.options import FIRST, ReplayStart
from tests.support.engine.engine_world import MIB, address
from tests.support.engine.restart_world import RestartWorld
from tests.support.engine.spill_world import SpillWorld
from tests.support.fakes import FakeClient

BODY = b"x" * 1_000


def drain(world: RestartWorld, *clients: FakeClient) -> int:
    """Acknowledge what comes until nothing does; return how much came.  The budget is kept all the time."""
    count = 0
    while taken := [delivery for client in clients for delivery in client.take()]:
        count += len(taken)
        for delivery in taken:
            world.broker.acknowledge(delivery)
        world.turn()
        assert world.memory_held() <= world.memory_limit_bytes
    return count


def test_ten_priorities_with_a_deep_backlog() -> None:
    world = RestartWorld(memory_limit_bytes=2 * MIB)
    for number in range(4_000):
        world.send(BODY, priority=number % 10)
        assert world.memory_held() <= 2 * MIB
    client = world.subscriber("q", INDIVIDUAL, 500)
    assert drain(world, client) == 4_000
    assert world.memory_held() == 0


def test_queues_that_nobody_reads_keep_a_quarter_of_it() -> None:
    world = RestartWorld(memory_limit_bytes=MIB)
    for number in range(3_000):
        world.send(BODY, to=f"q{number % 300}")
    assert world.memory_paged() <= MIB // 4 + 2_000


def test_many_queues_with_a_little_each_that_only_memory_holds() -> None:
    world = SpillWorld(memory_limit_bytes=4 * MIB)
    for number in range(4_000):
        queue = world.queue(f"q{number % 200}")
        assert world.broker.send(queue, world.message(queue, BODY, persistent=False)) == gates.OPEN
        world.turn()
    client = world.client()
    for number in range(200):
        world.consumer(client, f"q{number}", INDIVIDUAL, 10)
    world.turn()
    assert drain(world, client) == 4_000
    assert (world.paths(), world.memory_held()) == ([], 0)


def test_many_slow_replays_have_a_little_each_and_go_on_as_they_acknowledge() -> None:
    world = RestartWorld(memory_limit_bytes=4 * MIB)
    world.send(*[BODY] * 500)
    world.sync()
    clients = [world.client(f"c{number}") for number in range(100)]
    consumers = [world.consumer(client, "q", INDIVIDUAL, 1_000, replay=ReplayStart(place=FIRST)) for client in clients]
    world.turn()
    assert world.memory_held() <= 4 * MIB
    assert {consumer.describe_gate() for consumer in consumers} == {"memory"}
    assert drain(world, *clients) == 100 * 500
    assert world.memory_used() == 0


def test_what_waits_for_its_redelivery_keeps_no_content_while_memory_is_short() -> None:
    world = RestartWorld(
        address(">", redelivery__initial_redelivery_delay_ms=60_000, redelivery__maximum_redeliveries=5),
        memory_limit_bytes=MIB,
    )
    world.send(*[BODY] * 1_200)
    client = world.subscriber("q", INDIVIDUAL, 100)
    while taken := client.take():
        for delivery in taken:
            world.broker.refuse(delivery, Refusal())
        world.turn()
    assert world.queue("q").fates.delayed_count == 1_200
    assert world.memory_held() < MIB
    count = 0
    for _ in range(100):
        world.advance(60_001)
        count += drain(world, client)
    assert count == 1_200
    assert world.memory_held() == 0


def test_a_group_waits_for_a_message_that_is_due_and_whose_content_is_being_read() -> None:
    world = RestartWorld(address(">", redelivery__initial_redelivery_delay_ms=60_000), memory_limit_bytes=MIB)
    world.send(b"x" * 800_000, to="other", persistent=False)
    world.send(b"1", b"2", group="g")
    first = world.client("first")
    world.subscribe(first, "q", INDIVIDUAL, 1)
    (delivery,) = first.take()
    world.broker.refuse(delivery, Refusal())
    world.broker.disconnect(first, is_lost=False)
    world.turn()
    world.begin_later(60_001)
    assert world.reloading_count() == 1
    second = world.client("second")
    world.subscribe(second, "q", INDIVIDUAL, 1)
    assert second.bodies() == [b"1"]


def test_the_octets_count_for_the_first_holder_for_the_encoded_copy_of_several_and_a_little_for_each() -> None:
    budget = MemoryBudget(10_000)
    message = Message(1, STOMP, 0, 4, 0, 0, 0, b"", b"a:b\n", b"body")
    budget.hold(message)
    budget.hold(message)
    assert budget.used_bytes == 8 + MESSAGE_OVERHEAD_BYTES + HOLDER_BYTES + 8, "what several get is kept encoded, too"
    budget.hold(message)
    assert budget.used_bytes == 8 + MESSAGE_OVERHEAD_BYTES + HOLDER_BYTES + 8 + HOLDER_BYTES
    budget.release(message)
    budget.release(message)
    assert budget.used_bytes == 8 + MESSAGE_OVERHEAD_BYTES
    budget.release(message)
    assert budget.used_bytes == 0


def message(size: int) -> Message:
    return Message(1, STOMP, 0, 4, 0, 0, 0, b"", b"", b"x" * size)


def test_producers_wait_at_the_limit_and_go_on_at_nine_tenths() -> None:
    budget = MemoryBudget(10_000)
    held = [message(1_000 - MESSAGE_OVERHEAD_BYTES) for _ in range(10)]
    for one in held:
        assert not budget.is_full()
        budget.hold(one)
    assert budget.is_full()
    assert not budget.is_eased()
    budget.release(held.pop())
    assert (budget.is_full(), budget.is_eased()) == (False, True)


def test_what_the_log_has_takes_of_the_room_but_no_more_than_half() -> None:
    budget = MemoryBudget(10_000)
    paged = message(4_000 - MESSAGE_OVERHEAD_BYTES)
    budget.load(paged)
    assert (budget.room_bytes(), budget.held_bytes(), budget.is_short()) == (6_000, 4_000, False)
    budget.load(message(4_000 - MESSAGE_OVERHEAD_BYTES))
    assert (budget.room_bytes(), budget.held_bytes(), budget.is_short()) == (5_000, 8_000, True)
    budget.unload(paged)
    assert (budget.room_bytes(), budget.held_bytes(), budget.is_short()) == (6_000, 4_000, False)


def test_a_message_whose_content_only_the_log_has_counts_as_its_objects() -> None:
    budget = MemoryBudget(10_000)
    hollow = message(1_000).twin(0, b"", b"", b"")
    budget.load(hollow)
    assert budget.held_bytes() == MESSAGE_OVERHEAD_BYTES
    budget.unload(hollow)
    assert budget.held_bytes() == 0
