"""The Spark data source ``penstock``: reads a store's files and writes to a gateway.

    orders = spark.read.format("penstock").option("path", "data").option("destination", "orders.>").load()

Where Penstock is installed, Spark finds the source by itself (``pyspark_penstock``); elsewhere see ``register``.
The options are those of ``scan``; of a stream, ``spark.readStream``, those of ``stream``; of writes, those of
``write.options``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from spark_bridge.arrow import schema
from spark_bridge.read.scan import OPTIONS, Read, check_columns, columns_of, named_options, plan_read, table_of
from spark_bridge.spark.workers import new_worker_zip
from spark_bridge.stream.micro_batches import LogStream
from spark_bridge.stream.reader import StreamReader
from spark_bridge.write.options import write_options
from spark_bridge.write.rows import check_columns as check_written
from spark_bridge.write.writers import StreamWriter, Writer

NAME: Final = "penstock"
OF_CATALOG: Final = "provider"  # CREATE TABLE gives it, beside other properties and the options of the table


class PenstockReader(DataSourceReader):
    """Made once per read, in Spark's planning process; every task gets a copy, so all have the same end and states.

    It takes no filters (``pushFilters``): rows that Spark 4.3's filters of one query leave out are missing from other
    queries of the same DataFrame, also from those without filters.
    """

    def __init__(self, options: Mapping[str, str], columns: tuple[str, ...]) -> None:
        self._options = dict(options)
        self._columns = columns
        self._read: Read | None = None

    def __getstate__(self) -> dict[str, object]:
        """Plan before Spark copies it for the tasks, which it does before it asks for partitions."""
        self._planned()
        return self.__dict__

    def _planned(self) -> Read:
        if self._read is None:
            self._read = plan_read(self._options, self._columns)
        return self._read

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for about ``partition-bytes`` of log or of files."""
        return [InputPartition(task) for task in range(self._planned().tasks())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition."""
        # For a read without partitions Spark makes a partition of its own.
        if partition.value is not None:
            yield from self._planned().rows(partition.value)


class PenstockDataSource(DataSource):
    """``spark.read.format("penstock")``."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return NAME

    def schema(self) -> str:
        """Return the columns of the table.  Raises: ValueError for an unknown one."""
        if OF_CATALOG in self.options:
            raise ValueError(
                "Spark does not give the options of a table to its reads: create a temporary view with them, "
                "or create the table with a name that spark_bridge.source.register has bound to a path"
            )
        return schema.spark_ddl(table_of(self.options), columns_of(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Plan the read; ``schema`` is the one that the user asked for, or ours."""
        return PenstockReader(self.options, _columns(self.options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Plan a stream.  From Spark 4.2 on it takes limits."""
        stream = LogStream(self.options, _columns(self.options, schema))
        if not hasattr(DataSourceStreamReader, "getDefaultReadLimit"):
            return StreamReader(stream)
        from spark_bridge.stream.limited_reader import LimitedStreamReader

        return LimitedStreamReader(stream)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Plan a write; ``schema`` is that of the rows.  Raises: ValueError."""
        if overwrite:
            raise ValueError("mode is overwrite; a destination only takes more messages, so it takes append")
        check_written(schema.fieldNames())
        return Writer(write_options(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Plan a stream of writes.  Raises: ValueError."""
        if overwrite:
            raise ValueError("the output mode is complete; a destination only takes more messages, so it takes append")
        check_written(schema.fieldNames())
        return StreamWriter(write_options(self.options))


def _columns(options: Mapping[str, str], asked: StructType) -> tuple[str, ...]:
    """Return the names of the asked columns.  Raises: ValueError for a column that the read does not have."""
    check_columns(options, asked.fieldNames())
    types = {name: spark_type for name, _, spark_type, _ in schema.readable(table_of(options))}
    for field in asked.fields:
        if field.dataType.simpleString() != types[field.name]:
            found = field.dataType.simpleString()
            raise ValueError(f"column {field.name!r} is asked for as {found}; it is {types[field.name]}")
    return tuple(asked.fieldNames())


def register(spark: SparkSession, name: str = NAME, **options: object) -> None:
    """Register ``format(name)`` with a session, also of Spark Connect, and give its workers their modules.

    options: those of every read by this name, which takes no others.  So ``CREATE TABLE ... USING name`` has them.
    Raises: ValueError for an unknown option, and for a name other than ``penstock`` without ``path``.
    """
    source = PenstockDataSource
    if options or name != NAME:
        source = _bound(source, name, named_options({key: str(value) for key, value in options.items()}))
    spark.addArtifacts(str(new_worker_zip()), pyfile=True)
    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        # Spark 4.0 keeps the source that it has found by itself: the same one.
        if name != NAME or options or "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


def _bound(source: type[PenstockDataSource], name: str, bound: dict[str, str]) -> type[PenstockDataSource]:
    """Return a data source with options of its own.  Raises: ValueError without ``path``."""
    if "path" not in bound:
        raise ValueError(f"option 'path' is missing: the directory of the store that {name!r} reads")

    class Bound(source):  # type: ignore[misc, valid-type]
        """Made here, so that Spark sends it to its workers with its name and options."""

        @classmethod
        def name(cls) -> str:
            return name

        def __init__(self, options: dict[str, str]) -> None:
            refused = [option for option in options if OF_CATALOG not in options or option in OPTIONS]
            if refused:
                raise ValueError(f"option {refused[0]!r}: {name} has those that it was registered with, and no others")
            super().__init__(bound)

    return Bound
