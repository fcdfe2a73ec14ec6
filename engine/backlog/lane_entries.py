"""A lane's entries on disk: how many stay in memory, requests for pages, entries settled or found ahead."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from config.policies import AddressFullPolicy
from engine.values.delivery import GONE, Delivery

PAGE_MESSAGES: Final = 1_024  # entries per request
PAGE_BYTES: Final = 4 * 1024 * 1024
LANE_BYTES: Final = 8 * 1024 * 1024  # ready messages of one lane in memory; beyond, they are paged
LANE_MESSAGES: Final = 8_192
IDLE_LANE_BYTES: Final = 64 * 1024  # the same without a consumer: there may be thousands of such queues
NEVER: Final = 1 << 62


@dataclass(slots=True, eq=False)
class LanePages:
    """size_bytes, count: limits of one request.

    fault: why the disk refused the last page, "" if it did not.
    is_loading: the next page is requested; is_scanning: a page ahead of it is requested, for a selection.
    awaits_retry: the last page was refused or empty; no page is requested before the engine retries, however often
    one is wanted.
    """

    size_bytes: int = PAGE_BYTES
    count: int = PAGE_MESSAGES
    fault: str = ""
    is_loading: bool = False
    is_scanning: bool = False
    awaits_retry: bool = False

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


PAGE_BITS: Final = 12  # a page is one number of 4,096 bits
_PAGE_COUNT: Final = 1 << PAGE_BITS
_MASK: Final = _PAGE_COUNT - 1


@dataclass(slots=True, eq=False)
class OffsetSet:
    """A set of queue offsets that stays small where they lie close together.

    There is one bit per offset, in pages; a page without bits is not kept.

    pages: offset >> PAGE_BITS -> bits of that page.
    """

    pages: dict[int, int] = field(default_factory=dict)

    def add(self, offset: int) -> None:
        page = offset >> PAGE_BITS
        self.pages[page] = self.pages.get(page, 0) | 1 << (offset & _MASK)

    def add_range(self, first: int, count: int) -> None:
        end = first + count
        while first < end:
            page = first >> PAGE_BITS
            stop = min(end, (page + 1) << PAGE_BITS)
            bits = ((1 << (stop - first)) - 1) << (first & _MASK)
            self.pages[page] = self.pages.get(page, 0) | bits
            first = stop

    def __contains__(self, offset: int) -> bool:
        return bool(self.pages.get(offset >> PAGE_BITS, 0) >> (offset & _MASK) & 1)

    def __len__(self) -> int:
        return sum(bits.bit_count() for bits in self.pages.values())

    def first_missing(self, offset: int) -> int:
        """Return the first offset from ``offset`` on that is not in the set."""
        while True:
            bits = self.pages.get(offset >> PAGE_BITS, 0) >> (offset & _MASK)
            count = (~bits & (bits + 1)).bit_length() - 1  # of the ones at the end
            if count < _PAGE_COUNT - (offset & _MASK):
                return offset + count
            offset += count

    def drop_below(self, offset: int) -> None:
        """Forget whole pages below ``offset``, which are no longer needed."""
        last = offset >> PAGE_BITS
        for page in [page for page in self.pages if page < last]:
            del self.pages[page]
        bits = self.pages.get(last)
        if bits is not None:
            kept = bits >> (offset & _MASK) << (offset & _MASK)
            if kept:
                self.pages[last] = kept
            else:
                del self.pages[last]


AHEAD_BYTES: Final = 32 * 1024 * 1024  # found and not handed over yet; beyond, the search pauses
AHEAD_SETTLED: Final = 1_024  # deliveries checked per call for being gone


@dataclass(slots=True, eq=False)
class FoundAhead:
    """Messages that a selection found on disk ahead of the loaded ones, and may hand over before those.

    by_offset: queue offset -> delivery.  ready_bytes: of those READY.

    left: offsets that ``take_gone`` still has to check, the last first.
    """

    by_offset: dict[int, Delivery] = field(default_factory=dict)
    ready_bytes: int = 0
    left: list[int] = field(default_factory=list)

    def add(self, delivery: Delivery) -> None:
        self.by_offset[delivery.message.queue_offset] = delivery
        self.ready_bytes += delivery.message.size

    def holds(self, delivery: Delivery) -> bool:
        return self.by_offset.get(delivery.message.queue_offset) is delivery

    def remove(self, delivery: Delivery) -> None:
        """Forget a delivery that is READY."""
        del self.by_offset[delivery.message.queue_offset]
        self.ready_bytes -= delivery.message.size

    def came_back(self, delivery: Delivery) -> bool:
        """Say whether a delivery that is READY again belongs here; if so, it is counted."""
        if not self.holds(delivery):
            return False
        self.ready_bytes += delivery.message.size
        return True

    def take_gone(self) -> list[int]:
        """Check the next AHEAD_SETTLED deliveries, forget those that are gone, and return their offsets."""
        by_offset = self.by_offset
        if not by_offset:
            return []
        if not self.left:
            self.left = list(by_offset)
            self.left.reverse()
        part = self.left[-AHEAD_SETTLED:]
        del self.left[-AHEAD_SETTLED:]
        gone = [offset for offset in reversed(part) if offset in by_offset and by_offset[offset].state == GONE]
        for offset in gone:
            del by_offset[offset]
        return gone

    def take_all(self) -> list[Delivery]:
        found = list(self.by_offset.values())
        self.by_offset.clear()
        self.ready_bytes = 0
        return found
