"""A Spark on this machine, with the Java and the quiet log of ``penstock export``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from spark_bridge.spark.session import start


@contextmanager
def local_spark() -> Iterator[SparkSession]:
    """Start Spark; it ends with the block."""
    with TemporaryDirectory(prefix="penstock-example-") as scratch:
        context = start("local[2]", Path(scratch))
        try:
            session = SparkSession(context)
            session.conf.set("spark.sql.shuffle.partitions", 2)  # its default of 200 is for clusters
            yield session
        finally:
            context.stop()
