"""Arithmetic on times that clients give, limited to the range of the log and the wire (64 bits, signed)."""

from __future__ import annotations

from typing import Final

TIME_MOST_MS: Final = 2**63 - 1


def later_ms(since_ms: int, wait_ms: int) -> int:
    """Return the time ``wait_ms`` after ``since_ms``; at most the last time that can be written."""
    return min(since_ms + wait_ms, TIME_MOST_MS)
