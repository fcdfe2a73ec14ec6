"""Snapshots: what they say, and that a draft of one says it anew where something has changed."""

from __future__ import annotations

import json
import random

import pytest

from engine.store.state.log_state import StoreState
from engine.store.state.settled_entries import SettledEntries
from engine.store.state.snapshot import SnapshotDraft, encode_snapshot, load_snapshot
from engine.values.destination import QUEUE, TOPIC
from engine.values.outcomes import CAUSE_NACK
from engine.values.stored import Range


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
        if chance.random() < 0.3:
            draft.begin_pass()
        draft.go_on(chance.choice((0, 0, 1, 2, 100)))
        if chance.random() < 0.3:
            assert draft.finish(7) == encode_snapshot(state, 7)
    assert draft.finish(7) == encode_snapshot(state, 7)
    assert draft.steps_left() == 0
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
    draft.begin_pass()
    assert draft.steps_left() == 2
    draft.go_on(1)
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


def _fragmented(state: StoreState, name: str, runs: int) -> int:
    """Add a queue with a consumer that is stuck: every second entry is settled.  Return its number."""
    number = state.next_destination
    state.add_destination(number, QUEUE, name)
    for entry in range(2 * runs):
        append(state, number, 4, 1)
        if entry % 2:
            state.settle(number, [Range(4, entry, 1)], 1)
    return number


def _pages_in_words(state: StoreState) -> int:
    return sum(len(lane.settled.texts) for lane in state.lanes.values())


def test_a_step_is_at_most_one_page_of_a_fragmented_queue() -> None:
    state = StoreState()
    state.open_generation()
    for number in range(5):
        _fragmented(state, f"stuck.{number}", 20_000)
    draft = SnapshotDraft(state)
    draft.begin_pass()
    before = 0
    while draft.steps_left():
        draft.go_on(1)
        assert _pages_in_words(state) - before <= 1
        before = _pages_in_words(state)
    assert before >= 5 * (40_000 // 4096 - 1)
    assert draft.finish(7) == encode_snapshot(state, 7)


def test_a_step_is_at_most_one_page_of_failed_attempts() -> None:
    state = StoreState()
    state.open_generation()
    state.add_destination(1, QUEUE, "stuck")
    for entry in range(5_000):
        append(state, 1, 4, 1)
        state.fail_attempts(1, 7, CAUSE_NACK, 0, entry, [Range(4, entry, 1, 1)])
    (lane,) = state.lanes.values()
    failed = lane.failed
    assert failed is not None
    draft = SnapshotDraft(state)
    draft.begin_pass()
    before = 0
    while draft.steps_left():
        draft.go_on(1)
        assert len(failed.texts) - before <= 1
        before = len(failed.texts)
    assert before == len(failed.pages) > 30
    state.fail_attempts(1, 7, CAUSE_NACK, 0, 9, [Range(4, 70, 1, 2)])
    assert failed.pages_to_encode() == [0], "all that the next pass or the end has to do"
    assert draft.finish(7) == encode_snapshot(state, 7)


def test_a_pass_tells_a_fragmented_queue_that_goes_on_changing_once() -> None:
    state = StoreState()
    state.open_generation()
    queue = _fragmented(state, "stuck", 20_000)
    draft = SnapshotDraft(state)
    draft.begin_pass()
    draft.go_on(100)
    (lane,) = state.lanes.values()
    told = dict(lane.settled.texts)
    for entry in range(40_000, 40_100):
        append(state, queue, 4, 1)
        if entry % 2:
            state.settle(queue, [Range(4, entry, 1)], 1)
        assert draft.steps_left() == 0, "nothing is left to do in this pass"
        draft.go_on(1)
    changed = 40_000 >> 12
    assert lane.settled.texts == {page: text for page, text in told.items() if page != changed}
    assert lane.settled.pages_to_encode() == [changed], "all that the next pass or the end has to do"
    draft.begin_pass()
    assert draft.steps_left() == 2, "in the next pass it is described again: one page, and the rest"
    draft.go_on(2)
    assert not state.touched, "the end has nothing to do"
    assert draft.finish(7) == encode_snapshot(state, 7)


def test_a_queue_that_changes_faster_than_it_is_told_keeps_no_pass_and_no_other_queue() -> None:
    state = StoreState()
    state.open_generation()
    stuck = _fragmented(state, "stuck", 20_000)
    state.add_destination(9, QUEUE, "calm")
    draft = SnapshotDraft(state)
    draft.begin_pass()
    steps = 0
    while draft.steps_left():
        draft.go_on(1)
        state.settle(stuck, [Range(4, 4096 * (1 + steps % 9) + 2 * steps, 1)], 1)
        steps += 1
    assert steps < 15, "each page once, and the rest of each queue"
    assert list(state.touched) == [stuck]
    assert draft.finish(7) == encode_snapshot(state, 7)


def test_subscriptions_that_have_not_changed_are_not_told_again() -> None:
    state = StoreState()
    state.add_destination(1, TOPIC, "news")
    state.open_generation()
    for number in range(2, 1_002):
        state.add_subscription(number, 1, f"mail {number}", {}, [])
    draft = SnapshotDraft(state)
    first = draft.finish(1)
    append(state, 1, 4, 10)
    state.settle(500, [Range(4, 0, 1, 0, 0, [10])], 0)
    draft.begin_pass()
    assert draft.steps_left() == 2, "the topic and one of its subscriptions"
    assert draft.finish(2) == encode_snapshot(state, 2) != first


@pytest.mark.parametrize("seed", range(30))
def test_runs_in_words_are_the_runs(seed: int) -> None:
    chance = random.Random(seed)
    settled = SettledEntries(0)
    known: set[int] = set()
    for _ in range(60):
        first = chance.choice((0, 5, 4_090, 4_096, 8_192, chance.randrange(30_000)))
        count = chance.choice((1, 2, 6, 4_096, 9_000))
        if chance.random() < 0.5:
            settled.add(first, count)
        else:
            settled.add_runs([first, first + count + 1], [count, 1])
            known.add(first + count + 1)
        known.update(range(first, first + count))
        if chance.random() < 0.5:
            settled.text()
        told = SettledEntries(settled.cursor)
        for start, length in json.loads(f"[{settled.text()}]"):
            assert start > settled.cursor
            told.add(start, length)
        assert told.runs() == settled.runs()
    assert all(settled.contains(entry) == (entry in known) for entry in range(40_000))
