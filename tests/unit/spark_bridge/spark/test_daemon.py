"""How workers on this machine start."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyspark import SparkContext


def test_workers_import_the_installed_pyspark(spark: SparkContext) -> None:
    def places(_: int) -> list[str]:
        import py4j  # type: ignore[import-untyped]
        import pyspark

        return [str(pyspark.__file__), str(py4j.__file__)]

    import py4j
    import pyspark

    assert spark.parallelize([0], 1).map(places).collect() == [[pyspark.__file__, py4j.__file__]]
