"""Replays the records of the log after a stop, and so restores state and consume-queue entries.

Octets that are not whole records at or above the published durable offset were never confirmed: the log ends there.
Below that offset they are corruption, which is an error unless the operator allows skipping.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.store.disk.files import Files
from engine.store.format import layout
from engine.store.format.file_heads import Checkpoint
from engine.store.format.record import Record
from engine.store.format.record_cursor import RecordCursor, find_whole, record_at
from engine.store.log.segment import Segment, records_limit
from engine.store.log.segment_octets import SegmentOctets, open_octets
from engine.store.log.store_directory import LogRange, RecoveryReport
from engine.store.recover.rebuilt_state import InvalidRecord, RebuiltState
from engine.values.errors import StoreCorrupt
from engine.values.message import IN_TRANSACTION

HEADER_BYTES: Final = layout.SEGMENT_HEADER_BYTES
MESSAGE: Final = layout.MESSAGE
MESSAGE_HEAD_BYTES: Final = layout.MESSAGE_HEAD_BYTES
LANE_SHIFT: Final = layout.LANE_SHIFT
UNPACK_FIXED: Final = layout.MESSAGE_FIXED.unpack_from


@dataclass(slots=True, eq=False)
class RollForward:
    """Replays from a snapshot to the last whole record.

    rebuilt, sequence, time_ms, end: the log just past what was replayed; ``last_place``: the segment in
    which it ends.
    """

    _files: Files
    _segments: list[Segment]
    _checkpoint: Checkpoint | None
    _is_skipping: bool
    _report: RecoveryReport
    rebuilt: RebuiltState
    sequence: int
    time_ms: int = 0
    end: int = 0
    last_place: int = 0
    _durable: int = field(init=False)
    _is_durable_known: bool = field(init=False)
    _pending: list[Record] = field(default_factory=list)  # records of a transaction without its commit record so far
    _octets: SegmentOctets | None = None  # of the current segment
    _is_sequence_open: bool = field(init=False)  # the next record may have any higher sequence
    _split: tuple[int, int] | None = None  # content of the commit record in the next segment

    def __post_init__(self) -> None:
        self._durable = self._checkpoint.durable_offset if self._checkpoint is not None else 0
        self._is_durable_known = self._checkpoint is not None
        self._is_sequence_open = self.rebuilt.has_skipped

    def run(self, start: int) -> None:
        """Replay everything from the segment at ``start`` on, which opens with the snapshot of the state."""
        last = len(self._segments) - 1
        for place in range(start, len(self._segments)):
            segment = self._segments[place]
            self.last_place = place
            octets = self._octets = open_octets(self._files, segment)
            try:
                invalid = self._replay_segment(octets, place, place == start, place == last)
            finally:
                octets.file.close()
            if invalid is not None:
                self.end = invalid.offset
                self._report.cut = LogRange(
                    invalid.offset,
                    self._segments[last].limit(),
                    segment.path(),
                    HEADER_BYTES + invalid.offset - segment.base,
                    invalid.reason,
                )
                return
        if self.end < self._durable:
            segment = self._segments[last]
            reason = f"the log ends here, but was durable up to log offset {self._durable}"
            if not self._is_skipping:
                raise self._corrupt(segment, InvalidRecord(self.end, reason))
            self._skip(segment, self.end, self._durable, reason)

    def _replay_segment(self, octets: SegmentOctets, place: int, is_first: bool, is_last: bool) -> InvalidRecord | None:
        """Replay one segment; return where the log has to be cut, None if it continues."""
        segment = self._segments[place]
        upper = records_limit(self._segments, place)
        offset = self.end = segment.base
        while True:
            try:
                self._walk(octets, segment, offset, upper, is_first)
                is_sparse = octets.runs is not None
                if self._pending and self._is_skipping and not (is_last or is_sparse) and self._is_split(place + 1):
                    pending, self._pending = self._pending, []
                    self.rebuilt.apply_transaction(pending)
                if self._pending:
                    raise InvalidRecord(self._pending[0].offset, "a transaction lacks its commit record", is_sparse)
                if is_sparse:
                    self._is_sequence_open = False
                    self.sequence = segment.next_sequence
                    self.end = upper
                    return None
                if self.end < self._durable <= upper:
                    raise InvalidRecord(self.end, f"no record, but the log was durable up to {self._durable}")
                if is_last and not self._is_durable_known and find_whole(octets, self.end, upper, upper) < upper:
                    raise InvalidRecord(self.end, "there is no record here, though whole ones follow")
                return None
            except InvalidRecord as invalid:
                if self._pending:
                    # Uncommitted records are cut together with the records that should have followed them.
                    invalid.offset = self._pending[0].offset
                    self.sequence -= len(self._pending)
                    self._pending.clear()
                if not invalid.is_whole and self._may_cut(octets, place, upper, invalid.offset):
                    return invalid
                if not self._is_skipping:
                    raise self._corrupt(segment, invalid) from None
                self.end = invalid.offset
                offset = find_whole(octets, invalid.offset + layout.ALIGNMENT, upper, upper)
                self._skip(segment, invalid.offset, offset, invalid.reason)
                if offset == upper:
                    return invalid if is_last else None

    def _is_split(self, place: int) -> bool:
        """Say whether the segment at ``place`` begins with the commit record of the pending transaction.

        Earlier versions reserved too little for some transactions.  The new segment's snapshot then came between a
        transaction and its commit record, and includes both.
        """
        segment = self._segments[place]
        upper = records_limit(self._segments, place)
        octets = open_octets(self._files, segment)
        try:
            if octets.runs is not None:
                return False
            snapshot = record_at(octets, segment.base, upper)
            record = None if snapshot is None else record_at(octets, snapshot.end(), upper)
        finally:
            octets.file.close()
        if record is None or record.type != layout.COMMIT:
            return False
        first, count = record.commit()
        if (first, count) != (self.sequence - len(self._pending), len(self._pending)):
            return False
        self._split = (first, count)
        return True

    def _may_cut(self, octets: SegmentOctets, place: int, upper: int, offset: int) -> bool:
        """Return whether nothing that was ever confirmed is at ``offset`` or above."""
        if self._segments[place].is_sparse:
            return False  # it was whole on the disk before its rename
        if self._is_durable_known:
            return offset >= self._durable
        # The durable offset is unknown: only octets that are followed by no whole record count as a torn tail.
        if find_whole(octets, offset + layout.ALIGNMENT, upper, upper) < upper:
            return False
        return not any(segment.opens_with_snapshot() for segment in self._segments[place + 1 :])

    def _skip(self, segment: Segment, offset: int, end: int, reason: str) -> None:
        self._report.skipped.append(LogRange(offset, end, segment.path(), self._position(segment, offset), reason))
        self.rebuilt.has_skipped = True
        self._is_sequence_open = True

    def _position(self, segment: Segment, offset: int) -> int:
        """Return where a log offset is in the current file."""
        return segment.position(offset) if self._octets is None else self._octets.position(offset)

    def _corrupt(self, segment: Segment, invalid: InvalidRecord) -> StoreCorrupt:
        position = self._position(segment, invalid.offset)
        return StoreCorrupt(f"{segment.path()}, position {position}, log offset {invalid.offset}: {invalid.reason}")

    def _walk(self, octets: SegmentOctets, segment: Segment, offset: int, upper: int, is_first: bool) -> None:
        """Replay records from ``offset`` on up to the free room or the segment's end, and set ``end``.

        Records of a sparse segment, and those behind it, may name messages that are gone; the next snapshot then gives
        the correct state.
        """
        is_sparse = octets.runs is not None
        rebuilt = self.rebuilt
        rebuilt.has_gaps |= is_sparse
        cursor = RecordCursor(octets, offset, upper, upper)
        cursor.expected = self.sequence
        cursor.is_open = self._is_sequence_open
        lanes = rebuilt.state.lanes
        count = 0
        while cursor.advance():
            record_type = cursor.type
            offset = cursor.offset
            if offset == segment.base and record_type != layout.SNAPSHOT and not segment.is_continuation:
                raise InvalidRecord(offset, "the segment does not begin with a snapshot", True)
            if cursor.flags & IN_TRANSACTION:
                self._pending.append(cursor.head())
            elif record_type == MESSAGE and not self._pending:
                _, _, _, priority, _, _, tag_hash, group_hash, expires_ms, queue_offset = UNPACK_FIXED(
                    cursor.piece.octets, cursor.at + layout.RECORD_HEADER_BYTES
                )
                lane = lanes.get((cursor.destination_id << LANE_SHIFT) | priority)
                if lane is None or lane.tail != queue_offset:
                    lane = rebuilt.lane_at(offset, cursor.destination_id, priority, queue_offset)
                size = cursor.size
                lane.add(offset, size, cursor.flags, MESSAGE, tag_hash, group_hash, expires_ms, cursor.time_ms)
                lane.live_bytes += size - MESSAGE_HEAD_BYTES
            else:
                record = cursor.record()
                if record_type == layout.COMMIT:
                    self._apply_transaction(segment, record)
                elif self._pending:
                    raise InvalidRecord(self._pending[0].offset, "a transaction lacks its commit record", True)
                elif record_type == layout.SNAPSHOT:
                    rebuilt.meet_snapshot(record, is_first)
                rebuilt.apply(record)
                lanes = rebuilt.state.lanes
            self._is_sequence_open = False
            self.sequence = cursor.sequence + 1
            self.time_ms = cursor.time_ms
            self.end = cursor.end
            count += 1
        self._report.replayed_records += count
        if cursor.flaw:
            raise InvalidRecord(cursor.offset, cursor.flaw, cursor.is_flaw_whole)

    def _apply_transaction(self, segment: Segment, record: Record) -> None:
        pending = self._pending
        self._pending = []
        offset = record.offset
        try:
            first, count = record.commit()
        except ValueError as error:
            raise InvalidRecord(offset, str(error), True) from None
        if self._split is not None and self._split == (first, count) and not pending:
            self._split = None
            reason = f"the commit record of the {count} records at the end of the segment before; they are taken"
            lost = LogRange(offset, record.end(), segment.path(), segment.position(offset), reason)
            self._report.skipped.append(lost)
            return
        if record.is_followed and (count != len(pending) or first != record.sequence - count):
            if self.rebuilt.has_skipped:
                return  # its beginning is lost, so it is dropped
            start = pending[0].offset if pending else offset
            raise InvalidRecord(start, f"a transaction of {len(pending)} records, its commit record says {count}", True)
        self.rebuilt.apply_transaction(pending)
