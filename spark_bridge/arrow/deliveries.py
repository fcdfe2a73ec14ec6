"""Records of settlements and failed attempts -> one Arrow record batch with a row for each message that they name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.store.format import layout
from engine.store.read.reader import DestinationInfo
from engine.values.destination import KIND_NAMES, uri
from engine.values.outcomes import (
    ACKNOWLEDGED,
    CAUSE_CONNECTION_LOST,
    CAUSE_EXHAUSTED,
    CAUSE_FIRED,
    CAUSE_NACK,
    CAUSE_NONE,
    CAUSE_REJECTED,
    OUTCOME_NAMES,
)
from spark_bridge.arrow.arrays import Booleans, from_numpy, strings, timestamps
from spark_bridge.arrow.columns import CAUSES, DAY_MS
from spark_bridge.arrow.schema import DELIVERIES, SCHEMAS
from spark_bridge.log.places import Places
from spark_bridge.log.records import Block, Int64s
from spark_bridge.log.settlements import spread

FAILED: Final = 0  # a record of attempts has no outcome
OUTCOMES: Final = ["failed", *(OUTCOME_NAMES[outcome] for outcome in range(1, max(OUTCOME_NAMES) + 1)), "fired"]
FIRED: Final = len(OUTCOMES) - 1  # of a scheduled message that repeats
OF_AN_ATTEMPT: Final = (CAUSE_NONE, CAUSE_NACK, CAUSE_CONNECTION_LOST, CAUSE_EXHAUSTED, CAUSE_REJECTED, CAUSE_FIRED)
CONSUMER_TEXTS: Final = {"client_id": "client_id", "address": "address", "login": "login"} | {
    "subscription_id": "subscription"
}


@dataclass(frozen=True, slots=True)
class Owner:
    """A queue or a durable subscription whose records settle messages.  subscription: its name, "" for a queue."""

    destination: DestinationInfo
    subscription: str


class Failures:
    """How often messages have failed, as far as the records up to some place say."""

    def __init__(self, lanes: Int64s, entries: Int64s, counts: Int64s) -> None:
        """Each of the columns is in the order of the log; lanes are those of owners."""
        order = np.lexsort((entries, lanes))
        self._lanes, self._entries, self._counts = lanes[order], entries[order], counts[order]

    def counts(self, lanes: Int64s, entries: Int64s) -> Int64s:
        """Return the last count of each message, 0 if it has not failed."""
        found = np.zeros(len(entries), dtype=np.int64)
        if not len(self._lanes):
            return found
        for lane in np.unique(lanes).tolist():
            low, high = np.searchsorted(self._lanes, [lane, lane + 1])
            if low == high:
                continue
            rows = np.flatnonzero(lanes == lane)
            known = self._entries[low:high]
            at = np.searchsorted(known, entries[rows], side="right") - 1
            is_known = (at >= 0) & (known[np.maximum(at, 0)] == entries[rows])
            found[rows[is_known]] = self._counts[low:high][at[is_known]]
        return found


@dataclass(frozen=True, slots=True)
class Past:
    """What rows need of earlier records.  consumers: their descriptions, by number."""

    consumers: dict[int, dict[str, str]]
    failures: Failures


def delivery_batches(
    block: Block,
    store_id: str,
    owners: dict[int, Owner],
    past: Past,
    places: Places,
    columns: Sequence[str],
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Yield one row per message that the records of ``block`` name, all of them records of ``owners``."""
    record, ranges = spread(block)
    ends = np.cumsum(ranges.u32(8))
    firsts = ranges.i64(0)
    total = int(ends[-1]) if len(ends) else 0
    for start in range(0, total, batch_rows):
        rows = np.arange(start, min(start + batch_rows, total))
        which = np.searchsorted(ends, rows, side="right")
        entries = firsts[which] + rows - np.where(which > 0, ends[which - 1], 0)
        part = Block(ranges.octets, ranges.positions[which], ranges.sizes[which])
        whole = Block(block.octets, block.positions[record[which]], block.sizes[record[which]])
        yield _batch(whole, part, entries, store_id, owners, past, places, columns)


def _batch(
    block: Block,
    ranges: Block,
    entries: Int64s,
    store_id: str,
    owners: dict[int, Owner],
    past: Past,
    places: Places,
    columns: Sequence[str],
) -> pa.RecordBatch:
    numbers, which = np.unique(block.u32(12), return_inverse=True)
    of_batch = [owners[number] for number in numbers.tolist()]
    infos = [owner.destination for owner in of_batch]
    priorities = ranges.u8(12).astype(np.int64)
    own_lanes = (block.u32(12) << layout.LANE_SHIFT) + priorities
    lanes = (np.array([info.destination_id for info in infos])[which] << layout.LANE_SHIFT) + priorities
    message_offsets, message_times = places.find(lanes, entries)
    is_unknown = message_offsets < 0
    times = block.i64(32)
    causes = block.u8(49).astype(np.int64)
    is_settlement = block.u8(8) == layout.SETTLEMENT
    outcomes = np.where(is_settlement, block.u8(48), np.where(causes == CAUSE_FIRED, FIRED, FAILED)).astype(np.int64)
    attempts, is_no_attempt = _attempts(outcomes, causes, ranges.u16(14), past.failures.counts(own_lanes, entries))
    due = block.i64(56)
    rows = from_numpy(which)
    offsets = from_numpy(message_offsets, is_unknown)
    prefix, nothing = strings([f"ID:{store_id}-", ""])
    values = {
        "destination": strings([uri(info.kind, info.name) for info in infos]).take(rows),
        "destination_kind": strings([KIND_NAMES[info.kind] for info in infos]).take(rows),
        "destination_name": strings([info.name for info in infos]).take(rows),
        "subscription": texts([owner.subscription for owner in of_batch], which),
        "store": strings([store_id]).take(from_numpy(np.zeros(len(which), dtype=np.int8))),
        "log_offset": from_numpy(block.i64(16)),
        "store_time": timestamps(times),
        "date": from_numpy((times // DAY_MS).astype(np.int32)).cast(pa.date32()),
        "message_id": pc.binary_join_element_wise(prefix, offsets.cast(pa.string()), nothing),
        "message_offset": offsets,
        "message_time": timestamps(message_times, is_unknown),
        "time_in_queue_ms": from_numpy(times - message_times, is_unknown),
        "queue_offset": from_numpy(entries),
        "lane": from_numpy(priorities.astype(np.int32)),
        "outcome": strings(OUTCOMES).take(from_numpy(outcomes)),
        "cause": strings(CAUSES).take(from_numpy(causes, causes == CAUSE_NONE)),
        "attempt": from_numpy(attempts.astype(np.int32), is_no_attempt),
        "next_attempt": timestamps(due, is_settlement | (due <= times)),
        **_consumers(block.u32(44), past.consumers),
    }
    chosen = pa.schema([SCHEMAS[DELIVERIES].field(name) for name in columns])
    return pa.RecordBatch.from_arrays([values[name] for name in columns], schema=chosen)


def _attempts(outcomes: Int64s, causes: Int64s, told: Int64s, failed: Int64s) -> tuple[Int64s, Booleans]:
    """Return the number of each attempt, and where there was none.

    told: the count in the record itself, which settlements of acknowledged messages and of older stores lack.
    failed: attempts before that.
    """
    attempts = np.where((told > 0) & (outcomes != ACKNOWLEDGED), told, failed + 1)
    return attempts, ~np.isin(causes, OF_AN_ATTEMPT)


def _consumers(numbers: Int64s, described: dict[int, dict[str, str]]) -> dict[str, pa.Array]:
    known, which = np.unique(numbers, return_inverse=True)
    told = [described.get(number, {}) for number in known.tolist()]
    columns: dict[str, pa.Array] = {"consumer": from_numpy(numbers, numbers == 0)}
    for column, member in CONSUMER_TEXTS.items():
        columns[column] = texts([each.get(member, "") for each in told], which)
    return columns


def texts(values: list[str], which: np.ndarray[Any, np.dtype[np.intp]]) -> pa.Array:
    """Return the chosen values, null for an empty one."""
    is_empty = np.array([not value for value in values], dtype=np.bool_)
    return strings(values).take(from_numpy(which, is_empty[which]))
