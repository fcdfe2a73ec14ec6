"""Read-only view of a store's directory, even while a gateway writes to it; it takes no lock and changes nothing.

A reader stops at the offset that the gateway last published in the checkpoint: everything below survives a power cut.
A crashed store that no gateway has open ends at its last whole record, where the next start will cut it.  So an export
of a crashed store misses nothing that a later gateway would deliver.

Spark workers load this module, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.store.disk.directory_lock import is_held
from engine.store.format import layout
from engine.store.format.file_heads import Checkpoint, is_known_version, other_version
from engine.store.format.record import Record
from engine.store.format.record_cursor import NO_CHECKSUMS, ONE_RECORD_BYTES, PIECE_BYTES, RecordCursor
from engine.store.read.entry_files import are_complete
from engine.store.read.segment_files import SegmentFile, list_segments, open_segment, read_checkpoint
from engine.store.read.store_files import RemotePath, octets_of
from engine.values.errors import NoStore, RangeGone, StoreCorrupt
from engine.values.message import IN_TRANSACTION


@dataclass(frozen=True, slots=True)
class DestinationInfo:
    """``kind`` is engine.destination.QUEUE or TOPIC."""

    destination_id: int
    kind: int
    name: str


@dataclass(frozen=True, slots=True)
class End:
    """Where a reader stops.  ``is_published``: at the checkpoint, else at the last whole record of a crashed store."""

    offset: int
    time_ms: int
    is_published: bool


class StoreReader:
    """The store in ``directory`` at the time of creation; ``end`` is how far it may be read.

    Raises: NoStore, StoreCorrupt for an unknown version or file.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = directory if isinstance(directory, Path) else Path(directory)
        self.store_id = store_id_of(self.directory)
        self.checkpoint: Checkpoint | None
        self.segments: list[SegmentFile]
        self._end: End | None = None
        self._entries_offset: int | None
        self._load()

    def _load(self) -> None:
        # The segments after the checkpoint, so that every offset below the durable one has its file in the list;
        # repeated if retention has dropped segments in between.
        self._entries_offset = None
        while True:
            self.checkpoint = read_checkpoint(self.directory / "checkpoint")
            self.segments = list_segments(self.directory / "commitlog", self.store_id)
            if self.checkpoint is None or not self.segments or self.segments[0].base <= self.checkpoint.first_offset:
                return
            again = read_checkpoint(self.directory / "checkpoint")
            if again == self.checkpoint:
                return

    @property
    def first_offset(self) -> int:
        """The oldest offset that can be read."""
        kept = self.segments[0].base if self.segments else 0
        return max(kept, self.checkpoint.first_offset) if self.checkpoint is not None else kept

    @property
    def oldest_offset(self) -> int:
        """The oldest offset that retention has left: ``first_offset`` unless files are missing."""
        return self.checkpoint.first_offset if self.checkpoint is not None else self.first_offset

    @property
    def entries_offset(self) -> int:
        """The offset below which consume queues are complete; above it the log itself must be scanned."""
        if self._entries_offset is None:
            self._entries_offset = self._find_entries_offset()
        return self._entries_offset

    def _find_entries_offset(self) -> int:
        if self.checkpoint is None:
            return self.first_offset
        complete = self.checkpoint.consume_queue_offset
        if self._is_held():
            return complete  # the gateway has checked that at its start
        snapshot = self.snapshot_below(complete)
        return complete if snapshot is None or are_complete(self.directory, snapshot) else self.first_offset

    def _is_held(self) -> bool:
        """Return whether a gateway has the store open."""
        if isinstance(self.directory, RemotePath):
            return self.directory.files.is_live
        return is_held(self.directory / "lock")

    def distrust_entries(self) -> None:
        """Have the log itself scanned: consume queues are damaged."""
        self._entries_offset = self.first_offset

    def snapshot_below(self, stop: int) -> dict[str, Any] | None:
        """Return the last snapshot at or below a log offset, None if none can be read."""
        for segment in reversed(self.segments):
            if segment.is_continuation or not self.first_offset <= segment.base <= min(stop, segment.limit - 1):
                continue
            try:
                record = first_record(segment, segment.limit, verify=True)
            except StoreCorrupt:
                continue  # a reader of the log itself reports it
            if record is not None and record.type == layout.SNAPSHOT:
                snapshot: dict[str, Any] = record.described()
                return snapshot
        return None

    def end(self) -> End:
        """Return where to stop; the first answer is kept, so that one reader is one consistent view."""
        if self._end is None:
            self._end = self._find_end()
        return self._end

    def _find_end(self) -> End:
        while True:
            checkpoint = self.checkpoint
            if checkpoint is not None and (checkpoint.is_clean or self._is_held()):
                return End(checkpoint.durable_offset, checkpoint.durable_time_ms, True)
            if checkpoint is None and self._is_held():
                # A gateway that has just created the store has published nothing yet, so nothing is durable.
                return End(self.first_offset, 0, True)
            end = self._last_whole_record()
            # If a gateway has started meanwhile, its published offset counts.
            if read_checkpoint(self.directory / "checkpoint") == checkpoint and not self._is_held():
                return end
            self._load()

    def _last_whole_record(self) -> End:
        checkpoint = self.checkpoint
        start = checkpoint.durable_offset if checkpoint is not None else self.first_offset
        end, time_ms = start, checkpoint.durable_time_ms if checkpoint is not None else 0
        sequence = checkpoint.next_sequence if checkpoint is not None else 0
        is_open = False
        for record in self._scan(start, None, sequence=sequence, verify=True, is_tail=True):
            if record.flags & IN_TRANSACTION:
                is_open = True
                continue
            if is_open and record.type != layout.COMMIT:
                break  # a transaction followed by other records was never committed
            is_open = False
            end, time_ms = record.end(), record.store_time_ms
        if end > start and not isinstance(self.directory, RemotePath):
            self._make_durable(start, end)
        return End(end, time_ms, False)

    def _make_durable(self, start: int, stop: int) -> None:
        """Sync what a killed gateway wrote but did not sync: an export must not hold what a power cut may undo."""
        for segment in self.segments:
            if segment.limit > start and segment.base < stop:
                descriptor = os.open(segment.path, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def check_range(self, start: int, stop: int, may_miss: bool = False) -> None:
        """Make sure that every file of the log from ``start`` to ``stop`` exists, however it will be read.

        may_miss: the caller can do without missing files, see ``missing``.
        Raises: RangeGone if retention has dropped any of it, StoreCorrupt if a file is missing, ValueError for a range
        past the end.
        """
        end = self.end().offset
        if start < self.oldest_offset:
            gone_to = min(stop, self.oldest_offset)
            raise RangeGone(
                f"log offsets {start} to {gone_to} of store {self.store_id} are gone: "
                f"retention has dropped them, {self.oldest_offset} to {end} are left"
            )
        if stop > end:
            raise ValueError(f"log offset {stop} is not in store {self.store_id} yet: it can be read up to {end}")
        if start > stop:
            raise ValueError(f"the range ends before it starts: {start} to {stop}")
        for first, end in () if may_miss else self.missing(start, stop):
            raise StoreCorrupt(
                f"log offsets {first} to {end} of store {self.store_id} do not exist: the file of that segment is "
                f"missing"
            )

    def missing(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the ranges between ``start`` and ``stop`` without a file, though retention has not dropped them."""
        found: list[tuple[int, int]] = []
        known = self.oldest_offset
        for segment in self.segments:
            if known < segment.base:
                found.append((known, segment.base))
            known = max(known, segment.span_end)
        found.append((known, max(known, stop)))
        cut = [(max(first, start), min(end, stop)) for first, end in found]
        return [(first, end) for first, end in cut if first < end]

    def scan(self, start: int, stop: int, *, verify: bool = True, is_exact: bool = False) -> Iterator[Record]:
        """Yield every record from ``start`` to ``stop``; offsets and sequence are always checked, checksums on request.

        start: any offset; a record that begins before it is left out.  is_exact: a record begins exactly there.
        Raises: RangeGone, StoreCorrupt with the position.
        """
        self.check_range(start, stop)
        if start == stop:
            return iter(())
        return self._scan(start, stop, sequence=0, verify=verify, is_tail=False, is_exact=is_exact)

    def _scan(
        self, start: int, stop: int | None, *, sequence: int, verify: bool, is_tail: bool, is_exact: bool = False
    ) -> Iterator[Record]:
        """Walk the log.  A tail ends at the first octets that are not a whole record; elsewhere that is corruption."""
        # Only a segment's base and a published offset are known to begin a record.
        offset = start if is_tail or is_exact or not self.segments else self._segment_at(start).base
        for number, segment in enumerate(self.segments):
            if segment.limit <= offset or (stop is not None and segment.base >= stop):
                continue
            if is_tail and number and segment.base > offset and self.segments[number - 1].span_end < segment.base:
                return
            offset = max(offset, segment.base)
            limit = segment.limit if stop is None else min(segment.limit, stop)
            piece_bytes = min(PIECE_BYTES, max(limit - offset, ONE_RECORD_BYTES))
            for record in _scan_segment(segment, offset, limit, start, verify, is_tail, piece_bytes):
                if sequence and record.is_followed and record.sequence != sequence:
                    if is_tail:
                        return
                    raise StoreCorrupt(
                        f"{segment.path.name}: record at log offset {record.offset} has sequence number "
                        f"{record.sequence} where {sequence} follows"
                    )
                sequence = record.sequence + 1 if record.is_followed else 0
                if record.offset >= start:
                    yield record
            offset = segment.limit
        checkpoint = self.checkpoint
        # Zeros in the middle of a segment look like its end; the count of records detects them.
        if sequence and checkpoint is not None and stop == checkpoint.durable_offset:
            if sequence == checkpoint.next_sequence:
                return
            raise StoreCorrupt(
                f"the log up to {stop} ends with sequence number {sequence - 1}, "
                f"the checkpoint says {checkpoint.next_sequence - 1}"
            )

    def offset_at(self, time_ms: int, low: int = 0, high: int | None = None) -> int:
        """Return the offset of the first record of a store time or later, the end if there is none.

        low, high: of a record before that time, and of one since, if the caller knows them.
        """
        end = self.end().offset if high is None else min(high, self.end().offset)
        start = max(self.oldest_offset, self.first_offset, low)
        for segment in self.segments:
            limit = min(segment.limit, end)
            if segment.base < start or segment.base >= limit:
                continue
            first = first_record(segment, limit)
            if first is not None and first.store_time_ms >= time_ms:
                break
            start = segment.base
        if start >= end:
            return end
        records = self.scan(start, end, verify=False, is_exact=start == low)
        later = (record.offset for record in records if record.store_time_ms >= time_ms)
        return next(later, end)

    def _segment_at(self, offset: int) -> SegmentFile:
        """Return the segment that holds ``offset``, the last one for offsets past the end."""
        found = self.segments[0]
        for segment in self.segments:
            if segment.base <= offset:
                found = segment
        return found


def scan_piece(segment: SegmentFile, start: int, stop: int, *, verify: bool = False) -> Iterator[Record]:
    """Yield the records of one segment from ``start``, which begins one, to ``stop``; checksums on request.

    Raises: RangeGone if the file is gone, StoreCorrupt.
    """
    return _scan_segment(segment, start, stop, start, verify, False)


def first_record(segment: SegmentFile, stop: int, *, verify: bool = False) -> Record | None:
    """Return the first record of a segment below ``stop``, without reading more of it; its checksum on request.

    Raises: RangeGone if the file is gone, StoreCorrupt.
    """
    return next(_scan_segment(segment, segment.base, stop, segment.base, verify, False, ONE_RECORD_BYTES), None)


def _scan_segment(
    segment: SegmentFile,
    start: int,
    limit: int,
    wanted: int,
    verify: bool,
    is_tail: bool,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[Record]:
    """Yield the records of one file from ``start`` up to ``limit``; those of a sparse one were never torn.

    start: beginning of a record, or a place where records were removed.
    """
    file = open_segment(segment)
    try:
        verify_from = wanted if verify else NO_CHECKSUMS
        cursor = RecordCursor(file, start, limit, segment.limit, piece_bytes, verify_from)
        while cursor.advance():
            yield cursor.record()
        if cursor.flaw and not (is_tail and file.runs is None):
            raise StoreCorrupt(f"{segment.path.name}, log offset {cursor.offset}: {cursor.flaw}")
    finally:
        file.close()


def store_id_of(directory: Path) -> str:
    """Raises: NoStore, StoreCorrupt."""
    try:
        described = json.loads(octets_of(directory / "store.json"))
        version, store_id = described["format"], str(described["store_id"])
    except FileNotFoundError:
        raise NoStore(f"{directory} is not a store: it has no store.json") from None
    except (ValueError, KeyError, TypeError) as error:
        raise StoreCorrupt(f"{directory / 'store.json'}: {error!r}") from None
    if not is_known_version(version):
        raise other_version(str(directory / "store.json"), -1, version)
    return store_id
