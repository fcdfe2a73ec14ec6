"""One task of an export: a partition's rows into Parquet files, one for each table, destination and day.

Arrow writes the files in the worker that has read the log.  Through Spark's own writer every message would travel to
the JVM, become a row there and a column again, at about three times the processor time (``bench/export_bench.py``).
"""

from __future__ import annotations

import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_bridge.arrow.arrays import from_numpy, to_numpy
from spark_bridge.arrow.schema import DEAD_LETTERS, MESSAGES
from spark_bridge.attempts import Attempt
from spark_bridge.files.lake_files import NewFiles, OutputFile
from spark_bridge.log.lost import Lost
from spark_bridge.log.records import Piece
from spark_bridge.log.removed import Rows
from spark_bridge.manifests import ExportedFile, table_folder
from spark_bridge.read.pace import Pace
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import Plan

PARTITION_COLUMNS: Final = ("destination", "date")
# Columns with repeated values; for all others a dictionary only costs time.
REPEATING_COLUMNS: Final = frozenset(
    {
        "destination_kind",
        "destination_name",
        "store",
        "store_time",
        "priority",
        "type",
        "reply_to",
        "content_type",
        "user_id",
        "group_id",
        "delivery_state",
        "subscription",
        "lane",
        "outcome",
        "cause",
        "attempt",
        "consumer",
        "client_id",
        "address",
        "login",
        "subscription_id",
        "original_destination",
        "last_consumer",
    }
)
REPEATING_IN_MAPS: Final = {
    "headers": ("headers.key_value.key",),
    "properties": ("properties.key_value.key", "properties.key_value.value.type"),
}
# Nobody needs the smallest and largest body of a row group.
WITHOUT_STATISTICS: Final = ("headers", "properties", "body", "body_text", "failure")
COMPRESSION: Final = "zstd"  # level 1: as fast as snappy here, a sixth of its size on text
FILES_AT_ONCE: Final = 8  # written and synced at the same time, beyond those with several row groups
ROW_GROUP_BYTES: Final = 32 * 1024 * 1024

# Characters that Hive and Spark escape in the name of a partition's directory.
SPECIAL: Final = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
DIRECTORY_MAX_BYTES: Final = 200  # file systems allow 255


@dataclass(slots=True)
class Written:
    """The result of one task: its files, the messages of each destination in each segment, and its losses."""

    files: list[ExportedFile] = field(default_factory=list)
    rows: Rows = field(default_factory=dict)
    lost: Lost = field(default_factory=Lost)


def file_name(plan: Plan, number: int, attempt: Attempt) -> str:
    """Return the name of the files of a task."""
    return f"{plan.store_id}-{plan.start:020}-{plan.stop:020}-{number:05}{attempt.suffix}.parquet"


def write_partition(plan: Plan, pieces: list[Piece], files: NewFiles, file_name: str) -> Written:
    """Write the tables of a plan to ``<table>/destination=.../date=.../<file_name>`` of a lake, synced.

    Messages alone have no folder for their table.
    A file gets its name when it is whole: if Spark runs a task twice, the files are the same.
    """
    written = Written()
    for table in plan.tables:
        lost = Lost()
        rows = written.rows if table == MESSAGES else None
        written.files += _write_table(plan.of_table(table), pieces, files, file_name, rows, lost)
        if table == DEAD_LETTERS and MESSAGES in plan.tables:
            lost.damaged.clear()  # they were counted among the messages
        written.lost.add(lost)
    return written


def _write_table(
    plan: Plan, pieces: list[Piece], files: NewFiles, file_name: str, rows: Rows | None, lost: Lost
) -> list[ExportedFile]:
    writers: dict[str, _Writer] = {}
    folder = table_folder(plan.tables, plan.table)
    pace = Pace(plan.rate_bytes, monotonic, sleep) if plan.rate_bytes else None
    try:
        for batch in read_pieces(plan, pieces, rows=rows, lost=lost, pace=pace):
            for destination, path, part in _by_directory(batch):
                writer = writers.get(path)
                if writer is None:
                    told = {
                        "penstock.store": plan.store_id,
                        "penstock.table": plan.table,
                        "penstock.destination": destination,
                    }
                    place = f"{folder}/{path}/{file_name}".lstrip("/")
                    writer = writers[path] = _Writer(files, place, part.schema.with_metadata(told))
                writer.add(part)
        with ThreadPoolExecutor(FILES_AT_ONCE) as threads:  # a disk syncs several files in the time of one
            return list(threads.map(_Writer.finish, [writer for _, writer in sorted(writers.items())]))
    finally:
        for writer in writers.values():
            writer.close()


def _by_directory(batch: pa.RecordBatch) -> list[tuple[str, str, pa.RecordBatch]]:
    """Split a batch by destination and day: destination, directory, rows.  Most batches have one of each."""
    destinations = batch.column("destination").dictionary_encode()
    dates = batch.column("date").dictionary_encode()
    date_count = len(dates.dictionary)
    keys = _codes(destinations) * date_count + _codes(dates)
    found = []
    rows = batch.select([name for name in batch.schema.names if name not in PARTITION_COLUMNS])
    numbers, counts = np.unique(keys, return_counts=True)
    if len(numbers) > 1:  # one ``take`` for all
        rows = rows.take(from_numpy(np.argsort(keys, kind="stable")))
    first = 0
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        destination = destinations.dictionary[number // date_count].as_py()
        day = dates.dictionary[number % date_count].as_py()
        path = f"destination={directory_name(destination)}/date={day.isoformat()}"
        found.append((destination, path, rows.slice(first, count)))
        first += count
    return found


def _codes(encoded: pa.DictionaryArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    codes: np.ndarray[Any, np.dtype[np.int64]] = to_numpy(encoded.indices).astype(np.int64)
    return codes


def directory_name(value: str) -> str:
    """Return a partition value as Spark writes it; one too long for a file system is cut, with a hash for the rest."""
    escaped = SPECIAL.sub(lambda found: f"%{ord(found.group()):02X}", value)
    if len(escaped.encode()) <= DIRECTORY_MAX_BYTES:
        return escaped
    digest = hashlib.sha256(value.encode()).hexdigest()[:16]
    return f"{value_start(escaped, DIRECTORY_MAX_BYTES - len(digest) - 1)}~{digest}"


def value_start(escaped: str, size: int) -> str:
    """Return at most ``size`` octets of ``escaped``, cut neither inside a character nor inside an escape."""
    start = escaped.encode()[:size].decode("utf-8", "ignore")
    return re.sub(r"%.?$", "", start)


class _Writer:
    """One file.  Rows gather until they fill a row group.  schema: with metadata for readers that have only the file.

    The file is opened for its first row group: with many destinations most files have one, and are open one at a time.
    """

    def __init__(self, files: NewFiles, path: str, schema: pa.Schema) -> None:
        self._files = files
        self._path = path
        self._schema = schema
        self._output: OutputFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._batches: list[pa.RecordBatch] = []
        self._batch_bytes = 0
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take some rows."""
        self._batches.append(batch)
        self._batch_bytes += batch.nbytes
        self._rows += len(batch)
        if self._batch_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _open(self) -> pq.ParquetWriter:
        self._output = self._files.output(self._path)
        names = self._schema.names
        repeating = [name for name in names if name in REPEATING_COLUMNS]
        for name in names:
            repeating += REPEATING_IN_MAPS.get(name, ())
        return pq.ParquetWriter(
            self._output.stream,
            self._schema,
            compression=COMPRESSION,
            use_dictionary=repeating,
            write_statistics=[name for name in names if name not in WITHOUT_STATISTICS],
        )

    def _flush(self) -> None:
        with self._files.told(f"write {self._path}"):
            if self._writer is None:
                self._writer = self._open()
            if self._batches:
                self._writer.write_table(
                    pa.Table.from_batches(self._batches).replace_schema_metadata(self._schema.metadata)
                )
                self._batches.clear()
                self._batch_bytes = 0

    def finish(self) -> ExportedFile:
        """Write what is left, sync, and give the file its name."""
        self._flush()
        assert self._writer is not None and self._output is not None
        with self._files.told(f"write {self._path}"):
            self._writer.close()
        size = self._output.finish()
        self._output = None
        self._writer = None  # many have one, and each has buffers
        return ExportedFile(self._path, self._rows, size)

    def close(self) -> None:
        """Delete an unfinished file."""
        if self._output is not None:
            with suppress(OSError, pa.ArrowException):  # its footer may find no way either
                if self._writer is not None:
                    self._writer.close()
            self._output.discard()
