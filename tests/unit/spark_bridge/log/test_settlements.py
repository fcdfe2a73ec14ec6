"""Settled ranges: joining and looking up."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.values.outcomes import ACKNOWLEDGED, DEAD_LETTERED
from spark_bridge.log.settlements import PENDING, Ranges, by_lane


def ranges(*rows: tuple[int, int, int, int]) -> Ranges:
    lanes, firsts, counts, outcomes = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return Ranges(lanes, firsts, counts, outcomes.astype(np.uint8))


def test_single_acknowledgements_become_one_range() -> None:
    settled = by_lane([ranges(*((16, number, 1, ACKNOWLEDGED) for number in (4, 2, 3, 1, 0)))])
    assert settled[16].firsts.tolist() == [0]
    assert settled[16].ends.tolist() == [5]


def test_neighbours_of_another_outcome_or_lane_stay_apart() -> None:
    settled = by_lane([ranges((16, 0, 2, ACKNOWLEDGED), (17, 2, 1, ACKNOWLEDGED)), ranges((16, 2, 1, DEAD_LETTERED))])
    assert settled[16].outcomes.tolist() == [ACKNOWLEDGED, DEAD_LETTERED]
    assert settled[17].firsts.tolist() == [2]


def test_nothing_settled() -> None:
    assert by_lane([]) == {}


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([PENDING, 1, 2, 3, 4])), max_size=20), st.randoms())
def test_states_are_those_that_were_settled(runs: list[tuple[int, int]], random: object) -> None:
    rows = []
    expected: list[int] = []
    for count, outcome in runs:
        if outcome != PENDING:
            rows.append((16, len(expected), count, outcome))
        expected.extend([outcome] * count)
    random.shuffle(rows)  # type: ignore[attr-defined]
    settled = by_lane([ranges(*rows)] if rows else [])
    if rows:
        assert settled[16].states(np.arange(len(expected) + 2)).tolist() == [*expected, PENDING, PENDING]
    else:
        assert settled == {}
