"""What rows without headers and bodies are made of: from records, or from entries of consume queues alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from spark_bridge.log.records import Block, Entries, Int64s

# Columns that an entry has; ``priority`` needs flags that only the record has.
ENTRY_COLUMNS: Final = frozenset(
    {
        "destination",
        "destination_kind",
        "destination_name",
        "store",
        "message_id",
        "log_offset",
        "queue_offset",
        "lane",
        "store_time",
        "date",
        "persistent",
        "expires",
        "delivery_state",
        "delivery_cause",
        "dead_letter",
        "subscription_states",
    }
)


@dataclass(frozen=True, slots=True)
class Heads:
    """Fields of messages.  numbers: of their destinations.  flags: in entries only the low octet."""

    numbers: Int64s
    flags: Int64s
    lanes: Int64s
    offsets: Int64s
    queue_offsets: Int64s
    times_ms: Int64s
    expires_ms: Int64s

    def at(self, rows: slice | Int64s) -> Heads:
        """Return those of some messages."""
        return Heads(
            self.numbers[rows],
            self.flags[rows],
            self.lanes[rows],
            self.offsets[rows],
            self.queue_offsets[rows],
            self.times_ms[rows],
            self.expires_ms[rows],
        )


def heads_of_records(block: Block) -> Heads:
    """Return the heads of records of messages."""
    return Heads(
        block.u32(12),
        block.u16(10),
        block.u8(52).astype(np.int64),
        block.i64(16),
        block.i64(72),
        block.i64(32),
        block.i64(64),
    )


def heads_of_entries(entries: Entries, number: int, queue_offsets: Int64s) -> Heads:
    """Return the heads of messages of one lane by their entries.  number: of its destination."""
    flags, lanes, offsets, times_ms, expires_ms = (
        entries[name].astype(np.int64) for name in ("flags", "priority", "offset", "store_time", "expires")
    )
    return Heads(np.full(len(entries), number), flags, lanes, offsets, queue_offsets, times_ms, expires_ms)


def joined(parts: Sequence[Heads]) -> Heads:
    """Return the heads of all parts, one after the other."""
    columns = ([getattr(part, field.name) for part in parts] for field in fields(Heads))
    return Heads(*(np.concatenate(column) for column in columns))
