"""Headers of SEND that ask for a later delivery (ActiveMQ's scheduler, semantics.md 2.2)."""

from __future__ import annotations

from typing import Final

from engine.errors import InvalidOption

SCHEDULE_HEADERS: Final = (
    "AMQ_SCHEDULED_DELAY",
    "AMQ_SCHEDULED_PERIOD",
    "AMQ_SCHEDULED_REPEAT",
    "AMQ_SCHEDULED_TIME",
    "AMQ_SCHEDULED_CRON",
)


def check_not_scheduled(headers: dict[str, str]) -> None:
    """Refuse what would otherwise be delivered at once, against the sender's word.  Raises: InvalidOption."""
    for name in SCHEDULE_HEADERS:
        value = headers.get(name, "").strip()
        if value not in ("", "0"):
            raise InvalidOption(
                f"{name} is {value[:80]!r}, but this version of Penstock delivers at once; allowed is 0 or no such "
                "header"
            )
