"""Figures: depth over time, waits, percentiles."""

from __future__ import annotations

import pytest

from engine.values.outcomes import ACKNOWLEDGED, DEAD_LETTERED
from what_if.figures import Figures, Period, three_digits


def test_depth_is_weighed_by_time() -> None:
    figures = Figures(Period(0, 99))
    figures.come(10)
    figures.come(20)
    figures.leave(60, 50, ACKNOWLEDGED)
    figures.end()
    assert figures.mean_depth() == (10 * 1 + 40 * 2 + 40 * 1) / 100
    assert figures.deepest == 2
    assert [figures.areas[time] for time in (9, 10, 20, 59, 60, 99)] == [0, 1, 2, 2, 1, 1]


def test_long_periods_have_few_parts() -> None:
    figures = Figures(Period(1_000, 1_000 + 86_400_000))
    figures.come(1_000)
    figures.leave(1_000 + 43_200_000, 43_200_000, DEAD_LETTERED)
    figures.end()
    assert len(figures.areas) <= 240
    assert sum(figures.areas) == 43_200_000
    assert sum(figures.most) == pytest.approx(len(figures.areas) / 2, abs=1)


def test_percentiles() -> None:
    figures = Figures(Period(0, 10_000))
    for wait_ms in range(1, 201):
        figures.come(0)
        figures.leave(5_000, wait_ms, ACKNOWLEDGED)
    assert [figures.percentile(percent) for percent in (50, 99, 100)] == [100, 198, 200]
    assert Figures(Period(0, 1)).percentile(50) == 0


@pytest.mark.parametrize(("value", "rounded"), [(999, 999), (1_000, 1_000), (1_239, 1_230), (98_765, 98_700)])
def test_three_digits(value: int, rounded: int) -> None:
    assert three_digits(value) == rounded
