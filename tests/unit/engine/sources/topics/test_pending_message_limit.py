"""Pending-message limits of topic subscriptions and which messages they let go (docs/reference/flow-control.md)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.sources.topics.pending_message_limit import PLACES_A_STEP, PRUNE_BYTES, PRUNE_COUNT, PendingLimit, Replaced
from engine.values.delivery import Delivery, Refusal
from engine.values.message import STOMP, Message
from engine.values.options import SubscribeOptions
from tests.support.engine.engine_world import EngineWorld, address, world_with_client
from tests.support.fakes import FakeClient


def world_with(ack_mode: int = INDIVIDUAL, requested: int = 0, **values: Any) -> EngineWorld:
    """A topic and one consumer of it with a prefetch of 2."""
    world, client = world_with_client(address("t", **{f"pending__{name}": value for name, value in values.items()}))
    topic = world.topic("t")
    world.broker.subscribe(client, topic, SubscribeOptions(ack_mode, 2, pending_limit=requested)).start()
    world.turn()
    return world


def the_client(world: EngineWorld) -> FakeClient:
    client = next(iter(world.connections()))
    assert isinstance(client, FakeClient)
    return client


def publish(world: EngineWorld, *bodies: bytes, priority: int = 4) -> None:
    world.send(*bodies, to=world.topic("t"), persistent=False, priority=priority)


def drain(world: EngineWorld) -> list[bytes]:
    """Acknowledge what comes until nothing comes."""
    client = the_client(world)
    bodies: list[bytes] = []
    while deliveries := client.take():
        bodies += [one.message.body for one in deliveries]
        world.acknowledge(*deliveries)
    return bodies


@pytest.mark.parametrize(
    ("values", "requested", "kept"),
    [
        ({}, 0, 20),
        ({"strategy": "constant", "limit": 3}, 0, 5),
        ({"strategy": "constant", "limit": 0}, 0, 2),
        ({"strategy": "constant", "limit": -1}, 0, 20),
        ({"strategy": "prefetch-rate", "multiplier": 2.5}, 0, 7),
        ({"strategy": "prefetch-rate"}, 0, 3),
        ({"strategy": "constant", "limit": 8}, 1, 3),
        ({"strategy": "constant", "limit": 1}, 8, 3),
        ({"strategy": "constant", "limit": 3}, -1, 5),
        ({}, 4, 6),
    ],
    ids=[
        "none",
        "constant",
        "0 keeps only the prefetch",
        "-1 never",
        "prefetch-rate",
        "prefetch-rate, multiplier 0.5 by default",
        "a consumer lowers it",
        "and cannot raise it",
        "0 or less says nothing",
        "a consumer's alone",
    ],
)
def test_limits(values: dict[str, Any], requested: int, kept: int) -> None:
    world = world_with(requested=requested, **values)
    bodies = [b"%02d" % number for number in range(20)]
    for body in bodies:
        publish(world, body)
    assert drain(world) == bodies[:2] + bodies[2:][len(bodies) - kept :], "the oldest of those that wait have gone"
    assert world.memory_used() == 0


@pytest.mark.parametrize("ack_mode", [AUTO, INDIVIDUAL])
def test_what_comes_in_one_turn_is_what_would_have_come_one_by_one(ack_mode: int) -> None:
    world = world_with(ack_mode=ack_mode, strategy="constant", limit=1)
    client = the_client(world)
    client.is_output_full = True
    for number in range(6):
        assert world.try_send(b"%d" % number, world.topic("t"), persistent=False) == 0
    world.drain_output(client)
    expected = [b"0", b"1", b"5"]
    assert (client.bodies() if ack_mode == AUTO else drain(world)) == expected


def test_oldest_with_lowest_priority() -> None:
    world = world_with(strategy="constant", limit=2, eviction="oldest-lowest-priority")
    publish(world, b"in", b"flight")
    publish(world, b"high 1", priority=9)
    publish(world, b"low 1", b"low 2", priority=1)
    publish(world, b"high 2", priority=9)
    assert drain(world) == [b"in", b"flight", b"high 1", b"high 2"]


def test_oldest_with_lowest_priority_where_priorities_do_not_change_the_order() -> None:
    """As in every imported activemq.xml that does not set prioritizedMessages."""
    settings = {"pending__strategy": "constant", "pending__limit": 4, "pending__eviction": "oldest-lowest-priority"}
    world, client = world_with_client(address("t", queue__prioritized_messages=False, **settings))
    world.broker.subscribe(client, world.topic("t"), SubscribeOptions(INDIVIDUAL, 2)).start()
    world.turn()
    for number in range(10):
        publish(world, b"%d" % number, priority=9 if number % 2 else 1)
    assert drain(world) == [b"0", b"1", b"3", b"5", b"7", b"9"]
    for number in range(3 * PRUNE_COUNT):
        publish(world, b"x", priority=number % 10)
    assert len(drain(world)) == 6
    assert world.memory_used() == 0


def test_oldest_whatever_the_priority() -> None:
    world = world_with(strategy="constant", limit=2)
    publish(world, b"in", b"flight")
    publish(world, b"high 1", priority=9)
    world.advance(1)
    publish(world, b"low 1", b"low 2", priority=1)
    assert drain(world) == [b"in", b"flight", b"low 1", b"low 2"]


def test_of_messages_equal_in_a_property_the_newest_stays() -> None:
    world = world_with(strategy="constant", limit=3, eviction="unique-property", eviction_property="symbol")
    topic = world.topic("t")
    for text in (b"A in", b"A flight", b"A 1", b"B 2", b"C 3", b"B 4", b"D 5"):
        symbol, body = text.split()
        headers = b"symbol:%b\n" % symbol
        world.broker.send(topic, Message(topic.destination_id, STOMP, 0, 4, 0, 0, 0, b"", headers, body))
        world.advance(1)
    assert drain(world) == [b"in", b"flight", b"3", b"4", b"5"], "2 was replaced, then 1 was the oldest"


def test_what_was_replaced_may_have_lost_its_place_in_memory() -> None:
    """It went to a temporary file and is READY still; letting it go ended the process."""
    world = world_with(strategy="constant", limit=2, eviction="unique-property", eviction_property="s")
    (queue,) = world.topic("t").plain.values()
    lane = queue.lane(4)
    for number, value in enumerate("ABCC"):
        publish_one(world, b"%d" % number, 4, value)
    lane.remove(lane.ready[0])  # C, which another C has replaced; as the spiller does, whose file has it then
    publish_one(world, b"4", 4, "D")
    assert queue.depth == 4


def remembered(world: EngineWorld) -> list[Delivery]:
    """Return what the limit refers to, to compare it with later messages."""
    (queue,) = world.topic("t").plain.values()
    limit = queue.feed.pending
    assert isinstance(limit, PendingLimit) and isinstance(limit.first, Replaced)
    return [*limit.first.newest.values(), *limit.first.older]


def test_what_was_evicted_is_not_remembered_for_its_property() -> None:
    world = world_with(strategy="constant", limit=3, eviction="unique-property", eviction_property="s")
    size_bytes = PRUNE_BYTES // 4
    for number in range(40):
        publish_one(world, b"x" * size_bytes, 4, str(number))
    assert world.evicted_count() == 35
    assert sum(one.message.size for one in remembered(world)) < 2 * PRUNE_BYTES + 5 * size_bytes


def test_what_was_taken_is_not_remembered_for_its_property() -> None:
    """Nothing is evicted while the consumer keeps up."""
    world = world_with(strategy="constant", limit=3, eviction="unique-property", eviction_property="s")
    client = the_client(world)
    topic = world.topic("t")
    for _ in range(2 * PRUNE_COUNT):
        for _ in range(2):
            world.broker.send(topic, world.message(topic, b"x", priority=4, headers="s:A", persistent=False))
        world.turn()
        world.acknowledge(*client.take())
    assert world.evicted_count() == 0
    assert len(remembered(world)) <= PRUNE_COUNT + 1


def test_equal_messages_that_go_next_stay() -> None:
    world = world_with(ack_mode=AUTO, strategy="constant", limit=3, eviction="unique-property", eviction_property="s")
    client = the_client(world)
    client.is_output_full = True
    topic = world.topic("t")
    for text in ("A 1", "A 2", "A 3", "B 4", "A 5", "C 6", "D 7", "E 8"):
        symbol, body = text.split()
        world.send(body.encode(), to=topic, persistent=False, headers=f"s:{symbol}")
        world.advance(1)
    world.drain_output(client)
    assert client.bodies() == [b"1", b"2", b"6", b"7", b"8"], "3 and 4 were the oldest behind the window, after A 3"


def test_what_a_selection_has_taken_is_not_let_go_again() -> None:
    world = world_with(strategy="constant", limit=2)
    client = the_client(world)
    topic = world.topic("t")
    for body, group in ((b"a1", "a"), (b"b1", "b")):
        world.send(body, to=topic, persistent=False, group=group)
    first, second = client.take()
    world.refuse(first, refusal=Refusal(delay_ms=60_000))
    for number in range(2, 12):
        world.send(b"a%d" % number, to=topic, persistent=False, group="a")
        world.send(b"b%d" % number, to=topic, persistent=False, group="b")
        for delivery in client.take():
            world.acknowledge(delivery)
    assert world.evicted_count() > 0
    world.acknowledge(second)
    world.lose(client)
    assert world.memory_used() == 0


@pytest.mark.parametrize("eviction", ["oldest", "oldest-lowest-priority", "unique-property"])
def test_what_goes_is_what_looking_at_all_of_them_would_find(eviction: str) -> None:
    """Against the plain definition, with acknowledgements between; by a property only of messages of one priority: one
    that was going out next is not let go for an equal one when others come before it.
    """
    priorities = (4,) if eviction == "unique-property" else (1, 4, 4, 9)
    chance = random.Random(eviction)
    for _ in range(20):
        limit = chance.randrange(6)
        world = world_with(strategy="constant", limit=limit, eviction=eviction, eviction_property="s")
        client = the_client(world)
        held: list[Delivery] = []
        waiting: list[tuple[int, int, int, str]] = []  # (-priority, time, number, value)
        for number in range(60):
            priority = chance.choice(priorities)
            value = chance.choice("abcdefgh")
            world.advance(1)
            publish_one(world, b"%d" % number, priority, value)
            waiting.append((-priority, number, number, value))
            if len(held) + len(waiting) > 2 + limit:
                waiting.remove(expected_victim(eviction, sorted(waiting), max(0, 2 - len(held))))
            for delivery in client.take():
                held.append(delivery)
                waiting = [one for one in waiting if b"%d" % one[2] != delivery.message.body]
            if held and chance.random() < 0.4:
                world.acknowledge(held.pop(0))
                for delivery in client.take():
                    held.append(delivery)
                    waiting = [one for one in waiting if b"%d" % one[2] != delivery.message.body]
        assert drained(world, held) == [b"%d" % one[2] for one in sorted(waiting)]


def publish_one(world: EngineWorld, body: bytes, priority: int, value: str) -> None:
    topic = world.topic("t")
    world.send(body, to=topic, persistent=False, priority=priority, headers=f"s:{value}")


def drained(world: EngineWorld, held: list[Delivery]) -> list[bytes]:
    """Acknowledge all that is held and all that comes; return the bodies of the latter."""
    world.acknowledge(*held)
    return drain(world)


def expected_victim(eviction: str, waiting: list[tuple[int, int, int, str]], room: int) -> tuple[int, int, int, str]:
    waiting = waiting[room:]
    if eviction == "oldest-lowest-priority":
        return next(one for one in waiting if one[0] == waiting[-1][0])
    waiting = sorted(waiting, key=lambda one: one[1])
    if eviction == "unique-property":
        oldest: dict[str, tuple[int, int, int, str]] = {}
        for one in waiting:
            if one[3] in oldest:
                return oldest[one[3]]
            oldest[one[3]] = one
    return waiting[0]


def test_another_subscription_keeps_what_one_lets_go() -> None:
    world = world_with(strategy="constant", limit=0)
    other = world.client("other")
    topic = world.topic("t")
    world.consumer(other, topic, INDIVIDUAL, 10)
    publish(world, *[b"x"] * 8)
    assert len(other.take()) == 8
    assert len(the_client(world).take()) == 2


def test_what_amqp_credit_has_room_for_is_not_pending() -> None:
    world, client = world_with_client(address("t", pending__strategy="constant", pending__limit=2))
    topic = world.topic("t")
    consumer = world.broker.subscribe(client, topic, SubscribeOptions(INDIVIDUAL, is_credited=True))
    consumer.start()
    consumer.grant(3)
    publish(world, *(b"%d" % number for number in range(9)))
    assert [one.message.body for one in client.take()] == [b"0", b"1", b"2"]
    consumer.grant(9)
    world.turn()
    assert [one.message.body for one in client.take()] == [b"7", b"8"]


def test_an_eviction_far_from_both_ends_takes_steps_of_the_turn() -> None:
    """A slow subscription with a large window must not make the turns long of everybody who publishes."""
    world, client = world_with_client(address("t"))
    topic = world.topic("t")
    client.is_output_full = True
    window = 4 * PLACES_A_STEP
    world.broker.subscribe(client, topic, SubscribeOptions(INDIVIDUAL, window, pending_limit=window)).start()
    for _ in range(2 * window):
        world.try_send(b"x", topic, persistent=False)
    world.turn()
    world.count_steps_anew()
    world.turn()
    before = world.most_steps()
    for _ in range(100):
        world.broker.send(topic, world.message(topic, b"x", persistent=False))
    world.turn()
    assert world.most_steps() >= before + 100 * window // PLACES_A_STEP
