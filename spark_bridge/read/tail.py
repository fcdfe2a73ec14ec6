"""The part of the log that consume queues do not cover yet, read once for a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.read.catalog import KINDS
from engine.store.read.reader import StoreReader
from engine.store.read.segment_files import SegmentFile
from spark_bridge.arrow.arrays import from_numpy, rows_by_code
from spark_bridge.log.blocks import in_blocks, record_of, scan_blocks
from spark_bridge.log.places import TailEntries
from spark_bridge.log.records import Block, Octets, Piece, cell_end, chosen
from spark_bridge.log.salvage import Stretch, salvage
from spark_bridge.log.settlements import Ranges, ranges_of
from spark_bridge.read.deliveries import OF_DELIVERIES


@dataclass(slots=True)
class Tail:
    """What one pass has found.

    metadata: records of all destinations.  settled: ranges of all queues and subscriptions.  pieces, stretches: of the
    range that is read, and its damage.
    events, messages: what deliveries need, of the whole tail; see ``deliveries.delivery_log``.
    """

    metadata: list[Record] = field(default_factory=list)
    settled: list[Ranges] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    events: list[Record] = field(default_factory=list)
    messages: dict[int, TailEntries] = field(default_factory=dict)

    def keep(self, block: Block, kinds: Octets) -> None:
        """Keep what deliveries need of records."""
        messages = chosen(block, kinds == layout.MESSAGE)
        lanes = (messages.u32(12) << layout.LANE_SHIFT) + messages.u8(52)
        encoded = from_numpy(lanes).dictionary_encode()
        columns = [messages.i64(at) for at in (72, 16, 32)]
        for lane, rows in zip(encoded.dictionary.to_pylist(), rows_by_code(encoded), strict=True):
            entries = self.messages.get(lane)
            if entries is None:
                entries = self.messages[lane] = TailEntries()
            for kept, column in zip((entries.entries, entries.offsets, entries.times), columns, strict=True):
                kept.frombytes(column[rows].tobytes())
        self.events += [record_of(block, row) for row in np.flatnonzero(np.isin(kinds, OF_DELIVERIES)).tolist()]

    def add_piece(self, segment: SegmentFile | None, low: int, high: int) -> None:
        """Add the part of the segment that was read, if there is one."""
        if segment is not None and high > low:
            self.pieces.append(Piece(segment, low, high, False))


def read_tail(
    reader: StoreReader, start: int, stop: int, partition_bytes: int, skips_damage: bool, has_deliveries: bool
) -> Tail:
    """Read the tail up to ``stop``; cut it from ``start`` on, each record whole."""
    tail = Tail()
    first = min(reader.entries_offset, stop)
    found: Iterator[tuple[SegmentFile, Block] | Stretch]
    found = _salvaged(reader, first, stop) if skips_damage else scan_blocks(reader, first, stop)
    segment: SegmentFile | None = None
    low = high = 0
    for one in found:
        if isinstance(one, Stretch):
            tail.add_piece(segment, low, high)
            segment = None
            if one.stop > start:
                tail.stretches.append(one)
            continue
        owner, block = one
        kinds = block.u8(8)
        tail.metadata += [record_of(block, row) for row in np.flatnonzero(np.isin(kinds, KINDS)).tolist()]
        if has_deliveries:
            tail.keep(block, kinds)
        offsets = block.i64(16)
        offsets = offsets[offsets >= start]
        if not len(offsets):
            continue
        tail.settled.append(ranges_of(chosen(block, (kinds == layout.SETTLEMENT) & (block.i64(16) >= start))))
        if segment is None or segment.base != owner.base:
            tail.add_piece(segment, low, high)
            segment, low = owner, int(offsets[0])
        while (cut := int(np.searchsorted(offsets, cell_end(low, partition_bytes)))) < len(offsets):
            tail.add_piece(segment, low, int(offsets[cut]))
            low = int(offsets[cut])
        high = int(offsets[-1]) + layout.padded(int(block.sizes[-1]))
    tail.add_piece(segment, low, high)
    return tail


def _salvaged(reader: StoreReader, start: int, stop: int) -> Iterator[tuple[SegmentFile, Block] | Stretch]:
    """Yield what is left of a damaged tail, and what is lost of it, in order."""

    def place(one: Record | Stretch) -> int:
        """Return the base of a record's segment, -1 for a loss."""
        if isinstance(one, Stretch):
            return -1
        return next(each.base for each in reader.segments if each.limit > one.offset)

    for base, run in groupby(salvage(reader, start, stop), key=place):
        if base < 0:
            yield from (one for one in run if isinstance(one, Stretch))
            continue
        owner = next(each for each in reader.segments if each.base == base and each.limit > base)
        for block in in_blocks(one for one in run if isinstance(one, Record)):
            yield owner, block
