"""Finds messages of a store by id, by key, or by destination with a range of time or of queue offsets.

A query by id is one read, because the id contains the log offset.  A query by destination is a binary search in the
consume queues, whose entries contain the store time.  A query by key uses the index files.  The end of the log, which
these do not cover yet, is scanned.  Answers are newest first, in pages.
"""

from __future__ import annotations

import heapq
import os
from collections import deque
from collections.abc import Iterator
from typing import Final

from engine.store.disk.directory_lock import is_held
from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.index.index_file import IndexFile, list_index
from engine.store.read.catalog import read_catalog
from engine.store.read.entry_files import entry_files, lanes
from engine.store.read.found_message import Bounds, FoundMessage, Page
from engine.store.read.reader import DestinationInfo, StoreReader
from engine.store.read.records import Records, UnknownMessage, offset_of
from engine.values.destination import uri
from engine.values.message import DEAD_LETTER, PERSISTENT, TEXT, sent_priority
from engine.values.message_keys import Keys

ENTRIES_AT_ONCE: Final = 256
ENTRY_BYTES: Final = layout.ENTRY_BYTES
STORE_TIME_AT: Final = 32  # in an entry
PAGE_BYTES: Final = 16 * 1024 * 1024  # of the messages of a page; one message always fits
WILDCARDS: Final = frozenset("*>#")


class StoreQuery:
    """Queries with one reader; ``close`` closes its files."""

    def __init__(self, reader: StoreReader, keys: Keys | None = None) -> None:
        self._reader = reader
        self._keys = keys or Keys()
        self._known: dict[int, DestinationInfo] = {}
        self._has_catalog = False
        self._records = Records(reader)
        self._scanned_bytes = 0
        self._damaged: list[int] = []

    def __enter__(self) -> StoreQuery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._records.close()

    # Queries.

    def by_id(self, message_id: str) -> FoundMessage:
        """Raises: UnknownMessage, RangeGone."""
        return self._found(self._records.message(offset_of(message_id, self._reader.store_id)))

    def by_key(self, key: str, bounds: Bounds, destination: str = "") -> Page:
        """Return messages that have ``key``, of one destination if it is given.

        Raises: UnknownDestination, RangeGone, StoreCorrupt.
        """
        numbers = self._numbers(destination) if destination else None
        return self._page(self._places(key, bounds, numbers), bounds)

    def indexed(self, key: str) -> Iterator[Record]:
        """Yield the messages that have ``key`` according to the index, newest first, without a scan of the log."""
        reader = self._reader
        files = list_index(reader.directory, reader.store_id, is_held(reader.directory / "lock"), reader.end().offset)
        for file in reversed(files):
            yield from self._indexed(file, key, Bounds(), None)

    def by_destination(self, destination: str, bounds: Bounds) -> Page:
        """Return messages that were sent to ``destination``: a name, or a URI that also says the kind.

        Raises: UnknownDestination, RangeGone, StoreCorrupt.
        """
        numbers = self._numbers(destination)
        end = self._reader.end().offset
        start = min(max(self._reader.entries_offset, self._reader.first_offset), end)
        streams: list[Iterator[int]] = [
            self._lane_offsets(number, priority, bounds)
            for number in numbers
            for priority in lanes(self._reader.directory, number)
        ]
        recent = self._scan(start, end, bounds, numbers, "")
        return self._page(self._chained(recent, heapq.merge(*streams, reverse=True)), bounds)

    def in_order(self, destination: str, bounds: Bounds) -> Iterator[FoundMessage]:
        """Yield all messages of a destination within the bounds, oldest first; the limit does not count.

        Raises: UnknownDestination, RangeGone, StoreCorrupt.
        """
        numbers = self._numbers(destination)
        reader = self._reader
        for record in reader.scan(self._start_of(bounds.from_ms), min(reader.end().offset, bounds.before)):
            if record.type == layout.MESSAGE and record.destination_id in numbers:
                if record.store_time_ms > bounds.to_ms:
                    return
                if bounds.holds(record):
                    yield self._found(record)

    def _start_of(self, time_ms: int) -> int:
        """Return the base of the last segment that begins before a store time."""
        reader = self._reader
        start = reader.first_offset
        for segment in reader.segments:
            first = self._records.at(segment.base) if segment.base >= start else None
            if first is not None and first.store_time_ms < time_ms:
                start = segment.base
        return start

    # Destinations.

    def _name(self, number: int) -> str:
        if number not in self._known and not self._has_catalog:
            self._take_last_snapshot()
        if number not in self._known:
            self._take_catalog()
        info = self._known.get(number)
        return f"queue://#{number}" if info is None else uri(info.kind, info.name)

    def _take_last_snapshot(self) -> None:
        """Take the destinations from the last snapshot: one read, while a catalog needs a scan."""
        snapshot = self._records.last_snapshot(self._reader.end().offset)
        if snapshot is not None:
            for each in snapshot.described()["destinations"]:
                self._known[each["id"]] = DestinationInfo(each["id"], each["kind"], each["name"])

    def _take_catalog(self) -> None:
        if not self._has_catalog:
            self._has_catalog = True
            self._known.update(read_catalog(self._reader).destinations)

    def _numbers(self, destination: str) -> list[int]:
        """Return every number of a destination; one that was deleted and recreated has several."""
        self._take_catalog()
        kind, separator, name = destination.partition("://")
        found = [
            number
            for number, info in self._known.items()
            if (info.name == name and uri(info.kind, "") == f"{kind}://" if separator else info.name == destination)
        ]
        if not found:
            hint = "" if WILDCARDS.isdisjoint(destination) else "; a pattern is not allowed here"
            raise UnknownDestination(f"no destination {destination[:200]!r} has messages in the log{hint}")
        return sorted(found)

    # Records.

    def _message_at(self, offset: int) -> Record | None:
        record = self._records.at(offset)
        if record is None and self._records.is_damaged(offset):
            self._damaged.append(offset)
        return record if record is not None and record.type == layout.MESSAGE else None

    def _found(self, record: Record) -> FoundMessage:
        message = record.message()
        headers = message.headers()
        return FoundMessage(
            f"ID:{self._reader.store_id}-{record.offset}",
            self._name(record.destination_id),
            message.priority,
            message.queue_offset,
            record.offset,
            record.store_time_ms,
            message.expires_ms,
            record.encoding,
            bool(record.flags & PERSISTENT),
            bool(record.flags & DEAD_LETTER),
            bool(record.flags & TEXT),
            self._keys.of(record.encoding, headers),
            message.annotations(),
            headers,
            message.body(),
            sent_priority(record.flags, message.priority),
        )

    def _page(self, records: Iterator[Record], bounds: Bounds) -> Page:
        messages: list[FoundMessage] = []
        next_before = size_bytes = 0
        for record in records:
            if len(messages) == bounds.limit or size_bytes >= PAGE_BYTES:
                next_before = messages[-1].log_offset
                break
            messages.append(self._found(record))
            size_bytes += record.size
        end = self._reader.end()
        return Page(messages, next_before, self._scanned_bytes, end.offset, end.time_ms, self._damaged)

    def _scan(self, start: int, stop: int, bounds: Bounds, numbers: list[int] | None, key: str) -> Iterator[Record]:
        """Yield the matching messages of a part of the log, newest first, at most one more than the limit.

        numbers: of the wanted destinations, None for any.  key: that the messages have, "" for any.
        """
        stop = min(stop, bounds.before)
        first = self._records.at(start)
        if start >= stop or (first is not None and first.store_time_ms > bounds.to_ms):
            return
        self._scanned_bytes += stop - start
        newest: deque[Record] = deque(maxlen=bounds.limit + 1)
        for record in self._reader.scan(start, stop):
            if record.type != layout.MESSAGE or (numbers is not None and record.destination_id not in numbers):
                continue
            if bounds.holds(record) and (not key or self._has_key(record, key)):
                newest.append(record)
        yield from reversed(newest)

    def _has_key(self, record: Record, key: str) -> bool:
        return key in self._keys.of(record.encoding, record.message().headers())

    def _chained(self, recent: Iterator[Record], offsets: Iterator[int]) -> Iterator[Record]:
        yield from recent
        for offset in offsets:
            record = self._message_at(offset)
            if record is not None:
                yield record

    # Consume queues.

    def _lane_offsets(self, number: int, priority: int, bounds: Bounds) -> Iterator[int]:
        """Yield the log offsets of a lane's entries within the bounds, newest first."""
        stop = min(bounds.before, self._reader.entries_offset)
        first = self._reader.first_offset
        for file in reversed(entry_files(self._reader.directory, number, priority)):
            if file.first > bounds.to_entry or file.first + file.count <= bounds.from_entry:
                continue
            try:
                descriptor = os.open(file.path, os.O_RDONLY)
            except FileNotFoundError:  # dropped by retention meanwhile
                return
            try:
                low = max(bounds.from_entry - file.first, 0)
                low = _first_at(descriptor, low, file.count, STORE_TIME_AT, bounds.from_ms)
                high = min(file.count, bounds.to_entry + 1 - file.first)
                high = _first_at(descriptor, 0, high, STORE_TIME_AT, bounds.to_ms + 1)
                high = _first_at(descriptor, 0, high, 0, stop)
                for offset in _backwards(descriptor, low, high):
                    if offset < first:
                        return
                    yield offset
                if low > 0 or file.first == 0:
                    return
            finally:
                os.close(descriptor)

    # Keys.

    def _places(self, key: str, bounds: Bounds, numbers: list[int] | None) -> Iterator[Record]:
        """Yield the messages that have the key, newest first: from the index, and from the log beyond it."""
        reader = self._reader
        above = reader.end().offset
        files = list_index(reader.directory, reader.store_id, is_held(reader.directory / "lock"), above)
        for file in reversed(files):
            if file.header.end < above:
                yield from self._scan(max(file.header.end, reader.first_offset), above, bounds, numbers, key)
            above = min(above, file.header.begin)
            if file.header.last_ms >= bounds.from_ms and file.header.begin < bounds.before:
                yield from self._indexed(file, key, bounds, numbers)
            if file.header.count and file.header.first_ms < bounds.from_ms:
                return
        yield from self._scan(reader.first_offset, above, bounds, numbers, key)

    def _indexed(self, file: IndexFile, key: str, bounds: Bounds, numbers: list[int] | None) -> Iterator[Record]:
        first = self._reader.first_offset
        end = self._reader.end().offset
        last = -1
        for offset, time_ms in file.places(key, min(bounds.before, end)):
            if offset < first or time_ms < bounds.from_ms:
                return
            record = self._message_at(offset) if time_ms <= bounds.to_ms and offset != last else None
            last = offset
            if record is None or (numbers is not None and record.destination_id not in numbers):
                continue
            if bounds.holds(record) and self._has_key(record, key):
                yield record


class UnknownDestination(UnknownMessage):
    """Nothing in the store was ever sent to this destination."""


def _first_at(descriptor: int, low: int, high: int, at: int, wanted: int) -> int:
    """Return the first entry in [low, high) whose field of 8 octets is not below ``wanted``, else ``high``."""
    while low < high:
        middle = (low + high) // 2
        entry = _first_kept(descriptor, middle, high)
        if entry == high:
            high = middle
            continue
        field = int.from_bytes(os.pread(descriptor, 8, entry * ENTRY_BYTES + at), "little")
        if field < wanted:
            low = entry + 1
        else:
            high = middle
    return low


def _first_kept(descriptor: int, low: int, high: int) -> int:
    """Return the first entry in [low, high) that is not zeros, like those of lost records, else ``high``."""
    while low < high:
        octets = os.pread(descriptor, min(high - low, ENTRIES_AT_ONCE) * ENTRY_BYTES, low * ENTRY_BYTES)
        left = len(octets.lstrip(b"\0"))
        if left:
            return low + (len(octets) - left) // ENTRY_BYTES
        low += ENTRIES_AT_ONCE
    return high


def _backwards(descriptor: int, low: int, high: int) -> Iterator[int]:
    """Yield the log offsets of entries [low, high), the last one first, without those of lost records."""
    while high > low:
        start = max(low, high - ENTRIES_AT_ONCE)
        octets = os.pread(descriptor, (high - start) * ENTRY_BYTES, start * ENTRY_BYTES)
        entries = list(layout.ENTRY.iter_unpack(octets[: len(octets) - len(octets) % ENTRY_BYTES]))
        for entry in reversed(entries):
            if entry[1]:
                yield entry[0]
        high = start
