"""Consumers that share a window or a socket: what a message costs does not depend on how many there are."""

from __future__ import annotations

import pytest

from engine.clients.joins import JOIN_STEPS
from engine.consumers.consumer import AUTO, INDIVIDUAL, Consumer
from engine.consumers.turn_steps import TURN_STEPS
from engine.sources.composite import CompositeSource
from engine.values.destination import QUEUE
from tests.support.engine.engine_world import EngineWorld
from tests.support.fakes import FakeClient

MANY = 1_200


def with_queues(count: int) -> EngineWorld:
    world = EngineWorld()
    for number in range(count):
        world.queue(f"q.{number}")
    return world


def subscribe_to_all(world: EngineWorld, client: FakeClient, prefetch: int = 1) -> Consumer:
    return world.consumer(client, world.source(QUEUE, "q.>"), INDIVIDUAL, prefetch)


def settle(world: EngineWorld) -> None:
    """Let everything go on that one turn had no steps for."""
    world.turn()
    while world.is_more_to_come():
        world.advance(0)


def joined(world: EngineWorld) -> int:
    return sum(len(queue.consumers) for queue in world.queues())


def test_a_wildcard_subscription_comes_and_goes_some_queues_a_turn() -> None:
    world = with_queues(MANY)
    client = world.client()
    consumer = subscribe_to_all(world, client)
    world.turn()
    assert 0 < joined(world) < MANY, "what is left goes on in the next turns"
    settle(world)
    assert joined(world) == MANY
    world.broker.unsubscribe(consumer, is_lost=False)
    world.turn()
    assert 0 < joined(world) < MANY
    settle(world)
    assert joined(world) == 0
    assert client.consumers == {}
    assert world.most_steps() <= TURN_STEPS + JOIN_STEPS


def test_nothing_comes_once_it_is_closed_though_some_of_it_is_still_there() -> None:
    world = with_queues(MANY)
    client = world.client()
    consumer = subscribe_to_all(world, client, 100)
    settle(world)
    world.broker.unsubscribe(consumer, is_lost=False)
    world.turn()
    left = [queue.name for queue in world.queues() if queue.consumers]
    assert left
    world.send(b"late", to=left[-1])
    settle(world)
    assert client.handed == []
    assert world.stats(left[-1]).depth == 1


def test_a_connection_that_is_lost_twice_over_closes_each_once() -> None:
    world = with_queues(MANY)
    client = world.client()
    subscribe_to_all(world, client)
    world.lose(client)  # before all have joined
    settle(world)
    assert joined(world) == 0
    assert client.consumers == {}


def test_a_new_queue_is_joined_by_many_some_a_turn() -> None:
    world = EngineWorld()
    for _ in range(MANY):
        world.consumer(world.client(), world.source(QUEUE, "q.>"), INDIVIDUAL, 1)
    world.turn()
    queue = world.queue("q.new")
    world.turn()
    assert 0 < len(queue.consumers) < MANY
    settle(world)
    assert len(queue.consumers) == MANY
    assert world.most_steps() <= TURN_STEPS + JOIN_STEPS


def test_a_queue_that_comes_while_a_wildcard_joins_is_joined_once() -> None:
    world = with_queues(MANY)
    client = world.client()
    consumer = subscribe_to_all(world, client)
    queue = world.queue("q.new")
    settle(world)
    assert len(queue.consumers) == 1
    assert consumer.siblings is not None
    assert len(consumer.siblings.members) == MANY + 2, "each queue's, and the lead"


def test_a_message_of_many_queues_wakes_one_consumer_of_a_shared_window() -> None:
    world = with_queues(MANY)
    client = world.client()
    subscribe_to_all(world, client)
    settle(world)
    for number in range(MANY):
        world.broker.send(queue := world.queue(f"q.{number}"), world.message(queue, b"%d" % number))
    world.turn()
    came = []
    step_count = 0
    for _ in range(MANY):
        world.count_steps_anew()
        held = client.take()
        assert len(held) == 1
        came.append(int(held[0].message.body))
        world.acknowledge(held[0])
        step_count += world.most_steps()
    assert sorted(came) == list(range(MANY)), "each queue has its turn"
    assert step_count <= 2 * MANY, "each is woken for its message, and once more finds nothing"


def test_a_window_that_opens_finds_the_one_queue_with_a_message_among_many() -> None:
    world = with_queues(50)
    client = world.client()
    subscribe_to_all(world, client)
    world.send(b"first", to="q.3")
    [held] = client.take()
    for number in range(50):
        world.send(b"gone", to=f"q.{number}", expires_ms=world.broker.wall_ms + 10)
    world.send(b"stays", to="q.49")
    world.advance(20)
    world.acknowledge(held)
    assert [one.message.body for one in client.take()] == [b"stays"]


def test_a_socket_that_drains_wakes_what_waited_for_it_and_nobody_else() -> None:
    world = with_queues(MANY)
    client = world.client()
    for number in range(MANY):
        world.consumer(client, f"q.{number}", AUTO)
    world.turn()
    client.is_output_full = True
    world.send(b"x", to="q.7")
    world.count_steps_anew()
    world.broker.output_drained(client)
    world.turn()
    assert client.bodies() == [b"x"]
    assert world.most_steps() == 1


def test_what_shares_a_window_waits_for_the_socket_too() -> None:
    world = with_queues(3)
    client = world.client()
    subscribe_to_all(world, client)
    client.is_output_full = True
    for number in range(3):
        world.send(b"x", to=f"q.{number}")
    assert client.handed == []
    for _ in range(3):
        world.broker.output_drained(client)
        world.turn()
        client.is_output_full = True
        [held] = client.take()
        world.acknowledge(held)
        assert client.handed == []


def test_closing_while_the_socket_takes_nothing_leaves_nobody_behind() -> None:
    world = with_queues(3)
    client = world.client()
    consumer = subscribe_to_all(world, client)
    client.is_output_full = True
    world.send(b"x", to="q.1")
    world.broker.unsubscribe(consumer, is_lost=False)
    world.turn()
    assert not client.resting.consumers
    other = world.client()
    world.consumer(other, "q.1", AUTO)
    world.turn()
    assert other.bodies() == [b"x"]


def test_one_closing_gives_back_what_each_of_its_queues_had() -> None:
    world = with_queues(3)
    client = world.client()
    destinations = world.broker.destinations
    source = CompositeSource([destinations.queue(f"q.{number}") for number in range(3)])
    consumer = world.consumer(client, source, INDIVIDUAL, 10)
    for number in range(3):
        world.send(b"a", b"b", to=f"q.{number}")
    assert len(client.take()) == 6
    world.broker.unsubscribe(consumer, is_lost=False)
    world.turn()
    assert [(world.stats(f"q.{number}").in_flight, world.stats(f"q.{number}").depth) for number in range(3)] == [
        (0, 2)
    ] * 3


def test_credit_granted_while_the_socket_takes_nothing_is_used_once_it_does() -> None:
    world = with_queues(3)
    client = world.client()
    consumer = world.consumer(client, world.source(QUEUE, "q.>"), is_credited=True)
    settle(world)
    world.send(b"x", to="q.1")
    client.is_output_full = True
    consumer.grant(1)  # before that even the lead rests with its siblings
    world.turn()
    world.broker.output_drained(client)
    world.turn()
    assert client.bodies() == [b"x"]


@pytest.mark.parametrize("is_disconnected", [False, True])
def test_what_goes_before_it_has_joined_its_topics_leaves_none_of_them_behind(is_disconnected: bool) -> None:
    world = EngineWorld()
    client = world.client()
    source = CompositeSource([world.topic("a"), world.topic("b"), world.queue("c")])
    world.leave_steps(0)
    consumer = world.consumer(client, source, INDIVIDUAL, 10)
    world.send(b"kept for nobody", to=world.topic("b"), persistent=False)
    world.leave_steps(0)
    world.broker.disconnect(client, is_lost=False) if is_disconnected else world.broker.unsubscribe(consumer, False)
    settle(world)
    world.send(b"kept for nobody", to=world.topic("a"), persistent=False)
    assert world.feeds() == []
    assert world.memory_used() == 0
