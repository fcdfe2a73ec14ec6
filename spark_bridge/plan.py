"""The plan of one read, fixed before its first partition starts: range, destinations, partitions, settlements.

Below the checkpoint's consume-queue offset the consume queues have the places of records.  Above it the log is scanned
twice: here for settlements and for possible beginnings of partitions, and by the partitions themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.read.catalog import Catalog, Skipped, read_catalog
from engine.store.read.entry_files import lanes
from engine.store.read.reader import DestinationInfo, StoreReader, scan_piece
from engine.store.read.segment_files import SegmentFile
from engine.values.destination import uri
from engine.values.errors import RangeGone, StoreCorrupt
from spark_bridge.arrow.columns import record_batch
from spark_bridge.arrow.records import (
    Block,
    Entries,
    Int64s,
    Piece,
    batches,
    check_block,
    failing_checksums,
    lane_entries,
    misplaced,
    read_block,
    without,
)
from spark_bridge.arrow.settlements import Ranges, Settled, by_lane, ranges_of
from spark_bridge.arrow.subscriptions import Subscriber, label
from spark_bridge.lost import Damaged, Lost, stretches
from spark_bridge.removed import Rows, is_sparse
from spark_bridge.salvage import Stretch, salvage
from spark_bridge.selection import Selection

PARTITION_BYTES: Final = 64 * 1024 * 1024
BATCH_ROWS: Final = 16_384
SUBSCRIBERS_A_ROW: Final = 16  # each time one topic has this many more subscriptions, batches are half as large


@dataclass(frozen=True, slots=True)
class Plan:
    """One consistent read.

    end_time_ms: store time up to which the store could be read when the plan was made.
    skip_gone, skip_damaged: continue without unreadable ranges and records.  damaged: those found already.
    """

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
    skip_gone: bool = False
    skip_damaged: bool = False
    damaged: tuple[Damaged, ...] = ()


def make_plan(
    reader: StoreReader,
    selection: Selection,
    start: int | None = None,
    stop: int | None = None,
    verify: bool = True,
    partition_bytes: int = PARTITION_BYTES,
    skip_gone: bool = False,
    skip_damaged: bool = False,
) -> Plan:
    """Plan a read of the messages from log offset ``start`` to ``stop``, by default the oldest kept and the end.

    skip_damaged: leave out and count unreadable records; only with ``verify``.
    Raises: RangeGone, StoreCorrupt also for a missing file; ValueError for a range beyond the end.
    """
    end = reader.end()
    start = reader.oldest_offset if start is None else start
    stop = end.offset if stop is None else stop
    reader.check_range(start, stop, skip_damaged)
    lost = Lost() if skip_damaged else None
    catalog = _catalog(reader, start, stop, lost)
    chosen = {number: info for number, info in catalog.destinations.items() if selection.matches(info.kind, info.name)}
    subscribers = _subscribers(catalog, chosen)
    settling = {*chosen, *(one.number for of_topic in subscribers.values() for one in of_topic)}
    pieces, tail_ranges = _cut(reader, start, stop, settling, partition_bytes, chosen, verify, lost)
    ranges = _settlements(reader, start, min(stop, reader.entries_offset), settling, verify, lost) + tail_ranges
    if lost is not None:
        _count_missing(reader, start, min(stop, reader.entries_offset), settling, chosen, lost)
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
        skip_gone,
        skip_damaged,
        () if lost is None else tuple(lost.damaged),
    )


def _catalog(reader: StoreReader, start: int, stop: int, lost: Lost | None) -> Catalog:
    if lost is None:
        return read_catalog(reader, stop)
    tail = salvage(reader, min(reader.entries_offset, stop), stop)
    skipped = Skipped(record for record in tail if isinstance(record, Record))
    catalog = read_catalog(reader, stop, skipped)
    # An earlier read counted the damage before this one; ``_cut`` counts what no consume queue covers.
    counted = [(first, end) for first, end in skipped.ranges if start <= first < reader.entries_offset]
    lost.damaged += [Damaged("", 1, first, end) for first, end in counted]
    return catalog


def _count_missing(
    reader: StoreReader,
    start: int,
    stop: int,
    settling: set[int],
    chosen: dict[int, DestinationInfo],
    lost: Lost,
) -> None:
    """Count the entries of consume queues in missing files."""
    for first, end in reader.missing(start, stop):
        for number, info in chosen.items():
            count = sum(
                len(lane_entries(reader.directory, number, priority, first, end))
                for priority in lanes(reader.directory, number)
            )
            if count:
                lost.damaged.append(Damaged(uri(info.kind, info.name), count, first, end))
        entries = lane_entries(reader.directory, layout.SYSTEM_QUEUE, 0, first, end)
        count = int(np.count_nonzero(np.isin(entries["tag"], np.array(sorted(settling), dtype=np.uint32))))
        if count:
            lost.damaged.append(Damaged("", count, first, end))


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
    reader: StoreReader,
    start: int,
    stop: int,
    settling: set[int],
    partition_bytes: int,
    chosen: dict[int, DestinationInfo],
    verify: bool,
    lost: Lost | None,
) -> tuple[list[Piece], list[Ranges]]:
    """Return the pieces of the log in order, and the settlements found in its tail."""
    pieces: list[Piece] = []
    middle = max(start, min(stop, reader.entries_offset))
    for segment in reader.segments:
        low, high = max(start, segment.base), min(middle, segment.limit)
        for cut in range(low, high, partition_bytes):
            pieces.append(Piece(segment, cut, min(cut + partition_bytes, high), True))
    settlements: list[Record] = []
    records: Iterator[Record | Stretch]
    records = reader.scan(middle, stop, verify=verify) if lost is None else salvage(reader, middle, stop)
    bounds = _bounds(reader, records, settling, settlements, partition_bytes, chosen, lost)
    for segment, low, high in bounds:
        pieces.append(Piece(segment, low, high, False))
    return pieces, [_ranges_of_records(settlements)] if settlements else []


def _bounds(
    reader: StoreReader,
    records: Iterator[Record | Stretch],
    settling: set[int],
    settlements: list[Record],
    partition_bytes: int,
    chosen: dict[int, DestinationInfo],
    lost: Lost | None,
) -> Iterator[tuple[SegmentFile, int, int]]:
    """Cut the tail at beginnings of records; ``settlements`` takes the settlement records of chosen destinations.

    lost: takes the damage between the pieces.
    """
    segment: SegmentFile | None = None
    low = high = 0
    for record in records:
        if isinstance(record, Stretch):
            if segment is not None and high > low:
                yield segment, low, high
            segment = None
            if lost is not None:
                info = chosen.get(record.destination_id)
                name = "" if info is None else uri(info.kind, info.name)
                lost.damaged.append(Damaged(name, record.records, record.start, record.stop))
            continue
        if segment is None or record.offset >= segment.limit:
            if segment is not None and high > low:
                yield segment, low, high
            segment = next(each for each in reader.segments if each.limit > record.offset)
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


def _settlements(
    reader: StoreReader, start: int, stop: int, settling: set[int], verify: bool, lost: Lost | None
) -> list[Ranges]:
    """Gather the settlement records from ``start`` to ``stop`` that the system queue lists.

    A settlement comes after its messages, so those below ``start`` concern no message of this read.
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
            block, found_offsets = read_block(segment, offsets[batch], sizes[batch], lost is not None)
            if lost is None:
                check_block(block, segment, found_offsets, layout.SETTLEMENT, verify)
            else:
                is_lost = misplaced(block, found_offsets, layout.SETTLEMENT) | failing_checksums(block)
                nobody = np.zeros(len(found_offsets), dtype=np.int64)
                lost.damaged += stretches(is_lost, found_offsets, block.sizes, nobody, {})
                block = without(block, is_lost)
            found.append(ranges_of(block))
    return found


def _ranges_of_records(records: list[Record]) -> Ranges:
    sizes = np.array([len(record.data) for record in records], dtype=np.int64)
    octets = np.frombuffer(b"".join(record.data for record in records), dtype=np.uint8)
    return ranges_of(Block(octets, np.cumsum(sizes) - sizes, sizes))


def read_pieces(
    plan: Plan,
    pieces: list[Piece],
    batch_rows: int = BATCH_ROWS,
    rows: Rows | None = None,
    lost: Lost | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of one partition in the order of the log.

    rows: takes the number of messages of each destination in each segment, damaged ones included.
    lost: takes the losses that the plan allows; without it, none are allowed.
    Raises: RangeGone, StoreCorrupt.
    """
    # Each subscription adds an element to the maps of its topic's messages.
    most = max((len(of_topic) for of_topic in plan.subscribers.values()), default=0)
    batch_rows = max(1, batch_rows // (1 + most // SUBSCRIBERS_A_ROW))
    for piece in pieces:
        at = piece.start
        try:
            offsets, sizes, numbers = _indexed(plan, piece) if piece.has_entries else _scanned(plan, piece)
            for batch in batches(offsets, sizes, batch_rows):
                at = int(offsets[batch][0])
                yield from _read_batch(plan, piece, offsets[batch], sizes[batch], numbers[batch], rows, lost)
        except RangeGone:
            if lost is None or not plan.skip_gone:
                raise
            lost.gone.append((at, piece.stop))


def _read_batch(
    plan: Plan, piece: Piece, offsets: Int64s, sizes: Int64s, numbers: Int64s, rows: Rows | None, lost: Lost | None
) -> Iterator[pa.RecordBatch]:
    is_skipping = plan.skip_damaged and lost is not None
    block, found = read_block(piece.segment, offsets, sizes, is_skipping)
    numbers = numbers[np.searchsorted(offsets, found)]
    if not is_skipping:
        check_block(block, piece.segment, found, layout.MESSAGE, plan.verify)
    if rows is not None:
        for number, count in zip(*(each.tolist() for each in np.unique(numbers, return_counts=True)), strict=True):
            key = (piece.segment.base, number)
            rows[key] = rows.get(key, 0) + count
    if is_skipping and lost is not None:
        is_lost = misplaced(block, found, layout.MESSAGE) | failing_checksums(block)
        lost.damaged += stretches(is_lost, found, block.sizes, numbers, plan.destinations)
        block = without(block, is_lost)
    if len(block.positions):
        yield record_batch(block, plan.store_id, plan.destinations, plan.settled, plan.subscribers)


def _indexed(plan: Plan, piece: Piece) -> tuple[Int64s, Int64s, Int64s]:
    found: list[Entries] = []
    owners: list[Int64s] = []
    for number in plan.destinations:
        for priority in lanes(plan.directory, number):
            entries = lane_entries(plan.directory, number, priority, piece.start, piece.stop)
            found.append(entries)
            owners.append(np.full(len(entries), number, dtype=np.int64))
    if not found:
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing, nothing
    together = np.concatenate(found)
    order = np.argsort(together["offset"], kind="stable")
    offsets, sizes = together["offset"][order].astype(np.int64), together["size"][order].astype(np.int64)
    return offsets, sizes, np.concatenate(owners)[order]


def _scanned(plan: Plan, piece: Piece) -> tuple[Int64s, Int64s, Int64s]:
    offsets: list[int] = []
    sizes: list[int] = []
    numbers: list[int] = []
    end = piece.start
    for record in scan_piece(piece.segment, piece.start, piece.stop):
        if record.type == layout.MESSAGE and record.destination_id in plan.destinations:
            offsets.append(record.offset)
            sizes.append(len(record.data))
            numbers.append(record.destination_id)
        end = record.end()
    if end < piece.stop and not is_sparse(piece.segment):
        raise StoreCorrupt(f"{piece.segment.path.name}: records end at log offset {end}, {piece.stop} was expected")
    return np.array(offsets, dtype=np.int64), np.array(sizes, dtype=np.int64), np.array(numbers, dtype=np.int64)
