"""Lanes of the schedule's queue, chosen by how long a message waits.

One-shots with similar delays share a lane, so they leave it nearly in the order of arrival and its cursor moves on.
Repeating schedules have a lane of their own.
"""

from __future__ import annotations

from typing import Final

LANE_DELAYS_MS: Final = (10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000, 2_592_000_000)
REPEATING_LANE: Final = 9


def lane_for(delay_ms: int) -> int:
    """Return the lane of a one-shot."""
    for lane, most_ms in enumerate(LANE_DELAYS_MS):
        if delay_ms < most_ms:
            return lane
    return len(LANE_DELAYS_MS)
