"""A paused queue: it takes messages and hands none over, whatever kind of consumers it has."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.consumers.turn_steps import TURN_STEPS
from engine.values import gates
from engine.values.destination import QUEUE
from engine.values.wildcard import Wildcard
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer
from tests.support.engine.idle_law import check_nobody_idles


def test_it_accepts_messages_and_hands_them_over_once_it_is_resumed() -> None:
    world, client = world_with_client()
    consumer = world.subscribe(client, prefetch=10)
    world.send(b"0")
    (held,) = client.take()
    world.pause()
    world.send(b"1", b"2")
    assert client.bodies() == []
    assert consumer.gate() == gates.PAUSED
    assert consumer.describe_gate() == "paused by user ann; penstock resume ends that"
    stats = world.stats()
    assert (stats.depth, stats.in_flight, stats.is_paused) == (3, 1, True)
    world.acknowledge(held)
    assert world.stats().depth == 2, "what a consumer holds it may settle"
    world.resume()
    world.turn()
    assert client.bodies() == [b"1", b"2"]
    assert not world.stats().is_paused and consumer.gate() == gates.NOTHING_WAITING


def test_a_consumer_that_comes_while_it_is_paused_waits_as_well() -> None:
    world = EngineWorld()
    world.pause()
    world.send(b"0")
    client = world.subscriber()
    assert client.bodies() == []
    world.resume()
    world.turn()
    assert client.bodies() == [b"0"]


def test_a_returned_message_waits() -> None:
    world, client = world_with_client()
    world.subscribe(client, prefetch=1)
    world.send(b"0")
    (held,) = client.take()
    world.pause()
    world.refuse(held)
    world.advance(5_000)
    assert client.bodies() == []
    world.resume()
    world.turn()
    assert client.bodies() == [b"0"]


@pytest.mark.parametrize(
    "asked",
    [{"selector": "n >= 0"}, {"is_exclusive": True}, {"priority": 5}],
    ids=["selector", "exclusive", "priority"],
)
def test_consumers_that_differ_wait_and_go_on(asked: dict[str, object]) -> None:
    world = EngineWorld()
    clients = [world.subscriber(prefetch=4, **asked), world.subscriber(prefetch=4)]
    world.pause()
    for number in range(4):
        world.send(b"%d" % number, headers=f"n:{number}", group="g" if number % 2 else "")
    assert [client.bodies() for client in clients] == [[], []]
    world.resume()
    world.turn()
    check_nobody_idles(world.broker)
    assert sum(len(client.bodies()) for client in clients) == 4


def test_a_reader_of_a_non_destructive_queue_waits() -> None:
    world = EngineWorld(address("q", queue__non_destructive=True))
    early = world.subscriber(ack_mode=AUTO)
    world.pause()
    late = world.subscriber(ack_mode=AUTO)
    world.send(b"0")
    assert (early.bodies(), late.bodies()) == ([], [])
    world.resume()
    world.turn()
    assert (early.bodies(), late.bodies()) == ([b"0"], [b"0"])


def test_a_wildcard_goes_on_with_its_other_queues() -> None:
    world = EngineWorld()
    client = world.client()
    world.send(b"a", to="q.a")
    world.send(b"b", to="q.b")
    world.pause("q.a")
    consumer = world.subscribe(client, Wildcard(QUEUE, "q.*"), INDIVIDUAL, 10)
    assert client.bodies() == [b"b"]
    assert consumer.gate() == gates.PAUSED
    world.resume("q.a")
    world.turn()
    assert client.bodies() == [b"a"]


def test_purges_browsers_and_retries_go_on() -> None:
    world = EngineWorld()
    world.subscriber(selector="n = 1")
    world.pause()
    world.send(b"0", b"1")
    browser = world.subscriber(ack_mode=AUTO, is_browser=True)
    assert browser.bodies() == [b"0", b"1"]
    purge = world.purge(world.queue("q"))
    world.advance(1_000)
    assert purge.is_done and purge.count == 2


def test_a_consumer_may_leave_and_its_connection_be_lost() -> None:
    world, client = world_with_client()
    consumer = world.subscribe(client)
    other = world.subscriber()
    world.pause()
    world.unsubscribe(consumer)
    world.lose(other)
    world.send(b"0")
    late = world.subscriber()
    world.resume()
    world.turn()
    assert (client.bodies(), other.bodies(), late.bodies()) == ([], [], [b"0"])


def test_a_queue_paused_again_while_its_consumers_wake_hands_nothing_over() -> None:
    world = EngineWorld()
    clients = [world.subscriber(prefetch=1) for _ in range(3)]
    world.pause()
    world.send(b"0")
    world.resume()
    world.pause()
    world.turn()
    assert all(client.bodies() == [] for client in clients)
    world.resume()
    world.turn()
    assert [client.bodies() for client in clients] == [[b"0"], [], []], "the order of the rotation stays"


def test_a_full_output_holds_its_consumer_after_the_pause() -> None:
    world, client = world_with_consumer()
    world.pause()
    client.is_output_full = True
    world.send(b"0")
    world.resume()
    world.turn()
    assert client.bodies() == []
    world.drain_output(client)
    assert client.bodies() == [b"0"]


def test_many_consumers_wake_over_several_turns() -> None:
    world = EngineWorld()
    client = world.client()
    for _ in range(4_000):
        world.consumer(client, prefetch=1)
    world.turn()
    world.pause()
    world.turn()
    world.count_steps_anew()
    world.resume()
    world.send(b"0")
    assert client.bodies() == [b"0"]
    assert world.most_steps() < TURN_STEPS + 100
