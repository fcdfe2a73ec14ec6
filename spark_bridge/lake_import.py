"""An export, or Parquet files of others -> messages to a gateway, without Spark.

The files of an export come in the order of their first messages, and so do the rows in each: the messages of a
destination keep their order.  Every file is one part of a write (``write/task.py``): its rows go in transactions that
the gateway applies once.  Files that are wholly written are listed beside the export; so an import that failed or was
killed is run again, and writes the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engine.store.read import selection
from engine.store.read.selection import Selection
from spark_bridge.arrow.arrays import to_numpy
from spark_bridge.arrow.schema import MESSAGES, SCHEMAS
from spark_bridge.errors import LakeError, TargetError
from spark_bridge.files.choice import file_at
from spark_bridge.files.lake_files import LakeFiles
from spark_bridge.manifests import FOLDER, LakeFile
from spark_bridge.read.filters import ENDLESS
from spark_bridge.read.lake import Bounds, last_manifest, make_lake, read_lake
from spark_bridge.write.options import WriteOptions
from spark_bridge.write.rows import HEADERS, OTHERS, check_columns
from spark_bridge.write.task import Written, write_rows

BATCH_ROWS: Final = 1_000
FOOTERS_AT_ONCE: Final = 16  # read from another machine
DIGEST_DIGITS: Final = 16
STATE: Final = "delivery_state"
EVERYTHING: Final = Bounds(0, ENDLESS, 0, ENDLESS)

Rows = Iterator[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Request:
    """source: directory or URL of an export, or of Parquet files with the columns of a write, or of one such file.

    options: how to write.  destination: pattern of what is written.  to: where all rows go, "" for their own
    destinations.  state: only rows in this delivery state, "" for all.  write_id: what is written with the same one is
    not written twice, "" for one of the other fields.
    """

    source: Path | str
    options: WriteOptions
    destination: str = ">"
    to: str = ""
    state: str = ""
    table: str = MESSAGES
    write_id: str = ""


@dataclass(slots=True)
class Result:
    """rows: written.  known: of those, rows that an earlier run had written.  files: read; skipped: done before.

    note: an error that does not affect the messages, "" for none.
    """

    write_id: str
    rows: int = 0
    known: int = 0
    files: int = 0
    skipped: int = 0
    note: str = field(default="", compare=False)


def import_lake(request: Request, report: Callable[[Result], None] = lambda _: None) -> Result:
    """Write the rows.  report: called after each file.

    Raises: TargetError, LakeError, WriteFailed; ValueError for a pattern, and for a row or column of no message.
    """
    chosen = selection.parse(request.destination)
    files, one = file_at(request.source)
    is_export = not one and FOLDER in files.names("")
    source = _Export(request, files, chosen) if is_export else _Files(request, files, one)
    result = Result(request.write_id or f"import-{_digest(str(_identity(request, files, one)))}")
    progress = _Progress(request, files if is_export else None, result)
    for name, rows in source.parts():
        if progress.has(name):
            result.skipped += 1
            continue
        part = f"{result.write_id}/{_digest(name)}"
        written = write_rows(request.options, part, rows) if request.to == "" else _written_to(request, part, rows)
        result.rows += written.rows
        result.known += written.known
        result.files += 1
        progress.add(name)
        report(result)
    return result


def _written_to(request: Request, part: str, rows: Rows) -> Written:
    return write_rows(request.options, part, ({**row, "destination": request.to} for row in rows))


def _identity(request: Request, files: LakeFiles, one: str) -> tuple[str, ...]:
    options = request.options
    place = f"{options.host}:{options.port}"
    return (f"{files.identity}/{one}".rstrip("/"), place, request.destination, request.to, request.state, request.table)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


class _Export:
    """The table of an export: its rows in the order of the log."""

    def __init__(self, request: Request, files: LakeFiles, chosen: Selection) -> None:
        self._lake_files = files
        self._state = request.state
        last = last_manifest(files, request.table)
        names = [name for name in SCHEMAS[request.table].names if name in HEADERS or name in OTHERS]
        columns = [*names, STATE, "log_offset"]
        # A part for each file.
        self._lake = make_lake(files, last.tables, request.table, columns, chosen, EVERYTHING, 0)

    def parts(self) -> Iterator[tuple[str, Rows]]:
        files = [file for files in self._lake.partitions for file in files]
        with ThreadPoolExecutor(FOOTERS_AT_ONCE if self._lake_files.is_remote else 1) as threads:
            starts = list(threads.map(self._first_offset, files))
        for _, file in sorted(zip(starts, files, strict=True), key=lambda one: one[0]):
            yield file.path, self._rows(file)

    def _first_offset(self, file: LakeFile) -> int:
        told = self._lake_files.told(f"read {file.path}")
        with told, file.open(self._lake_files) as source, pq.ParquetFile(source) as parquet:
            at = parquet.schema_arrow.names.index("log_offset")
            metadata = parquet.metadata
            found = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
            return min((int(group.column(_leaf(parquet, at)).statistics.min) for group in found), default=0)

    def _rows(self, file: LakeFile) -> Rows:
        if self._is_in_order(file):
            for batch in read_lake(self._lake, [file], BATCH_ROWS):
                yield from self._wanted(batch.to_pylist())
            return
        batches = list(read_lake(self._lake, [file], BATCH_ROWS))  # merged by somebody, in another order
        for batch in pa.Table.from_batches(batches).sort_by("log_offset").to_batches(BATCH_ROWS):
            yield from self._wanted(batch.to_pylist())

    def _is_in_order(self, file: LakeFile) -> bool:
        last = -1
        for batch in read_lake(replace(self._lake, columns=("log_offset",)), [file], BATCH_ROWS):
            offsets = to_numpy(batch.column(0))
            if len(offsets) and (offsets[0] < last or bool(np.any(np.diff(offsets) < 0))):
                return False
            last = int(offsets[-1]) if len(offsets) else last
        return True

    def _wanted(self, rows: list[dict[str, Any]]) -> Rows:
        for row in rows:
            if not self._state or row[STATE] == self._state:
                row["headers"] = dict(row["headers"] or ())
                yield row


def _leaf(parquet: pq.ParquetFile, field_number: int) -> int:
    """Return the number of a flat field's column in a row group, where maps and structs have several."""
    name = parquet.schema_arrow.names[field_number]
    return next(at for at in range(parquet.metadata.num_columns) if parquet.schema.column(at).path == name)


class _Files:
    """Parquet files that are no export, in the order of their names.  one: the only one, "" for all."""

    def __init__(self, request: Request, files: LakeFiles, one: str) -> None:
        if request.state or request.table != MESSAGES or request.destination != ">":
            raise TargetError(
                f"{files.title} holds no export (it has no {FOLDER}); of other Parquet files all rows are written"
            )
        self._files = files
        self._paths = [one] if one else [path for path in files.walk("") if path.endswith(".parquet")]
        if not self._paths:
            raise TargetError(f"{files.title} has no Parquet files")
        for path in self._paths:
            with files.told(f"read {path}"), files.open(path) as source:
                check_columns(pq.read_schema(source).names)

    def parts(self) -> Iterator[tuple[str, Rows]]:
        for path in self._paths:
            yield path, self._rows(path)

    def _rows(self, path: str) -> Rows:
        with (
            self._files.told(f"read {path}"),
            self._files.open(path) as source,
            pq.ParquetFile(source, pre_buffer=self._files.is_remote) as parquet,
        ):
            for batch in parquet.iter_batches(BATCH_ROWS):
                for row in batch.to_pylist():
                    if "headers" in row:
                        row["headers"] = dict(row["headers"] or ())
                    yield row


class _Progress:
    """The files of an export that are written, by the digests of their paths.  files: None for other sources."""

    def __init__(self, request: Request, files: LakeFiles | None, result: Result) -> None:
        self._result = result
        self._files = None if request.options.is_dry_run else files
        self._path = f"{FOLDER}/imports/{_digest(result.write_id)}"
        self._done = set() if self._files is None else self._files.marks(self._path)

    def has(self, name: str) -> bool:
        return _digest(name) in self._done or name in self._done  # an older build noted the path

    def add(self, name: str) -> None:
        if self._files is None:
            return
        try:
            self._files.mark(self._path, _digest(name))
        except (LakeError, OSError) as error:
            self._result.note = f"what is written cannot be noted, so another run sends all again: {error}"
            self._files = None
