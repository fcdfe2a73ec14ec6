"""The progress of a queue or durable subscription in one consume queue: settled entries, failed entries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.store.state.settled_entries import SettledEntries
from engine.values.stored import Attempts

PAGE_SHIFT: Final = 7  # encoding one page takes a seventh of a millisecond


@dataclass(slots=True, eq=False)
class FailedEntries:
    """The failed attempts of entries that are not settled.

    pages: by the number of the page, then by entry; none is empty.
    texts: encoded pages for snapshots, of pages unchanged since.
    consumers: how many of the entries name each consumer.
    """

    pages: dict[int, dict[int, Attempts]] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    consumers: dict[int, int] = field(default_factory=dict)

    def get(self, entry: int) -> Attempts | None:
        """Return the failed attempts of an entry."""
        page = self.pages.get(entry >> PAGE_SHIFT)
        return None if page is None else page.get(entry)

    def note(self, entry: int, attempts: Attempts) -> None:
        """Record the last attempt of an entry; the time of the first one stays."""
        number = entry >> PAGE_SHIFT
        page = self.pages.get(number)
        if page is None:
            page = self.pages[number] = {}
        known = page.get(entry)
        if known is not None:
            self._forget_consumer(known.consumer_id)
            attempts = Attempts(
                attempts.count, attempts.due_ms, known.first_ms, attempts.last_ms, attempts.cause, attempts.consumer_id
            )
        page[entry] = attempts
        self.consumers[attempts.consumer_id] = self.consumers.get(attempts.consumer_id, 0) + 1
        self.texts.pop(number, None)

    def settle(self, first: int, count: int) -> None:
        """Forget ``count`` entries from ``first`` on."""
        end = first + count
        first_page, last_page = first >> PAGE_SHIFT, (end - 1) >> PAGE_SHIFT
        if last_page - first_page < len(self.pages):
            for number in range(first_page, last_page + 1):
                if number in self.pages:
                    self._settle_in(number, first, end)
        else:
            for number in [number for number in self.pages if first_page <= number <= last_page]:
                self._settle_in(number, first, end)

    def _settle_in(self, number: int, first: int, end: int) -> None:
        page = self.pages[number]
        settled = [first] if end - first == 1 else [entry for entry in page if first <= entry < end]
        for entry in settled:
            known = page.pop(entry, None)
            if known is not None:
                self._forget_consumer(known.consumer_id)
        self.texts.pop(number, None)
        if not page:
            del self.pages[number]

    def _forget_consumer(self, consumer_id: int) -> None:
        left = self.consumers[consumer_id] - 1
        if left:
            self.consumers[consumer_id] = left
        else:
            del self.consumers[consumer_id]

    def all(self) -> dict[int, Attempts]:
        """Return the failed attempts, by entry."""
        return {entry: attempts for page in self.pages.values() for entry, attempts in page.items()}

    # For snapshots: each entry with its attempts as JSON.

    def pages_to_encode(self) -> list[int]:
        """Return the pages that are not encoded yet."""
        return [page for page in self.pages if page not in self.texts]

    def encode(self, page: int) -> str:
        """Encode one page, and keep the result."""
        text = self.texts[page] = ",".join(
            [
                f"[{entry},{known.count},{known.due_ms},{known.first_ms},{known.last_ms},{known.cause},{known.consumer_id}]"
                for entry, known in sorted(self.pages[page].items(), key=_entry)
            ]
        )
        return text

    def text(self) -> str:
        """Return all encoded entries, ascending."""
        texts: list[str] = []
        for page in sorted(self.pages):
            known = self.texts.get(page)
            texts.append(self.encode(page) if known is None else known)
        return ",".join(texts)


def _entry(item: tuple[int, Attempts]) -> int:
    return item[0]


class Progress:
    """failed: attempts of unsettled entries; usually None: there are none."""

    __slots__ = ("settled", "failed")

    def __init__(self, cursor: int) -> None:
        self.settled = SettledEntries(cursor)
        self.failed: FailedEntries | None = None

    def attempts(self) -> dict[int, Attempts]:
        """Return the failed attempts by entry."""
        return {} if self.failed is None else self.failed.all()

    def attempts_of(self, entry: int) -> Attempts | None:
        return None if self.failed is None else self.failed.get(entry)

    def settle(self, first: int, count: int) -> None:
        """Settle ``count`` entries from ``first`` on."""
        self.settled.add(first, count)
        failed = self.failed
        if failed is not None:
            failed.settle(first, count)
            if not failed.pages:
                self.failed = None

    def settle_runs(self, firsts: list[int], counts: list[int]) -> None:
        """Do the same for several runs of entries, given as two columns."""
        if self.failed is not None:
            for first, count in zip(firsts, counts, strict=True):
                self.settle(first, count)
        else:
            self.settled.add_runs(firsts, counts)

    def fail(self, first: int, count: int, attempt: Attempts) -> None:
        """Record a failed attempt of ``count`` entries; each keeps the time of its first one."""
        for entry in range(first, first + count):
            if not self.settled.contains(entry):
                if self.failed is None:
                    self.failed = FailedEntries()
                self.failed.note(entry, attempt)
