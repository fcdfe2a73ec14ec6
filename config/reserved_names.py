"""Queues of the store that are the gateway's own: no client reaches them, and no setting may name one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

SCHEDULE: Final = "Penstock.Schedule"  # holds the scheduled messages
DUPLICATE_IDS: Final = "Penstock.DuplicateIds"  # holds ids of accepted messages
PREPARED_TRANSACTIONS: Final = "Penstock.PreparedTransactions"  # holds prepared transactions
RESERVED_NAMES: Final = frozenset({SCHEDULE, DUPLICATE_IDS, PREPARED_TRANSACTIONS})


def formed_name(prefix: str, suffixes: Iterable[str]) -> str:
    """Return the reserved name that a prefix and one of the suffixes make of some other name; "" for none."""
    for suffix in suffixes:
        for name in sorted(RESERVED_NAMES):
            is_shorter = 0 < len(prefix) + len(suffix) < len(name)
            if is_shorter and name.startswith(prefix) and name.endswith(suffix):
                return name
    return ""
