"""File descriptors: every connection takes one, and some are reserved for the store."""

from __future__ import annotations

import resource
from typing import Final

# Reserved: files of the store, HTTP requests, refused connections that still get an error.
RESERVED_DESCRIPTORS: Final = 384


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


def connections_within(wanted: int, limit: int) -> int:
    """Return how many connections fit beside the reserve: ``wanted`` or less, at least one."""
    if limit == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, limit - RESERVED_DESCRIPTORS))
