"""How much of a lane stays in memory, and its requests for pages."""

from __future__ import annotations

from typing import Final

from config.policies import AddressFullPolicy

PAGE_MESSAGES: Final = 1_024  # entries per request
PAGE_BYTES: Final = 4 * 1024 * 1024
LANE_BYTES: Final = 8 * 1024 * 1024  # ready messages of one lane in memory; beyond, they are paged
LANE_MESSAGES: Final = 8_192
IDLE_LANE_BYTES: Final = 64 * 1024  # the same without a consumer: there may be thousands of such queues
NEVER: Final = 1 << 62


class LanePages:
    """size_bytes, count: limits of one request.

    fault: why the disk refused the last page, "" if it did not.
    is_loading: the next page is requested; is_scanning: a page ahead of it is requested, for a selection.
    awaits_retry: the last page was refused or empty; no page is requested before the engine retries, however often
    one is wanted.
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
        """Limit requests to what may be in memory, but to no less than one message."""
        self.size_bytes = max(1, min(PAGE_BYTES, size_bytes))
        self.count = max(1, min(PAGE_MESSAGES, count))


def memory_limits(full: AddressFullPolicy) -> tuple[int, int]:
    """Return how many octets and messages a lane of such an address keeps, apart from shares."""
    size_bytes = LANE_BYTES
    count = LANE_MESSAGES
    if full.address_full_policy == "PAGE":
        if 0 <= full.max_size_bytes < size_bytes:
            size_bytes = full.max_size_bytes
        if 0 <= full.max_size_messages < count:
            count = full.max_size_messages
    return size_bytes, count


def spill_above(full: AddressFullPolicy, may_spill: bool) -> int:
    """Return the ready octets above which a lane asks to spill on its own account, because its address limits it."""
    if not may_spill:
        return NEVER
    if full.max_size_messages >= 0:
        return 0
    return full.max_size_bytes if full.max_size_bytes >= 0 else NEVER
