"""Settled entries of a turn become ranges."""

from __future__ import annotations

from engine.backlog.settlement import SettlementBatch
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from tests.support.store.scripted_store import ScriptedStore, recovered_queue, stored_message


def flushed(*entries: tuple[int, int]) -> list[tuple[int, int, int]]:
    batch = SettlementBatch(1, ACKNOWLEDGED, CAUSE_NONE)
    store = ScriptedStore([recovered_queue(1, "q", [])])
    for number, (priority, offset) in enumerate(entries):
        assert batch.add(stored_message(1, offset, b"", priority)) == (number == 0)
    batch.flush(store)
    (record,) = store.settled
    return record.ranges


def test_consecutive_entries_are_one_range() -> None:
    assert flushed((4, 7), (4, 8), (4, 9)) == [(4, 7, 3)]


def test_gaps_and_steps_back_begin_new_ranges() -> None:
    assert flushed((4, 1), (4, 3), (4, 2)) == [(4, 1, 1), (4, 3, 1), (4, 2, 1)]


def test_priorities_are_counted_apart() -> None:
    assert flushed((4, 1), (5, 2), (5, 3), (4, 2)) == [(4, 1, 1), (5, 2, 2), (4, 2, 1)]


def test_every_octet_is_told_once() -> None:
    batch = SettlementBatch(1, ACKNOWLEDGED, CAUSE_NONE)
    store = ScriptedStore([recovered_queue(1, "q", [])])
    for number, (priority, offset) in enumerate([(4, 1), (4, 3), (5, 3), (5, 4), (4, 7), (4, 9)]):
        batch.add(stored_message(1, offset, b"x" * 10**number, priority))
    batch.flush(store)
    assert store.settled[0].size_bytes == [11, 0, 1_100, 110_000, 0]
    batch.add(stored_message(1, 20, b"abc"))
    batch.add(stored_message(1, 22, b"de"))
    batch.flush(store)
    assert (store.settled[1].ranges, store.settled[1].size_bytes) == ([(4, 20, 1), (4, 22, 1)], [5, 0])


def test_a_flushed_batch_begins_anew() -> None:
    batch = SettlementBatch(1, ACKNOWLEDGED, CAUSE_NONE)
    store = ScriptedStore([recovered_queue(1, "q", [])])
    for offset in (1, 2):  # the second would continue the first
        assert batch.add(stored_message(1, offset, b""))
        batch.flush(store)
    assert [record.ranges for record in store.settled] == [[(4, 1, 1)], [(4, 2, 1)]]
