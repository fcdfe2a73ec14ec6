"""The store over a disk that fails, where segments become sparse all the time: tests/support/store/thin_history.py."""

from __future__ import annotations

import pytest

from tests.support.long_run import LongRun
from tests.support.store.thin_history import run_seed

SEEDS = 300
TOGETHER = 100  # seeds in one test


@pytest.mark.parametrize("first", range(1, SEEDS + 1, TOGETHER))
def test_a_start_finds_a_prefix_of_the_history(first: int) -> None:
    for seed in range(first, first + TOGETHER):
        run_seed(seed)


def test_more_seeds(long_run: LongRun) -> None:
    long_run.take(run_seed)


def test_runs_see_what_they_are_made_to_see() -> None:
    histories = [run_seed(seed) for seed in range(1, 61)]
    assert sum(history.sparse for history in histories) > 200
    assert sum(history.folded for history in histories) > 10
