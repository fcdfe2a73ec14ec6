"""Snapshots: what they say, and that a draft of one says it anew where something has changed."""

from __future__ import annotations

import random

import pytest

from engine.destination import QUEUE, TOPIC
from engine.outcomes import CAUSE_NACK
from engine.store.snapshot import encode_snapshot, load_snapshot
from engine.store.snapshot_draft import SnapshotDraft
from engine.store.state import StoreState
from engine.stored import Range


def append(state: StoreState, number: int, priority: int, size: int) -> None:
    """Do with a lane what the commit log does."""
    lane = state.open_lane(number, priority)
    if not lane.is_touched:
        state.touch(lane)
    lane.tail += 1
    lane.live_bytes += size


@pytest.mark.parametrize("seed", range(20))
def test_a_draft_tells_what_a_fresh_snapshot_would(seed: int) -> None:
    chance = random.Random(seed)
    state = StoreState()
    state.add_destination(1, QUEUE, "orders")
    state.open_generation()
    draft = SnapshotDraft(state)
    state.add_destination(2, QUEUE, "bills")
    state.add_destination(3, TOPIC, "news")
    for _ in range(120):
        queues = [number for number, each in state.destinations.items() if each.kind == QUEUE]
        number = chance.choice([3, *queues])
        priority = chance.choice((4, 4, 9))
        lane = state.open_lane(number, priority)
        left = lane.tail - lane.settled.cursor
        subscription = chance.choice([0, *state.subscriptions])
        work = chance.random()
        if work < 0.4:
            append(state, number, priority, chance.randint(0, 9))
        elif work < 0.65 and number != 3 and left:
            entry = lane.settled.cursor + chance.choice((0, chance.randrange(left)))
            if not lane.settled.contains(entry):
                state.settle(number, [Range(priority, entry, 1)], chance.randint(0, 5))
        elif work < 0.7 and number != 3 and left:
            state.fail_attempts(number, 0, CAUSE_NACK, 0, 9, [Range(priority, lane.tail - 1, 1, 2)])
        elif work < 0.75:
            state.add_destination(state.next_destination, QUEUE, f"queue.{state.next_destination}")
        elif work < 0.8 and number != 3:
            state.close(number)
            state.next_generation()
        elif work < 0.9 and not subscription:
            starts = [(each.priority, each.tail, each.tail) for each in state.destinations[3].lanes]
            state.add_subscription(state.next_destination, 3, "mail", {}, starts)
        elif work < 0.95 and subscription and state.destinations[3].lanes:
            topic_lane = chance.choice(state.destinations[3].lanes)
            progress = state.subscriptions[subscription].lane(topic_lane.priority)
            if progress.settled.cursor < topic_lane.tail:
                one = Range(topic_lane.priority, progress.settled.cursor, 1, 0, 0, [1])
                state.settle(subscription, [one], chance.randint(0, 3))
        elif subscription:
            state.close(subscription)
        draft.tell(chance.choice((0, 0, 1, 2, 100)))
        if chance.random() < 0.3:
            assert draft.finish(7) == encode_snapshot(state, 7)
    assert draft.finish(7) == encode_snapshot(state, 7)
    assert draft.untold_count() == 0
    assert encode_snapshot(load_snapshot(draft.finish(8)), 8) == draft.finish(8)


def test_what_changed_first_is_told_first_and_once() -> None:
    state = StoreState()
    for number in (1, 2, 3):
        state.add_destination(number, QUEUE, f"queue.{number}")
    state.open_generation()
    draft = SnapshotDraft(state)
    draft.finish(1)
    for number in (2, 3, 2, 3):
        append(state, number, 4, 10)
    assert draft.untold_count() == 2
    draft.tell(1)
    append(state, 2, 4, 10)
    assert list(state.touched) == [3, 2]


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
