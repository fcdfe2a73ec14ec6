from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.long_run import LongRun


@pytest.mark.parametrize("processes", [1, 3])
def test_each_seed_is_taken_once(tmp_path: Path, processes: int) -> None:
    taken = LongRun(5, 10, 0.0, processes).take(lambda seed: (tmp_path / str(seed)).touch(exist_ok=False))
    assert taken == 10
    assert sorted(int(path.name) for path in tmp_path.iterdir()) == list(range(5, 15))


@pytest.mark.parametrize("processes", [1, 2])
def test_a_seed_that_fails_ends_it_and_says_what_it_says(processes: int) -> None:
    def run(seed: int) -> None:
        assert seed != 7, "seed 7: again: so"

    with pytest.raises(AssertionError, match="seed 7: again: so"):
        LongRun(5, 10, 0.0, processes).take(run)
