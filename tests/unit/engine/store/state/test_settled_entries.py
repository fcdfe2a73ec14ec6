"""Settled entries against a plain set."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.store.state.settled_entries import FULL_PAGE, PAGE_ENTRIES, SettledEntries

RANGES = st.lists(st.tuples(st.integers(0, 3 * PAGE_ENTRIES), st.integers(1, PAGE_ENTRIES + 10)), max_size=12)
NEAR = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)), max_size=25)


def runs_of(entries: set[int], cursor: int) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for entry in sorted(entries):
        if entry >= cursor:
            if runs and sum(runs[-1]) == entry:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((entry, 1))
    return runs


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(ranges=st.one_of(RANGES, NEAR), start=st.integers(0, 20))
def test_it_is_the_set_of_what_was_added(ranges: list[tuple[int, int]], start: int) -> None:
    settled = SettledEntries(start)
    expected = set(range(start))
    for first, count in ranges:
        settled.add(first, count)
        expected.update(range(first, first + count))
        cursor = 0
        while cursor in expected:
            cursor += 1
        assert settled.cursor == cursor
        assert settled.runs() == runs_of(expected, cursor)
    end = max(expected, default=0) + 2
    for entry in range(end):
        assert settled.contains(entry) == (entry in expected)
    for first in {0, end // 3, end - 1}:
        bits = settled.bits(first, end)
        assert bits == sum(1 << (entry - first) for entry in expected if entry >= first)


@given(batches=st.lists(st.one_of(RANGES, NEAR).filter(bool), max_size=4), start=st.integers(0, 20))
def test_runs_are_added_as_if_one_by_one(batches: list[list[tuple[int, int]]], start: int) -> None:
    together = SettledEntries(start)
    apart = SettledEntries(start)
    for ranges in batches:
        together.add_runs([first for first, _ in ranges], [count for _, count in ranges])
        for first, count in ranges:
            apart.add(first, count)
        assert together.cursor == apart.cursor
        assert together.runs() == apart.runs()


@given(batches=st.lists(st.one_of(RANGES, NEAR).filter(bool), max_size=4), is_together=st.booleans())
def test_what_snapshots_say_is_what_is_settled(batches: list[list[tuple[int, int]]], is_together: bool) -> None:
    """However long ago the pages were put into words, and however a run reaches into the next ones."""
    settled = SettledEntries(0)
    for ranges in batches:
        if is_together:
            settled.add_runs([first for first, _ in ranges], [count for _, count in ranges])
        else:
            for first, count in ranges:
                settled.add(first, count)
        told = SettledEntries(settled.cursor)
        for first, count in json.loads(f"[{settled.text()}]"):
            told.add(first, count)
        assert told.runs() == settled.runs()


def test_the_last_of_several_runs_may_reach_into_pages_that_are_in_words() -> None:
    settled = SettledEntries(0)
    settled.add(2 * PAGE_ENTRIES + 500, 3)
    settled.encode(2)
    settled.add_runs([10, 20], [1, 2 * PAGE_ENTRIES])
    assert settled.text().endswith(f"[{2 * PAGE_ENTRIES},20],[{2 * PAGE_ENTRIES + 500},3]")


def test_a_page_that_runs_fill_is_the_one_object() -> None:
    settled = SettledEntries(0)
    settled.add_runs(list(range(PAGE_ENTRIES, 2 * PAGE_ENTRIES, 2)), [1] * (PAGE_ENTRIES // 2))
    settled.add_runs(list(range(PAGE_ENTRIES + 1, 2 * PAGE_ENTRIES, 2)), [1] * (PAGE_ENTRIES // 2))
    assert settled.pages[1] is FULL_PAGE


def test_pages_go_once_the_cursor_has_passed() -> None:
    settled = SettledEntries(0)
    settled.add(1, 3 * PAGE_ENTRIES)
    assert len(settled.pages) == 4
    assert settled.pages[1] is FULL_PAGE
    settled.add(0, 1)
    assert settled.cursor == 3 * PAGE_ENTRIES + 1
    assert set(settled.pages) <= {3}


def test_a_leap_of_the_cursor_takes_thepages_below_along() -> None:
    settled = SettledEntries(0)
    settled.add(10, 1)
    settled.add(PAGE_ENTRIES + 10, 1)
    settled.add(0, PAGE_ENTRIES + 10)
    assert settled.cursor == PAGE_ENTRIES + 11
    assert settled.runs() == []
