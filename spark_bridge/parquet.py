"""One task of an export: a partition's rows into Parquet files, one for each table and folder.

Arrow writes the files in the worker that has read the log.  Through Spark's own writer every message would travel to
the JVM, become a row there and a column again, at about three times the processor time (``bench/export_bench.py``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_bridge.arrow.arrays import from_numpy, to_numpy
from spark_bridge.arrow.schema import DEAD_LETTERS, MESSAGES
from spark_bridge.attempts import Attempt
from spark_bridge.files.lake_files import NewFiles
from spark_bridge.log.lost import Lost
from spark_bridge.log.records import Piece
from spark_bridge.log.removed import Rows
from spark_bridge.manifests import ExportedFile, table_folder
from spark_bridge.parquet_file import OneDestinationFile, SortedFile
from spark_bridge.partitioning import Partitioning
from spark_bridge.read.pace import Pace
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import Plan

FileName = Callable[[int], str]  # of a part

FILES_AT_ONCE: Final = 8  # written and synced at the same time, beyond those with several row groups

# Characters that Hive and Spark escape in the name of a partition's directory.
SPECIAL: Final = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
DIRECTORY_MAX_BYTES: Final = 200  # file systems allow 255
LIKE_CUT: Final = re.compile(r"~[0-9a-f]{16}$")


@dataclass(slots=True)
class Written:
    """The result of one task: its files, the messages of each destination in each segment, and its losses.

    destinations: by name, the rows and octets of each; a file of several is divided by their rows.
    """

    files: list[ExportedFile] = field(default_factory=list)
    rows: Rows = field(default_factory=dict)
    lost: Lost = field(default_factory=Lost)
    destinations: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, file: ExportedFile, rows_by_destination: dict[str, int]) -> None:
        """Take a file."""
        self.files.append(file)
        row = 0
        for name, count in rows_by_destination.items():
            octets = file.bytes * (row + count) // file.rows - file.bytes * row // file.rows
            row += count
            rows, others = self.destinations.get(name, (0, 0))
            self.destinations[name] = (rows + count, others + octets)


def by_destination(tasks: Iterable[Written]) -> dict[str, dict[str, int]]:
    """Return the rows and octets of each destination in the files of all tasks."""
    found: dict[str, dict[str, int]] = {}
    for written in tasks:
        for name, (rows, octets) in written.destinations.items():
            counts = found.setdefault(name, {"rows": 0, "bytes": 0})
            counts["rows"] += rows
            counts["bytes"] += octets
    return dict(sorted(found.items()))


def file_name(plan: Plan, number: int, attempt: Attempt, part: int) -> str:
    """Return the name of the files of a task.  part: of several in one folder."""
    more = f"-{part:03}" if part else ""
    return f"{plan.store_id}-{plan.start:020}-{plan.stop:020}-{number:05}{more}{attempt.suffix}.parquet"


def write_partition(plan: Plan, pieces: list[Piece], files: NewFiles, named: FileName) -> Written:
    """Write the tables of a plan to ``<table>/destination=.../date=.../<named(0)>`` of a lake, synced.

    Messages alone have no folder for their table, and a partitioning by date none for destinations.
    A file gets its name when it is whole: if Spark runs a task twice, the files are the same.
    """
    written = Written()
    for table in plan.tables:
        lost = Lost()
        rows = written.rows if table == MESSAGES else None
        _write_table(plan.of_table(table), pieces, files, named, written, rows, lost)
        if table == DEAD_LETTERS and MESSAGES in plan.tables:
            lost.damaged.clear()  # they were counted among the messages
        written.lost.add(lost)
    return written


def _write_table(
    plan: Plan, pieces: list[Piece], files: NewFiles, named: FileName, written: Written, rows: Rows | None, lost: Lost
) -> None:
    writers: dict[str, OneDestinationFile] = {}
    parts: dict[str, int] = {}  # the next one of each folder
    folder = table_folder(plan.tables, plan.table)
    pace = Pace(plan.rate_bytes, monotonic, sleep) if plan.rate_bytes else None
    try:
        for batch in read_pieces(plan, pieces, rows=rows, lost=lost, pace=pace):
            for destination, path, part in _by_folder(batch, plan.partitioning):
                if path in writers and writers[path].is_full():
                    written.add(writers[path].finish(), writers[path].rows_by_destination())
                    del writers[path]
                if path not in writers:
                    number = parts.get(path, 0)
                    parts[path] = number + 1
                    place = f"{folder}/{path}/{named(number)}".lstrip("/")
                    writers[path] = _writer(plan, files, place, part.schema, destination)
                writers[path].add(part)
        paths = sorted(writers)
        with ThreadPoolExecutor(FILES_AT_ONCE) as threads:  # a disk syncs several files in the time of one
            finished = list(threads.map(OneDestinationFile.finish, [writers[path] for path in paths]))
        for path, file in zip(paths, finished, strict=True):
            written.add(file, writers[path].rows_by_destination())
    finally:
        for writer in writers.values():
            writer.close()


def _writer(plan: Plan, files: NewFiles, path: str, schema: pa.Schema, destination: str) -> OneDestinationFile:
    """Begin a file.  destination: of all its rows, "" for many."""
    told = {"penstock.store": plan.store_id, "penstock.table": plan.table}
    if destination:
        told["penstock.destination"] = destination
    kind = OneDestinationFile if destination else SortedFile
    return kind(files, path, schema.with_metadata(told), destination, plan.file_bytes)


def _by_folder(batch: pa.RecordBatch, partitioning: Partitioning) -> list[tuple[str, str, pa.RecordBatch]]:
    """Split a batch: destination, "" for many; folder; rows without the columns of the partitioning.

    Most batches have one day, and of few destinations one.
    """
    dates = batch.column("date").dictionary_encode()
    keys, date_count = _codes(dates), len(dates.dictionary)
    names = [""]
    if "destination" in partitioning:
        destinations = batch.column("destination").dictionary_encode()
        names = destinations.dictionary.to_pylist()
        keys = keys + _codes(destinations) * date_count
    found = []
    rows = batch.select([name for name in batch.schema.names if name not in partitioning])
    numbers, counts = np.unique(keys, return_counts=True)
    if len(numbers) > 1:  # one ``take`` for all
        rows = rows.take(from_numpy(np.argsort(keys, kind="stable")))
    first = 0
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        destination = names[number // date_count]
        path = f"date={dates.dictionary[number % date_count].as_py().isoformat()}"
        if destination:
            path = f"destination={directory_name(destination)}/{path}"
        found.append((destination, path, rows.slice(first, count)))
        first += count
    return found


def _codes(encoded: pa.DictionaryArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    codes: np.ndarray[Any, np.dtype[np.int64]] = to_numpy(encoded.indices).astype(np.int64)
    return codes


def directory_name(value: str) -> str:
    """Return a partition value as Spark writes it; one too long for a file system is cut, with a hash for the rest.

    One that ends like those has a hash, too: so no name of a destination is that of another one's directory.
    """
    escaped = SPECIAL.sub(lambda found: f"%{ord(found.group()):02X}", value)
    if len(escaped.encode()) <= DIRECTORY_MAX_BYTES and not LIKE_CUT.search(escaped):
        return escaped
    digest = hashlib.sha256(value.encode()).hexdigest()[:16]
    return f"{value_start(escaped, DIRECTORY_MAX_BYTES - len(digest) - 1)}~{digest}"


def value_start(escaped: str, size: int) -> str:
    """Return at most ``size`` octets of ``escaped``, cut neither inside a character nor inside an escape."""
    start = escaped.encode()[:size].decode("utf-8", "ignore")
    return re.sub(r"%.?$", "", start)
