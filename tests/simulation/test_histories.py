"""Random histories of parts and features of the engine; each world states its law in tests/support."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.histories import (
    branch_world,
    commit_world,
    refusal_world,
    schedule_world,
    subscription_world,
    topic_world,
    view_world,
)
from tests.support.long_run import LongRun
from tests.support.store import thin_history
from tests.support.world.seeds import (
    BRANCH_SEEDS,
    READER_SEEDS,
    REFUSAL_SEEDS,
    SCHEDULE_SEEDS,
    SUBSCRIPTION_SEEDS,
    taken,
)

RUNS: dict[str, tuple[Callable[[int], object], int]] = {
    "branch": (branch_world.run_seed, BRANCH_SEEDS),
    "commit": (commit_world.run_seed, 20),
    "refusal": (refusal_world.run_seed, REFUSAL_SEEDS),
    "schedule": (schedule_world.run_seed, SCHEDULE_SEEDS),
    "subscription": (subscription_world.run_seed, SUBSCRIPTION_SEEDS),
    "thin": (thin_history.run_seed, 300),
    "topic": (topic_world.run_seed, READER_SEEDS),
    "view": (view_world.run_seed, READER_SEEDS),
}


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        pytest.param(kind, seed, id=f"{kind}_seed-{seed}")
        for kind, (_, count) in RUNS.items()
        for seed in taken(range(1, count + 1))
    ],
)
def test_seed(kind: str, seed: int) -> None:
    RUNS[kind][0](seed)


@pytest.mark.parametrize("kind", RUNS)
def test_more_seeds(kind: str, long_run: LongRun) -> None:
    long_run.take(RUNS[kind][0])


def test_same_seed_gives_same_history() -> None:
    for seed in range(1, 4):
        assert refusal_world.run_seed(seed).told == refusal_world.run_seed(seed).told


@pytest.mark.interpreted
def test_the_seeds_see_what_they_are_for() -> None:
    commits = [commit_world.run_seed(seed) for seed in range(1, 5)]
    assert sum(world.crash_count for world in commits) > 10
    assert sum(world.own_segments for world in commits) > 10
    branches = [branch_world.run_seed(seed) for seed in range(1, 6)]
    assert sum(world.stop_count for world in branches) > 40
    assert sum(world.found_prepared for world in branches) > 100
    assert sum(world.decided_count for world in branches) > 80
    schedules = [schedule_world.run_seed(seed) for seed in range(1, 16)]
    assert sum(world.stop_count for world in schedules) > 40
    assert sum(world.fired_count for world in schedules) > 1_000
    assert sum(world.sparse_count for world in schedules) > 0
    assert any(one.fired_at_cancel >= 0 for world in schedules for one in world.asked.values())
    subscriptions = [subscription_world.run_seed(seed) for seed in range(1, 11)]
    assert sum(world.crash_count for world in subscriptions) > 20
    assert sum(world.delivered_count for world in subscriptions) > 1_000
    thin = [thin_history.run_seed(seed) for seed in range(1, 31)]
    assert sum(history.sparse for history in thin) > 100
    assert sum(history.folded for history in thin) > 5
    views = [view_world.run_seed(seed) for seed in range(1, 11)]
    assert all(sum(world.delivered[kind] for world in views) > 100 for kind in ("view", "browser", "replay"))
