"""When a scheduled message is due: how its sender asks for it, the plan, and its arithmetic.

Source: ActiveMQ's scheduler, and its AMQP mapping; Artemis' and JMS' delivery time (docs/reference/schedule.md).

DELAY d                     at d
PERIOD p, REPEAT r          at p, 2p, ...: once, and r times more; with DELAY d at d, d+p, ...
REPEAT -1                   without end
CRON c                      at each time that c names
CRON c, DELAY, PERIOD, ...  at each time that c names, all of the above begins
TIME t                      at t
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Final, NamedTuple

from engine.features.scheduler.cron import next_hit_ms
from engine.values.errors import InvalidOption
from engine.values.message import later_ms
from engine.values.stored import DELIVERY_COUNT_MAX

DAY_MS: Final = 86_400_000
YEAR_MS: Final = 365 * DAY_MS
FOREVER: Final = -1


@dataclass(frozen=True, slots=True)
class ScheduleLimits:
    """count: schedules that may be pending.  delay_ms: how far ahead the first delivery may be.

    period_ms: the least time between repeats.  repeats: the most, if they end; after a stop the log says how many
    there were, and counts up to DELIVERY_COUNT_MAX.  zone: of cron expressions.
    """

    count: int = 10_000_000
    delay_ms: int = 10 * YEAR_MS
    period_ms: int = 100
    repeats: int = DELIVERY_COUNT_MAX
    zone: tzinfo = UTC


class Plan(NamedTuple):
    """time_ms: absolute, 0 for none.  repeat: deliveries after the first, FOREVER without end.  cron: "" for none.

    renews_expiry: after delivery the message has the same time to live as after its send (ActiveMQ); otherwise its
    expiry is absolute (JMS).
    """

    delay_ms: int = 0
    period_ms: int = 0
    repeat: int = 0
    cron: str = ""
    time_ms: int = 0
    renews_expiry: bool = True

    def checked(self, limits: ScheduleLimits, now_ms: int) -> Plan:
        """Return the plan to keep; repeats without a period get the shortest period allowed.

        Raises: InvalidOption if it is impossible or past a limit; the text says what is allowed.
        """
        ahead_ms = self.delay_ms if self.delay_ms else self.time_ms - now_ms
        if self.delay_ms < 0 or ahead_ms > limits.delay_ms:
            raise InvalidOption(
                f"a delivery {ahead_ms} ms ahead; allowed are 0 to {limits.delay_ms} ms (schedule.max-delay)"
            )
        if self.period_ms and not limits.period_ms <= self.period_ms <= limits.delay_ms:
            raise InvalidOption(
                f"a period of {self.period_ms} ms; allowed are {limits.period_ms} (schedule.min-period) to "
                f"{limits.delay_ms} ms (schedule.max-delay)"
            )
        if not FOREVER <= self.repeat <= limits.repeats:
            raise InvalidOption(
                f"{self.repeat} repeats; allowed are 0 to {limits.repeats} (schedule.max-repeats), or -1 without end"
            )
        if self.cron:
            if self.repeat == FOREVER:
                raise InvalidOption(
                    "repeats without end at each time of a cron expression; allowed are 0 to "
                    f"{limits.repeats} repeats with it (schedule.max-repeats)"
                )
            next_hit_ms(self.cron, now_ms, limits.zone)
        if self.repeat and not self.period_ms:
            return self._replace(period_ms=limits.period_ms)
        return self

    def is_repeating(self) -> bool:
        """Say whether it remains after it has fired once."""
        return self.repeat != 0 or bool(self.cron)

    def first_ms(self, now_ms: int, zone: tzinfo) -> int:
        """Return when it is due first."""
        if self.time_ms:
            return self.time_ms
        if self.cron:
            return next_hit_ms(self.cron, now_ms, zone)
        return later_ms(now_ms, self.delay_ms or self.period_ms)

    def next_ms(self, due_ms: int, now_ms: int, fired_count: int, zone: tzinfo) -> int:
        """Return the next due time after it was due at ``due_ms`` and has fired for the nth time; 0 for never.

        Times missed during a stop fire once, and the rest keeps to the original rhythm.
        """
        if self.cron:
            return next_hit_ms(self.cron, max(due_ms, now_ms), zone)
        if self.repeat != FOREVER and fired_count > self.repeat:
            return 0
        beats = max(0, now_ms - due_ms) // self.period_ms + 1
        return later_ms(due_ms, beats * self.period_ms)

    def at_hit(self) -> Plan | None:
        """Return the plan that begins at each time of the cron expression, None for the delivery itself."""
        if not self.delay_ms and not self.repeat:
            return None
        return Plan(self.delay_ms, self.period_ms, self.repeat, "", 0, self.renews_expiry)


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
CRON_PROPERTY: Final = b"AMQ_SCHEDULED_CRON"
CRON_ANNOTATION: Final = b"x-opt-delivery-cron"
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
