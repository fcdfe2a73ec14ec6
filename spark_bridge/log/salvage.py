"""The end of the log without consume queues, with damage in it: its whole records, and the number of lost ones.

Every record has its own log offset and a checksum, so the next whole one can be found after damage.  Sequence numbers
give the number of missing records in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.format.record_cursor import find_whole
from engine.store.read.reader import StoreReader, scan_piece
from engine.store.read.segment_files import SegmentFile, open_segment
from engine.values.errors import StoreCorrupt


@dataclass(frozen=True, slots=True)
class Stretch:
    """``records`` that are lost.  destination_id: of a single message whose header is whole, else 0."""

    start: int
    stop: int
    records: int
    destination_id: int


def salvage(reader: StoreReader, start: int, stop: int) -> Iterator[Record | Stretch]:
    """Yield every whole record from ``start`` to ``stop``, and between them the losses.

    Raises: RangeGone; StoreCorrupt if the number of lost records is unknown, as in a thinned segment.
    """
    if start == stop:
        return
    expected = 0  # sequence of the next record; 0: not known
    at = -1
    for segment in reader.segments[_first(reader, start) :]:
        if segment.base >= stop:
            break
        if at < 0:
            at, expected = segment.base, 1 if segment.base == 0 else 0
        elif not expected and reader.missing(at, segment.base):
            raise StoreCorrupt(f"log offsets {at} to {segment.base} are missing, and their content is unknown")
        for record in _whole(segment, min(segment.limit, stop)):
            if record.is_followed:
                lost = record.sequence - expected
                if (expected and lost < 0) or (not expected and record.offset > max(at, start) and at >= segment.base):
                    raise StoreCorrupt(
                        f"{segment.path.name}: record at log offset {record.offset} has sequence number "
                        f"{record.sequence}, and the records before it are unknown"
                    )
                if expected and lost and record.offset > start:
                    yield _stretch(reader, at, record.offset, lost)
            expected = record.sequence + 1 if record.is_followed else 0
            at = record.end()
            if record.offset >= start:
                yield record
    checkpoint = reader.checkpoint
    if expected and checkpoint is not None and stop == checkpoint.durable_offset and at < stop:
        if checkpoint.next_sequence > expected:
            yield _stretch(reader, at, stop, checkpoint.next_sequence - expected)


def _first(reader: StoreReader, start: int) -> int:
    """Return the index of the segment before the one with ``start``: its end gives the next sequence number."""
    return max(sum(segment.base <= start for segment in reader.segments) - 2, 0)


def _whole(segment: SegmentFile, limit: int) -> Iterator[Record]:
    """Yield the whole records of one segment up to ``limit``."""
    offset = segment.base
    while offset < limit:
        try:
            for record in scan_piece(segment, offset, limit, verify=True):
                yield record
                offset = record.end()
                if not record.is_followed:
                    offset = limit  # a sparse segment is read by its table of runs
        except StoreCorrupt:
            if offset == limit or _is_sparse(segment):
                raise
            offset = _next_whole(segment, offset + layout.ALIGNMENT, limit)
        else:
            # Zeros look like the end.
            offset = limit if offset >= limit or _is_sparse(segment) else _next_whole(segment, offset, limit)


def _is_sparse(segment: SegmentFile) -> bool:
    file = open_segment(segment)
    file.close()
    return file.runs is not None


def _next_whole(segment: SegmentFile, start: int, limit: int) -> int:
    """Return the offset of the first whole record from ``start`` on, ``limit`` if there is none."""
    file = open_segment(segment)
    try:
        return find_whole(file, start, limit, segment.limit)
    finally:
        file.close()


def _stretch(reader: StoreReader, start: int, stop: int, records: int) -> Stretch:
    """Return the loss; for one record whose header is whole, with its destination."""
    segment = next((each for each in reader.segments if each.base <= start < each.limit), None)
    if records == 1 and segment is not None:
        file = open_segment(segment)
        try:
            head = file.pread(layout.RECORD_HEADER_BYTES, start)
        finally:
            file.close()
        if len(head) == layout.RECORD_HEADER_BYTES:
            size, _, kind, _, _, destination_id, own, _, _ = layout.RECORD_HEADER.unpack(head)
            if own == start and start + layout.padded(size) == stop and kind == layout.MESSAGE:
                return Stretch(start, stop, 1, int(destination_id))
    return Stretch(start, stop, records, 0)
