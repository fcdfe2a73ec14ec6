"""Cron expressions: what they refuse, and that refusing costs little."""

from __future__ import annotations

import sys
from datetime import UTC
from types import FrameType
from typing import Any

import pytest
from cronsim import CronSim

from engine.features.scheduler.cron import EPOCH, next_hit_ms
from engine.values.errors import InvalidOption

NOW_MS = 1_790_000_000_000  # September 2026
CALLS_MAX = (
    10_000  # a month of days in each kind of month, and a leap year's distance; fifty years of days are far more
)


@pytest.mark.parametrize("expression", ["0 0 */31 * MON#5", "* * */30 2 TUE#4", "0 0 */31 4,6,9,11 MON#3"])
def test_what_names_no_day_is_refused_without_a_walk_through_fifty_years(expression: str) -> None:
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        with pytest.raises(InvalidOption, match="names no time in the next fifty years|Bad day"):
            next_hit_ms(expression, NOW_MS, UTC)
    finally:
        sys.setprofile(None)
    assert calls < CALLS_MAX


@pytest.mark.parametrize("weekday", ["*", "MON", "MON#1", "TUE#5", "0L", "*/7"])
@pytest.mark.parametrize("day", ["*", "*/9", "*/28", "*/31", "29", "L", "LW"])
@pytest.mark.parametrize("month", ["*", "2", "2,4", "12"])
def test_what_names_a_day_is_found_where_the_library_finds_it(day: str, month: str, weekday: str) -> None:
    expression = f"0 12 {day} {month} {weekday}"
    hit = next(CronSim(expression, EPOCH.replace(year=2026)), None)
    after_ms = int(EPOCH.replace(year=2026).timestamp() * 1000)
    if hit is None:
        with pytest.raises(InvalidOption, match="names no time"):
            next_hit_ms(expression, after_ms, UTC)
    else:
        assert next_hit_ms(expression, after_ms, UTC) == int(hit.timestamp() * 1000)
