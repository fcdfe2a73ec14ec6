"""Headers of SEND that ask for a later delivery (docs/reference/schedule.md)."""

from __future__ import annotations

from typing import Final

from engine.features.scheduler.plan import CRON_PROPERTY, PROPERTIES, Plan, ScheduleLimits, plan_of
from engine.values.message import JOB_ID

CRON: Final = CRON_PROPERTY.decode()
_LINES: Final = tuple(f"{name}:".encode() for name in PROPERTIES)
_JOB_ID_LINE: Final = f"{JOB_ID}:".encode()


def plan_in(headers: dict[str, str], limits: ScheduleLimits, now_ms: int) -> Plan | None:
    """Return the plan that the headers of a SEND ask for, None for a delivery at once.  Raises: InvalidOption."""
    asked = {name: text for name, text in headers.items() if name in PROPERTIES}
    return plan_of(asked, limits, now_ms) if asked else None


def without_schedule(block: bytes) -> bytes:
    """Return header lines without those: a receiver that forwards the message must not schedule it again."""
    return _without(block, _LINES)


def without_job_id(block: bytes) -> bytes:
    """Return header lines without the id of a schedule."""
    return _without(block, (_JOB_ID_LINE,))


def _without(block: bytes, beginnings: tuple[bytes, ...]) -> bytes:
    return b"\n".join([line for line in block.split(b"\n") if not line.startswith(beginnings)])
