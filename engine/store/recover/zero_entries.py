"""Mends consume queues in whose files the entries of live messages are zeros, although their sync had succeeded.

A disk, or a file system after a failed sync, may lose what it said it had written.  The log still has the messages.
``find`` reads the newest live entries of each queue, at most QUEUE_BYTES and ALL_BYTES in all.  Only if some are
zeros, ``mend`` reads the log between the entries around them.  Entries without a record stay zeros: damage was skipped.
"""

from __future__ import annotations

from typing import Final

from engine.store.disk.files import Files
from engine.store.format import layout
from engine.store.format.layout import ENTRY_BYTES
from engine.store.format.record import Record
from engine.store.format.record_cursor import RecordCursor
from engine.store.log.segment import Segment, records_limit
from engine.store.log.segment_octets import open_octets
from engine.store.queues.consume_queue_files import ConsumeQueueFiles
from engine.store.state.consume_queue import ConsumeQueue, EntryBlock
from engine.store.state.destination import LoggedDestination

QUEUE_BYTES: Final = 1 << 20
ALL_BYTES: Final = 256 << 20
ZEROS: Final = bytes(ENTRY_BYTES)


class ZeroEntries:
    """One search and its repair.

    left_bytes: of entries that may still be read.  _missing: the zeros, by queue.  _begin, _end: log offsets around
    their records.
    """

    def __init__(self, queues: ConsumeQueueFiles, left_bytes: int = ALL_BYTES) -> None:
        self._queues = queues
        self._left_bytes = left_bytes
        self._missing: dict[tuple[int, int], set[int]] = {}
        self._begin = 1 << 63
        self._end = 0

    def find(self, destination: LoggedDestination, lane: ConsumeQueue, kept_first: int, end: int) -> None:
        """Look at one queue.  kept_first: its files begin with it.  end: log offset above all its entries' records."""
        count_max = min(QUEUE_BYTES, self._left_bytes) // ENTRY_BYTES
        # One more than is needed: its record precedes those of the zeros.
        first = max(destination.first_needed(lane) - 1, kept_first, lane.tail - count_max)
        if first >= lane.tail:
            return
        octets = self._queues.read(lane.destination_id, lane.priority, first, lane.tail)
        self._left_bytes -= len(octets)
        missing = [entry for entry in _zeros_in(octets, first) if destination.is_live(lane, entry)]
        if missing:
            self._missing[lane.destination_id, lane.priority] = set(missing)
            before, after = (missing[0] - first) * ENTRY_BYTES, (missing[-1] - first + 1) * ENTRY_BYTES
            known = [offset for offset, size in layout.ENTRY_PLACE.iter_unpack(octets[:before]) if size]
            self._begin = min(self._begin, known[-1] if known else 0)
            known = [offset for offset, size in layout.ENTRY_PLACE.iter_unpack(octets[after:]) if size]
            self._end = max(self._end, known[0] if known else end)

    def mend(self, files: Files, segments: list[Segment]) -> str:
        """Write the entries whose records the log has, and return which, "" for none.  Raises: OSError."""
        blocks: list[EntryBlock] = []
        for place, segment in enumerate(segments if self._missing else ()):
            limit = records_limit(segments, place)
            if self._begin < limit and segment.base < self._end:
                octets = open_octets(files, segment)
                try:
                    cursor = RecordCursor(octets, segment.base, limit, limit)
                    while cursor.advance():  # up to a flaw: if that matters, the replay finds it
                        if cursor.type == layout.MESSAGE:
                            self._take(cursor.record(), blocks)
                finally:
                    octets.file.close()
        if not blocks:
            return ""
        self._queues.store(blocks)
        first = blocks[0]
        count = sum(len(block.octets) for block in blocks) // ENTRY_BYTES
        place_of_first = f"{self._queues.root}/{first.destination_id}/{first.priority}, entry {first.first}"
        return f"{count} entries were zeros, the first is {place_of_first}"

    def _take(self, record: Record, blocks: list[EntryBlock]) -> None:
        """Add the entry of a record if it is missing."""
        message = record.message()
        missing = self._missing.get((record.destination_id, message.priority))
        if missing is None or message.queue_offset not in missing:
            return
        missing.discard(message.queue_offset)
        lane = ConsumeQueue(record.destination_id, message.priority, False, message.queue_offset)
        lane.add_record(record, message.tag_hash, message.group_hash, message.expires_ms)
        last = blocks[-1] if blocks else None
        is_next = last is not None and (last.destination_id, last.priority, last.end()) == (
            record.destination_id,
            message.priority,
            message.queue_offset,
        )
        if last is not None and is_next:
            last.octets += lane.entries
        else:
            blocks.append(lane.close_entries())


def _zeros_in(octets: bytes, first: int) -> list[int]:
    """Return which entries are zeros.  first: the one that the octets begin with."""
    found: list[int] = []
    at = octets.find(ZEROS)
    while at >= 0:
        at = -(-at // ENTRY_BYTES) * ENTRY_BYTES
        if octets.startswith(ZEROS, at):
            found.append(first + at // ENTRY_BYTES)
        at = octets.find(ZEROS, at + ENTRY_BYTES)
    return found
