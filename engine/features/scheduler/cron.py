"""Cron expressions of five fields, as in ActiveMQ; a library evaluates them."""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final

from cronsim import CronSim, CronSimError

from engine.values.errors import InvalidOption

FIELD_COUNT: Final = 5
EXPRESSION_MOST: Final = 200  # characters
MINUTE_MS: Final = 60_000
SEARCH_STEPS: Final = 500  # of a turn: the next fifth Thursday of a February may be 28 years of days away
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
ALLOWED: Final = "minute hour day-of-month month day-of-week"

# Months differ in length and in the weekday of their first day: one example of each of the 28 kinds.
MONTHS: Final = {
    monthrange(year, month)[::-1]: date(year, month, 1) for year in range(2000, 2028) for month in range(1, 13)
}


def next_hit_ms(expression: str, after_ms: int, zone: tzinfo) -> int:
    """Return the first time after ``after_ms`` (wall clock) that ``expression`` names in that time zone.

    Raises: InvalidOption for an invalid expression, or one that names no time at all.
    """
    if len(expression) > EXPRESSION_MOST:
        raise InvalidOption(f"a cron expression has {len(expression)} characters; allowed are {EXPRESSION_MOST}")
    return _hit_after(expression, after_ms // MINUTE_MS, zone)


@lru_cache(maxsize=256)
def _hit_after(expression: str, minute: int, zone: tzinfo) -> int:
    """Return the first time after the beginning of a minute.  A SEND asks twice, and the next one may ask the same."""
    moment = (EPOCH + timedelta(minutes=minute)).astimezone(zone)
    try:
        simulation = CronSim(_spelled(expression), moment)
        hit = next(simulation, None) if _has_day(simulation) else None
    except CronSimError as error:
        raise InvalidOption(f"cron expression {expression!r}: {error}; allowed are five fields, {ALLOWED}") from None
    if hit is None:
        raise InvalidOption(f"cron expression {expression!r} names no time in the next fifty years")
    return int((hit - EPOCH).total_seconds()) * 1000


@lru_cache(maxsize=256)
def _spelled(expression: str) -> str:
    """Return it in the library's spelling: capitals, and ``*`` for the ``?`` of other brokers."""
    fields = expression.upper().split()
    if len(fields) != FIELD_COUNT:
        raise InvalidOption(
            f"cron expression {expression!r} has {len(fields)} fields; allowed are {FIELD_COUNT}, {ALLOWED}"
        )
    return " ".join("*" if field == "?" else field for field in fields)


def _has_day(simulation: CronSim) -> bool:
    """Say whether any day satisfies the expression; the library would search fifty years of days for it."""
    lengths = {monthrange(year, month)[1] for year in (2000, 2001) for month in simulation.months}
    return any(
        simulation.match_day(first + timedelta(days=day))
        for (length, _), first in MONTHS.items()
        if length in lengths
        for day in range(length)
    )
