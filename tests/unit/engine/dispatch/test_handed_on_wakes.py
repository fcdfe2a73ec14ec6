"""A message for which a consumer was woken that cannot take it goes to the next one."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.sources.composite import CompositeSource
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.engine.idle_law import check_nobody_idles

RED = "colour = 'red'"


def selected() -> EngineWorld:
    """A world in which the queue q has a Selection, for one consumer that takes only what is blue."""
    world = EngineWorld()
    world.consumer(world.client("blue"), "q", AUTO, selector="colour = 'blue'")
    return world


def test_the_woken_one_has_a_socket_that_takes_nothing() -> None:
    world = selected()
    first, second = world.client("first"), world.client("second")
    for client in (first, second):
        world.consumer(client, "q", INDIVIDUAL, 1, selector=RED)
    world.turn()
    first.is_output_full = True
    world.send(b"m", headers="colour:red")
    assert second.bodies() == [b"m"]


def test_the_woken_one_closes_in_the_same_turn() -> None:
    world = selected()
    first, second = world.client("first"), world.client("second")
    for client in (first, second):
        world.consumer(client, "q", INDIVIDUAL, 1, selector=RED)
    world.turn()
    queue = world.queue("q")
    world.broker.send(queue, world.message(queue, b"m", headers="colour:red"))
    world.broker.disconnect(first, is_lost=True)
    world.turn()
    assert second.bodies() == [b"m"]


def test_the_woken_one_shares_a_window_that_another_queue_has_filled() -> None:
    world = selected()
    several, other = world.client("several"), world.client("other")
    destinations = world.broker.destinations
    source = CompositeSource([destinations.queue("p"), destinations.queue("q")])
    world.consumer(several, source, INDIVIDUAL, 1, selector=RED)
    world.subscribe(other, "q", INDIVIDUAL, 1, selector=RED)
    for name in ("p", "q"):
        queue = destinations.queue(name)
        world.broker.send(queue, world.message(queue, name.encode(), headers="colour:red"))
    world.turn()
    assert (several.bodies(), other.bodies()) == ([b"p"], [b"q"])


def test_the_woken_one_has_spent_its_rate() -> None:
    world = selected()
    first, second = world.client("first"), world.client("second")
    world.subscribe(first, "q", INDIVIDUAL, 10, selector=RED, rate=1)
    world.send(b"1", headers="colour:red")
    world.subscribe(second, "q", INDIVIDUAL, 10, selector=RED)
    world.send(b"2", headers="colour:red")
    assert (first.bodies(), second.bodies()) == ([b"1"], [b"2"])


@pytest.mark.parametrize("is_strict", [False, True])
def test_messages_that_come_together_go_to_as_many_idle_consumers(is_strict: bool) -> None:
    world = EngineWorld(address("q", queue__strict_order_dispatch=is_strict))
    world.consumer(world.client("blue"), "q", AUTO, selector="colour = 'blue'")
    clients = [world.client(f"c{number}") for number in range(3)]
    for client in clients:
        world.consumer(client, "q", INDIVIDUAL, 5, selector=RED)
    world.turn()
    queue = world.queue("q")
    for number in range(3):
        world.broker.send(queue, world.message(queue, b"%d" % number, headers="colour:red"))
    world.turn()
    got = [client.bodies() for client in clients]
    assert got == ([[b"0", b"1", b"2"], [], []] if is_strict else [[b"0"], [b"1"], [b"2"]])


def test_the_exclusive_one_alone_is_woken() -> None:
    world = EngineWorld(address("q", queue__exclusive_consumer=True))
    first, second = world.client("first"), world.client("second")
    for client in (first, second):
        world.consumer(client, "q", INDIVIDUAL, 1)
    world.turn()
    first.is_output_full = True
    world.send(b"m")
    check_nobody_idles(world.broker)
    assert second.handed == []
    world.drain_output(first)
    assert first.bodies() == [b"m"]


def test_the_exclusive_one_looks_again_when_its_heir_has_gone() -> None:
    """While an heir waits for it, it finds nothing; what came meanwhile is for it again."""
    world = EngineWorld(address("q", queue__exclusive_consumer=True))
    active, heir = world.client("active"), world.client("heir")
    world.consumer(active, "q", INDIVIDUAL, 5)
    world.send(b"held")
    queue = world.queue("q")
    world.broker.send(queue, world.message(queue, b"late"))
    coming = world.subscribe(heir, "q", INDIVIDUAL, 5, priority=5)
    assert (active.bodies(), heir.bodies()) == ([b"held"], [])
    world.unsubscribe(coming)
    check_nobody_idles(world.broker)
    assert active.bodies() == [b"late"]


def test_what_an_exclusive_one_leaves_wakes_the_others() -> None:
    world = selected()
    alone, other = world.client("alone"), world.client("other")
    world.consumer(other, "q", INDIVIDUAL, 5)
    world.subscribe(alone, "q", INDIVIDUAL, 5, is_exclusive=True)
    alone.is_output_full = True
    world.send(b"1", b"2")
    world.leave(alone)
    check_nobody_idles(world.broker)
    assert other.bodies() == [b"1", b"2"]


def test_who_comes_behind_a_dear_selector_is_asked_in_a_turn_to_come() -> None:
    world = EngineWorld()
    world.consumer(world.client("dear"), "q", INDIVIDUAL, 5, selector="XPATH '//a'")
    cheap = world.client("cheap")
    world.subscribe(cheap, "q", INDIVIDUAL, 5, selector="JMSPriority > 1")
    world.leave_steps(0)
    world.send(b"m")
    for _ in range(5):
        world.advance(0)
    assert cheap.bodies() == [b"m"]
