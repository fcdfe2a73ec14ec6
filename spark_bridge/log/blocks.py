"""All records of a range of the log, many at once: what ``StoreReader.scan`` yields, without an object for each record.

The size of a record leads to the next one.  Offsets, sequence and checksums are then checked for a whole piece of the
log.  Where a record is odd, larger than a piece, or in a sparse segment, ``RecordCursor`` reads it, and says what is
wrong with it.  A property test holds both equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import numpy as np

from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.format.record_cursor import PIECE_BYTES
from engine.store.read.reader import StoreReader, scan_piece
from engine.store.read.segment_files import SegmentFile, open_segment
from engine.values.errors import StoreCorrupt
from spark_bridge.log.records import Block, Int64s, block_of, chosen, failing_checksums

BLOCK_RECORDS: Final = 4096


def scan_blocks(reader: StoreReader, start: int, stop: int) -> Iterator[tuple[SegmentFile, Block]]:
    """Yield the records from ``start``, any offset, to ``stop``; a record that begins before ``start`` is left out.

    Raises: RangeGone, StoreCorrupt, as ``StoreReader.scan``.
    """
    reader.check_range(start, stop)
    if start == stop:
        return
    sequence, is_expected = 0, False
    for segment in reader.segments:
        # Only a segment's base is known to begin a record.
        if segment.limit <= start or segment.base >= stop:
            continue
        is_expected = not segment.is_sparse
        for block in piece_blocks(segment, segment.base, min(segment.limit, stop), start):
            is_expected = False
            first = int(block.i64(24)[0])
            if sequence and not segment.is_sparse and first != sequence:
                raise StoreCorrupt(
                    f"{segment.path.name}: record at log offset {int(block.i64(16)[0])} has sequence number "
                    f"{first} where {sequence} follows"
                )
            sequence = 0 if segment.is_sparse else int(block.i64(24)[-1]) + 1
            offsets = block.i64(16)
            if offsets[0] < start:
                block = chosen(block, offsets >= start)
            if len(block.positions):
                yield segment, block
    checkpoint = reader.checkpoint
    # Zeros in the middle of a segment look like its end; the count of records detects them.
    if (sequence or is_expected) and checkpoint is not None and stop == checkpoint.durable_offset:
        if sequence != checkpoint.next_sequence:
            found = f"ends with sequence number {sequence - 1}" if sequence else "has no record in its last segment"
            raise StoreCorrupt(f"the log up to {stop} {found}, the checkpoint says {checkpoint.next_sequence - 1}")


def piece_blocks(
    segment: SegmentFile, start: int, stop: int, verify_from: int, piece_bytes: int = PIECE_BYTES
) -> Iterator[Block]:
    """Yield the records of one segment from ``start``, which begins one, to ``stop``; no block is empty.

    verify_from: the log offset from which on checksums are checked.
    Raises: RangeGone if the file is gone, StoreCorrupt.
    """
    file = open_segment(segment)
    try:
        offset = start
        while file.runs is None and offset < stop:
            octets = file.pread(min(piece_bytes, stop - offset), offset)
            block = _whole_records(octets, offset, stop, verify_from)
            if block is None:
                record = next(scan_piece(segment, offset, stop, verify=offset >= verify_from), None)
                if record is None:
                    return
                block = block_of([bytes(record.data)])
            offset = int(block.i64(16)[-1]) + layout.padded(int(block.sizes[-1]))
            yield block
        if file.runs is not None:
            yield from in_blocks(scan_piece(segment, start, stop, verify=verify_from < stop))
    finally:
        file.close()


def in_blocks(records: Iterable[Record]) -> Iterator[Block]:
    """Yield records, which were read one by one, as blocks."""
    remaining = iter(records)
    while found := [bytes(record.data) for record in islice(remaining, BLOCK_RECORDS)]:
        yield block_of(found)


def record_of(block: Block, row: int) -> Record:
    """Return one record of a block, with octets of its own."""
    at, size = int(block.positions[row]), int(block.sizes[row])
    octets = block.octets[at : at + size].tobytes()
    _, _, kind, encoding, flags, destination_id, offset, sequence, time_ms = layout.RECORD_HEADER.unpack_from(octets)
    data = memoryview(octets)
    return Record(offset, size, kind, encoding, flags, destination_id, sequence, time_ms, data)


def _whole_records(octets: bytes, offset: int, stop: int, verify_from: int) -> Block | None:
    """Return the records that are whole and as they should be from ``offset`` on, None if the first one is not."""
    sizes, positions = _sizes(octets, stop - offset)
    if not len(sizes):
        return None
    end = int(positions[-1]) + layout.padded(int(sizes[-1]))
    block = Block(np.frombuffer(octets[:end].ljust(end, b"\0"), dtype=np.uint8), positions, sizes)
    sequences = block.i64(24)
    is_wrong = (block.i64(16) != positions + offset) | (sequences - sequences[0] != np.arange(len(sizes)))
    if verify_from < stop:
        is_wrong |= failing_checksums(block) & (positions + offset >= verify_from)
    good = int(np.argmax(is_wrong)) if is_wrong.any() else len(sizes)
    return Block(block.octets, positions[:good], sizes[:good]) if good else None


def _sizes(octets: bytes, room: int) -> tuple[Int64s, Int64s]:
    """Follow the sizes of records that begin in the first ``room`` octets and are whole; return them and positions."""
    words = memoryview(octets[: len(octets) & ~3]).cast("I")
    found: list[int] = []
    at, length, last = 0, len(octets), min(room, len(octets) - layout.RECORD_HEADER_BYTES + 1)
    while at < last:
        size = words[at >> 2]
        if size < layout.RECORD_HEADER_BYTES or at + size > length:
            break
        found.append(size)
        at += (size + 7) & ~7
    sizes = np.array(found, dtype=np.int64)
    return sizes, np.cumsum((sizes + 7) & ~7) - ((sizes + 7) & ~7)
