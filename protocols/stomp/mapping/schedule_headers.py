"""Headers of SEND that ask for a later delivery (docs/schedule.md)."""

from __future__ import annotations

from typing import Final

from engine.features.scheduler.plan import Plan, ScheduleLimits
from engine.features.scheduler.plan_headers import PROPERTIES, plan_of

_LINES: Final = tuple(f"{name}:".encode() for name in PROPERTIES)


def plan_in(headers: dict[str, str], limits: ScheduleLimits, now_ms: int) -> Plan | None:
    """Return when a SEND with these headers is to be delivered, None for at once.  Raises: InvalidOption."""
    asked = {name: text for name, text in headers.items() if name in PROPERTIES}
    return plan_of(asked, limits, now_ms) if asked else None


def without_schedule(block: bytes) -> bytes:
    """Return header lines without those: what is delivered is not to be scheduled by whoever sends it on."""
    return b"".join([line for line in block.splitlines(keepends=True) if not line.startswith(_LINES)])
