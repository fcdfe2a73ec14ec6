"""The time zone of cron expressions, with its summer times."""

from __future__ import annotations

import os
from datetime import UTC, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from config.model import LOCAL_ZONE

LOCAL_FILE: Final = "/etc/localtime"


def zone_of(name: str) -> tzinfo:
    """Return the zone that the configuration names; a machine that says nothing of its own is in UTC."""
    if name != LOCAL_ZONE:
        return ZoneInfo(name)
    told = os.environ.get("TZ", "").removeprefix(":")
    if told:
        try:
            return ZoneInfo(told)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return UTC
    try:
        with open(LOCAL_FILE, "rb") as file:
            return ZoneInfo.from_file(file, key=LOCAL_ZONE)
    except (OSError, ValueError):
        return UTC
