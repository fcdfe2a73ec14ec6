"""Consume queues and key index of an open store are made again from its log, a segment at a time.

Entries that are there are written over with what the log says, so that who reads them meanwhile sees the one or the
other; only files of what the log does not have are let be, for they go with retention.  Those of the last segment are
in memory and come to the disk when it is full, as always.  The index begins anew, and until it has caught up, queries
by key read the log.
"""

from __future__ import annotations

from typing import Final

from engine.errors import RangeGone, StoreError
from engine.ports import FILE_LANE, READ_LANE, Job, Workers
from engine.store import format as layout
from engine.store.consume_queue import ConsumeQueueFiles
from engine.store.files import describe
from engine.store.index_builder import KeyIndex
from engine.store.open_files import ForgetJob, OpenFiles
from engine.store.reader import Record, StoreReader
from engine.store.snapshot import load_snapshot
from engine.store.state import EntryBlock

UNKNOWN: Final = -1


class LiveRebuild:
    """record_count: gone through.  durable: log offset up to which it is to come.

    reason: why it ended early, "" if it did not.
    """

    def __init__(
        self,
        directory: str,
        queues: ConsumeQueueFiles,
        open_files: OpenFiles,
        index: KeyIndex | None,
        workers: Workers,
        stop: int,
        durable: int,
    ) -> None:
        self.record_count = 0
        self.reason = ""
        self.is_over = False
        self._directory = directory
        self._queues = queues
        self._open_files = open_files
        self._index = index
        self._workers = workers
        self._stop = stop
        self.durable = durable
        self._offset = 0
        self._system_entry = UNKNOWN
        if index is not None:
            index.begin_anew()
        self._go_on()

    def is_done(self) -> bool:
        """Say whether everything that was durable at the start is in files and index, or it ended early."""
        return self.is_over and (bool(self.reason) or self._index is None or self._index.has_reached(self.durable))

    def _go_on(self) -> None:
        self._workers.submit(
            SegmentJob(self, self._directory, self._queues, self._offset, self._stop, self._system_entry), FILE_LANE
        )

    def stepped(self, offset: int, system_entry: int, record_count: int, paths: list[str], reason: str) -> None:
        """Take the outcome of one segment.  offset: where the next one begins."""
        self.record_count += record_count
        self.reason = reason
        # A file that was missing and is there again is another one than that which may still be open.
        self._workers.submit(ForgetJob(self._open_files, paths), READ_LANE)
        self._offset = offset
        self._system_entry = system_entry
        if reason or offset >= self._stop:
            self.is_over = True
        else:
            self._go_on()


class SegmentJob(Job):
    """Writes the entries of one segment's records.

    system_entry: number of the first of its records that are no messages, UNKNOWN until a snapshot says it.
    """

    __slots__ = (
        "_owner",
        "_directory",
        "_queues",
        "_offset",
        "_stop",
        "_system_entry",
        "_sequence",
        "_blocks",
        "_open_blocks",
        "_record_count",
        "_paths",
        "_reason",
    )

    def __init__(
        self,
        owner: LiveRebuild,
        directory: str,
        queues: ConsumeQueueFiles,
        offset: int,
        stop: int,
        system_entry: int,
    ) -> None:
        self._owner = owner
        self._directory = directory
        self._queues = queues
        self._offset = offset
        self._stop = stop
        self._system_entry = system_entry
        self._sequence = 0
        self._blocks: list[EntryBlock] = []
        self._open_blocks: dict[tuple[int, int], EntryBlock] = {}
        self._record_count = 0
        self._paths: list[str] = []
        self._reason = ""

    def run(self) -> None:
        try:
            reader = StoreReader(self._directory)
            start = max(self._offset, reader.first_offset)
            following = [segment.base for segment in reader.segments if segment.base > start]
            stop = min([self._stop, *following])
            try:
                for record in reader.scan(start, max(start, stop)):
                    self._take(record)
                self._queues.look_again()
                self._queues.store(self._blocks)
            except RangeGone:
                pass  # retention was faster, and takes the entries along
            self._paths = [path for block in self._blocks for path in self._queues.paths_of(block)]
            self._offset = stop
        except OSError as error:
            self._reason = describe(error, str(error.filename or self._directory))
        except StoreError as error:
            self._reason = str(error)

    def finish(self) -> None:
        self._owner.stepped(self._offset, self._system_entry, self._record_count, self._paths, self._reason)

    def _take(self, record: Record) -> None:
        self._record_count += 1
        if self._sequence and record.sequence != self._sequence:
            self._system_entry = UNKNOWN  # records between were taken out: how many of them were listed, nobody knows
        self._sequence = record.sequence + 1
        if record.type == layout.MESSAGE:
            fixed = layout.MESSAGE_FIXED.unpack_from(record.data, layout.RECORD_HEADER_BYTES)
            _, _, _, priority, _, _, tag, group, expires_ms, queue_offset = fixed
            self._add(record, record.destination_id, priority, queue_offset, priority, tag, group, expires_ms)
            return
        if record.type == layout.SNAPSHOT:
            self._system_entry = load_snapshot(bytes(record.data[layout.RECORD_HEADER_BYTES :])).system.tail
        if self._system_entry != UNKNOWN:
            self._add(record, layout.SYSTEM_QUEUE, 0, self._system_entry, 0, record.destination_id, 0, 0)
            self._system_entry += 1

    def _add(
        self,
        record: Record,
        destination_id: int,
        lane: int,
        entry: int,
        priority: int,
        tag: int,
        group: int,
        expires_ms: int,
    ) -> None:
        block = self._open_blocks.get((destination_id, lane))
        if block is None or block.end() != entry:
            block = EntryBlock(destination_id, lane, entry, bytearray())
            self._open_blocks[destination_id, lane] = block
            self._blocks.append(block)
        size = len(record.data)
        flags = record.flags & 255
        block.octets += layout.ENTRY.pack(
            record.offset, size, flags, priority, record.type, 0, tag, group, expires_ms, record.store_time_ms
        )
