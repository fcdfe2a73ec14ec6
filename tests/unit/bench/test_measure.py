from __future__ import annotations

import pytest

from bench.measure import brief, tenths


def test_tenths_of_an_even_rate_are_even() -> None:
    assert tenths([100] * 9, 1_000, 10.0) == [100] * 10


def test_tenths_show_where_it_became_slow() -> None:
    assert tenths([200, 200, 200, 200, 200, 20, 20, 20, 20], 1_100, 10.0) == [200] * 5 + [20] * 5


def test_rest_behind_the_last_whole_second_counts() -> None:
    rates = tenths([100], 150, 1.5)
    assert sum(rate * 0.15 for rate in rates) == pytest.approx(150, abs=2)


def test_brief_marks_noise() -> None:
    report = {"produced_per_s": 1, "consumed_per_s": 2, "lost": 0, "duplicates": 0, "other_cores": 0.5}
    assert "NOISY" not in brief(report)
    assert "NOISY" in brief({**report, "is_noisy": True})
