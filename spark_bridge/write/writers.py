"""The writers that Spark calls: of one frame, and of the micro-batches of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

from spark_bridge.write.options import WriteOptions
from spark_bridge.write.task import Written, write_rows

QUERY: str = "sql.streaming.queryId"
BATCH: str = "streaming.sql.batchId"


@dataclass
class PartWritten(WriterCommitMessage):
    """What one task has written."""

    written: Written


class Writer(DataSourceWriter):
    """``df.write``.  What tasks have written stays if others fail; the same write-id writes only the rest."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Send the rows of one partition."""
        part = f"{self._options.write_id}/{_context().partitionId()}"
        return PartWritten(write_rows(self._options, part, _rows(iterator)))


class StreamWriter(DataSourceStreamWriter):
    """``df.writeStream``: a micro-batch that Spark runs again is written once."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Send the rows of one partition of a micro-batch."""
        context = _context()
        query, batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
        assert query and batch, "Spark names the query and the batch of a stream"
        part = f"{query}/{batch}/{context.partitionId()}"
        return PartWritten(write_rows(self._options, part, _rows(iterator)))


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "Spark writes in a task"
    return context


def _rows(iterator: Iterator[Row]) -> Iterator[dict[str, Any]]:
    return (row.asDict() for row in iterator)
