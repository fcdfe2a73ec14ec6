"""Times in the words of commands and answers."""

from __future__ import annotations

from datetime import UTC, datetime


def clock_time(wall_ms: int) -> str:
    """Return wall-clock milliseconds as ISO 8601 in UTC."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
