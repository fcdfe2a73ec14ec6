"""Many deliveries settled at once come to the same as each by itself."""

from __future__ import annotations

import random
from typing import Any

import pytest

from engine.consumers.consumer import CLIENT
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.queue import queue_of
from engine.values.delivery import AS_THE_ADDRESS_SAYS, Delivery, Refusal
from engine.values.destination import QUEUE, TOPIC
from tests.support.engine.engine_world import EngineWorld, address, world_with_consumer
from tests.support.fakes import FakeClient

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("q", {"prefetch": 60}),
    "counts octets": ("q", {"prefetch": 60, "window_bytes": 40}),
    "has credit": ("q", {"is_credited": True}),
    "has a selector": ("q", {"prefetch": 60, "selector": "n = 1"}),
    "has a limit": ("limited", {"prefetch": 60}),
    "counts octets with each": ("q", {"prefetch": 60, "window_bytes": 1_000}),
    "takes from several": (">", {"prefetch": 60}),
    "durable": ("topic:t", {"prefetch": 60, "is_durable": True, "subscription": "d"}),
    "of a topic": ("topic:t", {"prefetch": 60}),
    "waits before it tries again": ("waits", {"prefetch": 60}),
    "gives up": ("strict", {"prefetch": 60}),
    "non-blocking is off": ("ordered", {"prefetch": 60}),
}
REFUSALS = [AS_THE_ADDRESS_SAYS, Refusal("requeue"), Refusal("redeliver", 0), Refusal("dead-letter"), Refusal(None, 50)]


def world_of(kind: str, seed: int) -> tuple[EngineWorld, FakeClient, list[Delivery]]:
    """Return a world, one client, and deliveries that it has, some of them at random."""
    world = EngineWorld(
        address("limited", full__address_full_policy="BLOCK", full__max_size_messages=500),
        address("waits", redelivery__initial_redelivery_delay_ms=70, redelivery__redelivery_delay_ms=70),
        address("strict", redelivery__maximum_redeliveries=0),
        address("ordered", redelivery__non_blocking_redelivery=False),
    )
    draw = random.Random(seed)
    client = world.client("c", "c")
    name, asked = KINDS[kind]
    destinations = world.broker.destinations
    is_topic = name.startswith("topic:")
    source = destinations.source(TOPIC if is_topic else QUEUE, name.removeprefix("topic:"))
    consumer = world.consumer(client, source, CLIENT, **asked)
    if asked.get("is_credited"):
        consumer.grant(60)
    for number in range(60):
        to = draw.choice(["q", "p"]) if name == ">" else name.removeprefix("topic:")
        target = destinations.topic(to) if is_topic else destinations.queue(to)
        is_persistent = draw.random() < 0.8
        world.broker.send(
            target,
            world.message(
                target, b"x" * (number % 3), persistent=is_persistent, priority=draw.choice([4, 4, 4, 5]), headers="n:1"
            ),
        )
        if draw.random() < 0.2:
            world.turn()
    world.turn()
    held = client.take()
    count = draw.randint(1, len(held))
    chosen = held[:count] if draw.random() < 0.5 else draw.sample(held, count)
    return world, client, chosen


def seen(world: EngineWorld, client: FakeClient) -> object:
    """Return all that anybody may notice of what was settled."""
    queues = world.queues() + world.feeds()
    windows = {
        one.consumer_id: (
            window.in_flight,
            window.is_full,
            window.limits.octets and window.limits.octets.in_flight(),
            list(one.ledger),
        )
        for one, window in ((one, one.window) for one in client.consumers.values())
    }
    told = [(one.outcome, sorted(_entries(one.ranges)), sum(one.size_bytes)) for one in world.store.settled]
    counted = sorted({entry for one in world.store.failed for entry in _entries(one.ranges)})
    return {
        "queues": [
            (
                one.name,
                one.depth,
                one.in_flight_count,
                one.fates.delayed_count,
                one.acknowledged_count,
                one.fates.redelivered_count,
            )
            for one in queues
        ],
        "windows": windows,
        "memory": (world.memory_used(), world.memory_paged()),
        "accounts": [(one.uri, one.used_bytes, one.used_messages) for one in world.address_accounts().by_id.values()],
        "settled": told,
        "counted": counted,
        "handed": [
            [one.position for one in handed if queue_of(one.lane) is queue]
            for handed in [client.take()]
            for queue in queues
        ],
    }


def _entries(ranges: list[tuple[Any, ...]]) -> list[tuple[int, int]]:
    return [(one[0], offset) for one in ranges for offset in range(one[1], one[1] + one[2])]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", KINDS)
def test_accepting(kind: str, seed: int) -> None:
    one_by_one, client, held = world_of(kind, seed)
    for delivery in held:
        one_by_one.broker.acknowledge(delivery)
    one_by_one.turn()
    at_once, other, many = world_of(kind, seed)
    at_once.broker.acknowledge_all(many)
    at_once.turn()
    assert seen(at_once, other) == seen(one_by_one, client)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda one: f"{one.mode} {one.delay_ms}")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_refusing(kind: str, seed: int, refusal: Refusal) -> None:
    one_by_one, client, held = world_of(kind, seed)
    for delivery in held:
        one_by_one.broker.refuse(delivery, refusal)
    one_by_one.turn()
    at_once, other, many = world_of(kind, seed)
    at_once.broker.refuse_all(many, refusal)
    at_once.turn()
    expected = seen(one_by_one, client)
    assert seen(at_once, other) == expected
    in_parts, third, parts = world_of(kind, seed)
    in_parts.leave_steps(25)
    in_parts.broker.refuse_all(parts, refusal)
    assert third.is_refusing or len(parts) <= 2
    while third.is_refusing:
        in_parts.leave_steps(25)
        in_parts.broker.end_turn()
        in_parts.broker.begin_turn()
    in_parts.advance(0)
    assert seen(in_parts, third) == expected
    for world in (one_by_one, at_once, in_parts):
        world.advance(1_000)
    expected = seen(one_by_one, client)
    assert seen(at_once, other) == seen(in_parts, third) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_committing(kind: str) -> None:
    worlds = []
    for is_at_once in (False, True):
        world, client, held = world_of(kind, 3)
        transactions = []
        for part in [held] if is_at_once else [[one] for one in held]:
            transaction = Transaction(client, "t", TransactionLimits())
            transaction.add_accepted(part)
            transactions.append(transaction)
        for transaction in transactions:
            world.broker.commit(transaction)
        world.turn()
        state = seen(world, client)
        assert isinstance(state, dict)
        # A COMMIT each is a record each.
        state["settled"] = sorted(entry for _, entries, _ in state["settled"] for entry in entries)
        worlds.append(state)
    assert worlds[0] == worlds[1]


def test_what_is_refused_at_once_costs_one_record() -> None:
    world, client = world_with_consumer(ack_mode=CLIENT, prefetch=100)
    world.send(*[b"x"] * 100)
    world.broker.refuse_all(client.take(), AS_THE_ADDRESS_SAYS)
    world.turn()
    assert [one.ranges for one in world.store.failed] == [[(4, 0, 100, 1)]]


def test_what_is_due_at_once_comes_back_some_a_turn_and_in_order() -> None:
    world, client = world_with_consumer(ack_mode=CLIENT, prefetch=5_000)
    world.send(*[b"x"] * 5_000)
    world.broker.refuse_all(client.take(), AS_THE_ADDRESS_SAYS)
    world.advance(0)
    queue = world.queue("q")
    assert queue.fates.delayed_count == 5_000
    world.clock.now_ms += 10_000
    left = []
    while queue.fates.delayed_count:
        world.broker.begin_turn()
        world.timers.fire_due()
        left.append(queue.fates.delayed_count)
        world.broker.end_turn()
    assert len(left) == 3 and left[0] >= 2_500
    world.turn()
    again = client.take()
    assert [one.position for one in again] == sorted(one.position for one in again) and len(again) == 5_000
