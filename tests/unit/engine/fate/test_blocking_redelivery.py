"""``nonBlockingRedelivery=false``: nothing overtakes a message that awaits its redelivery."""

from __future__ import annotations

from typing import Any, Final

import pytest

from engine.consumers.consumer import INDIVIDUAL
from tests.support.engine.engine_world import address
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import FakeClient

DELAY_MS: Final = 1_000
BLOCKING: Final = {"non_blocking_redelivery": False}


def blocked(where: str) -> tuple[RestartWorld, dict[str, Any]]:
    """Return a world and what consumers ask for.  where: ``nonBlockingRedelivery`` is set."""
    redelivery: dict[str, Any] = {"redelivery__redelivery_delay_ms": DELAY_MS}
    if where == "address":
        return RestartWorld(address("q", redelivery__non_blocking_redelivery=False, **redelivery)), {}
    return RestartWorld(address("q", **redelivery)), {"redelivery": BLOCKING}


def take_all(world: RestartWorld, client: FakeClient) -> list[bytes]:
    """Take and acknowledge one message after the other; return their bodies in order."""
    bodies = []
    for _ in range(20):
        for delivery in client.take():
            bodies.append(delivery.message.body)
            world.acknowledge(delivery)
        world.advance(DELAY_MS)
    return bodies


@pytest.mark.parametrize("is_lost", [True, False])
@pytest.mark.parametrize("where", ["address", "consumer"])
def test_a_client_that_comes_back_waits_for_what_it_had_refused(where: str, is_lost: bool) -> None:
    world, asked = blocked(where)
    first = world.client("first")
    world.consumer(first, "q", INDIVIDUAL, 1, **asked)
    world.send(b"1", b"2", b"3")
    world.refuse(*first.take())
    world.broker.disconnect(first, is_lost)
    world.turn()
    again = world.client("again")
    world.subscribe(again, "q", INDIVIDUAL, 1, **asked)
    assert again.handed == []
    assert take_all(world, again) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("where", ["address", "consumer"])
def test_a_lost_message_comes_before_those_behind_it(where: str) -> None:
    world, asked = blocked(where)
    first = world.client("first")
    world.consumer(first, "q", INDIVIDUAL, 1, **asked)
    world.send(b"1", b"2", b"3")
    world.lose(first)
    again = world.client("again")
    world.subscribe(again, "q", INDIVIDUAL, 1, **asked)
    assert take_all(world, again) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("where", ["address", "consumer"])
def test_after_a_restart_nothing_overtakes_what_waits(where: str) -> None:
    world, asked = blocked(where)
    first = world.client("first")
    world.consumer(first, "q", INDIVIDUAL, 1, **asked)
    world.send(b"1", b"2", b"3")
    world.refuse(*first.take())
    world.restart()
    again = world.client("again")
    world.subscribe(again, "q", INDIVIDUAL, 1, **asked)
    assert take_all(world, again) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("where", ["address", "consumer"])
def test_one_that_waits_longer_holds_those_that_are_due(where: str) -> None:
    world, asked = blocked(where)
    client = world.client()
    world.consumer(client, "q", INDIVIDUAL, 3, **asked)
    world.send(b"1", b"2", b"3", b"4")
    one, two, three = client.take()
    world.acknowledge(three)
    world.refuse(two)
    world.advance(DELAY_MS // 2)
    world.refuse(one)
    world.advance(DELAY_MS // 2)
    assert client.handed == []
    assert take_all(world, client) == [b"1", b"2", b"4"]


def test_what_another_consumer_refuses_holds_the_queue_too() -> None:
    world, asked = blocked("consumer")
    client, other = world.client(), world.client("other")
    world.consumer(other, "q", INDIVIDUAL, 1)
    world.send(b"1")
    world.consumer(client, "q", INDIVIDUAL, 1, **asked)
    world.refuse(*other.take())
    world.send(b"2")
    assert client.handed == [] and other.handed == []
    world.advance(DELAY_MS)
    assert sorted(client.bodies() + other.bodies()) == [b"1", b"2"]


def test_without_such_a_consumer_others_overtake() -> None:
    world, asked = blocked("consumer")
    client, other = world.client(), world.client("other")
    consumer = world.consumer(client, "q", INDIVIDUAL, 1, **asked)
    world.send(b"1", b"2")
    world.consumer(other, "q", INDIVIDUAL, 1)
    world.refuse(*client.take())
    assert other.handed == []
    world.broker.unsubscribe(consumer, is_lost=False)
    world.turn()
    assert other.bodies() == [b"2"]
