from __future__ import annotations

import json

import pytest

from engine.store.state.log_state import StoreState
from engine.store.state.snapshot import encode_snapshot, load_snapshot
from engine.values.destination import QUEUE, TOPIC
from engine.values.outcomes import CAUSE_NACK
from engine.values.stored import Attempts, Range

ATTEMPTS = {6: Attempts(3, 77, 50, 50, CAUSE_NACK, 11), 7: Attempts(4, 78, 50, 60, CAUSE_NACK, 11)}


def a_state() -> StoreState:
    state = StoreState()
    state.add_destination(1, QUEUE, "orders.äöü")
    state.add_destination(3, TOPIC, "news")
    for destination_id, priority, tail in ((1, 9, 3), (1, 4, 20), (3, 4, 7)):
        state.open_lane(destination_id, priority).tail = tail
    state.open_lane(1, 4).live_bytes = 900
    state.settle(1, [Range(4, 0, 5), Range(4, 8, 2)], 200)
    state.consumers.add(11, '{"client_id":"c","id":11,"destination":1}')
    state.fail_attempts(1, 11, CAUSE_NACK, 77, 50, [Range(4, 6, 2, 3), Range(4, 4, 1, 9)])
    state.fail_attempts(1, 11, CAUSE_NACK, 78, 60, [Range(4, 7, 1, 4)])
    state.system.tail = 30
    return state


def test_a_snapshot_tells_everything() -> None:
    state = a_state()
    payload = encode_snapshot(state, 99)
    assert json.loads(payload)["sequence"] == 99
    again = load_snapshot(payload)
    assert encode_snapshot(again, 99) == payload
    assert (again.consumers.next_number, again.next_destination, again.system.tail) == (12, 4, 30)
    assert again.number_of(QUEUE, "orders.äöü") == 1
    assert again.number_of(TOPIC, "orders.äöü") == 0
    orders, news = again.recovered()
    assert [lane.priority for lane in orders.lanes] == [4, 9]
    low = orders.lanes[0]
    assert (low.tail, low.cursor, low.settled, low.attempts) == (20, 5, [(8, 2)], ATTEMPTS)
    assert (orders.live_bytes, news.live_bytes) == (700, 0)
    assert again.consumers.description(11) == {"client_id": "c"}
    assert (news.lanes[0].tail, news.lanes[0].cursor) == (7, 7)


def test_a_snapshot_is_compact_json_whatever_the_names_are() -> None:
    state = a_state()
    state.add_destination(4, QUEUE, 'quoted "\\\n\x01\u2028')
    state.open_lane(4, 0).tail = 1
    payload = encode_snapshot(state, 99)
    described = json.loads(payload)
    assert payload == json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode()
    assert described["destinations"][2]["name"] == 'quoted "\\\n\x01\u2028'
    assert described["destinations"][0]["lanes"][0] == {
        "priority": 4,
        "tail": 20,
        "cursor": 5,
        "settled": [[8, 2]],
        "attempts": [[6, 3, 77, 50, 50, CAUSE_NACK, 11], [7, 4, 78, 50, 60, CAUSE_NACK, 11]],
    }


def test_a_failed_attempt_of_a_settled_entry_is_not_kept() -> None:
    state = a_state()
    state.fail_attempts(1, 0, CAUSE_NACK, 0, 0, [Range(4, 8, 1, 1)])
    assert state.open_lane(1, 4).attempts_of(8) is None


@pytest.mark.parametrize("count", [1, 15])
def test_settling_forgets_attempts(count: int) -> None:
    state = a_state()
    state.settle(1, [Range(4, 6, count)], 0)
    assert state.open_lane(1, 4).attempts_of(6) is None


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b'{"next_consumer": 1, "system_tail": "x"}'])
def test_a_snapshot_that_is_none(payload: bytes) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        load_snapshot(payload)


def test_the_name_of_a_destination_that_was_known_by_its_number_only() -> None:
    state = StoreState()
    state.add_destination(5, QUEUE, "recovered.5")
    lane = state.open_lane(5, 4)
    state.add_destination(5, TOPIC, "news")
    assert state.open_lane(5, 4) is lane
    assert lane.is_topic
    assert state.number_of(TOPIC, "news") == 5
