from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gateway.settings.time_zone import zone_of


def test_a_named_zone_has_its_summer_time() -> None:
    zone = zone_of("Europe/Berlin")
    assert datetime(2026, 1, 1, tzinfo=zone).utcoffset() == timedelta(hours=1)
    assert datetime(2026, 7, 1, tzinfo=zone).utcoffset() == timedelta(hours=2)


@pytest.mark.parametrize(("told", "hours"), [("Asia/Tokyo", 9), (":Asia/Tokyo", 9), ("nowhere/at all", 0)])
def test_the_machine_s_own_zone(told: str, hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", told)
    assert datetime(2026, 1, 1, tzinfo=zone_of("local")).utcoffset() == timedelta(hours=hours)


def test_a_machine_that_says_nothing_in_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ", raising=False)
    offset = datetime(2026, 1, 1, tzinfo=zone_of("local")).utcoffset()
    assert offset == datetime(2026, 1, 1).astimezone().utcoffset() or zone_of("local") is UTC
