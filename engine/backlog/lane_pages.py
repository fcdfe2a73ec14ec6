"""How much of a lane stays in memory, how much it asks for at a time of what is on disk, and what is under way."""

from __future__ import annotations

from typing import Final

from config.policies import AddressFullPolicy

PAGE_MESSAGES: Final = 1_024  # entries asked for at a time
PAGE_BYTES: Final = 4 * 1024 * 1024
LANE_BYTES: Final = 8 * 1024 * 1024  # ready messages of one lane kept in memory; beyond, they are paged
LANE_MESSAGES: Final = 8_192
IDLE_LANE_BYTES: Final = 64 * 1024  # the same while the queue has no consumer: there may be thousands of such queues
NEVER: Final = 1 << 62


class LanePages:
    """size_bytes, count: what is asked for at a time.

    fault: why the disk refused the last page, "" if it did not.
    is_loading: a page is asked for that comes next; is_scanning: one ahead of it, for a selection.
    awaits_retry: the last page was refused or empty, and none is asked for before the engine tries again, however often
    somebody wants one.
    """

    __slots__ = ("size_bytes", "count", "fault", "is_loading", "is_scanning", "awaits_retry")

    def __init__(self) -> None:
        self.size_bytes = PAGE_BYTES
        self.count = PAGE_MESSAGES
        self.fault = ""
        self.is_loading = False
        self.is_scanning = False
        self.awaits_retry = False

    def limit(self, size_bytes: int, count: int) -> None:
        """Ask for no more than may be in memory, and for one message where nothing may."""
        self.size_bytes = max(1, min(PAGE_BYTES, size_bytes))
        self.count = max(1, min(PAGE_MESSAGES, count))


def memory_limits(full: AddressFullPolicy) -> tuple[int, int]:
    """Return how many octets and messages a lane of an address keeps by itself."""
    size_bytes = LANE_BYTES
    count = LANE_MESSAGES
    if full.address_full_policy == "PAGE":
        if 0 <= full.max_size_bytes < size_bytes:
            size_bytes = full.max_size_bytes
        if 0 <= full.max_size_messages < count:
            count = full.max_size_messages
    return size_bytes, count


def spill_above(full: AddressFullPolicy, may_spill: bool) -> int:
    """Return from how many octets on a lane asks by itself whether to spill: its address limits it."""
    if not may_spill:
        return NEVER
    if full.max_size_messages >= 0:
        return 0
    return full.max_size_bytes if full.max_size_bytes >= 0 else NEVER
