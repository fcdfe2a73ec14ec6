"""Arithmetic on times that clients give: it ends where the types of the log and of the wire do (64 bits, signed)."""

from __future__ import annotations

from typing import Final

TIME_MOST_MS: Final = 2**63 - 1


def later_ms(since_ms: int, wait_ms: int) -> int:
    """Return the time ``wait_ms`` after ``since_ms``; past the last one that can be written it is that one."""
    return min(since_ms + wait_ms, TIME_MOST_MS)
