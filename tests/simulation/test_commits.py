"""Transactions near the ends of small segments, over kills and power cuts; commit_world.py has the law."""

from __future__ import annotations

import pytest

from tests.support.histories.commit_world import run_seed
from tests.support.long_run import LongRun
from tests.support.world.seeds import asked_or

SEEDS = range(1, 21)


@pytest.mark.parametrize("seed", asked_or(SEEDS))
def test_commit_seed(seed: int) -> None:
    run_seed(seed)


def test_more_seeds(long_run: LongRun) -> None:
    long_run.take(run_seed)


def test_the_seeds_see_what_they_are_for() -> None:
    worlds = [run_seed(seed) for seed in range(1, 5)]
    assert sum(world.crash_count for world in worlds) > 10
    assert sum(world.own_segments for world in worlds) > 10
