"""What one read covers, fixed before its first partition starts: range, destinations, partitions, settlements.

Below the checkpoint's consume-queue offset the indexes say where records are; above it the log is scanned, once here
for settlements and for places at which a partition may begin, and once more by the partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from engine.errors import StoreCorrupt
from engine.store import format as layout
from engine.store.catalog import Catalog, read_catalog
from engine.store.entry_files import lanes
from engine.store.reader import DestinationInfo, Record, Segment, StoreReader, scan_piece
from spark_bridge.columns import record_batch
from spark_bridge.records import Block, Int64s, Piece, batches, check_block, lane_entries, read_block
from spark_bridge.removed import Rows, is_sparse
from spark_bridge.selection import Selection
from spark_bridge.settlements import Ranges, Settled, by_lane, ranges_of
from spark_bridge.subscriptions import Subscriber, label

PARTITION_BYTES: Final = 64 * 1024 * 1024
BATCH_ROWS: Final = 16_384
SUBSCRIBERS_A_ROW: Final = 16  # with so many more subscriptions to one topic batches are half as large, and so on


@dataclass(frozen=True, slots=True)
class Plan:
    """One consistent read.  ``end_time_ms``: store time up to which the store could be read when this was made."""

    directory: Path
    store_id: str
    start: int
    stop: int
    end_time_ms: int
    verify: bool
    destinations: dict[int, DestinationInfo]
    settled: dict[int, Settled]
    subscribers: dict[int, list[Subscriber]]
    partitions: list[list[Piece]]


def make_plan(
    reader: StoreReader,
    selection: Selection,
    start: int | None = None,
    stop: int | None = None,
    verify: bool = True,
    partition_bytes: int = PARTITION_BYTES,
) -> Plan:
    """Plan a read of the messages from log offset ``start`` to ``stop``, the oldest kept and the end unless given.

    Raises: RangeGone, StoreCorrupt also for a file that is missing; ValueError for a range that is not there yet.
    """
    end = reader.end()
    start = reader.oldest_offset if start is None else start
    stop = end.offset if stop is None else stop
    reader.check_range(start, stop)
    catalog = read_catalog(reader, stop)
    chosen = {number: info for number, info in catalog.destinations.items() if selection.matches(info.kind, info.name)}
    subscribers = _subscribers(catalog, chosen)
    settling = {*chosen, *(one.number for of_topic in subscribers.values() for one in of_topic)}
    pieces, tail_ranges = _cut(reader, start, stop, settling, partition_bytes)
    ranges = _settlements(reader, start, min(stop, reader.entries_offset), settling, verify) + tail_ranges
    return Plan(
        reader.directory,
        reader.store_id,
        start,
        stop,
        end.time_ms,
        verify,
        chosen,
        by_lane(ranges),
        subscribers,
        _partitions(pieces, partition_bytes),
    )


def _subscribers(catalog: Catalog, chosen: dict[int, DestinationInfo]) -> dict[int, list[Subscriber]]:
    """Return the durable subscriptions of the chosen topics."""
    found: dict[int, list[Subscriber]] = {}
    for info in catalog.subscriptions.values():
        if info.topic_id in chosen:
            of_topic = found.setdefault(info.topic_id, [])
            taken = {one.label for one in of_topic}
            of_topic.append(Subscriber(info.number, label(info.name, taken, info.number), info.starts))
    return found


def _cut(
    reader: StoreReader, start: int, stop: int, settling: set[int], partition_bytes: int
) -> tuple[list[Piece], list[Ranges]]:
    """Return the pieces of the log in order, and the settlements found on the way through its tail."""
    pieces: list[Piece] = []
    middle = max(start, min(stop, reader.entries_offset))
    for segment in reader.segments:
        low, high = max(start, segment.base), min(middle, segment.limit)
        for cut in range(low, high, partition_bytes):
            pieces.append(Piece(segment, cut, min(cut + partition_bytes, high), True))
    settlements: list[Record] = []
    bounds = _bounds(reader, middle, stop, settling, settlements, partition_bytes)
    for segment, low, high in bounds:
        pieces.append(Piece(segment, low, high, False))
    return pieces, [_ranges_of_records(settlements)] if settlements else []


def _bounds(
    reader: StoreReader,
    start: int,
    stop: int,
    settling: set[int],
    settlements: list[Record],
    partition_bytes: int,
) -> Iterator[tuple[Segment, int, int]]:
    """Cut the tail where records begin; ``settlements`` takes the settlement records of chosen destinations."""
    segments = iter(reader.segments)
    segment: Segment | None = None
    low = high = start
    for record in reader.scan(start, stop, verify=False):
        if segment is None or record.offset >= segment.limit:
            if segment is not None and high > low:
                yield segment, low, high
            segment = next(s for s in segments if s.limit > record.offset)
            low = record.offset
        elif record.offset - low >= partition_bytes:
            yield segment, low, record.offset
            low = record.offset
        high = record.end()
        if record.type == layout.SETTLEMENT and record.destination_id in settling:
            settlements.append(record)
    if segment is not None and high > low:
        yield segment, low, high


def _partitions(pieces: list[Piece], partition_bytes: int) -> list[list[Piece]]:
    """Put small neighbours (a store with small segments) into one partition."""
    partitions: list[list[Piece]] = []
    room = 0
    for piece in pieces:
        size = piece.stop - piece.start
        if size > room:
            partitions.append([])
            room = partition_bytes
        partitions[-1].append(piece)
        room -= size
    return partitions


def _settlements(reader: StoreReader, start: int, stop: int, settling: set[int], verify: bool) -> list[Ranges]:
    """Gather the settlement records from ``start`` to ``stop`` that the system queue lists.

    A settlement comes after its messages, so none below ``start`` can concern a message of this read.
    """
    found: list[Ranges] = []
    numbers = np.array(sorted(settling), dtype=np.uint32)
    for segment in reader.segments:
        low, high = max(start, segment.base), min(stop, segment.limit)
        if low >= high:
            continue
        entries = lane_entries(reader.directory, layout.SYSTEM_QUEUE, 0, low, high)
        entries = entries[(entries["type"] == layout.SETTLEMENT) & np.isin(entries["tag"], numbers)]
        offsets, sizes = entries["offset"].astype(np.int64), entries["size"].astype(np.int64)
        for batch in batches(offsets, sizes, rows=1 << 20):
            block, found_offsets = read_block(segment, offsets[batch], sizes[batch])
            check_block(block, segment, found_offsets, layout.SETTLEMENT, verify)
            found.append(ranges_of(block))
    return found


def _ranges_of_records(records: list[Record]) -> Ranges:
    sizes = np.array([len(record.data) for record in records], dtype=np.int64)
    octets = np.frombuffer(b"".join(record.data for record in records), dtype=np.uint8)
    return ranges_of(Block(octets, np.cumsum(sizes) - sizes, sizes))


def read_pieces(
    plan: Plan, pieces: list[Piece], batch_rows: int = BATCH_ROWS, rows: Rows | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of one partition in the order of the log.

    rows: takes how many these were of each destination in each segment.
    """
    # Each subscription adds an element to the maps of its topic's messages.
    most = max((len(of_topic) for of_topic in plan.subscribers.values()), default=0)
    batch_rows = max(1, batch_rows // (1 + most // SUBSCRIBERS_A_ROW))
    for piece in pieces:
        offsets, sizes = _indexed(plan, piece) if piece.has_entries else _scanned(plan, piece)
        for batch in batches(offsets, sizes, batch_rows):
            block, found = read_block(piece.segment, offsets[batch], sizes[batch])
            check_block(block, piece.segment, found, layout.MESSAGE, plan.verify)
            if len(found):
                if rows is not None:
                    numbers, counts = np.unique(block.u32(12), return_counts=True)
                    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
                        key = (piece.segment.base, number)
                        rows[key] = rows.get(key, 0) + count
                yield record_batch(block, plan.store_id, plan.destinations, plan.settled, plan.subscribers)


def _indexed(plan: Plan, piece: Piece) -> tuple[Int64s, Int64s]:
    found = [
        lane_entries(plan.directory, number, priority, piece.start, piece.stop)
        for number in plan.destinations
        for priority in lanes(plan.directory, number)
    ]
    if not found:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    entries = np.concatenate(found)
    order = np.argsort(entries["offset"], kind="stable")
    return entries["offset"][order].astype(np.int64), entries["size"][order].astype(np.int64)


def _scanned(plan: Plan, piece: Piece) -> tuple[Int64s, Int64s]:
    offsets: list[int] = []
    sizes: list[int] = []
    end = piece.start
    for record in scan_piece(piece.segment, piece.start, piece.stop):
        if record.type == layout.MESSAGE and record.destination_id in plan.destinations:
            offsets.append(record.offset)
            sizes.append(len(record.data))
        end = record.end()
    if end < piece.stop and not is_sparse(piece.segment):
        raise StoreCorrupt(f"{piece.segment.path.name}: records end at log offset {end}, {piece.stop} was expected")
    return np.array(offsets, dtype=np.int64), np.array(sizes, dtype=np.int64)
