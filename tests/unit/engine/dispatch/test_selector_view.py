"""Consumers served before others, or alone: priorities, exclusive consumers; queues that wait for consumers."""

from __future__ import annotations

from typing import Any

import pytest

from engine.dispatch.selector_view import seat_of
from engine.values import gates
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer
from tests.support.engine.spill_world import SpillWorld


def numbers(*values: int) -> list[bytes]:
    return [b"%d" % value for value in values]


DELAYS = {"redelivery__initial_redelivery_delay_ms": 300, "redelivery__redelivery_delay_ms": 300}


# -- priority


def test_a_higher_priority_is_served_while_it_has_room() -> None:
    world = EngineWorld()
    low, high, same = world.client("low"), world.client("high"), world.client("same")
    world.consumer(low, prefetch=10)
    world.consumer(high, prefetch=2, priority=5)
    world.consumer(same, prefetch=2, priority=5)
    world.send(*numbers(*range(7)))
    assert (high.bodies(), same.bodies(), low.bodies()) == (numbers(0, 2), numbers(1, 3), numbers(4, 5, 6))


def test_it_is_served_first_again_once_it_has_room() -> None:
    world = EngineWorld(address("q", prefetch__top_up="each-ack"))
    low, high = world.client("low"), world.client("high")
    world.consumer(low, prefetch=1)
    world.consumer(high, prefetch=1, priority=127)
    world.send(*numbers(0, 1))
    (held,) = high.take()
    (other,) = low.take()
    world.broker.acknowledge(other)
    world.broker.acknowledge(held)
    world.turn()
    world.send(b"2")
    assert (high.bodies(), low.bodies()) == (numbers(2), [])


def test_a_lower_priority_than_the_default_comes_last() -> None:
    world = EngineWorld()
    plain, low = world.client("plain"), world.client("low")
    world.consumer(low, priority=-1)
    world.consumer(plain, prefetch=2)
    world.send(*numbers(0, 1, 2))
    assert (plain.bodies(), low.bodies()) == (numbers(0, 1), numbers(2))


def test_priorities_do_not_count_where_the_address_says_so() -> None:
    world = EngineWorld(address("q", queue__use_consumer_priority=False))
    low, high = world.client("low"), world.client("high")
    world.consumer(low)
    world.consumer(high, priority=5)
    world.send(*numbers(0, 1))
    assert (low.bodies(), high.bodies()) == (numbers(0), numbers(1))


def test_strict_order_fills_one_consumer_before_the_next() -> None:
    world = EngineWorld(address("q", queue__strict_order_dispatch=True))
    first, second = world.client("first"), world.client("second")
    world.consumer(first, prefetch=3)
    world.consumer(second)
    world.send(*numbers(*range(5)))
    assert (first.bodies(), second.bodies()) == (numbers(0, 1, 2), numbers(3, 4))


def test_in_strict_order_the_first_with_room_comes_first_however_the_messages_come() -> None:
    world = EngineWorld(address("q", queue__strict_order_dispatch=True))
    first, second = world.client("first"), world.client("second")
    world.consumer(first, prefetch=2)
    world.consumer(second)
    for number in range(3):
        world.send(b"%d" % number)
    held = first.take()
    assert ([one.message.body for one in held], second.bodies()) == (numbers(0, 1), numbers(2))
    world.acknowledge(held[0])
    world.send(b"3")
    world.acknowledge(held[1])
    world.send(b"4")
    assert (first.bodies(), second.bodies()) == (numbers(3, 4), [])


# -- exclusive


@pytest.mark.parametrize("is_setting", [True, False])
def test_one_consumer_gets_everything_until_it_goes(is_setting: bool) -> None:
    world = EngineWorld(address("q", queue__exclusive_consumer=is_setting))
    clients = [world.client(name) for name in "abc"]
    consumers = [world.consumer(client, prefetch=3, is_exclusive=not is_setting) for client in clients]
    world.send(*numbers(*range(5)))
    assert [client.bodies() for client in clients] == [numbers(0, 1, 2), [], []]
    assert consumers[1].gate() == gates.EXCLUSIVE_OWNER
    assert consumers[1].describe_gate() == f"exclusive-owner: consumer {consumers[0].consumer_id} has the queue"
    world.leave(clients[0])
    assert [client.bodies() for client in clients] == [[], numbers(0, 1, 2), []]
    world.lose(clients[1])
    assert [client.bodies() for client in clients] == [[], [], numbers(0, 1, 2)]


def test_beside_an_exclusive_consumer_plain_ones_get_nothing() -> None:
    world = EngineWorld()
    plain, exclusive = world.client("plain"), world.client("exclusive")
    world.consumer(plain)
    consumer = world.consumer(exclusive, prefetch=1, is_exclusive=True)
    world.send(*numbers(0, 1))
    assert (plain.bodies(), exclusive.bodies()) == ([], numbers(0))
    world.unsubscribe(consumer)
    assert plain.bodies() == numbers(0, 1)


def test_beside_an_exclusive_consumer_nothing_is_read_for_others() -> None:
    world = EngineWorld()
    alone, other = world.client("alone"), world.client("other")
    world.consumer(alone, prefetch=1, is_exclusive=True)
    world.send(*numbers(0, 1, 2))
    seat = seat_of(world.subscribe(other, selector="1 = 1"))
    world.queue("q").mark_dirty()
    world.turn()
    assert seat is not None and seat.view.matched_count == 0, "what it may find would be read at each dispatch"
    world.leave(alone)
    assert other.bodies() == numbers(0, 1, 2)


def test_the_heir_is_the_one_of_the_highest_priority_then_the_oldest() -> None:
    world = EngineWorld()
    clients = {name: world.client(name) for name in ("first", "old", "young", "low")}
    for name, priority in (("first", 9), ("low", 0), ("old", 5), ("young", 5)):
        world.consumer(clients[name], is_exclusive=True, priority=priority)
    world.send(b"0")
    world.leave(clients["first"])
    assert {name: client.bodies() for name, client in clients.items() if name != "first"} == {
        "old": numbers(0),
        "young": [],
        "low": [],
    }


def test_a_higher_priority_takes_over_once_nothing_is_held() -> None:
    world = EngineWorld()
    old, high = world.client("old"), world.client("high")
    consumer = world.consumer(old, prefetch=2, is_exclusive=True)
    world.send(*numbers(0, 1, 2, 3))
    held = old.take()
    world.consumer(high, is_exclusive=True, priority=1)
    world.acknowledge(held[0])
    assert (old.bodies(), high.bodies()) == ([], [])
    assert consumer.describe_gate() == "exclusive-owner: it hands over to a consumer of a higher priority"
    world.acknowledge(held[1])
    assert (old.bodies(), high.bodies()) == ([], numbers(2, 3))


def test_while_an_heir_waits_nobody_is_woken_for_what_is_spilled() -> None:
    world = SpillWorld(address("q", full__max_size_bytes=2_000))
    old, high = world.client("old"), world.client("high")
    world.subscribe(old, prefetch=2, is_exclusive=True)
    bodies = [b"%d".ljust(1_000) % number for number in range(6)]
    world.send(*bodies[:2], persistent=False)
    world.send(*bodies[2:], persistent=False)  # the last two of these are spilled
    held = old.take()
    world.subscribe(high, prefetch=10, is_exclusive=True, priority=1)
    world.acknowledge(held[0])
    queue = world.queue("q")
    world.dispatch_selectively(queue)
    assert not queue.is_dirty, "a turn would dispatch it for ever: nobody may take what waits"
    world.acknowledge(held[1])
    assert (old.bodies(), high.bodies()) == ([], bodies[2:])


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({}, {"is_exclusive": True}),
        ({"queue__exclusive_consumer": True}, {}),
        ({"redelivery__non_blocking_redelivery": False}, {}),
        ({}, {"redelivery": {"non_blocking_redelivery": False}}),
    ],
)
def test_where_order_is_asked_for_a_message_that_waits_keeps_the_others(
    settings: dict[str, bool], asked: dict[str, Any]
) -> None:
    world, client = world_with_client(address("q", **settings, **DELAYS))
    consumer = world.consumer(client, prefetch=1, **asked)
    world.send(*numbers(0, 1))
    world.refuse(*client.take())
    world.send(b"2")
    assert client.take() == []
    assert consumer.describe_gate() == "delayed: the next message waits for a redelivery, so that the order stays"
    world.advance(300)
    for number in (0, 1, 2):
        (held,) = client.take()
        assert held.message.body == b"%d" % number
        world.acknowledge(held)


# -- waiting for consumers


def test_a_queue_waits_for_its_consumers() -> None:
    world = EngineWorld(address("q", queue__consumers_before_dispatch=2))
    first, second = world.client("first"), world.client("second")
    consumer = world.consumer(first)
    world.send(*numbers(0, 1))
    assert first.bodies() == []
    assert consumer.describe_gate() == "consumers-before-dispatch: 1 of 2 consumers"
    world.subscribe(second)
    assert (first.bodies(), second.bodies()) == (numbers(0), numbers(1))
    world.leave(second)
    world.send(b"2")
    assert first.bodies() == numbers(1, 2)  # once it has begun it goes on
    world.leave(first)
    third = world.client("third")
    world.subscribe(third)
    assert third.bodies() == []  # and begins anew when all have gone


def test_it_waits_for_them_no_longer_than_the_address_says() -> None:
    world, client = world_with_consumer(
        address("q", queue__consumers_before_dispatch=2, queue__delay_before_dispatch_ms=700)
    )
    world.send(b"0")
    world.advance(699)
    assert client.bodies() == []
    world.advance(1)
    assert client.bodies() == numbers(0)


def test_a_delay_of_consumers_that_have_gone_does_not_count() -> None:
    world = EngineWorld(address("q", queue__consumers_before_dispatch=2, queue__delay_before_dispatch_ms=700))
    first, second = world.client("first"), world.client("second")
    world.consumer(first)
    world.advance(600)
    world.leave(first)
    world.consumer(second)
    world.send(b"0")
    world.advance(699)
    assert second.bodies() == []
    world.advance(1)
    assert second.bodies() == numbers(0)
