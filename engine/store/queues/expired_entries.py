"""Finds expired messages of a consume queue in its entries, without reading records."""

from __future__ import annotations

from engine.ports.store import StoreListener
from engine.ports.workers import Job
from engine.store.log.open_files import OpenFiles
from engine.store.queues.entry_span import EntrySpan, entry_columns
from engine.values.errors import StoreError
from engine.values.stored import NEVER_MS, Entry, expired_entries


class ExpiredJob(Job):
    """One ``Store.look_for_expired``.  asked_first: first entry requested; those before the span were dropped."""

    __slots__ = ("_listener", "_open_files", "_span", "_asked_first", "_wall_ms", "_next", "_expired", "_next_ms")

    def __init__(
        self, listener: StoreListener, open_files: OpenFiles, span: EntrySpan, asked_first: int, wall_ms: int
    ) -> None:
        self._listener = listener
        self._open_files = open_files
        self._span = span
        self._asked_first = asked_first
        self._wall_ms = wall_ms
        self._next = asked_first
        self._expired: list[Entry] = []
        self._next_ms = NEVER_MS

    def run(self) -> None:
        span = self._span
        try:
            octets = span.read(self._open_files)
        except (OSError, StoreError):
            return  # a page of these entries reports the error; the next sweep tries again
        self._expired, self._next_ms = expired_entries(entry_columns(span.first, octets), self._wall_ms)
        self._next = span.end

    def finish(self) -> None:
        span = self._span
        self._listener.expired_found(
            span.destination_id, span.priority, self._asked_first, self._next, self._expired, self._next_ms
        )
