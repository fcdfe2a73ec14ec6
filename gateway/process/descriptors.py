"""File descriptors: every connection takes one, and some are reserved for the store."""

from __future__ import annotations

import resource
from typing import Final

# Reserved: files of the store, HTTP requests, refused connections that still get an error.
RESERVED_DESCRIPTORS: Final = 384
CONNECTIONS_LEAST: Final = 64  # with room for fewer, unless fewer are wanted, the gateway does not start


def raise_limit() -> int:
    """Raise the soft limit to the hard one; return how many descriptors this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass  # a sandbox may forbid it: then the present limit stays
    return soft


def shortage(wanted: int, limit: int) -> str:
    """Return why this process may open too few files to start, "" if they are enough.  wanted: connections."""
    least = min(wanted, CONNECTIONS_LEAST)
    needed = RESERVED_DESCRIPTORS + least
    if limit == resource.RLIM_INFINITY or limit >= needed:
        return ""
    return (
        f"this process may open {limit} files; {needed} at least are needed: {RESERVED_DESCRIPTORS} are reserved, "
        f"and {least} for connections (ulimit -n, LimitNOFILE= of a service)"
    )


def connections_within(wanted: int, limit: int) -> int:
    """Return how many connections fit beside the reserve: ``wanted`` or less, at least one."""
    if limit == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, limit - RESERVED_DESCRIPTORS))
