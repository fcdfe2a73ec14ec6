"""What the tests of the bridge that use Spark share."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


@pytest.fixture
def session(spark: SparkContext) -> SparkSession:
    """A session in which nothing is registered; of Spark's 200 shuffle partitions most would be empty."""
    from pyspark.sql import SparkSession

    logging.getLogger("py4j").setLevel(logging.ERROR)
    session = SparkSession(spark).newSession()
    session.conf.set("spark.sql.shuffle.partitions", 2)
    return session
