"""Which bucket a duration is in."""

from __future__ import annotations

from itertools import pairwise

import pytest

from engine.values.broker_stats import HistogramStats
from engine.values.histogram import MESSAGE_BOUNDS_S, SYNC_BOUNDS_S, Histogram


@pytest.mark.parametrize(
    ("durations", "counts"),
    [
        ((), (0, 0, 0)),
        ((0.0, 0.5), (2, 0, 0)),
        ((1.0,), (1, 0, 0)),  # a bound is inclusive, as in Prometheus
        ((1.5, 2.0, 2.5), (0, 2, 1)),
    ],
)
def test_each_duration_is_in_one_bucket(durations: tuple[float, ...], counts: tuple[int, ...]) -> None:
    histogram = Histogram((1.0, 2.0))
    for duration_s in durations:
        histogram.add(duration_s)
    assert histogram.stats() == HistogramStats((1.0, 2.0), counts, sum(durations))


def test_several_are_added_at_once() -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.add(1.5, 3)
    assert histogram.stats() == HistogramStats((1.0, 2.0), (0, 3, 0), 4.5)


@pytest.mark.parametrize("bounds_s", [MESSAGE_BOUNDS_S, SYNC_BOUNDS_S])
def test_the_bounds_ascend_and_whole_milliseconds_meet_them(bounds_s: tuple[float, ...]) -> None:
    assert all(lower < upper for lower, upper in pairwise(bounds_s))
    assert all(round(bound_s * 1_000) / 1_000 == bound_s for bound_s in bounds_s if bound_s >= 0.001)
