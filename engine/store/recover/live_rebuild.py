"""Rebuilds consume queues and key index of an open store from its log, a segment at a time.

Existing entries are overwritten by what the log says, so readers meanwhile see either.  Only files for records that the
log no longer has are left alone, as retention removes them.  Entries of the last segment are in memory and are written
when it is full, as always.  The index begins again; until it has caught up, queries by key read the log.
"""

from __future__ import annotations

from typing import Final

from engine.ports.workers import FILE_LANE, READ_LANE, Job
from engine.store.context import StoreContext
from engine.store.disk.files import describe
from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.index.key_index import KeyIndex
from engine.store.log.open_files import ForgetJob, OpenFiles
from engine.store.queues.consume_queue_files import ConsumeQueueFiles
from engine.store.read.reader import StoreReader, scan_piece
from engine.store.read.segment_files import SegmentFile
from engine.store.state.consume_queue import ConsumeQueue, EntryBlock
from engine.store.state.snapshot import load_snapshot
from engine.values.errors import RangeGone, StoreError

UNKNOWN: Final = -1


class LiveRebuild:
    """record_count: read.  durable: log offset up to which it has to come.

    reason: why it ended early, "" if it did not.
    """

    def __init__(
        self,
        context: StoreContext,
        queues: ConsumeQueueFiles,
        open_files: OpenFiles,
        index: KeyIndex | None,
        stop: int,
        durable: int,
    ) -> None:
        self.record_count = 0
        self.reason = ""
        self.is_over = False
        self._context = context
        self._queues = queues
        self._open_files = open_files
        self._index = index
        self._stop = stop
        self.durable = durable
        self._segments: list[SegmentFile] | None = None  # those below ``stop``, once they are known
        self._place = 0
        self._system_entry = UNKNOWN
        if index is not None:
            index.begin_anew()
        self._go_on()

    def is_done(self) -> bool:
        """Say whether everything that was durable at the start is in files and index, or it ended early."""
        return self.is_over and (bool(self.reason) or self._index is None or self._index.has_reached(self.durable))

    def _go_on(self) -> None:
        job = SegmentJob(
            self, self._context.directory, self._queues, self._segments, self._place, self._stop, self._system_entry
        )
        self._context.workers.submit(job, FILE_LANE)

    def stepped(
        self, segments: list[SegmentFile] | None, system_entry: int, record_count: int, paths: list[str], reason: str
    ) -> None:
        """Handle the outcome of one segment."""
        self.record_count += record_count
        self.reason = reason
        # A file that was missing and now exists is another one than the file that may still be open.
        self._context.workers.submit(ForgetJob(self._open_files, paths), READ_LANE)
        self._segments = segments
        self._place += 1
        self._system_entry = system_entry
        if reason or segments is None or self._place >= len(segments):
            self.is_over = True
        else:
            self._go_on()


class SegmentJob(Job):
    """Writes the entries of one segment's records.

    segments: all to be read; None for the first job, which looks them up.
    system_entry: number of the first of its records that are not messages, UNKNOWN until a snapshot says it.
    """

    __slots__ = (
        "_owner",
        "_directory",
        "_queues",
        "_segments",
        "_place",
        "_stop",
        "_system_entry",
        "_sequence",
        "_blocks",
        "_lanes",
        "_record_count",
        "_paths",
        "_reason",
    )

    def __init__(
        self,
        owner: LiveRebuild,
        directory: str,
        queues: ConsumeQueueFiles,
        segments: list[SegmentFile] | None,
        place: int,
        stop: int,
        system_entry: int,
    ) -> None:
        self._owner = owner
        self._directory = directory
        self._queues = queues
        self._segments = segments
        self._place = place
        self._stop = stop
        self._system_entry = system_entry
        self._sequence = 0
        self._blocks: list[EntryBlock] = []
        self._lanes: dict[tuple[int, int], ConsumeQueue] = {}
        self._record_count = 0
        self._paths: list[str] = []
        self._reason = ""

    def run(self) -> None:
        try:
            if self._segments is None:
                reader = StoreReader(self._directory)
                self._segments = [
                    each for each in reader.segments if reader.first_offset <= each.base < min(each.limit, self._stop)
                ]
            if self._place < len(self._segments):
                self._go_through(self._segments[self._place])
        except OSError as error:
            self._reason = describe(error, str(error.filename or self._directory))
        except StoreError as error:
            self._reason = str(error)

    def _go_through(self, segment: SegmentFile) -> None:
        if not segment.is_continuation:
            self._system_entry = UNKNOWN  # its snapshot says it, unless the segment was merged into another
        try:
            for record in scan_piece(segment, segment.base, min(segment.limit, self._stop), verify=True):
                self._take(record)
            self._queues.look_again()
            self._queues.store(self._blocks)
        except RangeGone:
            pass  # dropped by retention, with its entries
        self._paths = [path for block in self._blocks for path in self._queues.paths_of(block)]

    def finish(self) -> None:
        self._owner.stepped(self._segments, self._system_entry, self._record_count, self._paths, self._reason)

    def _take(self, record: Record) -> None:
        self._record_count += 1
        if self._sequence and record.sequence != self._sequence:
            self._system_entry = UNKNOWN  # records in between were removed; how many of them were listed is unknown
        self._sequence = record.sequence + 1
        if record.type == layout.MESSAGE:
            message = record.message()
            lane = self._lane(record.destination_id, message.priority, message.queue_offset)
            self._add(lane, record, message.tag_hash, message.group_hash, message.expires_ms)
            return
        if record.type == layout.SNAPSHOT:
            self._system_entry = load_snapshot(record.payload()).system.tail
        if self._system_entry != UNKNOWN:
            self._add(self._lane(layout.SYSTEM_QUEUE, 0, self._system_entry), record, record.destination_id, 0, 0)
            self._system_entry += 1

    def _lane(self, destination_id: int, priority: int, entry: int) -> ConsumeQueue:
        """Return the lane of which a record's entry is the next; a gap begins another block."""
        lane = self._lanes.get((destination_id, priority))
        if lane is None or lane.tail != entry:
            lane = self._lanes[destination_id, priority] = ConsumeQueue(destination_id, priority, False, entry)
            self._blocks.append(EntryBlock(destination_id, priority, entry, lane.entries))
        return lane

    def _add(self, lane: ConsumeQueue, record: Record, tag: int, group: int, expires_ms: int) -> None:
        lane.add(record.offset, record.size, record.flags, record.type, tag, group, expires_ms, record.store_time_ms)
