"""One task of an export: a partition's messages into Parquet files, one for each destination and day.

Arrow writes the files in the worker that has read the log.  Through Spark's own writer every message would travel to
the JVM, become a row there and a column again, at about three times the processor time (``bench/export_bench.py``).
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_bridge.arrow.arrays import from_numpy, to_numpy
from spark_bridge.arrow.records import Piece
from spark_bridge.arrow.schema import ARROW_SCHEMA
from spark_bridge.lost import Lost
from spark_bridge.offsets import ExportedFile
from spark_bridge.plan import Plan, read_pieces
from spark_bridge.removed import Rows

PARTITION_COLUMNS: Final = ("destination", "date")
FILE_COLUMNS: Final = [name for name in ARROW_SCHEMA.names if name not in PARTITION_COLUMNS]
# Columns with repeated values; for all others a dictionary only costs time.
REPEATING_COLUMNS: Final = [
    "destination_kind",
    "destination_name",
    "store_time",
    "priority",
    "type",
    "reply_to",
    "delivery_state",
    "headers.key_value.key",
]
# Nobody needs the smallest and largest body of a row group.
STATISTICS_COLUMNS: Final = [name for name in FILE_COLUMNS if name not in ("headers", "body", "body_text")]
COMPRESSION: Final = "zstd"  # level 1: as fast as snappy here, a sixth of its size on text
ROW_GROUP_BYTES: Final = 32 * 1024 * 1024

# Characters that Hive and Spark escape in the name of a partition's directory.
SPECIAL: Final = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
DIRECTORY_MAX_BYTES: Final = 200  # file systems allow 255


@dataclass(frozen=True, slots=True)
class Written:
    """The result of one task: its files, the messages of each destination in each segment, and its losses."""

    files: list[ExportedFile]
    rows: Rows
    lost: Lost


def write_partition(plan: Plan, pieces: list[Piece], directory: Path, file_name: str) -> Written:
    """Write the messages of ``pieces`` to ``destination=.../date=.../<file_name>`` under ``directory``, synced.

    A file gets its name when it is whole: if Spark runs a task twice, the files are the same.
    """
    writers: dict[str, _Writer] = {}
    rows: Rows = {}
    lost = Lost()
    try:
        for batch in read_pieces(plan, pieces, rows=rows, lost=lost):
            for path, part in _by_directory(batch):
                writer = writers.get(path)
                if writer is None:
                    writer = writers[path] = _Writer(directory, f"{path}/{file_name}")
                writer.add(part)
        return Written([writer.finish() for _, writer in sorted(writers.items())], rows, lost)
    finally:
        for writer in writers.values():
            writer.close()


def _by_directory(batch: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
    """Split a batch by destination and day; most batches have one of each."""
    destinations = batch.column("destination").dictionary_encode()
    dates = batch.column("date").dictionary_encode()
    date_count = len(dates.dictionary)
    keys = _codes(destinations) * date_count + _codes(dates)
    found = []
    numbers = np.unique(keys).tolist()
    for number in numbers:
        destination = destinations.dictionary[number // date_count].as_py()
        day = dates.dictionary[number % date_count].as_py()
        path = f"destination={directory_name(destination)}/date={day.isoformat()}"
        rows = batch if len(numbers) == 1 else batch.take(from_numpy(np.flatnonzero(keys == number)))
        found.append((path, rows.select(FILE_COLUMNS)))
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
    """One file.  Rows gather until they fill a row group."""

    def __init__(self, directory: Path, path: str) -> None:
        self._path = path
        self._place = directory / path
        self._place.parent.mkdir(parents=True, exist_ok=True)
        self._temporary = self._place.with_suffix(f".{os.getpid()}.tmp")
        self._file = open(self._temporary, "wb")  # noqa: SIM115
        self._writer = pq.ParquetWriter(
            self._file,
            pa.schema([ARROW_SCHEMA.field(name) for name in FILE_COLUMNS]),
            compression=COMPRESSION,
            use_dictionary=REPEATING_COLUMNS,
            write_statistics=STATISTICS_COLUMNS,
        )
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

    def _flush(self) -> None:
        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches))
            self._batches.clear()
            self._batch_bytes = 0

    def finish(self) -> ExportedFile:
        """Write what is left, sync, and give the file its name."""
        self._flush()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._temporary, self._place)
        return ExportedFile(self._path, self._rows, self._place.stat().st_size)

    def close(self) -> None:
        """Close the file; delete an unfinished one."""
        if not self._file.closed:
            self._writer.close()
            self._file.close()
            self._temporary.unlink()
