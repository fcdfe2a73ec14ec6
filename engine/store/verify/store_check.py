"""Verifies a stopped store: every file, record, reference and entry is checked, and nothing is changed.

It does not repeat recovery.  Recovery trusts a snapshot and continues from the last one; this reads the whole log and
compares each snapshot, each consume-queue entry and each sum with the records before it.

Of a store that a gateway has open it checks a copy at one durable offset, and then removes the copy: a backup inside
the store's directory.  What never changes again is linked, so it costs little more than the segment in use.
"""

from __future__ import annotations

import os
import struct
from itertools import pairwise
from pathlib import Path

from engine.store.disk.files import Files, RealFiles, read_file
from engine.store.disk.modes import DIRECTORY_MODE
from engine.store.format import layout
from engine.store.format.file_heads import Checkpoint, unpack_checkpoint
from engine.store.format.record import Record
from engine.store.format.record_cursor import ANY_SEQUENCE, RecordCursor
from engine.store.index.index_file import INDEX_DIRECTORY, list_index
from engine.store.log.checkpoint import FILE_NAME as CHECKPOINT_FILE
from engine.store.log.segment import SUFFIX, Segment, is_left_over, load_segment, records_limit
from engine.store.log.segment_octets import SegmentOctets, open_octets
from engine.store.log.store_directory import LOG_DIRECTORY, QUEUE_DIRECTORY, read_store_id
from engine.store.read.backup import copy_store
from engine.store.read.reader import StoreReader
from engine.store.verify.copies import place_for_copy, remove_abandoned
from engine.store.verify.findings import Broken, Finding, TooMany, Verification
from engine.store.verify.index_check import IndexCheck
from engine.store.verify.queue_check import QueueCheck
from engine.store.verify.state_check import StateCheck
from engine.values.errors import StoreCorrupt, StoreError
from engine.values.message import IN_TRANSACTION
from engine.values.message_keys import Keys


def verify(files: Files, directory: str, keys: Keys | None = None) -> Verification:
    """Check everything in a store that no gateway has open.

    keys: reads the keys of messages, for the key index; with None only its files are checked.
    """
    return _Verifier(files, directory, keys).run()


class _Verifier:
    """One verification of a store: the heads of its files, then the log."""

    def __init__(self, files: Files, directory: str, keys: Keys | None) -> None:
        self._files = files
        self._directory = directory
        self._keys = keys
        self._found = Verification()
        self._checkpoint: Checkpoint | None = None

    def run(self) -> Verification:
        found = self._found
        try:
            store_id = read_store_id(self._files, self._directory)
            self._read_checkpoint()
            segments = self._load_segments(store_id)
            durable = 0 if self._checkpoint is None else self._checkpoint.durable_offset
            if segments:
                index = IndexCheck(self._files, self._directory, store_id, self._keys, found.note)
                _Walk(self._files, self._directory, self._checkpoint, index, found).run(segments)
            elif durable:
                found.note(self._directory, -1, f"no segment is there, but the log was durable up to {durable}")
        except (StoreCorrupt, OSError) as error:
            found.findings.append(Finding(self._directory, -1, str(error)))
        except TooMany:
            pass
        return found

    # Heads of files.

    def _read_checkpoint(self) -> None:
        path = f"{self._directory}/{CHECKPOINT_FILE}"
        if not self._files.exists(path):
            self._found.note(path, -1, "the checkpoint is missing")
            return
        octets = read_file(self._files, path, 2 * layout.CHECKPOINT_SLOT_BYTES)
        self._checkpoint = unpack_checkpoint(octets, path)
        if self._checkpoint is None:
            self._found.note(path, 0, "no slot of the checkpoint is whole")

    def _load_segments(self, store_id: str) -> list[Segment]:
        segments: list[Segment] = []
        directory = f"{self._directory}/{LOG_DIRECTORY}"
        for name in self._files.list_directory(directory):
            if not name.endswith(SUFFIX):
                continue
            try:
                segment, owner = load_segment(self._files, directory, name)
            except StoreCorrupt as error:
                self._found.note(f"{directory}/{name}", -1, str(error))
                continue
            if owner != store_id:
                self._found.note(segment.path(), 40, f"of store {owner}, this store is {store_id}")
            if not segments or not is_left_over(segments[-1], segment):
                segments.append(segment)
        checkpoint = self._checkpoint
        if checkpoint is not None and segments:
            path = f"{self._directory}/{CHECKPOINT_FILE}"
            # After a power cut the checkpoint may be older than the log, and so refer to segments that are gone.
            bases = [segment.base for segment in segments]
            first, complete = checkpoint.first_offset, checkpoint.consume_queue_offset
            if first > bases[0] and first not in bases:
                self._found.note(path, 56, f"first offset {first} is no segment's base")
            inside = any(each.is_sparse and each.base < complete < each.limit() for each in segments)
            if complete > bases[0] and complete not in bases and not inside:
                self._found.note(path, 48, f"consume-queue offset {complete} is no segment's base")
        self._found.segment_count = len(segments)
        # Retention was interrupted: segments below the checkpoint's first offset no longer count.
        first = checkpoint.first_offset if checkpoint is not None else 0
        kept = [segment for segment in segments if segment.base >= first]
        for before, after in pairwise(kept):
            if after.base != before.limit() and not (after.is_continuation and after.base < before.limit()):
                text = f"log offset {before.limit()} should follow, the next segment begins at {after.base}"
                self._found.note(before.path(), -1, text)
        # A power cut took the checkpoint back: the segment before this continuation is gone.
        while kept and kept[0].is_continuation:
            del kept[0]
        return kept


class _Walk:
    """Reads from the first record to the last.  _octets: of the current segment."""

    def __init__(
        self, files: Files, directory: str, checkpoint: Checkpoint | None, index: IndexCheck, found: Verification
    ) -> None:
        self._files = files
        self._directory = directory
        self._checkpoint = checkpoint
        self._durable = 0 if checkpoint is None else checkpoint.durable_offset
        self._index = index
        self._queues = QueueCheck(files, f"{directory}/{QUEUE_DIRECTORY}", found.note)
        self._log = StateCheck(directory, index, found.note)
        self._found = found
        self._pending: list[Record] = []
        self._sequence = 0  # of the next record, 0 before the first
        self._time_ms = 0
        self._octets: SegmentOctets | None = None

    def run(self, segments: list[Segment]) -> None:
        """Raises: TooMany, StoreCorrupt, OSError."""
        found = self._found
        self._index.first = segments[0].base
        try:
            self._walk_all(segments)
            self._index.ended(found.end_offset)
            self._check_end()
            self._queues.files_out_of_place(self._log.state.next_destination)
            self._log.check_sums()
        finally:
            found.message_count = self._log.message_count
            found.entry_count = self._queues.entry_count
            found.index_entry_count = self._index.entry_count

    def _walk_all(self, segments: list[Segment]) -> None:
        for place, segment in enumerate(segments):
            try:
                self._walk(segment, records_limit(segments, place))
            except Broken as broken:
                if self._checkpoint is not None and broken.offset >= self._durable and not segment.is_sparse:
                    self._found.is_torn = True
                    return
                octets = self._octets
                position = segment.position(broken.offset) if octets is None else octets.position(broken.offset)
                self._found.note(segment.path(), position, str(broken))
                raise TooMany from None  # nothing after this record can be checked
            if place + 1 < len(segments):
                self._index.passed(segments[place + 1].base)
            self._check_entries(segments[place + 1].base if place + 1 < len(segments) else None)

    def _walk(self, segment: Segment, upper: int) -> None:
        octets = self._octets = open_octets(self._files, segment)
        try:
            self._go_through(octets, segment, upper)
        finally:
            octets.file.close()

    def _go_through(self, octets: SegmentOctets, segment: Segment, upper: int) -> None:
        runs = octets.runs
        self._log.is_sparse = self._index.has_gaps = runs is not None
        self._log.has_gaps |= runs is not None
        before = self._log.message_count
        found = self._found
        cursor = RecordCursor(octets, segment.base, upper, upper)
        cursor.expected = self._sequence or ANY_SEQUENCE
        is_first = not segment.is_continuation
        while cursor.advance():
            if is_first and (cursor.offset != segment.base or cursor.type != layout.SNAPSHOT):
                raise Broken(segment.base, "the segment does not begin with a snapshot")
            is_first = False
            if cursor.time_ms < self._time_ms:
                reason = f"a record of store time {cursor.time_ms}, the one before it is of {self._time_ms}"
                raise Broken(cursor.offset, reason)
            self._time_ms = cursor.time_ms
            self._sequence = cursor.expected = cursor.sequence + 1
            found.record_count += 1
            self._take(cursor.record())
            if not self._pending:
                found.end_offset = cursor.end
        if cursor.flaw:
            raise Broken(cursor.offset, cursor.flaw)
        if self._pending:
            raise Broken(self._pending[0].offset, "a transaction lacks its commit record")
        if runs is None:
            return
        if is_first:
            raise Broken(segment.base, "the segment does not begin with a snapshot")
        if self._log.message_count - before != runs.message_count:
            raise Broken(segment.base, f"its head says that it holds {runs.message_count} messages")
        found.end_offset = upper
        self._sequence = segment.next_sequence

    def _take(self, record: Record) -> None:
        """Apply a record, or keep it until its transaction is committed."""
        if record.flags & IN_TRANSACTION:
            self._pending.append(record)
            return
        pending, self._pending = self._pending, []
        if record.type == layout.COMMIT:
            try:
                first, count = record.commit()
            except ValueError as error:
                raise Broken(record.offset, str(error)) from None
            if record.is_followed and (count != len(pending) or first != record.sequence - count):
                raise Broken(record.offset, f"a transaction of {len(pending)} records, its commit record says {count}")
        elif pending:
            raise Broken(pending[0].offset, "a transaction lacks its commit record")
        for each in (*pending, record):
            try:
                self._log.apply(each)
            except (KeyError, TypeError, ValueError, AssertionError, struct.error) as error:
                raise Broken(each.offset, f"a record of type {each.type} that cannot exist: {error!r}") from None

    def _check_entries(self, next_base: int | None) -> None:
        """Compare the entries of the last segment's records with the files, as far as these must be complete."""
        blocks = self._log.state.close_entries()
        for lane in self._log.state.all_lanes():
            lane.closing.clear()
        complete = self._checkpoint.consume_queue_offset if self._checkpoint is not None else 0
        if next_base is None or next_base > complete:
            return
        for block in blocks:
            # A sparse segment lacks some of the records that the system queue lists.
            if not self._log.is_sparse or block.destination_id != layout.SYSTEM_QUEUE:
                self._queues.block(block, self._log.is_sparse)

    def _check_end(self) -> None:
        checkpoint = self._checkpoint
        if checkpoint is None:
            return
        path = f"{self._directory}/{CHECKPOINT_FILE}"
        end = self._found.end_offset
        if end < checkpoint.durable_offset:
            self._found.note(path, 24, f"durable up to {checkpoint.durable_offset}, the records end at {end}")
        elif checkpoint.is_clean and (end > checkpoint.durable_offset or self._found.is_torn):
            self._found.note(path, 24, f"a clean stop at {checkpoint.durable_offset}, but records follow up to {end}")
        elif (
            end == checkpoint.durable_offset and not self._found.is_torn and self._sequence != checkpoint.next_sequence
        ):
            self._found.note(
                path, 40, f"next sequence {checkpoint.next_sequence}, the log goes on with {self._sequence}"
            )


def verify_open(directory: Path, keys: Keys | None) -> Verification:
    """Raises: StoreError; OSError if the copy cannot be made."""
    remove_abandoned(directory)
    try:
        with place_for_copy(directory) as copy:
            made = copy_store(directory, copy)
            _link_index(directory, copy, made.until_offset)
            result = verify(RealFiles(), str(copy), keys)
            result.findings = [_in_the_original(each, str(copy), str(directory)) for each in result.findings]
            return result
    except OSError as error:
        raise StoreError(f"no copy of {directory} can be made for verification: {error}") from error


def _in_the_original(finding: Finding, copy: str, directory: str) -> Finding:
    """Return a finding with the names of the original files, which are the same as in the copy."""
    return Finding(finding.path.replace(copy, directory), finding.position, finding.text.replace(copy, directory))


def _link_index(directory: Path, copy: Path, end: int) -> None:
    (copy / INDEX_DIRECTORY).mkdir(DIRECTORY_MODE)
    for file in list_index(directory, StoreReader(directory).store_id, False, end):
        if file.header.is_sealed and file.header.end <= end:
            try:
                os.link(file.path, copy / INDEX_DIRECTORY / file.path.name)
            except FileNotFoundError:  # dropped by retention meanwhile
                continue
