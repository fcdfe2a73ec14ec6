"""Rebuilds consume queues and key index of an open store from its log, a segment at a time.

Existing entries are overwritten by what the log says, so readers meanwhile see either.  Only files for records that the
log no longer has are left alone, as retention removes them.  Entries of the last segment are in memory and are written
when it is full, as always.  The index begins again; until it has caught up, queries by key read the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from engine.ports.workers import FILE_LANE, READ_LANE
from engine.store.context import StoreContext
from engine.store.disk.disk_job import DiskJob
from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.index.key_index import KeyIndex
from engine.store.log.open_files import OpenFiles
from engine.store.queues.consume_queue_files import ConsumeQueueFiles
from engine.store.read.reader import StoreReader, scan_piece
from engine.store.read.segment_files import SegmentFile
from engine.store.state.consume_queue import ConsumeQueue, EntryBlock
from engine.store.state.snapshot import load_snapshot
from engine.values.errors import RangeGone

UNKNOWN: Final = -1


@dataclass(slots=True, eq=False)
class LiveRebuild:
    """record_count: read.  durable: log offset up to which it has to come.

    reason: why it ended early, "" if it did not.
    _segments, _place, _system_entry: progress, which only the running job changes.  Segments are those below ``stop``,
    once they are known; system_entry is the number of the next record that is not a message, UNKNOWN until a snapshot
    says it.
    """

    _context: StoreContext
    _queues: ConsumeQueueFiles
    _open_files: OpenFiles
    _index: KeyIndex | None
    _stop: int
    durable: int
    record_count: int = 0
    reason: str = ""
    is_over: bool = False
    _segments: list[SegmentFile] | None = None
    _place: int = 0
    _system_entry: int = UNKNOWN

    def __post_init__(self) -> None:
        if self._index is not None:
            self._index.begin_anew()
        self._go_on()

    def is_done(self) -> bool:
        """Say whether everything that was durable at the start is in files and index, or it ended early."""
        return self.is_over and (bool(self.reason) or self._index is None or self._index.has_reached(self.durable))

    def _go_on(self) -> None:
        job = DiskJob(self._rebuild_next, self._rebuilt, self._context.directory)
        self._context.workers.submit(job, FILE_LANE)

    def _rebuild_next(self) -> SegmentEntries | None:
        """Write the entries of the next segment's records; None if there is no other segment.  On a worker."""
        if self._segments is None:
            reader = StoreReader(self._context.directory)
            self._segments = [
                each for each in reader.segments if reader.first_offset <= each.base < min(each.limit, self._stop)
            ]
        if self._place >= len(self._segments):
            return None
        segment = self._segments[self._place]
        self._place += 1
        # Its snapshot says it, unless the segment was merged into another.
        entries = SegmentEntries(self._system_entry if segment.is_continuation else UNKNOWN)
        try:
            for record in scan_piece(segment, segment.base, min(segment.limit, self._stop), verify=True):
                entries.take(record)
            self._queues.forget_found()
            self._queues.store(entries.blocks)
        except RangeGone:
            pass  # dropped by retention, with its entries
        self._system_entry = entries.system_entry
        return entries

    def _rebuilt(self, entries: SegmentEntries | None, reason: str) -> None:
        """Handle the outcome of one segment."""
        self.reason = reason
        if entries is None:
            self.is_over = True
            return
        self.record_count += entries.record_count
        # A file that was missing and now exists is another one than the file that may still be open.
        paths = [path for block in entries.blocks for path in self._queues.paths_of(block)]
        self._context.workers.submit(DiskJob(partial(self._open_files.forget_dropped, paths)), READ_LANE)
        self._go_on()


class SegmentEntries:
    """The entries of one segment's records, as blocks.  system_entry: as in ``LiveRebuild``."""

    def __init__(self, system_entry: int) -> None:
        self.system_entry = system_entry
        self.blocks: list[EntryBlock] = []
        self.record_count = 0
        self._sequence = 0
        self._lanes: dict[tuple[int, int], ConsumeQueue] = {}

    def take(self, record: Record) -> None:
        """Add the next record's entry."""
        self.record_count += 1
        if self._sequence and record.sequence != self._sequence:
            self.system_entry = UNKNOWN  # records in between were removed; how many of them were listed is unknown
        self._sequence = record.sequence + 1
        if record.type == layout.MESSAGE:
            message = record.message()
            lane = self._lane(record.destination_id, message.priority, message.queue_offset)
            lane.add_record(record, message.tag_hash, message.group_hash, message.expires_ms)
            return
        if record.type == layout.SNAPSHOT:
            self.system_entry = load_snapshot(record.payload()).system.tail
        if self.system_entry != UNKNOWN:
            self._lane(layout.SYSTEM_QUEUE, 0, self.system_entry).list_record(record)
            self.system_entry += 1

    def _lane(self, destination_id: int, priority: int, entry: int) -> ConsumeQueue:
        """Return the lane of which a record's entry is the next; a gap begins another block."""
        lane = self._lanes.get((destination_id, priority))
        if lane is None or lane.tail != entry:
            lane = self._lanes[destination_id, priority] = ConsumeQueue(destination_id, priority, False, entry)
            self.blocks.append(EntryBlock(destination_id, priority, entry, lane.entries))
        return lane
