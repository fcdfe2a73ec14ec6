"""Browsers: a copy of what waits, in order, from memory and disk; nothing changes in the queue."""

from __future__ import annotations

from typing import Any

import pytest

from engine.backlog.lane_entries import IDLE_LANE_BYTES
from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.values.errors import InvalidSelector
from engine.values.options import SubscribeOptions
from tests.support.engine.engine_world import EngineWorld, world_with_client
from tests.support.fakes import FakeClient


def _browse(world: EngineWorld, client: FakeClient, ack_mode: int = AUTO, **options: Any) -> list[bytes]:
    world.subscribe(client, "q", ack_mode, is_browser=True, **options)
    return client.bodies()


def test_a_browser_sees_everything_by_priority_and_then_its_end() -> None:
    world = EngineWorld()
    world.send(b"1", b"2")
    world.send(b"urgent", priority=9)
    world.send(b"3", persistent=False)
    world.send(b"4")
    before = world.stats()
    used_bytes = world.memory_used()
    client = world.client()
    assert _browse(world, client) == [b"urgent", b"1", b"2", b"3", b"4"]
    assert [one.queue.name for one in client.browses_ended] == ["q"]
    world.send(b"late")
    assert client.bodies() == [], "what comes later is not in the picture"
    world.leave(client)
    assert world.store.settled == [] and world.memory_used() == used_bytes
    after = world.stats()
    assert (after.depth, after.in_flight, after.delivered) == (before.depth + 1, 0, before.delivered)
    assert world.subscriber("q", AUTO).bodies() == [b"urgent", b"1", b"2", b"3", b"4", b"late"]


def test_nobody_awaits_pages_of_a_browser_that_has_left() -> None:
    world, client = world_with_client()
    world.subscribe(client, "q", is_browser=True)
    (view,) = world.feeds()
    assert world.store.listener.is_awaited(view.feed.number)
    world.leave(client)
    assert not world.store.listener.is_awaited(view.feed.number)
    assert world.store.listener.is_awaited(0), "the queue itself, and parts of the broker"


def test_an_empty_queue_ends_at_once_but_not_before_the_start() -> None:
    world, client = world_with_client()
    consumer = world.broker.subscribe(client, world.queue("q"), SubscribeOptions(AUTO, is_browser=True))
    world.turn()
    assert client.browses_ended == []
    consumer.start()
    world.turn()
    world.turn()
    assert client.browses_ended == [consumer]


def test_what_is_with_a_consumer_is_not_seen() -> None:
    world = EngineWorld()
    world.send(b"1", b"2", b"3")
    holder = world.subscriber("q", prefetch=2)
    client = world.client()
    assert _browse(world, client) == [b"3"]
    world.acknowledge(*holder.take())


def test_a_backlog_on_disk_comes_page_by_page() -> None:
    world = EngineWorld()
    count = 40
    size = IDLE_LANE_BYTES // 8
    bodies = [b"%03d" % number + b"x" * size for number in range(count)]
    world.send(*bodies)
    world.store.page_limit = 5
    client = world.subscriber("q", INDIVIDUAL, prefetch=3, is_browser=True)
    seen: list[bytes] = []
    most = 0
    while deliveries := client.take():
        most = max(most, world.memory_used())
        seen += [one.message.body for one in deliveries]
        world.acknowledge(*deliveries)
    assert seen == bodies
    assert len(client.browses_ended) == 1
    assert world.memory_used() == 0 < most
    assert world.stats().depth == count and world.store.settled == []


def test_the_window_of_a_browser() -> None:
    world = EngineWorld()
    world.send(*(b"%d" % number for number in range(600)))
    client = world.client()
    consumer = world.subscribe(client, "q", INDIVIDUAL, is_browser=True)
    assert consumer.window.limit == 500
    assert len(client.take()) == 500 and client.browses_ended == []


def test_a_browser_with_a_selector() -> None:
    world = EngineWorld()
    for number in range(40):
        world.send(b"%d" % number + b"x" * (IDLE_LANE_BYTES // 8), headers=f"n:{number}")
    client = world.client()
    seen = _browse(world, client, selector="n >= 5 AND n < 8 OR n = 38")
    assert [body.rstrip(b"x") for body in seen] == [b"5", b"6", b"7", b"38"]
    assert len(client.browses_ended) == 1
    with pytest.raises(InvalidSelector):
        _browse(world, client, selector="n >")


def test_a_selector_sees_what_was_there_at_the_start_over_several_turns() -> None:
    """What is not persistent comes behind what waits on disk, and the higher priority first."""
    world = EngineWorld()
    for number in range(12_000):
        world.send(b"%d" % number, headers=f"n:{number % 3_000}", persistent=number % 2 > 0)
    world.send(b"urgent", headers="n:1", priority=9)
    used_bytes = world.memory_used()
    client = world.consuming("q", AUTO, is_browser=True, selector="n = 1 OR n = 2")
    world.broker.end_turn()
    assert client.bodies() == [b"urgent", b"1", b"2"] and client.browses_ended == []
    world.send(b"late", headers="n:1")
    world.turn()
    world.advance(0)
    expected = [b"3001", b"3002", b"6001", b"6002", b"9001", b"9002"]
    assert client.bodies() == expected
    assert len(client.browses_ended) == 1
    world.leave(client)
    taker = world.subscriber("q", AUTO)
    assert len(taker.bodies()) == 12_002
    assert world.memory_used() == 0 < used_bytes


def test_what_is_taken_while_a_browser_begins_is_left_out() -> None:
    world = EngineWorld()
    world.send(*(b"%d" % number for number in range(10_000)), persistent=False)
    taker = world.consuming("q", INDIVIDUAL, 10_000)
    client = world.consuming("q", AUTO, is_browser=True)
    world.broker.end_turn()
    world.advance(0)
    assert len(taker.take()) == 10_000
    assert len(client.bodies()) < 10_000
    assert len(client.browses_ended) == 1


def test_a_browser_shows_nothing_of_a_queue_that_is_deleted_while_it_begins() -> None:
    world = EngineWorld()
    world.send(*(b"%d" % number for number in range(10_000)), persistent=False)
    client = world.consuming("q", AUTO, is_browser=True)
    world.broker.end_turn()
    shown_count = len(client.handed)
    world.delete(world.queue("q"), is_forced=True)
    world.advance(0)
    assert 0 < shown_count < 10_000
    assert len(client.handed) == shown_count and len(client.browses_ended) == 1
    assert world.memory_used() == 0


def test_a_browser_that_goes_before_its_selector_has_seen_all_keeps_nothing() -> None:
    world = EngineWorld()
    world.send(*(b"%d" % number for number in range(10_000)), persistent=False)
    used_bytes = world.memory_used()
    client = world.client()
    consumer = world.consumer(client, "q", INDIVIDUAL, is_browser=True, selector="n IS NULL")
    world.broker.end_turn()
    world.unsubscribe(consumer)
    world.advance(0)
    assert world.memory_used() == used_bytes
    assert world.feeds() == [] and world.browsers() == []


def test_a_browser_that_goes_early_lets_go_of_everything() -> None:
    world = EngineWorld()
    world.send(*(b"%d" % number + b"x" * (IDLE_LANE_BYTES // 8) for number in range(40)))
    client = world.client()
    consumer = world.consumer(client, "q", INDIVIDUAL, prefetch=2, is_browser=True)
    world.broker.end_turn()  # a page is asked for, and the answer finds nobody
    world.unsubscribe(consumer)
    assert world.memory_used() == 0
    assert world.feeds() == [] and world.browsers() == []
    assert world.stats().depth == 40 and client.browses_ended == []


def test_what_is_delivered_again_says_so_to_a_browser_too() -> None:
    world = EngineWorld()
    world.send(b"1")
    holder = world.subscriber("q")
    world.leave(holder)
    client = world.subscriber("q", AUTO, is_browser=True)
    assert [one.is_redelivered for one in client.handed] == [True]
