"""ActiveMQ's scheduler, case by case: when a message is delivered that asks for DELAY, PERIOD, REPEAT and CRON."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest

from engine.features.scheduler.plan import FOREVER, Plan, ScheduleLimits
from engine.values.errors import InvalidOption

LIMITS = ScheduleLimits()
BERLIN = ZoneInfo("Europe/Berlin")


def ms(text: str, zone: tzinfo = UTC) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


def times(plan: Plan, now_ms: int, most: int, zone: tzinfo = UTC) -> list[int]:
    """Return when it fires, relative to now; each firing is on time."""
    found = [plan.first_ms(now_ms, zone)]
    while len(found) < most:
        due_ms = plan.next_ms(found[-1], found[-1], len(found), zone) if plan.is_repeating() else 0
        if not due_ms:
            break
        found.append(due_ms)
    return [one - now_ms for one in found]


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        pytest.param(Plan(delay_ms=5_000), [5_000], id="DELAY"),
        pytest.param(Plan(period_ms=1_000), [1_000], id="PERIOD alone: once, after a period"),
        pytest.param(Plan(period_ms=1_000, repeat=2), [1_000, 2_000, 3_000], id="PERIOD and REPEAT"),
        pytest.param(
            Plan(delay_ms=30_000, period_ms=10_000, repeat=9),
            [30_000 + 10_000 * number for number in range(10)],
            id="DELAY, PERIOD and REPEAT: ActiveMQ's example, ten messages",
        ),
        pytest.param(
            Plan(delay_ms=1, period_ms=500, repeat=FOREVER), [1, 501, 1_001, 1_501, 2_001], id="REPEAT -1: without end"
        ),
        pytest.param(Plan(delay_ms=1_000, repeat=2), [1_000, 1_100, 1_200], id="REPEAT without PERIOD: the least one"),
    ],
)
def test_delays_and_periods(plan: Plan, expected: list[int]) -> None:
    now_ms = ms("2026-03-01T12:00:00")
    assert times(plan.checked(LIMITS, now_ms), now_ms, 20)[: len(expected)] == expected
    if plan.repeat != FOREVER:
        assert len(times(plan.checked(LIMITS, now_ms), now_ms, 20)) == len(expected)


@pytest.mark.parametrize(
    ("cron", "now", "expected"),
    [
        ("0 * * * *", "2026-03-01T12:00:00", ["2026-03-01T13:00:00", "2026-03-01T14:00:00"]),
        ("*/15 9-10 * * *", "2026-03-01T10:40:00", ["2026-03-01T10:45:00", "2026-03-02T09:00:00"]),
        ("0 0 1 * *", "2026-01-31T23:59:59", ["2026-02-01T00:00:00", "2026-03-01T00:00:00"]),
        ("30 6 * * 1", "2026-03-01T00:00:00", ["2026-03-02T06:30:00", "2026-03-09T06:30:00"]),
        ("30 6 * * mon", "2026-03-01T00:00:00", ["2026-03-02T06:30:00", "2026-03-09T06:30:00"]),
        ("0 12 ? * *", "2026-03-01T00:00:00", ["2026-03-01T12:00:00", "2026-03-02T12:00:00"]),
        ("0 0 29 2 *", "2026-03-01T00:00:00", ["2028-02-29T00:00:00", "2032-02-29T00:00:00"]),
        ("* * * * *", "2026-03-01T12:00:59.999", ["2026-03-01T12:01:00", "2026-03-01T12:02:00"]),
    ],
)
def test_cron(cron: str, now: str, expected: list[str]) -> None:
    now_ms = ms(now)
    found = times(Plan(cron=cron).checked(LIMITS, now_ms), now_ms, len(expected))
    assert found == [ms(one) - now_ms for one in expected]


def test_cron_keeps_to_the_wall_of_its_time_zone() -> None:
    now_ms = ms("2026-03-28T12:00:00", BERLIN)
    found = times(Plan(cron="30 12 * * *"), now_ms, 3, BERLIN)
    hour_ms = 3_600_000
    assert found == [hour_ms // 2, hour_ms // 2 + 23 * hour_ms, hour_ms // 2 + 47 * hour_ms]  # summer began on the 29th


def test_cron_with_delay_period_and_repeat_begins_them_at_each_time() -> None:
    """ActiveMQ's example: ten messages every hour, a second between each."""
    plan = Plan(delay_ms=1_000, period_ms=1_000, repeat=9, cron="0 * * * *")
    begins = plan.at_hit()
    assert begins is not None
    assert times(begins, 0, 20) == [1_000 * number for number in range(1, 11)]
    assert Plan(cron="0 * * * *").at_hit() is None
    assert Plan(cron="0 * * * *", period_ms=1_000).at_hit() is None


@pytest.mark.parametrize(
    ("late_ms", "expected_ms"), [(0, 1_000), (999, 1_000), (1_000, 2_000), (5_300, 6_000), (86_400_000, 86_401_000)]
)
def test_what_was_missed_fires_once_and_the_beat_stays(late_ms: int, expected_ms: int) -> None:
    plan = Plan(period_ms=1_000, repeat=FOREVER)
    due_ms = ms("2026-03-01T12:00:00")
    assert plan.next_ms(due_ms, due_ms + late_ms, 1, UTC) == due_ms + expected_ms
    cron = Plan(cron="0 * * * *")
    assert cron.next_ms(due_ms, due_ms + 86_400_000, 1, UTC) == due_ms + 86_400_000 + 3_600_000


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (Plan(delay_ms=LIMITS.delay_ms + 1), "ms ahead; allowed are 0 to 315360000000 ms .schedule.max-delay"),
        (Plan(time_ms=2**53), "ms ahead; allowed are 0 to 315360000000 ms .schedule.max-delay"),
        (Plan(period_ms=99), "a period of 99 ms; allowed are 100 .schedule.min-period. to"),
        (Plan(period_ms=2**53), "a period of 9007199254740992 ms; allowed are"),
        (Plan(period_ms=100, repeat=-2), "-2 repeats; allowed are 0 to 65535"),
        (Plan(period_ms=100, repeat=65_536), "65536 repeats; allowed are 0 to 65535 .schedule.max-repeats"),
        (Plan(cron="* * * *"), "has 4 fields; allowed are 5, minute hour day-of-month month day-of-week"),
        (Plan(cron="0 0 * * * *"), "has 6 fields; allowed are 5"),
        (Plan(cron="61 * * * *"), "'61 . . . .': Bad minute; allowed are five fields"),
        (Plan(cron="0 0 30 2 *"), "Bad day-of-month"),
        (Plan(cron="* " * 101), "202 characters; allowed are 200"),
        (Plan(cron="* * * * *", period_ms=100, repeat=FOREVER), "repeats without end at each time of a cron"),
    ],
)
def test_what_cannot_be_is_refused(plan: Plan, text: str) -> None:
    with pytest.raises(InvalidOption, match=text):
        plan.checked(LIMITS, ms("2026-03-01T12:00:00"))
