"""Cron expressions of five fields, as ActiveMQ takes them; what they mean is the library's affair."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final

from cronsim import CronSim, CronSimError

from engine.errors import InvalidOption

FIELD_COUNT: Final = 5
EXPRESSION_MOST: Final = 200  # characters
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
ALLOWED: Final = "minute hour day-of-month month day-of-week"


def next_hit_ms(expression: str, after_ms: int, zone: tzinfo) -> int:
    """Return the first time after ``after_ms`` (wall clock) that ``expression`` names in that time zone.

    Raises: InvalidOption for what is no such expression, or names no time at all.
    """
    if len(expression) > EXPRESSION_MOST:
        raise InvalidOption(f"a cron expression has {len(expression)} characters; allowed are {EXPRESSION_MOST}")
    moment = (EPOCH + timedelta(milliseconds=after_ms)).astimezone(zone)
    try:
        hit = next(CronSim(_spelled(expression), moment))
    except CronSimError as error:
        raise InvalidOption(f"cron expression {expression!r}: {error}; allowed are five fields, {ALLOWED}") from None
    except StopIteration:
        raise InvalidOption(f"cron expression {expression!r} names no time in the next fifty years") from None
    return int((hit - EPOCH).total_seconds()) * 1000


@lru_cache(maxsize=256)
def _spelled(expression: str) -> str:
    """Return it in the library's spelling: capitals, and ``*`` for the ``?`` of other brokers' documentation."""
    fields = expression.upper().split()
    if len(fields) != FIELD_COUNT:
        raise InvalidOption(
            f"cron expression {expression!r} has {len(fields)} fields; allowed are {FIELD_COUNT}, {ALLOWED}"
        )
    return " ".join("*" if field == "?" else field for field in fields)
