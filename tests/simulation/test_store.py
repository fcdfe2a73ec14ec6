"""The store alone over a disk that fails, forgets and changes: tests/support/store/store_history.py states the law."""

from __future__ import annotations

import pytest

from tests.support.long_run import LongRun
from tests.support.store import store_bugs
from tests.support.store.store_history import Bug, History, run_seed
from tests.support.world.known_seeds import known_first
from tests.support.world.seeds import STORE_SEEDS, seeds_of

TOGETHER = 100  # seeds in one test: thousands of tests would cost more than what they do


def batches() -> list[list[int]]:
    seeds = seeds_of("store")
    return [seeds[start : start + TOGETHER] for start in range(0, len(seeds), TOGETHER)]


@pytest.mark.parametrize("store_seeds", batches(), ids=lambda seeds: f"store_seed-{seeds[0]}")
def test_a_start_finds_a_prefix_of_the_history(store_seeds: list[int]) -> None:
    for seed in store_seeds:
        run_seed(seed)


def test_more_seeds(long_run: LongRun) -> None:
    long_run.take(run_seed)


def test_longer_lives(long_run: LongRun) -> None:
    long_run.take(lambda seed: run_seed(seed, steps=400))


def test_same_seed_gives_same_history() -> None:
    for seed in range(1, 40):
        assert run_seed(seed).digest() == run_seed(seed).digest()
    assert run_seed(1).digest() != run_seed(2).digest()


@pytest.mark.interpreted
def test_runs_see_what_they_are_made_to_see() -> None:
    """A simulation in which nothing happens would find nothing."""
    histories = [run_seed(seed) for seed in range(1, 401)]
    told = "\n".join(line for history in histories for line in history.told)
    for what in (
        "power cut",
        "kill",
        "power cut during recovery",
        "refused: ",
        "cannot start: ",
        "cannot be closed: ",
        "octets are free",
        "fails to write back",
        "writes and syncs fail",
        "fdatasync fails",
        "preallocate fails",
        "rename fails",
        "sync_directory fails",
        "reads fail",
        "changed: ",
        "the disk heals",
    ):
        assert what in told, what
    assert sum(history.crashes for history in histories) > 500
    assert sum(history.refused_starts for history in histories) > 50
    assert any(history.read_failures for history in histories)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    "make_bug",
    [
        store_bugs.ReceiptBeforeSync,
        store_bugs.SettlementLost,
        store_bugs.CrcUnchecked,
        store_bugs.TornTailAccepted,
        store_bugs.TransactionHalfRecovered,
        store_bugs.DirectorySyncForgotten,
        store_bugs.RenamedBeforeSync,
        store_bugs.SyncErrorIgnored,
        store_bugs.ShortWriteIgnored,
        store_bugs.WriteErrorIgnored,
        store_bugs.ReadErrorIsTheEnd,
    ],
)
def test_planted_bug_is_found(make_bug: type[Bug]) -> None:
    """By what senders and consumers were promised, without a look into the files."""
    for seed in known_first(range(1, STORE_SEEDS + 1)):
        history = History(seed, bug=make_bug(), verifies=False)
        try:
            history.run()
        except AssertionError:
            return
    pytest.fail(f"{make_bug.__name__} is not found within {STORE_SEEDS} seeds")
