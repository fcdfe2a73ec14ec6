"""Slow consumers by each rule (docs/reference/flow-control.md), and what becomes of them."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO, INDIVIDUAL, Consumer
from engine.features.slow_consumers import is_slow
from engine.values.options import SubscribeOptions
from tests.support.engine.engine_world import EngineWorld, address, world_with_client
from tests.support.fakes import FakeClient


def expelled(client: FakeClient) -> list[tuple[str, bool]]:
    return [(str(error), with_connection) for _, error, with_connection in client.expelled]


# -- who is slow


@pytest.mark.parametrize(
    ("prefetch", "messages", "slow"),
    [(2, 1, False), (2, 2, False), (2, 3, True), (1, 1, False), (1, 2, True)],
    ids=["has room", "full, nothing waits", "full while one waits", "prefetch 1, idle queue", "prefetch 1, busy"],
)
def test_a_queue_consumer_is_slow_when_it_is_full_while_messages_wait(prefetch: int, messages: int, slow: bool) -> None:
    world = EngineWorld()
    consumer = world.consumer(world.client(), prefetch=prefetch)
    world.send(*[b"x"] * messages)
    assert is_slow(consumer) == slow


def test_it_is_slow_no_more_once_it_has_room() -> None:
    world, client = world_with_client()
    consumer = world.consumer(client, prefetch=4)
    world.send(*[b"x"] * 9)
    assert is_slow(consumer)
    world.acknowledge(client.take()[0])
    assert not is_slow(consumer), "three of four in flight: it has room, although the gateway tops up later"


@pytest.mark.parametrize(
    ("prefetch", "messages", "slow"), [(5, 10, False), (5, 11, True), (1, 100, False), (2, 4, False), (2, 5, True)]
)
@pytest.mark.parametrize("ack_mode", [AUTO, INDIVIDUAL])
def test_a_topic_consumer_is_slow_with_more_than_twice_its_prefetch_and_never_with_prefetch_1(
    prefetch: int, messages: int, slow: bool, ack_mode: int
) -> None:
    world, client = world_with_client()
    topic = world.topic("t")
    consumer = world.consumer(client, topic, ack_mode, prefetch)
    client.is_output_full = ack_mode == AUTO
    world.send(*[b"x"] * messages, to=topic)
    assert is_slow(consumer) == slow


# -- abortSlowConsumerStrategy


def slow_world(**values: object) -> tuple[EngineWorld, FakeClient, Consumer]:
    settings: dict[str, object] = {"abort": "slow", "abort_check_period_ms": 1_000, **values}
    world = EngineWorld(address(">", **{f"slow_consumers__{name}": value for name, value in settings.items()}))
    client = world.client("slow")
    consumer = world.consumer(client, prefetch=1)
    world.send(b"1", b"2", b"3")
    return world, client, consumer


@pytest.mark.parametrize("with_connection", [False, True])
def test_slow_for_too_long(with_connection: bool) -> None:
    world, client, consumer = slow_world(max_slow_duration_ms=3_000, abort_connection=with_connection)
    world.advance(3_999)
    assert client.expelled == []
    world.advance(1)
    ((ended, error, closes),) = client.expelled
    assert (ended, error.condition, closes) == (consumer, "slow-consumer", with_connection)
    assert str(error) == (
        "the consumer of queue://q is too slow: messages wait and its window is full, 1 in flight; "
        "slow for 3000 ms, the limit is 3000 ms (max-slow-duration-ms)"
    )


RULES: tuple[dict[str, object], ...] = (
    {"abort": "slow", "abort_check_period_ms": 100, "max_slow_duration_ms": 1_000},
    {
        **{"abort": "slow-ack", "abort_check_period_ms": 100, "max_time_since_last_ack_ms": 500},
        **{"max_slow_duration_ms": 500, "ignore_idle_consumers": False},
    },
    {"threshold": 5, "policy": "KILL", "check_period_ms": 1_000},
)


@pytest.mark.parametrize("rule", RULES, ids=["slow", "slow-ack", "rate"])
def test_one_that_has_not_begun_is_not_slow(rule: dict[str, object]) -> None:
    world = EngineWorld(address(">", **{f"slow_consumers__{name}": value for name, value in rule.items()}))
    client, topic = world.client("late"), world.topic("t")
    consumer = world.broker.subscribe(client, topic, SubscribeOptions(INDIVIDUAL, 2))
    world.send(*[b"x"] * 20, to=topic)
    world.advance(10_000)
    assert (client.expelled, world.slow_count()) == ([], 0), "its SUBSCRIBE waits for a disk, say"
    consumer.start()
    world.turn()
    world.advance(300)
    assert client.expelled == [], "its time begins now"
    world.advance(2_000)
    assert len(client.expelled) > 0


def test_found_slow_too_often() -> None:
    world, client, _ = slow_world(max_slow_duration_ms=-1, max_slow_count=2)
    world.advance(1_000)
    assert client.expelled == []
    world.advance(1_000)
    assert "found slow 2 times, the limit is 2 (max-slow-count)" in expelled(client)[0][0]


def test_a_consumer_that_recovers_begins_anew() -> None:
    world, client, _ = slow_world(max_slow_duration_ms=2_000)
    world.advance(2_000)
    for _ in range(3):
        world.acknowledge(*client.take())
    world.advance(1_000)
    world.send(b"4", b"5")
    world.advance(2_999)
    assert client.expelled == []
    assert world.slow_count() == 2


def test_nobody_is_looked_at_unless_an_address_asks_for_it() -> None:
    world = EngineWorld()
    world.consumer(world.client(), prefetch=1)
    assert world.watches() == []


def test_one_that_has_gone_is_looked_at_no_more() -> None:
    world, client, _ = slow_world(max_slow_duration_ms=1_000)
    world.leave(client)
    world.advance(10_000)
    assert client.expelled == []
    assert world.watches() == []


# -- abortSlowAckConsumerStrategy


def test_no_acknowledgement_for_too_long() -> None:
    world, client, _ = slow_world(abort="slow-ack", max_time_since_last_ack_ms=3_000, max_slow_duration_ms=1_000)
    world.advance(2_500)
    world.acknowledge(*client.take())
    world.advance(3_000)
    assert client.expelled == [], "seen at 3 s, three seconds are over at 6 s"
    world.advance(500)
    assert "it has acknowledged nothing for 3000 ms" in expelled(client)[0][0]


@pytest.mark.parametrize(
    ("limits", "seconds", "words"),
    [
        ({"max_slow_duration_ms": 3_000}, 5, "for 3000 ms, the limit is 3000 ms (max-slow-duration-ms)"),
        ({"max_slow_duration_ms": -1, "max_slow_count": 2}, 4, "2 times, the limit is 2 (max-slow-count)"),
        ({"max_slow_duration_ms": -1, "max_slow_count": -1}, 0, ""),
    ],
    ids=["duration", "count", "neither"],
)
def test_how_long_or_how_often_the_silent_are_let_be(limits: dict[str, object], seconds: int, words: str) -> None:
    # As in ActiveMQ: who is silent for max-time-since-last-ack is slow, first at 3 s; the look that finds it counts.
    world, client, _ = slow_world(abort="slow-ack", max_time_since_last_ack_ms=3_000, **limits)
    world.advance(1_000 * (seconds or 60) - 500)
    assert client.expelled == []
    assert world.slow_count() == 1
    world.advance(500)
    assert [text[-len(words) :] for text, _ in expelled(client)] == ([words] if seconds else [])


def test_an_acknowledgement_begins_the_count_of_the_silent_anew() -> None:
    world, client, _ = slow_world(
        abort="slow-ack", max_time_since_last_ack_ms=3_000, max_slow_duration_ms=-1, max_slow_count=2
    )
    world.advance(3_000)
    world.acknowledge(*client.take())
    world.advance(4_500)
    assert client.expelled == [], "silent again from 4 s on, slow at 7 s for the first time"
    world.advance(500)
    assert client.expelled


@pytest.mark.parametrize(("ignores", "count"), [(True, 0), (False, 1)])
def test_an_idle_consumer_is_left_alone_unless_told_otherwise(ignores: bool, count: int) -> None:
    world = EngineWorld(
        address(
            ">",
            slow_consumers__abort="slow-ack",
            slow_consumers__abort_check_period_ms=1_000,
            slow_consumers__max_time_since_last_ack_ms=3_000,
            slow_consumers__max_slow_duration_ms=1_000,
            slow_consumers__ignore_idle_consumers=ignores,
        )
    )
    client = world.consuming()
    world.advance(3_000)
    assert len(client.expelled) == count


# -- HornetQ's threshold


def rate_world(threshold: int, policy: str, **values: object) -> tuple[EngineWorld, FakeClient]:
    settings = {"threshold": threshold, "policy": policy, "check_period_ms": 1_000, **values}
    world = EngineWorld(address(">", **{f"slow_consumers__{name}": value for name, value in settings.items()}))
    client = world.client("slow")
    world.consumer(client, prefetch=1)
    return world, client


def settle_for(world: EngineWorld, client: FakeClient, seconds: int, per_second: int) -> None:
    for _ in range(seconds):
        for _ in range(per_second):
            world.acknowledge(*client.take())
        world.advance(1_000)


def test_fewer_than_the_threshold_while_enough_waits() -> None:
    world, client = rate_world(3, "KILL")
    world.send(*[b"x"] * 20)
    settle_for(world, client, 2, 3)
    assert client.expelled == []
    settle_for(world, client, 1, 2)
    ((text, with_connection),) = expelled(client)
    assert with_connection, "KILL fails the whole connection"
    assert "it settles 2 messages a second, the threshold is 3 (slow-consumer-threshold)" in text


def test_notify_only_tells_and_once() -> None:
    world, client = rate_world(3, "NOTIFY")
    world.send(*[b"x"] * 20)
    world.advance(3_000)
    assert client.expelled == []
    assert world.slow_notices() == [
        "queue://q: slow, subscription sub is slow: it settles 0 messages a second, the threshold is 3 "
        "(slow-consumer-threshold)"
    ]


def test_a_consumer_is_not_slow_where_too_little_comes() -> None:
    world, client = rate_world(3, "KILL")
    world.send(b"1", b"2")
    world.advance(5_000)
    assert client.expelled == []


def test_threshold_0_is_for_those_that_settle_nothing() -> None:
    world, client = rate_world(0, "KILL")
    world.send(b"1", b"2", b"3")
    settle_for(world, client, 2, 1)
    assert client.expelled == []
    world.advance(1_000)
    assert len(client.expelled) == 1


def test_the_unit_divides_the_threshold() -> None:
    world, client = rate_world(60, "KILL", threshold_unit="MESSAGES_PER_MINUTE")
    world.send(*[b"x"] * 20)
    settle_for(world, client, 3, 1)
    assert client.expelled == []
    world.advance(1_000)
    assert len(client.expelled) == 1
