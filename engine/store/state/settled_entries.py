"""Which entries of one consume queue are settled: a cursor and, above it, one bit per entry."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

PAGE_SHIFT: Final = 12
PAGE_ENTRIES: Final = 1 << PAGE_SHIFT
PAGE_MASK: Final = PAGE_ENTRIES - 1
FULL_PAGE: Final = (1 << PAGE_ENTRIES) - 1  # one object for all full pages: they cost a reference each
RUN: Final = re.compile("1+")


@dataclass(slots=True, eq=False)
class SettledEntries:
    """A set of entries that fills up from below.

    Everything below ``cursor`` is in it.  Entries settled in order only move the cursor.  Others are bits in pages of
    PAGE_ENTRIES, which are removed once the cursor has passed them.
    texts: encoded pages for snapshots, of pages unchanged since.
    """

    cursor: int
    pages: dict[int, int] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)

    def add(self, first: int, count: int) -> None:
        """Add ``count`` entries from ``first`` on; those already in it stay."""
        end = first + count
        cursor = self.cursor
        if first <= cursor:
            if end > cursor:
                self.cursor = end
                if self.pages:
                    self._pass_pages()
            return
        pages = self.pages
        page = first >> PAGE_SHIFT
        last_page = (end - 1) >> PAGE_SHIFT
        if self.texts:
            self._forget_texts(page, last_page)
        if page == last_page and count < PAGE_ENTRIES:  # the usual case, in half the time
            bits = pages.get(page, 0) | ((1 << count) - 1) << (first & PAGE_MASK)
            pages[page] = FULL_PAGE if bits == FULL_PAGE else bits
            return
        while page <= last_page:
            low = max(first - (page << PAGE_SHIFT), 0)
            high = min(end - (page << PAGE_SHIFT), PAGE_ENTRIES)
            bits = pages.get(page, 0) | (((1 << (high - low)) - 1) << low)
            pages[page] = FULL_PAGE if bits == FULL_PAGE else bits
            page += 1

    def add_runs(self, firsts: list[int], counts: list[int]) -> None:
        """Do the same for several runs; those close together are combined first and then added to a page at once."""
        low = min(firsts)
        if max(firsts) - low >= PAGE_ENTRIES:
            for first, count in zip(firsts, counts, strict=True):
                self.add(first, count)
            return
        bits = 0
        for first, count in zip(firsts, counts, strict=True):
            bits |= ((1 << count) - 1) << (first - low)
        bits <<= low & PAGE_MASK
        pages = self.pages
        page = low >> PAGE_SHIFT
        if self.texts:
            self._forget_texts(page, page + (bits.bit_length() >> PAGE_SHIFT))  # the last run may be of any length
        while bits:
            merged = pages.get(page, 0) | (bits & FULL_PAGE)
            pages[page] = FULL_PAGE if merged == FULL_PAGE else merged
            bits >>= PAGE_ENTRIES
            page += 1
        if low <= self.cursor:
            self._pass_pages()

    def _forget_texts(self, page: int, last_page: int) -> None:
        for changed in range(page, last_page + 1):
            self.texts.pop(changed, None)

    def _pass_pages(self) -> None:
        """Move the cursor over the bits it has reached, and drop the pages below it."""
        pages = self.pages
        cursor = self.cursor
        page = cursor >> PAGE_SHIFT
        for passed in [number for number in pages if number < page]:
            del pages[passed]
            self.texts.pop(passed, None)
        while True:
            bits = pages.get(page)
            if bits is None:
                break
            rest = bits >> (cursor & PAGE_MASK)
            ones = (~rest & (rest + 1)).bit_length() - 1
            cursor += ones
            if cursor >> PAGE_SHIFT == page:
                break
            del pages[page]
            self.texts.pop(page, None)
            page += 1
        self.cursor = cursor

    def contains(self, entry: int) -> bool:
        return entry < self.cursor or bool(self.pages.get(entry >> PAGE_SHIFT, 0) >> (entry & PAGE_MASK) & 1)

    def bits(self, first: int, end: int) -> int:
        """Return the entries ``first`` to ``end`` (excluded) as bits, the lowest for ``first``; 1: in the set."""
        passed = max(min(self.cursor, end) - first, 0)
        bits = (1 << passed) - 1
        if self.pages and first + passed < end:
            for page in range((first + passed) >> PAGE_SHIFT, ((end - 1) >> PAGE_SHIFT) + 1):
                known = self.pages.get(page)
                if known is not None:
                    place = (page << PAGE_SHIFT) - first
                    bits |= known << place if place >= 0 else known >> -place
        return bits & ((1 << (end - first)) - 1)

    def runs(self) -> list[tuple[int, int]]:
        """Return (first, count) of everything above the cursor, ascending, with gaps in between."""
        runs: list[tuple[int, int]] = []
        first = end = -1
        for page in sorted(self.pages):
            base = page << PAGE_SHIFT
            bits = self.pages[page]
            if base < self.cursor:  # bits passed by the cursor remain until the page is removed
                bits >>= self.cursor - base
                base = self.cursor
            for run in RUN.finditer(f"{bits:b}"[::-1]):
                start = base + run.start()
                if start != end:
                    if count := end - first:
                        runs.append((first, count))
                    first = start
                end = base + run.end()
        if end > first:
            runs.append((first, end - first))
        return runs

    # For snapshots: the runs above the cursor as JSON.  Encoding one page takes up to two milliseconds, and a queue
    # with a stuck consumer has many, so each result is kept until its page changes.

    def pages_to_encode(self) -> list[int]:
        """Return the pages that are not encoded yet; the one with the cursor, and full ones, are never kept."""
        first = (self.cursor >> PAGE_SHIFT) + 1
        texts = self.texts
        return [page for page, bits in self.pages.items() if page >= first and page not in texts and bits != FULL_PAGE]

    def encode(self, page: int) -> str:
        """Encode one page, and keep the result."""
        text = self.texts[page] = _runs_text(self.pages[page], page << PAGE_SHIFT)
        return text

    def text(self) -> str:
        """Return the runs above the cursor, ascending; one may begin where the one before ends."""
        texts: list[str] = []
        full_first = full_end = 0
        for page in sorted(self.pages):
            base = page << PAGE_SHIFT
            bits = self.pages[page]
            if bits == FULL_PAGE and base >= self.cursor:
                if full_end != base:
                    if full_end:
                        texts.append(f"[{full_first},{full_end - full_first}]")
                    full_first = base
                full_end = base + PAGE_ENTRIES
                continue
            if full_end:
                texts.append(f"[{full_first},{full_end - full_first}]")
                full_first = full_end = 0
            if base < self.cursor:  # bits passed by the cursor remain until the page is removed
                text = _runs_text(bits >> (self.cursor - base), self.cursor)
            else:
                known = self.texts.get(page)
                text = self.encode(page) if known is None else known
            if text:
                texts.append(text)
        if full_end:
            texts.append(f"[{full_first},{full_end - full_first}]")
        return ",".join(texts)


def _runs_text(bits: int, base: int) -> str:
    return ",".join([f"[{base + run.start()},{run.end() - run.start()}]" for run in RUN.finditer(f"{bits:b}"[::-1])])
