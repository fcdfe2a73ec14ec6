"""Counts, times and sizes as an operator reads them."""

from __future__ import annotations

from typing import Final

UNITS: Final = (("day", 86_400), ("hour", 3_600), ("minute", 60))
KIB: Final = 1024
MIB: Final = 1024 * 1024
GIB: Final = 1024 * 1024 * 1024


def counted(count: int, noun: str) -> str:
    """Return ``1 message``, ``2 messages``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def duration(milliseconds: int) -> str:
    """Return a length of time in the largest unit of which it has two: ``119 seconds``, ``2 minutes``."""
    seconds = max(milliseconds, 0) // 1000
    name, count = "second", seconds
    for unit, length in UNITS:
        if seconds >= 2 * length:
            name, count = unit, seconds // length
            break
    return counted(count, name)


def size(octets: int) -> str:
    """Return a number of octets with one digit behind the point."""
    if octets >= GIB:
        return f"{octets / GIB:.1f} GiB"
    return f"{octets / MIB:.1f} MiB" if octets >= MIB else f"{octets / KIB:.1f} KiB"
