"""The time zone of cron expressions, with its summer time."""

from __future__ import annotations

import os
from datetime import UTC, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from config.model import LOCAL_ZONE

LOCAL_FILE: Final = "/etc/localtime"


def zone_of(name: str) -> tzinfo:
    """Return the configured zone, else the machine's; a machine without one is in UTC."""
    if name != LOCAL_ZONE:
        return ZoneInfo(name)
    zone_name = os.environ.get("TZ", "").removeprefix(":")
    if zone_name:
        try:
            return ZoneInfo(zone_name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return UTC
    try:
        with open(LOCAL_FILE, "rb") as file:
            return ZoneInfo.from_file(file, key=LOCAL_ZONE)
    except (OSError, ValueError):
        return UTC
