"""What an export has written, as one part of a read: the rows below the log offset at which its last range ended.

The last manifest is read first, then the list of files, then the end of the log.  Exports that run meanwhile add files,
but their rows are above that offset, and only the log gives those.  A committed range whose files have not all
reached their places yet counts: they are looked for in its staging directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.store.read.selection import Pattern, Selection
from engine.values.destination import KIND_NAMES, KINDS_BY_NAME, uri
from spark_bridge.arrow.arrays import from_numpy, to_numpy
from spark_bridge.arrow.columns import DAY_MS
from spark_bridge.arrow.payload import payload_column
from spark_bridge.arrow.schema import PAYLOAD, chosen_schema
from spark_bridge.files.lake_files import LakeFiles
from spark_bridge.log.records import Flags, Int64s, batches
from spark_bridge.manifests import LakeFile, Manifest
from spark_bridge.partitioning import BY_DESTINATION
from spark_bridge.read.filters import ENDLESS
from spark_bridge.target import Target

DESTINATION: Final = "destination"
PARTITION: Final = f"{DESTINATION}="
WILDCARDS: Final = ("*", ">")
NEEDED: Final = ("log_offset", "store_time", "destination_kind", "destination_name")  # to choose rows
TEXT: Final = "body_text"  # of which the payload is made


@dataclass(frozen=True, slots=True)
class Bounds:
    """Rows from log offset ``start`` to below ``stop`` and from store time ``from_ms`` to below ``to_ms``."""

    start: int
    stop: int
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Lake:
    """The exported rows of a table that a read takes.  partitions: files by task."""

    files: LakeFiles
    table: str
    columns: tuple[str, ...]
    selection: Selection
    bounds: Bounds
    partitions: list[list[LakeFile]]


def last_manifest(files: LakeFiles, table: str) -> Manifest:
    """Return the last range of an export.

    Raises: ValueError without one or without the table; TargetError; LakeError.
    """
    last = Target(files).last()
    if last is None:
        raise ValueError(f"option 'lake' is {files.title!r}, which holds no export")
    if table not in last.tables:
        raise ValueError(f"option 'lake' is {files.title!r}, which has {', '.join(last.tables)}, and not {table}")
    return last


def make_lake(
    files: LakeFiles,
    tables: Sequence[str],
    table: str,
    columns: Sequence[str],
    selection: Selection,
    bounds: Bounds,
    partition_bytes: int,
) -> Lake:
    """Plan to read an export.  tables: those of the lake.  partition_bytes: of files for one task."""
    partitions: list[list[LakeFile]] = []
    room = 0
    for file in Target(files).lake_files(tables, table):
        if not _may_match(file, selection):
            continue
        if file.bytes > room:
            partitions.append([])
            room = partition_bytes
        partitions[-1].append(file)
        room -= file.bytes
    return Lake(files, table, tuple(columns), selection, bounds, partitions)


def _may_match(file: LakeFile, selection: Selection) -> bool:
    """Return whether a file may have chosen rows, where need be by the name of its directory; a long one is cut."""
    value = file.destination
    if not value:
        part = next((part for part in PurePosixPath(file.path).parts if part.startswith(PARTITION)), "")
        value = unquote(part.removeprefix(PARTITION))
        if "~" in value:
            return True
    kind, colons, name = value.partition("://")
    return not colons or selection.matches(KINDS_BY_NAME.get(kind, 0), name)


def read_lake(lake: Lake, files: Sequence[LakeFile], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one partition, file by file.

    A column that a file lacks, because an earlier version wrote it, is null.
    Raises: FileNotFoundError for a file that somebody has removed since the read was planned; LakeError.
    """
    read = {*lake.columns, *NEEDED, *((TEXT,) if PAYLOAD in lake.columns else ())} - {*BY_DESTINATION}
    for file in files:
        # Reads of other machines are joined: one column of few rows is a request of its own.
        with (
            lake.files.told(f"read {file.path}"),
            file.open(lake.files) as source,
            pq.ParquetFile(source, pre_buffer=lake.files.is_remote) as parquet,
        ):
            there = parquet.schema_arrow.names
            names = [name for name in there if name in read]
            groups = row_groups(parquet.metadata, lake)
            for batch in parquet.iter_batches(batch_rows, row_groups=groups, columns=names):
                found = {name: _plain(batch.column(name)) for name in names}
                uris = pc.binary_join_element_wise(found[NEEDED[2]], found[NEEDED[3]], "://")
                times_ms = found["store_time"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
                made = {"destination": uris, "date": pc.divide(times_ms, DAY_MS).cast(pa.int32()).cast(pa.date32())}
                rows = np.flatnonzero(_is_wanted(lake, found["log_offset"], times_ms, uris))
                made = found | made
                yield from _chosen(lake, made, rows)


def _plain(column: pa.Array) -> pa.Array:
    """Return texts and octets in the form that functions of Arrow take: deltalake writes views when it deletes rows."""
    if pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    return column.cast(pa.binary()) if pa.types.is_binary_view(column.type) else column


def _chosen(lake: Lake, made: dict[str, pa.Array], rows: Int64s) -> Iterator[pa.RecordBatch]:
    """Yield these rows of a batch with the columns of the read.  made: the columns that there are."""
    schema = chosen_schema(lake.table, lake.columns)
    nothing = pa.nulls(len(made["log_offset"]))
    columns = []
    for field in schema:
        name, of_type = (TEXT, pa.string()) if field.name == PAYLOAD else (field.name, field.type)
        columns.append(made.get(name, nothing).cast(of_type).take(from_numpy(rows)))
    if PAYLOAD not in lake.columns:
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
        return
    at = lake.columns.index(PAYLOAD)
    for part in _cut(columns[at]):
        cut = [column[part] for column in columns]
        cut[at] = payload_column(cut[at])
        yield pa.RecordBatch.from_arrays(cut, schema=schema)


def _cut(texts: pa.Array) -> Iterator[slice]:
    """Cut rows into batches, because files that others have merged may have row groups of any size."""
    is_there = to_numpy(texts.is_valid().cast(pa.uint8())) > 0
    sizes = np.where(is_there, to_numpy(pc.binary_length(texts)), 0).astype(np.int64)
    return batches(np.arange(len(sizes)), sizes, len(sizes))


def row_groups(metadata: pq.FileMetaData, lake: Lake) -> list[int]:
    """Return the row groups that may have chosen rows, by their statistics."""
    bounds = lake.bounds
    limits = {"log_offset": (bounds.start, bounds.stop), "store_time": (bounds.from_ms, bounds.to_ms)}
    spans = _spans(lake.selection)
    found = set(range(metadata.num_row_groups))
    for number in range(metadata.num_columns):
        name = metadata.schema.column(number).path
        first, end = limits.get(name, (0, ENDLESS))
        if (first, end) == (0, ENDLESS) and name != DESTINATION:
            continue
        for group in list(found):
            statistics = metadata.row_group(group).column(number).statistics
            if statistics is None or not statistics.has_min_max:
                continue
            least, most = statistics.min, statistics.max
            if name == DESTINATION:
                is_there = any(least <= high and most >= low for low, high in spans)
            else:
                is_there = _number(most) >= first and _number(least) < end
            if not is_there:
                found.remove(group)
    return sorted(found)


def _spans(selection: Selection) -> list[tuple[str, str]]:
    """Return from which URI to which one the destinations lie that may match."""
    return [span for pattern in selection.patterns for span in _spans_of(pattern, dict(selection.only))]


def _spans_of(pattern: Pattern, only: Mapping[str, frozenset[str]]) -> list[tuple[str, str]]:
    kinds = [pattern.kind] if pattern.kind else list(KINDS_BY_NAME.values())
    if "destination" in only:
        return [(value, value) for value in only["destination"]]
    if "destination_name" in only:
        return [(uri(kind, name), uri(kind, name)) for kind in kinds for name in only["destination_name"]]
    fixed = list(takewhile(lambda word: word not in WILDCARDS, pattern.words))
    name = ".".join(fixed)
    # What goes on with ``.`` comes before ``/``, and what goes on with ``/`` before ``0``.
    ends = "" if len(fixed) == len(pattern.words) else "/"
    if not fixed:
        return [(uri(kind, ""), f"{KIND_NAMES[kind]}:/0") for kind in kinds]
    return [(uri(kind, name), f"{uri(kind, name)}{ends}") for kind in kinds]


def _number(value: int | datetime) -> int:
    """Return a log offset, or a store time in milliseconds: they are whole."""
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else value


def _is_wanted(lake: Lake, offsets: pa.Array, times_ms: pa.Array, uris: pa.Array) -> Flags:
    encoded = uris.dictionary_encode()
    split = [uri.partition("://") for uri in encoded.dictionary.to_pylist()]
    matches = [lake.selection.matches(KINDS_BY_NAME[kind], name) for kind, _, name in split]
    found: Flags = np.array(matches, dtype=np.bool_)[to_numpy(encoded.indices)]
    bounds, at, times = lake.bounds, to_numpy(offsets), to_numpy(times_ms)
    return found & (at >= bounds.start) & (at < bounds.stop) & (times >= bounds.from_ms) & (times < bounds.to_ms)
