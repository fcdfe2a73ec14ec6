"""One Parquet file of an export: rows gather until they fill a row group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_bridge.arrow.arrays import from_numpy, rows_by_code
from spark_bridge.files.lake_files import NewFiles, OutputFile
from spark_bridge.manifests import ExportedFile

# Columns with repeated values; for all others a dictionary only costs time.
REPEATING_COLUMNS: Final = frozenset(
    {
        "destination",
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
ROW_GROUP_BYTES: Final = 32 * 1024 * 1024
SORTED_BYTES: Final = 128 * 1024 * 1024  # normally all rows of a task
SORTED_GROUP_BYTES: Final = 4 * 1024 * 1024


class OneDestinationFile:
    """A file with the rows of one destination.  schema: with metadata for readers that have only the file.

    full_bytes: the size at which it is to end, 0 for none.
    The file is opened for its first row group: with many destinations most files have one, and are open one at a time.
    """

    gathered_bytes = ROW_GROUP_BYTES

    def __init__(self, files: NewFiles, path: str, schema: pa.Schema, destination: str, full_bytes: int = 0) -> None:
        self._files = files
        self._path = path
        self._schema = schema
        self._destination = destination
        self._full_bytes = full_bytes
        self._most_bytes = min(self.gathered_bytes, full_bytes or self.gathered_bytes)
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
        if self._batch_bytes >= self._most_bytes:
            self._flush()

    def is_full(self) -> bool:
        """Say whether further rows belong into another file."""
        return self._full_bytes > 0 and self._output is not None and self._output.stream.tell() >= self._full_bytes

    def rows_by_destination(self) -> dict[str, int]:
        """Return how many rows of each destination are in row groups."""
        return {self._destination: self._rows}

    def _row_groups(self, rows: pa.Table) -> Iterator[pa.Table]:
        yield rows

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
                rows = pa.Table.from_batches(self._batches).replace_schema_metadata(self._schema.metadata)
                self._batches.clear()
                self._batch_bytes = 0
                for group in self._row_groups(rows):
                    self._writer.write_table(group)

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


class SortedFile(OneDestinationFile):
    """A file with the rows of many destinations, sorted by destination, then in the order of the log.

    Small row groups and their statistics tell a reader of one destination what to leave out.  More rows than are kept
    in memory are sorted part by part.
    """

    gathered_bytes = SORTED_BYTES

    def __init__(self, files: NewFiles, path: str, schema: pa.Schema, destination: str, full_bytes: int = 0) -> None:
        super().__init__(files, path, schema, destination, full_bytes)
        self._counts: dict[str, int] = {}

    def rows_by_destination(self) -> dict[str, int]:
        return self._counts

    def _row_groups(self, rows: pa.Table) -> Iterator[pa.Table]:
        rows = rows.combine_chunks()
        encoded = rows.column("destination").combine_chunks().dictionary_encode()
        names: list[str] = encoded.dictionary.to_pylist()
        of_names = sorted(zip(names, rows_by_code(encoded), strict=True), key=lambda one: one[0])
        for name, places in of_names:
            self._counts[name] = self._counts.get(name, 0) + len(places)
        order = np.concatenate([places for _, places in of_names])
        group_rows = max(1, len(rows) * SORTED_GROUP_BYTES // max(1, rows.nbytes))
        for first in range(0, len(rows), group_rows):
            yield rows.take(from_numpy(order[first : first + group_rows]))
