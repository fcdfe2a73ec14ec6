"""Idle and exclusive consumers in their order, whatever comes and goes; a consumer that has left is held by nothing."""

from __future__ import annotations

import sys
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from engine.consumers.consumer import Consumer
from engine.dispatch.selector_view import STALE_MAX, RankedConsumers
from tests.support.engine.engine_world import world_with_client

COUNT: Final = 5
PRIORITIES: Final = (0, 4, 0, -1, 4)
STEPS = st.lists(st.tuples(st.sampled_from(["add", "remove", "first", "take"]), st.integers(0, COUNT - 1)), max_size=60)


def made(count: int) -> list[Consumer]:
    world, client = world_with_client()
    return [world.consumer(client, f"q{number}", priority=PRIORITIES[number % COUNT]) for number in range(count)]


@given(steps=STEPS, is_strict=st.booleans())
def test_the_first_is_of_the_highest_priority_and_then_the_oldest(
    steps: list[tuple[str, int]], *, is_strict: bool
) -> None:
    consumers = made(COUNT)
    ranked = RankedConsumers(is_strict)
    model: list[Consumer] = []
    for word, number in steps:
        consumer = consumers[number]
        order = consumers if is_strict else model
        expected = min(model, key=lambda one: (-one.priority, order.index(one)), default=None)
        if word == "add" and consumer not in model:
            ranked.add(consumer)
            model.append(consumer)
        elif word == "remove":
            assert ranked.remove(consumer) is (consumer in model)
            model = [one for one in model if one is not consumer]
        elif word == "first":
            assert ranked.first() is expected
        elif word == "take" and expected is not None:
            assert ranked.take_first() is expected
            model.remove(expected)
        assert len(ranked) == len(model)
        assert all((one in ranked) is (one in model) for one in consumers)


def test_a_consumer_that_has_left_is_held_by_nothing() -> None:
    consumers = made(STALE_MAX // 2)
    ranked = RankedConsumers(False)
    before = references(consumers)
    for one in consumers:
        ranked.add(one)
    for one in consumers[::2]:
        ranked.remove(one)
    del one
    held = [now > then for now, then in zip(references(consumers), before, strict=True)]
    assert held == [number % 2 == 1 for number in range(len(consumers))]


def references(consumers: list[Consumer]) -> list[int]:
    return [sys.getrefcount(one) for one in consumers]
