"""Headers of SEND that ask for a later delivery: ActiveMQ's scheduler, Artemis' delivery time (docs/schedule.md)."""

from __future__ import annotations

from typing import Final

from engine.errors import InvalidOption
from engine.schedule.plan import Plan, ScheduleLimits

DELAY: Final = "AMQ_SCHEDULED_DELAY"
PERIOD: Final = "AMQ_SCHEDULED_PERIOD"
REPEAT: Final = "AMQ_SCHEDULED_REPEAT"
CRON: Final = "AMQ_SCHEDULED_CRON"
TIME: Final = "AMQ_SCHEDULED_TIME"
DELIVERY_TIME: Final = "_AMQ_SCHED_DELIVERY"

# Any of the first ones asks for something; the number of repeats alone does not (ActiveMQ).
ASKING: Final = (DELAY, PERIOD, CRON, TIME, DELIVERY_TIME)
SCHEDULE_HEADERS: Final = (*ASKING, REPEAT)
MOST: Final = 2**53

_LINES: Final = tuple(f"{name}:".encode() for name in SCHEDULE_HEADERS)


def plan_in(headers: dict[str, str], limits: ScheduleLimits, now_ms: int) -> Plan | None:
    """Return when a SEND with these headers is to be delivered, None for at once.  Raises: InvalidOption."""
    for name in ASKING:
        if headers.get(name, "").strip() not in ("", "0"):
            break
    else:
        return None
    cron = headers.get(CRON, "").strip()
    delay_ms, period_ms = _number(headers, DELAY, 0), _number(headers, PERIOD, 0)
    repeat = _number(headers, REPEAT, -1)
    name = TIME if TIME in headers else DELIVERY_TIME
    time_ms = _number(headers, name, 0)
    if time_ms and (delay_ms or period_ms or repeat or (cron and cron != "0")):
        raise InvalidOption(f"{name} stands with another AMQ_SCHEDULED header; allowed is a time, or the others")
    plan = Plan(delay_ms, period_ms, repeat, "" if cron == "0" else cron, time_ms, renews_expiry=not time_ms)
    return plan.checked(limits, now_ms)


def without_schedule(block: bytes) -> bytes:
    """Return header lines without those above: what is delivered is not to be scheduled by whoever sends it on."""
    return b"".join([line for line in block.splitlines(keepends=True) if not line.startswith(_LINES)])


def _number(headers: dict[str, str], name: str, least: int) -> int:
    text = headers.get(name, "").strip()
    if not text:
        return 0
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 17) or not least <= int(text) <= MOST:
        raise InvalidOption(f"{name} is {text[:80]!r}; allowed are whole numbers from {least} to {MOST}")
    return int(text)
