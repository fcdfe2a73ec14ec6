"""Snapshots: what they say, and that they say it anew where something has changed."""

from __future__ import annotations

import json
import random

import pytest

from engine.destination import QUEUE, TOPIC
from engine.ports import CAUSE_NACK, Range
from engine.store.snapshot import encode_snapshot, load_snapshot
from engine.store.state import StoreState


def described(state: StoreState) -> dict[str, object]:
    """Return the snapshot as a fresh state would tell it: one that has never told any before."""
    fresh = load_snapshot(encode_snapshot(state, 1))
    found: dict[str, object] = json.loads(encode_snapshot(fresh, 1))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_what_changed_since_the_last_one_is_told_anew(seed: int) -> None:
    chance = random.Random(seed)
    state = StoreState()
    told = StoreState()
    for each in (state, told):
        each.add_destination(1, QUEUE, "orders")
        each.add_destination(2, QUEUE, "bills")
        each.add_destination(3, TOPIC, "news")
    for _ in range(60):
        number = chance.randint(1, 3)
        priority = chance.choice((4, 4, 9))
        told.open_lane(number, priority)
        lane = state.open_lane(number, priority)
        work = chance.random()
        subscription = chance.choice([0, *state.subscriptions])
        changes: list[tuple[str, tuple[object, ...]]] = []
        if work < 0.4:
            changes.append(("append", (number, priority, chance.randint(0, 9))))
        elif work < 0.7 and number != 3 and (left := lane.tail - lane.settled.cursor):
            entry = lane.settled.cursor + chance.choice((0, chance.randrange(left)))
            if not lane.settled.contains(entry):
                changes.append(("settle", (number, [Range(priority, entry, 1)], chance.randint(0, 5))))
        elif work < 0.8 and number != 3 and lane.tail > lane.settled.cursor:
            ranges = [Range(priority, lane.tail - 1, 1, 2)]
            changes.append(("fail_attempts", (number, 0, CAUSE_NACK, 0, 9, ranges)))
        elif work < 0.9 and not subscription:
            starts = [(each.priority, each.tail, each.tail) for each in state.destinations[3].lanes]
            changes.append(("add_subscription", (state.next_destination, 3, "mail", {}, starts)))
        elif subscription:
            changes.append(("close", (subscription,)))
        for name, arguments in changes:
            for each in (state, told):
                if name == "append":
                    destination_id, at, size = arguments
                    assert isinstance(destination_id, int) and isinstance(at, int) and isinstance(size, int)
                    each.open_lane(destination_id, at).tail += 1
                    each.open_lane(destination_id, at).live_bytes += size
                else:
                    getattr(each, name)(*arguments)
        encode_snapshot(told, 1)  # so that it could say the same again
    assert encode_snapshot(told, 7) == encode_snapshot(state, 7)
    assert json.loads(encode_snapshot(told, 1)) == described(state)


def test_a_topic_that_lost_its_last_subscription() -> None:
    state = StoreState()
    state.add_destination(1, TOPIC, "news")
    state.add_subscription(2, 1, "mail", {}, [])
    lane = state.open_lane(1, 4)
    lane.tail = 3
    lane.live_bytes = 300
    assert load_snapshot(encode_snapshot(state, 1)).state_of(1).live_bytes == 300
    state.close(2)
    assert load_snapshot(encode_snapshot(state, 2)).state_of(1).live_bytes == 0
