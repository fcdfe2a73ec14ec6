"""How much of a lane stays in memory."""

from __future__ import annotations

from typing import Final

from config.policies import AddressFullPolicy

LANE_BYTES: Final = 8 * 1024 * 1024  # ready messages of one lane kept in memory; beyond, they are paged
LANE_MESSAGES: Final = 8_192
IDLE_LANE_BYTES: Final = 64 * 1024  # the same while the queue has no consumer: there may be thousands of such queues
NEVER: Final = 1 << 62


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
