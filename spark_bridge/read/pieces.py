"""Reads the rows of one partition, as its plan says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from engine.store.format import layout
from engine.values.destination import TOPIC
from engine.values.errors import RangeGone
from spark_bridge.arrow.columns import record_batch
from spark_bridge.arrow.schema import DELIVERIES
from spark_bridge.log.heads import ENTRY_COLUMNS, Heads, heads_of_records
from spark_bridge.log.listing import Listing, listed, scanned, without_removed
from spark_bridge.log.lost import Lost, stretches
from spark_bridge.log.records import (
    BATCH_BYTES,
    GAP_BYTES,
    Block,
    Int64s,
    Piece,
    batches,
    check_block,
    failing_checksums,
    misplaced,
    read_block,
    without,
)
from spark_bridge.log.removed import Rows, check_whole
from spark_bridge.read.deliveries import read_deliveries
from spark_bridge.read.filters import EVERYTHING
from spark_bridge.read.pace import Pace
from spark_bridge.read.plan import Plan

BATCH_ROWS: Final = 16_384
SUBSCRIBERS_A_ROW: Final = 16  # each time one topic has this many more subscriptions, batches are half as large


def read_pieces(
    plan: Plan,
    pieces: list[Piece],
    batch_rows: int = BATCH_ROWS,
    rows: Rows | None = None,
    lost: Lost | None = None,
    pace: Pace | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one partition in the order of the log.

    rows: takes the number of messages of each destination in each segment, damaged ones included.
    lost: takes the losses that the plan allows; without it, none are allowed.
    Raises: RangeGone, StoreCorrupt.
    """
    return plan.chosen(_read_pieces(plan, pieces, batch_rows, rows, lost, pace))


def _read_pieces(
    plan: Plan, pieces: list[Piece], batch_rows: int, rows: Rows | None, lost: Lost | None, pace: Pace | None
) -> Iterator[pa.RecordBatch]:
    # Each subscription adds an element to the maps of its topic's messages.
    most = max((len(of_topic) for of_topic in plan.subscribers.values()), default=0)
    message_rows = max(1, batch_rows // (1 + most // SUBSCRIBERS_A_ROW))
    batch_bytes = BATCH_BYTES if pace is None else pace.batch_bytes(BATCH_BYTES)
    for piece in pieces:
        at = piece.start
        try:
            if plan.table == DELIVERIES:
                assert plan.deliveries is not None
                yield from read_deliveries(plan.deliveries, piece, plan.columns, batch_rows, lost, pace)
                continue
            found = _listing(plan, piece)
            if ENTRY_COLUMNS.issuperset(plan.columns):
                left = without_removed(found, piece)
                check_whole(plan.whole_from, found.offsets, left.offsets)
                heads = left.heads
                for first in range(0, len(heads.offsets), message_rows):
                    yield _rows(plan, heads.at(slice(first, first + message_rows)), None)
                continue
            for batch in batches(found.offsets, found.sizes, message_rows, batch_bytes):
                offsets, sizes = found.offsets[batch], found.sizes[batch]
                at = int(offsets[0])
                if pace is not None:
                    pace.spend(int(sizes.sum()))
                yield from _read_batch(plan, piece, offsets, sizes, found.numbers[batch], rows, lost)
        except RangeGone:
            if lost is None or not plan.skip_gone:
                raise
            lost.gone.append((at, piece.stop))


def _read_batch(
    plan: Plan, piece: Piece, offsets: Int64s, sizes: Int64s, numbers: Int64s, rows: Rows | None, lost: Lost | None
) -> Iterator[pa.RecordBatch]:
    is_skipping = plan.skip_damaged and lost is not None
    # What is read between records is then at most an eighth of what they are.
    gap_bytes = int(sizes.mean()) // 8 if plan.skips_gaps else GAP_BYTES
    block, found = read_block(piece.segment, offsets, sizes, is_skipping, gap_bytes)
    check_whole(plan.whole_from, offsets, found)
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
        yield _rows(plan, heads_of_records(block), block)


def _rows(plan: Plan, heads: Heads, block: Block | None) -> pa.RecordBatch:
    return record_batch(
        heads,
        block,
        plan.store_id,
        plan.destinations,
        plan.settled,
        plan.subscribers,
        plan.body,
        plan.columns,
        plan.table,
    )


def _listing(plan: Plan, piece: Piece) -> Listing:
    wanted = plan.wanted
    if piece.has_entries:
        found = listed(plan.directory, plan.destinations, plan.flags(), piece, wanted.from_ms, wanted.to_ms)
    else:
        found = scanned(plan.destinations, plan.flags(), piece)
    if wanted == EVERYTHING:
        return found
    topics = [number for number, info in plan.destinations.items() if info.kind == TOPIC]
    return found.where(wanted.rows(found.heads, topics, plan.settled))
