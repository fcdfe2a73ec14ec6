"""The stream of Spark's data source, for every version of Spark: ``spark.readStream.format("penstock")``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_bridge.read.scan import MAX_BYTES, MAX_MESSAGES
from spark_bridge.stream.micro_batches import LogStream, place_of


class StreamReader(DataSourceStreamReader):
    """Made in Spark's planning process, where it stays for the life of the query; every task gets a copy.

    A batch takes all that is there: before Spark 4.2 nobody says where it begins.
    """

    def __init__(self, stream: LogStream) -> None:
        self._stream = stream
        if stream.max_bytes or stream.max_rows:
            self._check_limits()

    def _check_limits(self) -> None:
        raise ValueError(f"options {MAX_BYTES!r} and {MAX_MESSAGES!r} need Spark 4.2 or newer")

    def initialOffset(self) -> dict[str, Any]:
        """Return where a query without a checkpoint begins."""
        first = self._stream.first()
        self._stream.has_read(first)
        return asdict(first)

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # as in Spark 4.0
        """Return where the next batch ends."""
        return asdict(self._stream.last())

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Return one partition for about ``partition-bytes`` of log."""
        self._stream.has_read(place_of(start))
        return [InputPartition(task) for task in self._stream.tasks(place_of(start), place_of(end))]

    def commit(self, end: Mapping[str, Any]) -> None:
        """Take note that the batch before ``end`` is done; Spark says so when it plans the next one."""
        self._stream.has_read(place_of(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition."""
        yield from partition.value.rows()
