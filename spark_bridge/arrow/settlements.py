"""The settled messages of a consume queue, as sorted ranges: one lookup for many messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from engine.store.format import layout
from engine.values.outcomes import CAUSE_NAMES, CAUSE_NONE, OUTCOME_NAMES
from spark_bridge.arrow.records import Block, Int64s

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


@dataclass(frozen=True, slots=True)
class Ranges:
    """Settled ranges in the order of the log; ``outcomes`` with their causes."""

    lanes: Int64s
    firsts: Int64s
    counts: Int64s
    outcomes: Int64s


def ranges_of(block: Block) -> Ranges:
    """Return the ranges of settlement records."""
    range_counts = block.u32(52)
    record = np.repeat(np.arange(len(range_counts)), range_counts)
    # Number of each range within its record.
    number = np.arange(len(record)) - np.repeat(np.cumsum(range_counts) - range_counts, range_counts)
    head = layout.RECORD_HEADER_BYTES + layout.SETTLEMENT_FIXED_BYTES
    ranges = Block(block.octets, block.positions[record] + head + number * layout.RANGE_BYTES, block.sizes[record])
    lanes = (block.u32(12)[record] << layout.LANE_SHIFT) + ranges.u8(12)
    outcomes = block.u8(48).astype(np.int64) + (block.u8(49).astype(np.int64) << CAUSE_SHIFT)
    return Ranges(lanes, ranges.i64(0), ranges.u32(8), outcomes[record])


def by_lane(parts: list[Ranges]) -> dict[int, Settled]:
    """Sort ranges by lane and join neighbours of one outcome: single acknowledgements become few long ranges."""
    lanes = _joined([part.lanes for part in parts], np.int64)
    firsts = _joined([part.firsts for part in parts], np.int64)
    ends = firsts + _joined([part.counts for part in parts], np.int64)
    outcomes = _joined([part.outcomes for part in parts], np.int64)
    order = np.lexsort((firsts, lanes))
    lanes, firsts, ends, outcomes = lanes[order], firsts[order], ends[order], outcomes[order]
    settled: dict[int, Settled] = {}
    if not len(lanes):
        return settled
    is_new = np.ones(len(lanes), dtype=np.bool_)
    is_new[1:] = (lanes[1:] != lanes[:-1]) | (firsts[1:] != ends[:-1]) | (outcomes[1:] != outcomes[:-1])
    starts = np.flatnonzero(is_new)
    lasts = np.concatenate([starts[1:], [len(lanes)]]) - 1
    lanes, firsts, ends, outcomes = lanes[starts], firsts[starts], ends[lasts], outcomes[starts]
    for lane in np.unique(lanes).tolist():
        low, high = np.searchsorted(lanes, [lane, lane + 1])
        settled[lane] = Settled(firsts[low:high], ends[low:high], outcomes[low:high])
    return settled


def _joined(parts: list[Any], dtype: Any) -> Any:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype=dtype)
