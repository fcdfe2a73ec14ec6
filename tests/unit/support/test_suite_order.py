from __future__ import annotations

import pytest

from tests.support.suite_order import in_runs


def ordered(items: str, run_count: int) -> list[str]:
    """Return the runs of tests that are named ``<file><number>``: a capital is slow, "S" is of Spark."""
    tests = items.split()
    order = in_runs(tests, run_count, lambda test: test[0], lambda test: test[0].isupper(), lambda test: test[0] == "S")
    assert sorted(order) == sorted(tests)
    runs: list[str] = []
    at = 0
    for place in range(run_count):
        size = (len(order) - at) // (run_count - place)
        runs.append(" ".join(order[at : at + size]))
        at += size
    return runs


@pytest.mark.parametrize(
    ("items", "run_count", "runs"),
    [
        ("a1 a2 B1 c1 D1", 1, ["B1 D1 a1 a2 c1"]),
        ("a1 a2 B1 B2 c1 D1 e1 S1 S2", 3, ["S1 S2 a1", "D1 a2 c1", "B1 B2 e1"]),
        ("a1 a2 a3 a4 B1", 2, ["a1 a2", "B1 a3 a4"]),
        ("S1 S2 S3 S4 a1 a2", 2, ["S1 S2 S3", "S4 a1 a2"]),
        ("", 2, ["", ""]),
    ],
)
def test_each_run_begins_with_what_waits(items: str, run_count: int, runs: list[str]) -> None:
    assert ordered(items, run_count) == runs
