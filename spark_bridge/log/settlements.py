"""The settled messages of a consume queue, as sorted ranges: one lookup for many messages."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from engine.store.format import layout
from engine.store.read.segment_files import SegmentFile
from engine.values.outcomes import CAUSE_NAMES, CAUSE_NONE, OUTCOME_NAMES
from spark_bridge.log.lost import Lost, stretches
from spark_bridge.log.records import (
    Block,
    Int64s,
    batches,
    check_block,
    failing_checksums,
    lane_entries,
    misplaced,
    read_block,
    without,
)

PENDING: Final = 0
PUBLISHED: Final = max(OUTCOME_NAMES) + 1
STATE_NAMES: Final = [
    "pending",
    *(OUTCOME_NAMES[outcome] for outcome in range(1, PUBLISHED)),
    "published",
]
CAUSE_SHIFT: Final = 8  # a state is an outcome, with its cause in the higher bits
OUTCOME_MASK: Final = (1 << CAUSE_SHIFT) - 1


def state_text(state: int) -> str:
    """Return a state in words: the outcome, and the cause if there is one."""
    cause = state >> CAUSE_SHIFT
    outcome = STATE_NAMES[state & OUTCOME_MASK]
    return outcome if cause == CAUSE_NONE else f"{outcome}: {CAUSE_NAMES.get(cause, str(cause))}"


@dataclass(frozen=True, slots=True)
class Settled:
    """Ranges of one lane: ascending, disjoint; ``ends`` are excluded."""

    firsts: Int64s
    ends: Int64s
    outcomes: Int64s

    def states(self, queue_offsets: Int64s) -> Int64s:
        """Return outcome and cause of each message, PENDING if no range covers it."""
        index = np.searchsorted(self.firsts, queue_offsets, side="right") - 1
        found = np.maximum(index, 0)
        is_covered = (index >= 0) & (queue_offsets < self.ends[found])
        states: Int64s = np.where(is_covered, self.outcomes[found], PENDING)
        return states

    def ranges(self, lane: int) -> Ranges:
        """Return the same as ranges of the lane."""
        return Ranges(np.full(len(self.firsts), lane), self.firsts, self.ends - self.firsts, self.outcomes)


@dataclass(frozen=True, slots=True)
class Ranges:
    """Settled ranges in the order of the log; ``outcomes`` with their causes."""

    lanes: Int64s
    firsts: Int64s
    counts: Int64s
    outcomes: Int64s


def spread(block: Block) -> tuple[Int64s, Block]:
    """Return all ranges of records of settlements or attempts: the record of each by its number, and the ranges."""
    range_counts = block.u32(52)
    record = np.repeat(np.arange(len(range_counts)), range_counts)
    # Number of each range within its record.
    number = np.arange(len(record)) - np.repeat(np.cumsum(range_counts) - range_counts, range_counts)
    head = layout.RECORD_HEADER_BYTES + layout.SETTLEMENT_FIXED_BYTES
    positions = block.positions[record] + head + number * layout.RANGE_BYTES
    return record, Block(block.octets, positions, block.sizes[record])


def ranges_of(block: Block) -> Ranges:
    """Return the ranges of settlement records."""
    record, ranges = spread(block)
    lanes = (block.u32(12)[record] << layout.LANE_SHIFT) + ranges.u8(12)
    outcomes = block.u8(48).astype(np.int64) + (block.u8(49).astype(np.int64) << CAUSE_SHIFT)
    return Ranges(lanes, ranges.i64(0), ranges.u32(8), outcomes[record])


def of_owners(ranges: Ranges, owners: Set[int]) -> Ranges:
    """Return those of some queues and subscriptions."""
    is_owned = np.isin(ranges.lanes >> layout.LANE_SHIFT, sorted(owners))
    columns = (ranges.lanes, ranges.firsts, ranges.counts, ranges.outcomes)
    return Ranges(*(column[is_owned] for column in columns))


def read_ranges(
    directory: Path, segment: SegmentFile, start: int, stop: int, settling: Set[int], verify: bool, lost: Lost | None
) -> Iterator[Ranges]:
    """Yield the settlements of some queues and subscriptions in a part of a segment that the system queue lists.

    lost: takes damaged records; without it they are an error.
    Raises: RangeGone, StoreCorrupt.
    """
    numbers = np.array(sorted(settling), dtype=np.uint32)
    entries = lane_entries(directory, layout.SYSTEM_QUEUE, 0, start, stop)
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
        yield ranges_of(block)


def joined(parts: list[Ranges]) -> Ranges:
    """Sort ranges by lane and join neighbours of one outcome: single acknowledgements become few long ranges."""
    lanes = _columns([part.lanes for part in parts])
    firsts = _columns([part.firsts for part in parts])
    ends = firsts + _columns([part.counts for part in parts])
    outcomes = _columns([part.outcomes for part in parts])
    order = np.lexsort((firsts, lanes))
    lanes, firsts, ends, outcomes = lanes[order], firsts[order], ends[order], outcomes[order]
    if not len(lanes):
        return Ranges(lanes, firsts, ends, outcomes)
    is_new = np.ones(len(lanes), dtype=np.bool_)
    is_new[1:] = (lanes[1:] != lanes[:-1]) | (firsts[1:] != ends[:-1]) | (outcomes[1:] != outcomes[:-1])
    starts = np.flatnonzero(is_new)
    lasts = np.concatenate([starts[1:], [len(lanes)]]) - 1
    return Ranges(lanes[starts], firsts[starts], ends[lasts] - firsts[starts], outcomes[starts])


def by_lane(parts: list[Ranges]) -> dict[int, Settled]:
    """Return the joined ranges by lane."""
    ranges = joined(parts)
    ends = ranges.firsts + ranges.counts
    settled: dict[int, Settled] = {}
    for lane in np.unique(ranges.lanes).tolist():
        low, high = np.searchsorted(ranges.lanes, [lane, lane + 1])
        settled[lane] = Settled(ranges.firsts[low:high], ends[low:high], ranges.outcomes[low:high])
    return settled


def _columns(parts: list[Int64s]) -> Int64s:
    return np.concatenate([np.empty(0, dtype=np.int64), *parts]).astype(np.int64)
