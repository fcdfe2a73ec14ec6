"""The table of deliveries: what each task reads of its part of the log.

The driver reads the tail, which consume queues do not cover yet.  For the rest each task reads the records that the
system queue lists.  Descriptions of consumers and earlier failures come from the last snapshot before its part and
from the records in between, so no task needs another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.read.catalog import Catalog
from engine.store.read.reader import DestinationInfo, StoreReader, first_record
from engine.store.read.segment_files import SegmentFile
from engine.values.errors import StoreCorrupt
from spark_bridge.arrow.deliveries import Failures, Owner, Past, delivery_batches
from spark_bridge.log.lost import Lost, stretches
from spark_bridge.log.places import Places, TailEntries
from spark_bridge.log.records import (
    Block,
    Int64s,
    Piece,
    batches,
    block_of,
    check_block,
    failing_checksums,
    lane_entries,
    misplaced,
    read_block,
    without,
)
from spark_bridge.log.settlements import spread
from spark_bridge.read.pace import Pace

BLOCK_RECORDS: Final = 1 << 16
ROWS: Final = (layout.SETTLEMENT, layout.ATTEMPTS)
EARLIER: Final = (layout.ATTEMPTS, layout.CONSUMER)
OF_DELIVERIES: Final = (*ROWS, layout.CONSUMER)


@dataclass(frozen=True, slots=True)
class DeliveryLog:
    """What tasks need to read deliveries.

    owners: of the wanted records, by number.  entries_offset: below it the system queue lists all records.
    tail: the records of owners above it, in order; messages: where the messages of the tail are, by lane.
    counts_settlements: damaged ones are counted here; otherwise the reader of another table counts them.
    """

    directory: Path
    store_id: str
    entries_offset: int
    segments: list[SegmentFile]
    owners: dict[int, Owner]
    tail: list[tuple[int, bytes]] = field(default_factory=list)
    messages: dict[int, TailEntries] = field(default_factory=dict)
    verify: bool = True
    skips_damage: bool = False
    counts_settlements: bool = True


def delivery_log(
    reader: StoreReader,
    catalog: Catalog,
    chosen: dict[int, DestinationInfo],
    events: list[Record],
    messages: dict[int, TailEntries],
    verify: bool,
    skips_damage: bool,
    counts_settlements: bool,
) -> DeliveryLog:
    """Return what tasks need.  events: of the tail, of OF_DELIVERIES.  messages: of the tail, of all destinations."""
    owners = {number: Owner(info, "") for number, info in chosen.items()}
    for one in (*catalog.subscriptions.values(), *catalog.closed.values()):
        if one.topic_id in chosen:
            owners[one.number] = Owner(chosen[one.topic_id], one.name)
    return DeliveryLog(
        reader.directory,
        reader.store_id,
        reader.entries_offset,
        reader.segments,
        owners,
        [(record.offset, bytes(record.data)) for record in events if record.destination_id in owners],
        {lane: entries for lane, entries in messages.items() if lane >> layout.LANE_SHIFT in chosen},
        verify,
        skips_damage,
        counts_settlements,
    )


def read_deliveries(
    log: DeliveryLog, piece: Piece, columns: tuple[str, ...], batch_rows: int, lost: Lost | None, pace: Pace | None
) -> Iterator[pa.RecordBatch]:
    """Yield the deliveries that the records of one piece name.

    lost: takes the damage that the log's reader skips.
    Raises: RangeGone, StoreCorrupt.
    """
    blocks = _tail(log, piece)
    if piece.has_entries:  # consumers for their damage alone, so that it is counted once
        blocks = _listed(log, piece.segment, piece.start, piece.stop, OF_DELIVERIES, lost)
    past: Past | None = None
    places = Places(log.directory, log.entries_offset, log.messages)
    for block in blocks:
        if pace is not None:
            pace.spend(int(block.sizes.sum()))
        if past is None:
            past = _past(log, piece)
        rows = without(block, block.u8(8) == layout.CONSUMER)
        yield from delivery_batches(rows, log.store_id, log.owners, past, places, columns, batch_rows)


def _listed(
    log: DeliveryLog, segment: SegmentFile, start: int, stop: int, types: tuple[int, ...], lost: Lost | None
) -> Iterator[Block]:
    """Yield the records of some types between two offsets of a segment that the system queue lists."""
    numbers = np.array(sorted(log.owners), dtype=np.uint32)
    entries = lane_entries(log.directory, layout.SYSTEM_QUEUE, 0, start, stop)
    entries = entries[np.isin(entries["type"], np.array(types)) & np.isin(entries["tag"], numbers)]
    offsets, sizes = entries["offset"].astype(np.int64), entries["size"].astype(np.int64)
    for batch in batches(offsets, sizes, BLOCK_RECORDS):
        block, found = read_block(segment, offsets[batch], sizes[batch], log.skips_damage)
        kinds = entries["type"][np.searchsorted(offsets, found)].astype(np.int64)
        if not log.skips_damage:
            check_block(block, segment, found, kinds, log.verify)
        else:
            is_lost = misplaced(block, found, kinds) | failing_checksums(block)
            if lost is not None:
                is_counted = is_lost & ((kinds != layout.SETTLEMENT) | log.counts_settlements)
                lost.damaged += stretches(is_counted, found, block.sizes, np.zeros(len(found), dtype=np.int64), {})
            block = without(block, is_lost)
        if len(block.positions):
            yield block


def _tail(log: DeliveryLog, piece: Piece) -> Iterator[Block]:
    found = [octets for offset, octets in log.tail if piece.start <= offset < piece.stop and octets[8] in ROWS]
    for first in range(0, len(found), BLOCK_RECORDS):
        yield block_of(found[first : first + BLOCK_RECORDS])


def _past(log: DeliveryLog, piece: Piece) -> Past:
    """Return what is known of consumers and failures where a piece ends."""
    snapshot, since = _snapshot_before(log, min(piece.start, log.entries_offset))
    consumers: dict[int, dict[str, str]] = {}
    columns: list[Int64s] = []
    for described in snapshot.get("consumers", []):
        _take_consumer(consumers, described)
    for owner in (*snapshot.get("destinations", []), *snapshot.get("subscriptions", [])):
        for lane in owner["lanes"]:
            key = (int(owner["id"]) << layout.LANE_SHIFT) + int(lane["priority"])
            failed = [(key, entry, count) for entry, count, *_ in lane.get("attempts", [])]
            if failed and int(owner["id"]) in log.owners:
                columns.append(np.array(failed, dtype=np.int64).T)
    for block in _earlier(log, since, piece.stop):
        kinds = block.u8(8)
        for at, size in zip(block.positions.tolist(), block.u32(0).tolist(), strict=True):
            if block.octets[at + 8] == layout.CONSUMER:
                octets = block.octets[at + layout.RECORD_HEADER_BYTES : at + size]
                _take_consumer(consumers, json.loads(octets.tobytes()))
        columns.append(_failures(without(block, kinds != layout.ATTEMPTS)))
    lanes, entries, counts = np.concatenate([np.empty((3, 0), dtype=np.int64), *columns], axis=1)
    return Past(consumers, Failures(lanes, entries, counts))


def _earlier(log: DeliveryLog, start: int, stop: int) -> Iterator[Block]:
    """Yield the records of consumers and failed attempts between two offsets, in order."""
    for segment in log.segments:
        low, high = max(start, segment.base), min(stop, segment.limit, log.entries_offset)
        if low < high:
            yield from _listed(log, segment, low, high, EARLIER, None)
    found = [octets for offset, octets in log.tail if start <= offset < stop and octets[8] in EARLIER]
    if found:
        yield block_of(found)


def _failures(block: Block) -> Int64s:
    """Return lanes of owners, entries and counts of records of failed attempts."""
    record, ranges = spread(block)
    sizes = ranges.u32(8)
    lanes = (block.u32(12)[record] << layout.LANE_SHIFT) + ranges.u8(12)
    entries = np.repeat(ranges.i64(0), sizes) + np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.stack([np.repeat(lanes, sizes), entries, np.repeat(ranges.u16(14), sizes)])


def _snapshot_before(log: DeliveryLog, offset: int) -> tuple[dict[str, Any], int]:
    """Return the last snapshot at or below an offset, and where it is; an empty one if there is none any more."""
    bases = [segment for segment in log.segments if segment.base <= offset and not segment.is_continuation]
    for segment in reversed(bases):
        try:
            record = first_record(segment, segment.limit, verify=log.verify)
        except StoreCorrupt:
            if not log.skips_damage:
                raise
            continue
        if record is not None and record.type == layout.SNAPSHOT:
            return record.described(), segment.base
    return {}, log.segments[0].base


def _take_consumer(consumers: dict[int, dict[str, str]], described: dict[str, Any]) -> None:
    consumers[int(described["id"])] = {name: value for name, value in described.items() if isinstance(value, str)}
