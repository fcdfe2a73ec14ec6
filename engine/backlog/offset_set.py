"""A set of queue offsets that stays small where they lie close together."""

from __future__ import annotations

from typing import Final

PAGE_BITS: Final = 12  # a page is one number of 4,096 bits
_PAGE_COUNT: Final = 1 << PAGE_BITS
_MASK: Final = _PAGE_COUNT - 1


class OffsetSet:
    """One bit per offset, in pages; a page without bits is not kept.

    pages: offset >> PAGE_BITS -> bits of that page.
    """

    __slots__ = ("pages",)

    def __init__(self) -> None:
        self.pages: dict[int, int] = {}

    def add(self, offset: int) -> None:
        page = offset >> PAGE_BITS
        self.pages[page] = self.pages.get(page, 0) | 1 << (offset & _MASK)

    def add_range(self, first: int, count: int) -> None:
        """Add ``count`` offsets from ``first`` on."""
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
