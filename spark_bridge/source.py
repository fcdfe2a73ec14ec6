"""The Spark data source ``penstock``: reads a store's directory, never a gateway.

    from spark_bridge import source
    source.register(spark)
    orders = spark.read.format("penstock").option("path", "data").option("destination", "orders.>").load()

Options: path; destination (pattern, everything unless given); from-offset and to-offset (the oldest kept offset and
the durable offset at planning time unless given); verify (checksums, true unless "false"); partition-bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from engine.store.read.reader import StoreReader
from spark_bridge import selection
from spark_bridge.arrow import schema
from spark_bridge.arrow.records import Piece
from spark_bridge.plan import PARTITION_BYTES, Plan, make_plan, read_pieces
from spark_bridge.workers import ship

NAME: Final = "penstock"
OPTIONS: Final = ("path", "destination", "from-offset", "to-offset", "verify", "partition-bytes")


class LogPartition(InputPartition):
    """The pieces of the log that one task reads."""

    def __init__(self, pieces: list[Piece]) -> None:
        super().__init__(pieces)
        self.pieces = pieces


class PenstockReader(DataSourceReader):
    """Made once per read, in Spark's planning process; every task gets a copy, so all have the same end and states."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for about ``partition-bytes`` of log."""
        return [LogPartition(pieces) for pieces in self._plan.partitions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one partition."""
        # For a read without partitions Spark makes a partition of its own.
        if isinstance(partition, LogPartition):
            yield from read_pieces(self._plan, partition.pieces)


class PenstockDataSource(DataSource):
    """``spark.read.format("penstock")``."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return NAME

    def schema(self) -> str:
        """Return the columns."""
        return schema.spark_ddl()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Plan the read."""
        return PenstockReader(plan_from_options(self.options))


def plan_from_options(options: Mapping[str, str]) -> Plan:
    """Return the plan for the options of a read.

    Raises: ValueError with the option and its allowed values; RangeGone, StoreCorrupt, StoreError.
    """
    given = {name.lower(): value for name, value in options.items()}
    unknown = sorted(set(given) - set(OPTIONS))
    if unknown:
        raise ValueError(f"unknown option {unknown[0]!r}; penstock takes {', '.join(OPTIONS)}")
    if not given.get("path"):
        raise ValueError("option 'path' is missing: the directory of the store")
    verify = given.get("verify", "true").lower()
    if verify not in ("true", "false"):
        raise ValueError(f"option 'verify' is {verify!r}; it takes true or false")
    return make_plan(
        StoreReader(given["path"]),
        selection.parse(given.get("destination", ">")),
        _number(given, "from-offset", 0),
        _number(given, "to-offset", 0),
        verify == "true",
        _number(given, "partition-bytes", 1) or PARTITION_BYTES,
    )


def _number(given: Mapping[str, str], name: str, least: int) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f"option {name!r} is {text!r}; it takes a whole number, at least {least}")
    return int(text)


def register(spark: SparkSession) -> None:
    """Register ``format("penstock")`` with a session, and give its workers their modules."""
    ship(spark.sparkContext)
    spark.dataSource.register(PenstockDataSource)
