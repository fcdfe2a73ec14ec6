"""Subscriptions to wildcards that have not joined everything: each waits at a place, and keeps no list of its own."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Final

import pytest

from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.consumers.turn_steps import TURN_STEPS
from engine.values.destination import QUEUE, TOPIC
from tests.support.engine.engine_world import EngineWorld

COUNT: Final = TURN_STEPS
TIMES: Final = 50
LIST_BYTES: Final = 8 * COUNT  # what a list of them would take


def wildcards(kind: int) -> Callable[[], object]:
    world = EngineWorld()
    for number in range(COUNT):
        if kind == QUEUE:
            world.queue(f"a.{number}")
        else:
            world.topic(f"a.{number}")
    client = world.client("c", "c")
    source = world.source(kind, "b.>")
    return lambda: world.consumer(client, source, AUTO)


def shared_wildcards() -> Callable[[], object]:
    world = EngineWorld()
    for number in range(COUNT):
        world.topic(f"a.{number}")
    source = world.source(TOPIC, "a.>")

    def join() -> None:
        world.consumer(world.client("c", "c"), source, INDIVIDUAL, 1, is_durable=True, is_shared=True, subscription="s")

    join()
    world.advance(0)
    return join


def new_queues() -> Callable[[], object]:
    world = EngineWorld()
    client = world.client()
    source = world.source(QUEUE, "b.>")
    for _ in range(COUNT):
        world.consumer(client, source, AUTO)
    world.turn()
    return lambda: world.queue(f"a.{len(world.queues())}")


MANY: Final[dict[str, Callable[[], Callable[[], object]]]] = {
    "wildcards of queues": lambda: wildcards(QUEUE),
    "wildcards of topics": lambda: wildcards(TOPIC),
    "consumers of a shared durable wildcard": shared_wildcards,
    "queues that are new to many wildcards": new_queues,
}


@pytest.mark.parametrize("what", MANY)
def test_many_that_wait_share_one_list(what: str) -> None:
    add = MANY[what]()
    add()
    tracemalloc.start()
    try:
        before_bytes, _ = tracemalloc.get_traced_memory()
        for _ in range(TIMES):
            add()
        after_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after_bytes - before_bytes) / TIMES < LIST_BYTES / 2
