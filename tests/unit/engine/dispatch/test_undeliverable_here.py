"""Messages that a consumer will not have again (AMQP's undeliverable-here): others get them, it does not."""

from __future__ import annotations

import random

import pytest

from engine.dispatch.message_selection import selection_of
from engine.dispatch.undeliverable_here import SWEEP_COUNT, Exclusions
from engine.values import gates
from engine.values.delivery import GONE, READY, Delivery, Refusal
from tests.support.engine.engine_world import EngineWorld, world_with_client
from tests.support.fakes import FakeClient

NOT_HERE = Refusal("requeue", is_excluding=True)
FAILED_HERE = Refusal("redeliver", is_excluding=True)


def taken(client: FakeClient) -> list[bytes]:
    return [delivery.message.body for delivery in client.take()]


def refused(world: EngineWorld, deliveries: list[Delivery], refusal: Refusal = NOT_HERE) -> None:
    for delivery in deliveries:
        world.refuse(delivery, refusal=refusal)


@pytest.mark.parametrize("persistent", [True, False])
def test_whoever_cannot_take_it_does_not_get_it_again(persistent: bool) -> None:
    world, client = world_with_client()
    consumer = world.consumer(client)
    world.send(b"1", persistent=persistent)
    refused(world, client.take())
    world.send(b"2", persistent=persistent)
    assert taken(client) == [b"2"]
    assert consumer.gate() == gates.EXCLUDED
    assert world.stats().depth == 2


def test_one_with_a_selector_and_room_for_one_does_not_get_it_again() -> None:
    world, client = world_with_client()
    consumer = world.consumer(client, prefetch=1, selector="1 = 1")
    world.send(b"1", b"2")
    refused(world, client.take())
    assert taken(client) == [b"2"]
    assert consumer.gate() == gates.WINDOW_FULL


def test_another_consumer_gets_it_before_what_came_later() -> None:
    world = EngineWorld()
    client, other = world.client(), world.client()
    world.consumer(client)
    for body in (b"1", b"2", b"3"):
        world.send(body)
    first, second, third = client.take()
    refused(world, [first, third])
    world.acknowledge(second)
    world.send(b"4")
    assert taken(client) == [b"4"]
    world.subscribe(other)
    assert taken(other) == [b"1", b"3"]


def test_one_that_waits_gets_it_at_once() -> None:
    world = EngineWorld()
    client, other = world.client(), world.client()
    world.consumer(client)
    world.send(b"1")
    (delivery,) = client.take()
    world.consumer(other)
    refused(world, [delivery])
    assert taken(other) == [b"1"]
    assert taken(client) == []


def test_nobody_gets_what_nobody_can_take_until_one_of_them_goes() -> None:
    world = EngineWorld()
    client, other = world.client(), world.client()
    consumer = world.consumer(client)
    world.send(b"1")
    deliveries = client.take()
    world.consumer(other)
    refused(world, deliveries)
    refused(world, other.take())
    assert (taken(client), taken(other)) == ([], [])
    world.broker.unsubscribe(consumer, False)
    world.turn()
    world.consumer(client)  # the same client, but another consumer
    world.turn()
    assert taken(client) == [b"1"]
    assert taken(other) == []


def test_with_its_consumer_goes_what_it_would_not_have() -> None:
    world = EngineWorld()
    client, other = world.client(), world.client()
    consumer = world.consumer(client)
    world.send(b"1")
    deliveries = client.take()
    refused(world, deliveries)
    world.broker.unsubscribe(consumer, False)
    world.subscribe(other)
    assert taken(other) == [b"1"]
    queue = world.queue("q")
    assert queue.selection is None, "the queue hands over as before"


def test_a_selector_still_decides() -> None:
    world = EngineWorld()
    client, other = world.client(), world.client()
    world.consumer(client)
    world.send(b"1", headers="colour:red\n")
    deliveries = client.take()
    world.consumer(other, selector="colour = 'blue'")
    refused(world, deliveries)
    assert (taken(client), taken(other)) == ([], [])


def test_a_group_goes_on_with_another_consumer() -> None:
    world = EngineWorld()
    client, other = world.client(), world.client()
    world.consumer(client)
    world.consumer(other)
    world.send(b"1", group="g")
    owner, heir = (client, other) if client.handed else (other, client)
    refused(world, owner.take())
    assert taken(heir) == [b"1"]
    world.send(b"2", group="g")
    assert (taken(owner), taken(heir)) == ([], [b"2"])


def test_a_failure_counts_and_waits_before_others_get_it() -> None:
    world = EngineWorld()
    client, other = world.client(), world.client()
    world.consumer(client)
    world.send(b"1")
    deliveries = client.take()
    world.consumer(other)
    refused(world, deliveries, FAILED_HERE)
    assert other.handed == []
    world.advance(1_000)
    assert other.handed[0].delivery_count == 2
    assert client.handed == []


def test_what_is_gone_is_forgotten() -> None:
    world = EngineWorld()
    client, other = world.client(), world.client()
    world.consumer(client)
    for number in range(2 * SWEEP_COUNT):
        world.send(b"%d" % number)
        deliveries = client.take()
        if number == 0:
            world.consumer(other)
        if deliveries:
            refused(world, deliveries)
        for delivery in other.take():
            world.acknowledge(delivery)
    selection = selection_of(world.queue("q"))
    assert selection is not None
    assert selection.index.exclusions is not None
    assert len(selection.index.exclusions.by_order) <= SWEEP_COUNT


@pytest.mark.parametrize("seed", range(5))
def test_what_each_would_not_have_is_the_same_as_in_one_list(seed: int) -> None:
    chance = random.Random(seed)
    world, client = world_with_client()
    consumers = [world.consumer(client, name=str(number)) for number in range(4)]
    lane = world.queue("q").lane(4)
    deliveries = [Delivery(world.message(world.queue("q"), b"x"), lane, position) for position in range(600)]
    exclusions = Exclusions()
    known: set[tuple[int, int]] = set()
    for _ in range(1_500):
        consumer = chance.choice(consumers)
        number, position = consumer.consumer_id, chance.randrange(600)
        delivery = deliveries[position]
        if chance.random() < 0.05:
            free = exclusions.forget(consumer)
            mine = {place for who, place in known if who == number}
            known = {(who, place) for who, place in known if who != number}
            left = {place for _, place in known}
            assert {one.position for one in free} == {one for one in mine - left if deliveries[one].state == READY}
        elif chance.random() < 0.3:
            delivery.state = GONE
        elif delivery.state == READY:
            exclusions.add(delivery, consumer)
            known.add((number, position))
        waits = any(who == number and deliveries[place].state == READY for who, place in known)
        assert exclusions.keep_from(consumer) == waits
        if delivery.state == READY:
            assert exclusions.excludes(delivery, consumer) == ((number, position) in known)


def test_others_get_it_once_an_exclusive_consumer_has_left() -> None:
    world = EngineWorld()
    first, alone, other = world.client("first"), world.client("alone"), world.client("other")
    world.consumer(first)
    world.send(b"1")
    (held,) = first.take()
    owner = world.consumer(alone, selector="a = 'nothing'", is_exclusive=True)
    world.consumer(other, selector="1 = 1")
    world.refuse(held, refusal=NOT_HERE)
    world.turn()
    assert (alone.bodies(), other.bodies()) == ([], [])
    world.unsubscribe(owner)
    assert (first.bodies(), other.bodies()) == ([], [b"1"])
