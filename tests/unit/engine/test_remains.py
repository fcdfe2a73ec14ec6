"""What a subscription or destination leaves behind is freed at once: nothing waits for Python's collector.

The gateway runs the collector rarely.  A cycle would stay for hours, and a client could make as many as it likes.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from engine.values.destination import QUEUE, TEMP_QUEUE, TOPIC
from engine.values.options import FIRST, ReplayStart
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient
from tests.support.uncollected import uncollected

Subscribe = Callable[[EngineWorld, FakeClient], Any]


def _to(kind: int, name: str, **options: Any) -> Subscribe:
    return lambda world, client: world.subscribe(client, world.source(kind, name), **options)


def _to_temporary(world: EngineWorld, client: FakeClient) -> Any:
    destination = world.temporary(TEMP_QUEUE, world.broker.open_temporary(client, TEMP_QUEUE).name)
    consumer = world.subscribe(client, destination)
    world.send(b"x", to=destination)
    return consumer


SUBSCRIPTIONS: dict[str, Subscribe] = {
    "queue": _to(QUEUE, "q"),
    "selector": _to(QUEUE, "q", selector="a = 1"),
    "exclusive": _to(QUEUE, "q", is_exclusive=True),
    "priority": _to(QUEUE, "q", priority=3),
    "browser": _to(QUEUE, "q", is_browser=True),
    "browser with a selector": _to(QUEUE, "q", is_browser=True, selector="a = 1"),
    "replay of a queue": _to(QUEUE, "q", replay=ReplayStart(FIRST)),
    "replay of a topic": _to(TOPIC, "t", replay=ReplayStart(FIRST)),
    "browsing replay": _to(QUEUE, "q", replay=ReplayStart(FIRST), is_browser=True),
    "topic": _to(TOPIC, "t"),
    "topic with a selector": _to(TOPIC, "t", selector="a = 1"),
    "retroactive": _to(TOPIC, "t", is_retroactive=True),
    "shared": _to(TOPIC, "t", subscription="s", is_shared=True),
    "several queues": _to(QUEUE, "w.>"),
    "several topics": _to(TOPIC, "w.>"),
    "reader of a queue that keeps": _to(QUEUE, "kept"),
    "temporary": _to_temporary,
}


@contextmanager
def _collecting_nothing() -> Iterator[None]:
    """Fail if the collector finds anything of the engine that became garbage meanwhile."""
    with uncollected():
        try:
            yield
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            found = Counter(type(one).__name__ for one in gc.garbage if type(one).__module__.startswith("engine."))
            assert not found, f"left for the collector: {dict(found)}"
        finally:
            gc.set_debug(0)
            gc.garbage.clear()


@pytest.mark.parametrize("kind", SUBSCRIPTIONS)
@pytest.mark.parametrize("is_disconnected", [False, True], ids=["unsubscribed", "disconnected"])
def test_a_subscription_leaves_no_cycles(kind: str, is_disconnected: bool) -> None:
    world = EngineWorld(address("kept", queue__non_destructive=True))
    for name in ("q", "w.a", "w.b", "kept"):
        world.send(b"x", to=name, headers="a:1")
    other = world.client("other")  # it lasts
    world.subscribe(other, world.topic("t"))
    client = world.client("reader", "reader")  # a session has cycles, so connections are counted
    with _collecting_nothing():
        consumer = SUBSCRIPTIONS[kind](world, client)
        for topic in ("t", "w.t"):
            world.send(b"x", b"y", to=world.topic(topic), headers="a:1")
        world.send(b"x", b"y", headers="a:1")
        if is_disconnected:
            world.lose(client)
        else:
            world.unsubscribe(consumer)
        del consumer
        world.advance(100)
        client.handed.clear()
        client.browses_ended.clear()


@pytest.mark.parametrize("topic", ["t", "w.>"])
def test_a_deleted_durable_subscription_leaves_no_cycles(topic: str) -> None:
    world = EngineWorld()
    world.send(b"x", to=world.topic("w.a"))
    client = world.client("reader", "reader")
    with _collecting_nothing():
        source = world.source(TOPIC, topic)
        world.unsubscribe(world.subscribe(client, source, subscription="s", is_durable=True))
        for name in ("t", "w.a", "w.b"):
            world.send(b"x", to=world.topic(name))
        world.delete_subscription("reader", "s")
        del source
        world.advance(100)
        world.turn()


def test_a_deleted_queue_leaves_no_cycles() -> None:
    world = EngineWorld()
    with _collecting_nothing():
        world.send(b"x", b"y", to="gone")
        world.delete(world.queue("gone"), is_forced=True)
        world.turn()
        world.advance(100)
