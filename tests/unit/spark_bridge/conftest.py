"""One Spark for all tests of the bridge in a process."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark import SparkContext


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkContext]:
    pytest.importorskip("pyspark")
    from spark_bridge.spark.jvm import JavaNotFound, find_java_home, packaged_java
    from spark_bridge.spark.session import start

    try:
        find_java_home(os.environ, packaged_java())
    except JavaNotFound as error:
        pytest.skip(str(error))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own
        context = start("local[2]", tmp_path_factory.mktemp("spark"))
    yield context
    context.stop()
