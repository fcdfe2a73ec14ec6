"""A listener that remembers the reports of a store."""

from __future__ import annotations

from engine.ports.store import StoreListener
from engine.values.message import Message
from engine.values.stored import Entry, LanePlace


class Page:
    """One answer of ``page_loaded``."""

    def __init__(
        self, destination_id: int, priority: int, first: int, next_offset: int, messages: list[Message], reader: int
    ) -> None:
        self.destination_id = destination_id
        self.priority = priority
        self.first = first
        self.next_offset = next_offset
        self.messages = messages
        self.reader = reader


class RecordingListener(StoreListener):
    """Remembers all reports of a store."""

    def __init__(self) -> None:
        self.durable_offset = 0
        self.pages: list[Page] = []
        self.page_failures: list[str] = []
        self.failed_readers: list[int] = []
        self.failures: list[str] = []
        self.skipped: list[tuple[int, str]] = []
        self.skipped_sizes: list[int] = []
        self.skipped_readers: list[int] = []
        self.healed_count = 0
        self.sought_places: list[tuple[int, int, list[LanePlace]]] = []
        self.seek_failures: list[tuple[int, str]] = []
        self.expired: list[tuple[int, list[tuple[int, int]], int]] = []
        self.gone_readers: set[int] = set()

    def durable(self, offset: int) -> None:
        assert offset >= self.durable_offset, "what is durable does not become less"
        self.durable_offset = offset

    def is_awaited(self, reader: int) -> bool:
        return reader not in self.gone_readers

    def page_loaded(
        self, destination_id: int, priority: int, first: int, next_offset: int, messages: list[Message], reader: int = 0
    ) -> None:
        self.pages.append(Page(destination_id, priority, first, next_offset, messages, reader))

    def page_failed(self, destination_id: int, priority: int, first: int, reason: str, reader: int = 0) -> None:
        self.page_failures.append(reason)
        self.failed_readers.append(reader)

    def record_skipped(
        self, destination_id: int, priority: int, queue_offset: int, size_bytes: int, reason: str, reader: int = 0
    ) -> None:
        self.skipped.append((queue_offset, reason))
        self.skipped_sizes.append(size_bytes)
        self.skipped_readers.append(reader)

    def sought(self, reader: int, log_start: int, places: list[LanePlace]) -> None:
        self.sought_places.append((reader, log_start, places))

    def expired_found(
        self, destination_id: int, priority: int, first: int, next_offset: int, expired: list[Entry], next_ms: int
    ) -> None:
        self.expired.append((next_offset, [(entry.offset, entry.size_bytes) for entry in expired], next_ms))

    def seek_failed(self, reader: int, reason: str) -> None:
        self.seek_failures.append((reader, reason))

    def store_failed(self, reason: str) -> None:
        self.failures.append(reason)

    def store_healed(self) -> None:
        self.healed_count += 1
