"""What a start reads of a lane."""

from __future__ import annotations

import pytest

from engine.values.stored import GAP_ENTRIES, STRETCH_ENTRIES, LaneState

MANY = STRETCH_ENTRIES
GAP = GAP_ENTRIES


@pytest.mark.parametrize(
    ("tail", "cursor", "settled", "expected"),
    [
        (0, 0, [], []),
        (9, 9, [], []),
        (9, 2, [], [(2, 9, [(2, 9)])]),
        (9, 2, [(5, 4)], [(2, 5, [(2, 5)])]),
        (9, 0, [(2, 1), (4, 3)], [(0, 9, [(0, 2), (3, 4), (7, 9)])]),
        (GAP + 3, 0, [(1, GAP)], [(0, GAP + 3, [(0, 1), (GAP + 1, GAP + 3)])]),
        (GAP + 3, 0, [(1, GAP + 1)], [(0, 1, [(0, 1)]), (GAP + 2, GAP + 3, [(GAP + 2, GAP + 3)])]),
        (MANY + 2, 1, [], [(1, MANY + 1, [(1, MANY + 1)]), (MANY + 1, MANY + 2, [(MANY + 1, MANY + 2)])]),
        (MANY + 9, 0, [(MANY - 1, 2)], [(0, MANY - 1, [(0, MANY - 1)]), (MANY + 1, MANY + 9, [(MANY + 1, MANY + 9)])]),
    ],
)
def test_stretches(
    tail: int, cursor: int, settled: list[tuple[int, int]], expected: list[tuple[int, int, list[tuple[int, int]]]]
) -> None:
    lane = LaneState(4, tail, cursor, settled, {})
    assert [(one.first, one.end, one.runs) for one in lane.waiting_stretches()] == expected


def test_many_runs_are_few_stretches() -> None:
    lane = LaneState(4, 4 * MANY, 0, [(entry, 1) for entry in range(0, 4 * MANY, 2)], {})
    stretches = lane.waiting_stretches()
    assert len(stretches) == 4
    assert [run for one in stretches for run in one.runs] == lane.waiting_runs()
