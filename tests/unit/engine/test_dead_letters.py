"""Where messages go that are given up (semantics.md 2.7): the strategies, and what is not kept."""

from __future__ import annotations

import pytest

from engine.consumer import INDIVIDUAL
from engine.ports import DROPPED, EXPIRED
from tests.support.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient

DLQ = "ActiveMQ.DLQ"


def give_up(world: EngineWorld, to: str = "q", *, is_topic: bool = False, persistent: bool = True) -> FakeClient:
    """Send one message and refuse it for good."""
    client = world.client()
    destinations = world.broker.destinations
    destination = destinations.topic(to) if is_topic else destinations.queue(to)
    world.consumer(client, destination, INDIVIDUAL)
    world.send(b"1", to=destination, persistent=persistent)
    world.refuse(*client.take())
    return client


def last(pattern: str = ">", **values: object) -> EngineWorld:
    return EngineWorld(address(pattern, redelivery__maximum_redeliveries=0, **values))


@pytest.mark.parametrize(
    ("is_topic", "values", "expected"),
    [
        (False, {}, "ActiveMQ.DLQ.Queue.orders.eu"),
        (True, {}, "ActiveMQ.DLQ.Topic.orders.eu"),
        (False, {"queue_prefix": "DLQ."}, "DLQ.orders.eu"),
        (False, {"queue_prefix": "", "queue_suffix": ".dead"}, "orders.eu.dead"),
        (True, {"topic_prefix": "T.", "topic_suffix": ".dead"}, "T.orders.eu.dead"),
    ],
)
def test_individual_dead_letter_queues(is_topic: bool, values: dict[str, str], expected: str) -> None:
    world = last(
        "orders.>",
        dead_letters__strategy="individual",
        **{f"dead_letters__{name}": value for name, value in values.items()},
    )
    give_up(world, "orders.eu", is_topic=is_topic)
    assert world.broker.destinations.queues[expected].depth == 1


def test_a_dead_letter_topic_is_published_to() -> None:
    world = last("t", dead_letters__strategy="individual", dead_letters__use_queue_for_topic_messages=False)
    mourner = world.client()
    world.consumer(mourner, world.broker.destinations.topic("ActiveMQ.DLQ.Topic.t"))
    give_up(world, "t", is_topic=True)
    assert mourner.bodies() == [b"1"]


def test_discarding_drops_and_counts() -> None:
    world = last(dead_letters__strategy="discard")
    give_up(world)
    assert [record.outcome for record in world.store.settled] == [DROPPED]
    assert (world.stats().dead_lettered, world.stats().depth) == (1, 0)
    assert DLQ not in world.broker.destinations.queues


@pytest.mark.parametrize(("is_kept", "depth"), [(True, 1), (False, 0)])
def test_non_persistent_messages_are_kept_unless_switched_off(is_kept: bool, depth: int) -> None:
    world = last(dead_letters__process_non_persistent=is_kept)
    give_up(world, persistent=False)
    queue = world.broker.destinations.queues.get(DLQ)
    assert (0 if queue is None else queue.depth) == depth
    assert world.stats().dead_lettered == 1


def test_a_dead_letter_may_expire() -> None:
    world = last("q", dead_letters__expiration_ms=60_000)
    give_up(world)
    operator = world.client()
    world.consumer(operator, DLQ)
    world.turn()
    (delivery,) = operator.take()
    assert delivery.message.expires_ms == world.clock.wall_ms() + 60_000


def expire_one(world: EngineWorld, *, persistent: bool = True) -> None:
    world.send(b"1", expires_ms=world.clock.wall_ms() + 10, persistent=persistent)
    world.advance(11)
    world.consumer(world.client())
    world.turn()


def test_expired_messages_are_dropped_by_default() -> None:
    world = EngineWorld()
    expire_one(world)
    assert (world.stats().expired, world.stats().depth) == (1, 0)
    assert DLQ not in world.broker.destinations.queues


def test_expired_messages_become_dead_letters_where_activemq_s_way_is_asked_for() -> None:
    world = EngineWorld(address(">", dead_letters__process_expired=True))
    expire_one(world)
    assert world.stats(DLQ).depth == 1
    assert [record.outcome for record in world.store.settled] == [EXPIRED]


def test_expired_non_persistent_messages_may_be_left_out() -> None:
    world = EngineWorld(address(">", dead_letters__process_expired=True, dead_letters__process_non_persistent=False))
    expire_one(world, persistent=False)
    assert DLQ not in world.broker.destinations.queues
    assert (world.stats().expired, world.stats().depth) == (1, 0)
    assert world.broker.memory.used_bytes == 0


def test_artemis_own_expiry_queues() -> None:
    world = EngineWorld(address("q", expiry__strategy="individual"))
    expire_one(world)
    assert world.broker.destinations.queues["EXP.q"].depth == 1


def test_what_expires_where_expired_messages_go_is_dropped() -> None:
    world = EngineWorld(address("q", expiry_address="q"))
    expire_one(world)
    assert (world.stats().expired, world.stats().depth) == (1, 0)
