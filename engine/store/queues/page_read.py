"""Reads pages of a backlog: entries, then their records in large sequential reads, on a worker.

The worker opens its own files, so the writer never waits for it, and retention may drop a file while it is being read.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from engine.ports.store import StoreListener
from engine.ports.workers import Job
from engine.store.disk.files import File, describe, read_fully
from engine.store.format import layout
from engine.store.format.message_record import read_message
from engine.store.format.sparse_runs import NOT_THERE
from engine.store.log.open_files import OpenFiles
from engine.store.log.segment import LogMap
from engine.store.log.store_directory import LogRange, RecoveryReport
from engine.store.queues.entry_span import EntrySpan
from engine.values.errors import StoreCorrupt, StoreError
from engine.values.message import IN_TRANSACTION, Message
from engine.values.pieces import PIECE_BYTES

READ_BYTES: Final = 1 << 20  # of the log at a time, unless one record is larger
GAP_BYTES: Final = 32 << 10  # octets of other records that are read along rather than starting another read

MESSAGE_HEAD_BYTES: Final = layout.MESSAGE_HEAD_BYTES
MESSAGE_FLAGS: Final = ~IN_TRANSACTION  # which is of the record; copies of the message are not in that transaction
READ_MESSAGE: Final = read_message


class DamagedRecord(StoreCorrupt):
    """The record of ``entry`` is not what the entry says."""

    def __init__(self, entry: int, path: str, position: int, offset: int, size: int, what: str) -> None:
        super().__init__(f"{path}, position {position}: the record at log offset {offset} is damaged: {what}")
        self.entry = entry
        self.size_bytes = size - MESSAGE_HEAD_BYTES
        self.lost = LogRange(offset, offset + size, path, position, f"entry {entry}: {what}")


@dataclass(slots=True, eq=False)
class Skipping:
    """Whether damaged records are skipped in pages, and which were: ``report`` lists them."""

    is_wanted: bool
    _report: RecoveryReport
    _notified: set[tuple[int, int, int]] = field(default_factory=set)  # of reader 0: destination, priority, entry

    def is_news(self, damaged: DamagedRecord, entry: tuple[int, int, int], reader: int) -> bool:
        """Record a damaged record that a page lacks; return whether to notify ``reader``: reader 0 is notified once."""
        if damaged.lost not in self._report.skipped:
            self._report.skipped.append(damaged.lost)
        if reader:
            return True
        is_first = entry not in self._notified
        self._notified.add(entry)
        return is_first


class PageJob(Job):
    """One ``Store.request``: the messages of ``span``, or none if its reader has gone before it begins.

    Sound messages before a damaged record are handed over.  The damage answers the next request, which begins at that
    entry, unless damaged records are skipped.
    """

    __slots__ = (
        "_listener",
        "_open_files",
        "_map",
        "_span",
        "_destination_id",
        "_priority",
        "_asked_first",
        "_first",
        "_limit_bytes",
        "_skipping",
        "_reader",
        "_messages",
        "_next",
        "_skipped",
        "_reason",
        "_file",
        "_read_at",
    )

    def __init__(
        self,
        listener: StoreListener,
        open_files: OpenFiles,
        log_map: LogMap,
        span: EntrySpan,
        asked_first: int,
        limit_bytes: int,
        skipping: Skipping,
        reader: int,
    ) -> None:
        self._listener = listener
        self._open_files = open_files
        self._map = log_map
        self._span = span
        self._destination_id = span.destination_id
        self._priority = span.priority
        self._asked_first = asked_first
        self._first = span.first
        self._limit_bytes = limit_bytes
        self._skipping = skipping
        self._reader = reader
        self._messages: list[Message] = []
        self._next = span.first
        self._skipped: list[DamagedRecord] = []
        self._reason = ""
        self._file: File | None = None  # of the read under way, which begins at ``_read_at`` of it
        self._read_at = 0

    def is_short(self) -> bool:
        return not self._listener.is_awaited(self._reader)

    def run(self) -> None:
        if self.is_short():
            return
        try:
            self._read()
        except OSError as error:
            self._reason = describe(error, str(error.filename or "a file of the store"))
        except StoreError as error:
            self._reason = str(error)

    def finish(self) -> None:
        reader = self._reader
        for damaged in self._skipped:
            if self._skipping.is_news(damaged, (self._destination_id, self._priority, damaged.entry), reader):
                self._listener.record_skipped(
                    self._destination_id, self._priority, damaged.entry, damaged.size_bytes, str(damaged), reader
                )
        if self._reason and self._next <= self._asked_first:
            self._listener.page_failed(self._destination_id, self._priority, self._asked_first, self._reason, reader)
        else:
            self._listener.page_loaded(
                self._destination_id, self._priority, self._asked_first, self._next, self._messages, reader
            )

    def _read(self) -> None:
        octets = self._span.read(self._open_files)
        entries = list(layout.ENTRY_PLACE.iter_unpack(octets))
        is_ascending = entries == sorted(entries)
        count = len(entries)
        left = self._limit_bytes
        at = 0
        together = count  # entries that may be read in one call
        while at < count and (left > 0 or not self._messages):
            offset, size = entries[at]
            place = bisect_right(self._map.bases, offset) - 1
            if size == 0 or place < 0:  # dropped with its record, before or after a rebuild of the queue
                at += 1
                self._next = self._first + at
                continue
            limit = self._limit(place, offset)
            if limit == NOT_THERE:
                at += 1
                self._next = self._first + at
                continue
            until = 0
            if is_ascending and together == count:
                until = dense_end(entries, at, limit, left)
            if until == 0:
                until = run_end(entries, at, min(count, at + together), limit, left)
            last_offset, last_size = entries[until - 1]
            try:
                left -= self._read_records(place, offset, last_offset + last_size, entries, at, until, left)
            except DamagedRecord as damaged:
                if not self._skipping.is_wanted:
                    raise
                self._skipped.append(damaged)
                self._next = damaged.entry + 1
                left = self._limit_bytes - sum(message.size for message in self._messages)
            except OSError:
                if until == at + 1:
                    raise
                together = 1  # so that readable records before the unreadable place are delivered
            at = self._next - self._first

    def _limit(self, place: int, offset: int) -> int:
        """Return the end of the contiguous records from ``offset`` on; NOT_THERE if it is gone."""
        path = self._map.paths[place]
        try:
            runs = self._open_files.runs(path, self._map.editions[place])
        except FileNotFoundError:
            if path not in self._open_files.dropped:
                raise
            return NOT_THERE  # dropped by retention meanwhile
        return self._map.limits[place] if runs is None else runs.end_of(offset)

    def _position(self, place: int, offset: int) -> int:
        """Return the position of the record at log offset ``offset`` in its file."""
        runs = self._open_files.runs(self._map.paths[place], self._map.editions[place])
        if runs is None:
            return layout.SEGMENT_HEADER_BYTES + offset - self._map.bases[place]
        return runs.position(offset)

    def _read_records(
        self, place: int, offset: int, end: int, entries: list[tuple[int, int]], at: int, until: int, left: int
    ) -> int:
        """Read the records of entries ``at`` to ``until`` in one call; return the octets of their messages."""
        position = self._position(place, offset)
        path = self._map.paths[place]
        if end > self._map.limits[place]:
            what = "by its entry it reaches past the end of its segment"
            raise DamagedRecord(self._next, path, position, offset, end - offset, what)
        self._file = self._open_files.get(path, self._map.editions[place])
        self._read_at = position
        octets = read_fully(self._file, end - offset, position)
        view = memoryview(octets)
        messages = self._messages
        taken = 0
        for number, (entry_offset, size) in enumerate(entries[at:until], at):
            start = entry_offset - offset
            try:
                message = self._message(octets, view, start, size, entry_offset, number)
            except StoreCorrupt as flaw:
                self._next = self._first + number
                raise DamagedRecord(self._next, path, position + start, entry_offset, size, str(flaw)) from None
            messages.append(message)
            taken += message.size
            if taken >= left:
                break
        self._next = self._first + number + 1
        return taken

    def _message(self, octets: bytes, view: memoryview, start: int, size: int, offset: int, number: int) -> Message:
        """Return the message of entry ``number``, whose record begins at ``start``.

        offset: of the record in the log.  Raises: StoreCorrupt with the flaw of the record.
        """
        queue_offset = self._first + number
        try:
            encoding, flags, time_ms, tag_hash, group_hash, expires_ms, annotations, headers, body = READ_MESSAGE(
                octets, start, size, self._destination_id, self._priority, offset, queue_offset, PIECE_BYTES
            )
        except ValueError as flaw:
            raise StoreCorrupt(str(flaw)) from None
        if body is None:
            at_body = start + MESSAGE_HEAD_BYTES + len(annotations) + len(headers)
            body = self._large_body(view[at_body : start + size], at_body)
        message = Message(
            self._destination_id,
            encoding,
            flags & MESSAGE_FLAGS,
            self._priority,
            tag_hash,
            group_hash,
            expires_ms,
            annotations,
            headers,
            body,
        )
        message.log_offset = offset
        message.queue_offset = queue_offset
        message.store_time_ms = time_ms
        return message

    def _large_body(self, body: memoryview, at_body: int) -> bytes:
        """Read a large body once more: its copy would hold up all other threads, and a read does not.

        Raises: StoreCorrupt, OSError.
        """
        assert self._file is not None, "its record has just been read"
        octets = read_fully(self._file, len(body), self._read_at + at_body)
        if crc32c(octets) != crc32c(body):
            raise StoreCorrupt("a second read of it gave other octets")
        return octets


def run_end(entries: list[tuple[int, int]], at: int, count: int, limit: int, left: int) -> int:
    """Return the end, at most ``count``, of the run of entries from ``at`` on whose records are read in one call."""
    offset, wanted = entries[at]
    end = offset + wanted
    until = at + 1
    while until < count and wanted < left:
        next_offset, next_size = entries[until]
        next_end = next_offset + next_size
        if next_end > limit or next_end - offset > READ_BYTES or not end <= next_offset <= end + GAP_BYTES:
            break
        end = next_end
        wanted += next_size
        until += 1
    return until


def dense_end(entries: list[tuple[int, int]], at: int, limit: int, left: int) -> int:
    """Return the same without examining each entry, or 0 if that is not possible.  entries: ascending.

    It is possible if all gaps together are no larger than one may be, and all records together fit ``left``.
    """
    offset = entries[at][0]
    most = min(offset + READ_BYTES, limit)
    if most <= offset:  # a damaged entry
        return 0
    until = bisect_right(entries, (most, 0), at)
    if until > at and sum(entries[until - 1]) > most:  # only a part of it would be included
        until -= 1
    if until <= at:
        return 0
    last_offset, last_size = entries[until - 1]
    wanted = sum([size for _, size in entries[at:until]])
    gaps = last_offset + last_size - offset - wanted
    return until if 0 <= gaps <= GAP_BYTES and wanted <= left else 0
