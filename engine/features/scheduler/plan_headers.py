"""How senders ask for a later delivery: names of headers, properties and annotations of all protocols.

Source: ActiveMQ's scheduler, and its AMQP mapping; Artemis' and JMS' delivery time
(docs/reference/schedule.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.features.scheduler.plan import FOREVER, Plan, ScheduleLimits
from engine.values.errors import InvalidOption

MOST: Final = 2**53
_DIGITS_MOST: Final = 17

PROPERTIES: Final[Mapping[str, str]] = {
    "AMQ_SCHEDULED_DELAY": "delay",
    "AMQ_SCHEDULED_PERIOD": "period",
    "AMQ_SCHEDULED_REPEAT": "repeat",
    "AMQ_SCHEDULED_CRON": "cron",
    "AMQ_SCHEDULED_TIME": "time",
    "_AMQ_SCHED_DELIVERY": "time",
}
ANNOTATIONS: Final[Mapping[str, str]] = {
    "x-opt-delivery-delay": "delay",
    "x-opt-delivery-period": "period",
    "x-opt-delivery-repeat": "repeat",
    "x-opt-delivery-cron": "cron",
    "x-opt-delivery-time": "time",
}
FIELDS: Final[Mapping[str, str]] = {**PROPERTIES, **ANNOTATIONS}


def plan_of(asked: Mapping[str, str], limits: ScheduleLimits, now_ms: int) -> Plan | None:
    """Return the plan of a message with such headers, None for immediate delivery.

    0 and the empty text ask for nothing, and neither does a number of repeats alone.  asked: names of FIELDS only.
    Raises: InvalidOption.
    """
    given: dict[str, tuple[str, str]] = {}
    for name, said in asked.items():
        text = said.strip()
        if text and text != "0":
            given[FIELDS[name]] = (name, text)
    if not given or (len(given) == 1 and "repeat" in given):
        return None
    if "time" in given:
        if len(given) > 1:
            names = " and ".join(sorted(name for name, _ in given.values()))
            raise InvalidOption(f"{names} are given together; allowed is a time of delivery, or the others")
        plan = Plan(time_ms=_number(given, "time", 0), renews_expiry=False)
    else:
        delay_ms = _number(given, "delay", 0)
        if len(given) == 1 and delay_ms:
            plan = Plan(delay_ms)
        else:
            cron = given["cron"][1] if "cron" in given else ""
            plan = Plan(delay_ms, _number(given, "period", 0), _number(given, "repeat", FOREVER), cron)
    return plan.checked(limits, now_ms)


def _number(given: Mapping[str, tuple[str, str]], field: str, least: int) -> int:
    if field not in given:
        return 0
    name, text = given[field]
    digits = text if text[0] != "-" else text[1:]
    if not (digits.isascii() and digits.isdigit() and len(digits) < _DIGITS_MOST) or not least <= int(text) <= MOST:
        raise InvalidOption(f"{name} is {text[:80]!r}; allowed are whole numbers from {least} to {MOST}")
    return int(text)
