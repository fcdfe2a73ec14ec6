"""Entries of consume queues as earlier versions wrote them, which had no checks."""

from __future__ import annotations

from engine.store.format import layout


def remove_checks(entries: bytearray, is_system: bool, every: int = 1) -> None:
    """Take the checks out of each ``every``-th entry.  is_system: of the system queue."""
    for at in range(0, len(entries), every * layout.ENTRY_BYTES):
        entries[at + layout.CHECK_AT] = 0
        if is_system:
            entries[at + layout.LISTING_CHECK_AT : at + layout.LISTING_CHECK_AT + 4] = bytes(4)
