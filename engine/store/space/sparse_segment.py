"""Rewrites full segments as one sparse segment with what is still needed: a worker's part of compaction.

It removes unneeded messages, settlements and failed attempts that name only such messages, and commits of transactions
without remaining records.  Everything else keeps its log offset: the first snapshot, because the log from any segment
on must be sufficient; and destinations, subscriptions, consumers and all other records but messages, for readers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from engine.store.disk.files import File, Files, write_fully
from engine.store.format import layout
from engine.store.format.record_cursor import ANY_SEQUENCE, RecordCursor
from engine.store.format.sparse_runs import Runs
from engine.store.log.segment import SPARSE_SUFFIX, SUFFIX, Segment, pack_header, pack_seal, segment_name
from engine.store.log.segment_octets import SegmentOctets, open_octets
from engine.values.errors import StoreCorrupt
from engine.values.message import IN_TRANSACTION

HEADER_BYTES: Final = layout.SEGMENT_HEADER_BYTES
STEP_READ_BYTES: Final = 512 << 10  # read at a time, unless a record is larger


@dataclass(slots=True)
class Kept:
    """The entries ``first`` to ``end`` (excluded) of one consume queue; bit n of ``bits`` says that first + n stays."""

    first: int
    end: int
    bits: int


@dataclass(slots=True)
class Choice:
    """The messages of one segment that must stay.

    lanes: by lane, lanes with entries in it.  kept_from: by lane, its first entry that is anywhere in the log.
    topics: of each durable subscription, its topic.
    """

    kept_from: dict[int, int]
    topics: dict[int, int]
    lanes: dict[int, Kept] = field(default_factory=dict)

    def keeps_message(self, destination_id: int, priority: int, entry: int) -> bool:
        """Return whether a message stays."""
        lane = self.lanes.get((destination_id << layout.LANE_SHIFT) | priority)
        return lane is None or not lane.first <= entry < lane.end or bool(lane.bits >> (entry - lane.first) & 1)

    def keeps_ranges(self, number: int, ranges: list[tuple[int, int, int, int]]) -> bool:
        """Return whether settlements or failed attempts stay: as long as any message that they name is there."""
        owner = self.topics.get(number, number)
        for priority, first, count, _ in ranges:
            key = (owner << layout.LANE_SHIFT) | priority
            first, end = max(first, self.kept_from.get(key, 0)), first + count
            lane = self.lanes.get(key)
            if first >= end:
                continue
            if lane is None or first < lane.first or end > lane.end:
                return True
            if lane.bits >> (first - lane.first) & ((1 << (end - first)) - 1):
                return True
        return False


@dataclass(slots=True, eq=False)
class Thinning:
    """Segments on their way to one sparse form, in ``step``s; the new file is invisible before ``put_in_place``.

    It takes the name of the first of them; the files of the others are then removed.  The first one opens with a
    snapshot.  The others continue it after a failed sync, or were never used, or are empty and sparse like itself.
    limits: upper bound of each one's records.  next_sequence: of the record after them.
    limit_bytes: a larger new file is not worth it.
    kept_bytes, message_count: of the new file so far.  removed: numbers of destinations that lose messages.
    """

    _files: Files
    segments: list[Segment]
    _limits: list[int]
    _choice: Choice
    _limit_bytes: int
    _next_sequence: int
    kept_bytes: int = 0
    message_count: int = 0
    removed: set[int] = field(default_factory=set)
    is_read: bool = False
    is_worth_it: bool = True
    _path: str = field(init=False)
    _place: int = -1  # of the current segment
    _source: SegmentOctets | None = None
    _cursor: RecordCursor | None = None  # None between two segments
    _target: File | None = None
    _runs: Runs = field(default_factory=Runs)
    _sequence: int = 0
    _is_gapless: bool = field(init=False)
    _keeps_commit: bool = False

    def __post_init__(self) -> None:
        self._path = f"{self.segments[0].directory}/{segment_name(self.segments[0].base)}"
        self._is_gapless = not any(segment.is_sparse for segment in self.segments)

    @property
    def segment(self) -> Segment:
        """The segment into which the others are merged."""
        return self.segments[0]

    def step(self, count: int) -> int:
        """Read about ``count`` more octets, of one run in a sparse segment; return how many were read.

        Raises: OSError, StoreCorrupt.
        """
        if self._target is None:
            self._target = self._files.create(self._path + SPARSE_SUFFIX)
        cursor = self._cursor
        while cursor is None:
            if self._place + 1 == len(self.segments):
                self._check_end()
                self.is_read = True
                return 0
            cursor = self._open_next()
        kept: list[bytes] = []
        gone = 0
        while gone < count:
            if not cursor.advance():
                self._end_segment(cursor)
                break
            gone += cursor.end - cursor.offset
            self._take(cursor, kept)
            if cursor.is_run_over():
                break
        if kept:
            target = self._target
            written = b"".join(kept)
            write_fully(target, written, HEADER_BYTES + self.kept_bytes - len(written))
        if self.kept_bytes > self._limit_bytes:
            self.is_worth_it = False
        return gone

    def _check_end(self) -> None:
        # Zeros in the middle of a segment look like its end.
        if self._is_gapless and self._sequence != self._next_sequence:
            raise StoreCorrupt(
                f"{self._path}{SUFFIX}: the records end with sequence {self._sequence - 1}, the next segment "
                f"begins with {self._next_sequence}"
            )

    def _open_next(self) -> RecordCursor:
        if self._source is not None:
            self._source.file.close()
        self._place += 1
        segment, limit = self.segments[self._place], self._limits[self._place]
        source = self._source = open_octets(self._files, segment)
        cursor = self._cursor = RecordCursor(source, segment.base, limit, limit, STEP_READ_BYTES)
        cursor.expected = self._sequence if self._is_gapless and self._sequence else ANY_SEQUENCE
        return cursor

    def _end_segment(self, cursor: RecordCursor) -> None:
        """Continue with the next segment.  Raises: StoreCorrupt if this one has a flaw."""
        if cursor.flaw:
            path = self.segments[self._place].path()
            raise StoreCorrupt(f"{path}, log offset {cursor.offset}: {cursor.flaw}")
        self._cursor = None

    def _take(self, cursor: RecordCursor, kept: list[bytes]) -> None:
        """Add a record to the octets to write if it stays."""
        choice = self._choice
        record_type = cursor.type
        if record_type == layout.MESSAGE:
            message = cursor.record().message()
            stays = choice.keeps_message(cursor.destination_id, message.priority, message.queue_offset)
            self.message_count += stays
            if not stays:
                self.removed.add(cursor.destination_id)
        elif record_type == layout.SETTLEMENT or record_type == layout.ATTEMPTS:
            stays = choice.keeps_ranges(cursor.destination_id, cursor.record().settlement().ranges)
        elif record_type == layout.COMMIT:
            stays = self._keeps_commit
            self._keeps_commit = False
        else:
            stays = record_type != layout.SNAPSHOT or cursor.offset == self.segment.base
        if stays:
            if cursor.flags & IN_TRANSACTION:
                self._keeps_commit = True
            room = cursor.end - cursor.offset
            kept.append(cursor.piece.octets[cursor.at : cursor.at + cursor.size].ljust(room, b"\0"))
            self._runs.add(cursor.offset, HEADER_BYTES + self.kept_bytes, room)
            self.kept_bytes += room
        self._sequence = cursor.sequence + 1
        cursor.expected = self._sequence if self._is_gapless else ANY_SEQUENCE

    def finish(self, created_ms: int, store_id: str) -> None:
        """Write the table and the heads, and sync all of it.

        Raises: OSError.
        """
        target, segment, last = self._target, self.segments[0], self.segments[-1]
        assert target is not None and self.is_read
        table = self._runs.pack()
        table_position = HEADER_BYTES + self.kept_bytes
        write_fully(target, table, table_position)
        head = layout.SPARSE_HEAD.pack(table_position, len(self._runs.offsets), self.message_count, crc32c(table))
        heads = pack_header(layout.SPARSE, segment.base, last.limit() - segment.base, created_ms, store_id)
        heads = heads.ljust(layout.SEAL_POSITION, b"\0") + pack_seal(self._limits[-1], self._next_sequence)
        heads = heads.ljust(layout.SPARSE_HEAD_POSITION, b"\0") + head + layout.CRC.pack(crc32c(head))
        write_fully(target, heads.ljust(HEADER_BYTES, b"\0"), 0)
        target.fsync()
        self.close()

    def put_in_place(self) -> None:
        """Give the new file its final name.  Either file is valid after a power cut, so the order of renames is enough.

        Raises: OSError; the segment may then be either.
        """
        self._files.rename(self._path + SPARSE_SUFFIX, self._path + SUFFIX)
        self._files.sync_directory(self.segment.directory)

    def take_over(self) -> None:
        """Update the first segment to its new file; on the thread that owns it."""
        segment = self.segment
        segment.is_sparse = True
        segment.capacity = self.segments[-1].limit() - segment.base
        segment.sealed_end = self._limits[-1]
        segment.next_sequence = self._next_sequence
        segment.message_count = self.message_count
        segment.kept_bytes = self.kept_bytes
        segment.edition += 1

    def close(self) -> None:
        if self._source is not None:
            self._source.file.close()
        if self._target is not None:
            self._target.close()
        self._source = self._target = None

    def give_up(self) -> None:
        """Remove the unfinished new file; if that fails, the next start removes it."""
        self.close()
        try:
            self._files.unlink(self._path + SPARSE_SUFFIX)
        except OSError:
            pass
