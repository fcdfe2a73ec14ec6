"""The tables messages and deliveries of an export or of a store's data directory, as columns of a trace needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from engine.store.read import selection
from engine.store.read.reader import StoreReader
from spark_bridge.arrow.schema import DELIVERIES, MESSAGES
from spark_bridge.files.choice import files_at
from spark_bridge.read.filters import ENDLESS
from spark_bridge.read.lake import Bounds, last_manifest, make_lake, read_lake
from spark_bridge.read.pieces import BATCH_ROWS
from spark_bridge.read.plan import PARTITION_BYTES
from spark_bridge.read.scan import scan, time_of
from spark_bridge.target import target_at

MESSAGE_COLUMNS: Final = (
    "destination_kind",
    "destination_name",
    "log_offset",
    "store_time",
    "priority",
    "expires",
    "group_id",
    "dead_letter",
    "headers",
    "body",
    "body_text",
)
DELIVERY_COLUMNS: Final = (
    "destination_kind",
    "destination_name",
    "subscription",
    "log_offset",
    "store_time",
    "message_offset",
    "message_time",
    "lane",
    "outcome",
    "cause",
    "attempt",
    "next_attempt",
    "consumer",
    "client_id",
    "address",
    "login",
)
STORE_FILE: Final = "store.json"
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Chosen:
    """destination: a pattern.  from_time, to_time: as in ``penstock.scan``, "" for all.

    Deliveries are taken from ``from_time`` on without an end, because they tell how messages before ``to_time`` fared.
    """

    destination: str = ">"
    from_time: str = ""
    to_time: str = ""

    def times(self) -> dict[str, str]:
        given = {"from-time": self.from_time, "to-time": self.to_time}
        return {name: text for name, text in given.items() if text}

    def from_ms(self) -> int:
        """Raises: ValueError."""
        return time_of(self.times(), "from") or 0

    def to_ms(self) -> int:
        """Raises: ValueError."""
        found = time_of(self.times(), "to")
        return ENDLESS if found is None else found


def read_tables(source: Path, chosen: Chosen) -> tuple[Batches, Batches]:
    """Return the rows of messages and of deliveries, in any order.

    Raises: ValueError for what is neither a store nor an export with both tables, and for wrong options; StoreError,
    TargetError, RangeGone, StoreCorrupt, also while reading.
    """
    selection.parse(chosen.destination)
    if chosen.from_ms() >= chosen.to_ms():
        raise ValueError(f"--from-time {chosen.from_time} is not before --to-time {chosen.to_time}")
    if (source / STORE_FILE).is_file():
        return _of_store(source, chosen)
    last = target_at(source).last()
    if last is None:
        raise ValueError(f"--from is {str(source)!r}, which is neither an export nor the data directory of a store")
    if not {MESSAGES, DELIVERIES}.issubset(last.tables):
        raise ValueError(
            f"--from is {str(source)!r}, an export of {', '.join(last.tables)}; needed are messages and deliveries "
            "(penstock export --tables messages,deliveries, to another directory)"
        )
    return _of_lake(source, chosen, MESSAGES), _of_lake(source, chosen, DELIVERIES)


def _of_store(source: Path, chosen: Chosen) -> tuple[Batches, Batches]:
    times = chosen.times()
    end = {"to-offset": str(StoreReader(source).end().offset)}  # one end for both, though a gateway goes on writing
    of_messages = times if "to-time" in times else times | end
    of_deliveries = {name: text for name, text in times.items() if name == "from-time"} | end
    return (
        iter(_scan(source, MESSAGE_COLUMNS, MESSAGES, chosen, of_messages)),
        iter(_scan(source, DELIVERY_COLUMNS, DELIVERIES, chosen, of_deliveries)),
    )


def _scan(
    source: Path, columns: Sequence[str], table: str, chosen: Chosen, bounds: dict[str, str]
) -> pa.RecordBatchReader:
    return scan(str(source), columns, table=table, destination=chosen.destination, **bounds)


def _of_lake(source: Path, chosen: Chosen, table: str) -> Batches:
    files = files_at(source)
    tables = last_manifest(files, table).tables
    columns = MESSAGE_COLUMNS if table == MESSAGES else DELIVERY_COLUMNS
    bounds = Bounds(0, ENDLESS, chosen.from_ms(), chosen.to_ms() if table == MESSAGES else ENDLESS)
    lake = make_lake(files, tables, table, columns, selection.parse(chosen.destination), bounds, PARTITION_BYTES)
    return (batch for part in lake.partitions for batch in read_lake(lake, part, BATCH_ROWS))
