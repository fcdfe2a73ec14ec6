"""A table as a stream: ranges of the log, one for each micro-batch.

Spark writes the end of a range into its checkpoint before it reads the range.  So a batch that is repeated after a
failure has the same rows, whatever was sent meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import time_ns
from typing import Any, Final

import pyarrow as pa

from engine.store.read import selection
from engine.store.read.reader import StoreReader
from engine.values.errors import RangeGone, StoreError
from spark_bridge.arrow.arrays import to_numpy
from spark_bridge.arrow.schema import MESSAGES
from spark_bridge.errors import LakeError, TargetError
from spark_bridge.files.growing_store import growing_store
from spark_bridge.log.lost import Lost
from spark_bridge.log.records import Piece
from spark_bridge.log.times import offset_at
from spark_bridge.read.filters import ENDLESS
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import PARTITION_BYTES, Plan
from spark_bridge.read.scan import (
    FAIL_ON_DATA_LOSS,
    MAX_BYTES,
    MAX_MESSAGES,
    OF_STREAMS,
    READER,
    flag_of,
    named_options,
    number_of,
    path_of,
    plan_read,
    table_of,
    time_of,
)

NOT_OF_STREAMS: Final = ("lake", "to-offset", "to-time")
LATEST: Final = "latest"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a batch ends, as Spark's checkpoint keeps it.

    whole_from: the end of the log when the query first began.  What was sent from there on, retention must have left;
    of earlier messages it may have removed some before.
    """

    store: str
    log_offset: int
    whole_from: int


@dataclass(frozen=True, slots=True)
class StreamTask:
    """One task of a batch."""

    plan: Plan
    pieces: list[Piece]

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows.  Raises: RangeGone, StoreCorrupt."""
        with _hint():
            yield from read_pieces(self.plan, self.pieces, lost=Lost() if self.plan.skip_gone else None)


class LogStream:
    """One stream by its options.  max_bytes, max_rows: of a batch, 0 for no limit.

    Raises: ValueError with the option and its allowed values.
    """

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        given = named_options(options)
        for name in NOT_OF_STREAMS:
            if name in given:
                raise ValueError(
                    f"option {name!r} is for batches (spark.read); a stream has no end and begins in the log"
                )
        table_of(given)
        self._columns = tuple(columns)
        self._given = given
        try:
            self._store = growing_store(path_of(given))
        except TargetError as error:
            raise ValueError(f"option 'path': {error}") from None
        self._fails = flag_of(given, FAIL_ON_DATA_LOSS)
        self.max_bytes = number_of(given, MAX_BYTES, 1) or 0
        self.max_rows = number_of(given, MAX_MESSAGES, 1) or 0
        self._reader = given.get(READER, "")
        self._check_reader()
        self._read_options = {name: value for name, value in given.items() if name not in OF_STREAMS}
        self._read_options.pop("from-offset", None)
        self._read_options.pop("from-time", None)
        self._told: Place | None = None

    def _check_reader(self) -> None:
        from engine.store.read.leases import READER_CHARACTERS  # workers load this module, and check nothing

        if READER in self._given and not (0 < len(self._reader) <= READER_CHARACTERS and self._reader.isprintable()):
            raise ValueError(
                f"option {READER!r} is {self._reader[:80]!r}; it takes 1 to {READER_CHARACTERS} printable characters"
            )

    def first(self) -> Place:
        """Return where a new query begins.  Raises: StoreError, StoreCorrupt, LakeError."""
        reader = StoreReader(self._store.now())
        end = reader.end().offset
        start: int | None
        if self._given.get("from-offset") == LATEST:
            start = end
        elif (time_ms := time_of(self._given, "from")) is not None:
            start = offset_at(reader, time_ms)
        else:
            start = number_of(self._given, "from-offset", 0)
        return Place(reader.store_id, reader.oldest_offset if start is None else start, end)

    def last(self) -> Place:
        """Return the end of the log.  Raises: StoreError, StoreCorrupt, LakeError."""
        store_id, end = self._store.end()
        return Place(store_id, end, end)

    def batch_end(self, start: Place, last: Place, is_limited: bool = True) -> Place:
        """Return where the batch ends that begins at ``start``; at the latest at ``last``.

        Raises: StoreError, StoreCorrupt, RangeGone.
        """
        end = max(start.log_offset, last.log_offset)
        if is_limited and self.max_bytes:
            end = min(end, start.log_offset + self.max_bytes)
        if is_limited and self.max_rows and end > start.log_offset:
            end = self._after_rows(start, end)
        return replace(start, log_offset=end)

    def tasks(self, start: Place, end: Place) -> list[StreamTask]:
        """Plan the batch between two places.  Raises: StoreError, StoreCorrupt, RangeGone."""
        return self._tasks(start, end.log_offset, self._columns)

    def has_read(self, place: Place) -> None:
        """Let the gateway know that all before ``place`` is done, if the stream has a name.

        Raises: StoreError if it cannot take note of that.
        """
        if not self._reader or place == self._told:
            return
        # Workers load this module, and write nothing.
        from engine.store.read.export_watermarks import Watermark

        chosen = selection.parse(self._given.get("destination", ""))
        mark = Watermark(
            reader=self._reader,
            chosen=chosen,
            to_offset=place.log_offset,
            written_ms=time_ns() // 1_000_000,
            is_stream=True,
            has_messages=table_of(self._given) == MESSAGES,
        )
        try:
            if self._told is None:
                self._store.begin(place.store, mark)
            else:
                self._store.advance(place.store, mark)
        except (OSError, LakeError) as error:
            raise StoreError(
                f"retention cannot learn what {mark.title()} has read, and may take what it has not: {error}; without "
                f"option {READER!r} it does not wait for the stream"
            ) from None
        self._told = place

    def _tasks(self, start: Place, stop: int, columns: Sequence[str]) -> list[StreamTask]:
        reader = StoreReader(self._store.now())
        if reader.store_id != start.store:
            raise StoreError(
                f"the checkpoint of this query is of store {start.store}, and {reader.directory} is store "
                f"{reader.store_id}; each store needs a query with a checkpoint of its own"
            )
        if stop > reader.end().offset:
            raise StoreError(
                f"the checkpoint of this query has store {start.store} up to log offset {stop}, but the store ends at "
                f"{reader.end().offset}: it is an older copy; begin a query with a new checkpoint"
            )
        begin = start.log_offset if self._fails else max(start.log_offset, reader.oldest_offset)
        if begin >= stop:
            return []
        bounds = {"from-offset": str(begin), "to-offset": str(stop)}
        with _hint():
            plan = plan_read(self._read_options | bounds, columns, reader.directory).plan
        whole_from = start.whole_from if self._fails else ENDLESS
        alone = replace(plan, partitions=[], skip_gone=not self._fails, whole_from=whole_from)
        # Numbered by their place in the log, with those that have nothing now: a sink knows repeated ones by number.
        size = number_of(self._given, "partition-bytes", 1) or PARTITION_BYTES
        by_cell = {pieces[0].start // size: pieces for pieces in plan.partitions}
        return [StreamTask(alone, by_cell.get(cell, [])) for cell in range(start.log_offset // size, -(-stop // size))]

    def _after_rows(self, start: Place, stop: int) -> int:
        """Return the offset of the first row that has no room in the batch; rows of one record stay together."""
        first = -1
        room = self.max_rows
        for task in self._tasks(start, stop, ["log_offset"]):
            for batch in task.rows():
                offsets = to_numpy(batch.column(0))
                first = int(offsets[0]) if first < 0 and len(offsets) else first
                later = offsets[max(room, 0) :]
                later = later[later > first]
                if len(later):
                    return int(later[0])
                room -= len(offsets)
        return stop


@contextmanager
def _hint() -> Iterator[None]:
    """Add to an error of retention how to continue."""
    try:
        yield
    except RangeGone as error:
        raise RangeGone(f"{error}; the option {FAIL_ON_DATA_LOSS}=false continues with what is left") from None


def place_of(described: Mapping[str, Any]) -> Place:
    """Return a place as the checkpoint has it.  Raises: ValueError for another source's."""
    try:
        return Place(str(described["store"]), int(described["log_offset"]), int(described["whole_from"]))
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"the checkpoint has {dict(described)!r}, which is no place in a store") from None
