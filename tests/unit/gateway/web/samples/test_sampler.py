"""How often the gateway is looked at."""

from __future__ import annotations

import pytest

from gateway.web.samples.sampler import SAMPLE_INTERVAL_MOST_S, SAMPLE_INTERVAL_S, pause_s


@pytest.mark.parametrize(
    ("cost_s", "expected_s"),
    [(0.0, SAMPLE_INTERVAL_S), (0.005, SAMPLE_INTERVAL_S), (0.05, 5.0), (3.0, SAMPLE_INTERVAL_MOST_S)],
)
def test_samples_that_take_long_are_rarer(cost_s: float, expected_s: float) -> None:
    assert pause_s(cost_s) == pytest.approx(expected_s)
