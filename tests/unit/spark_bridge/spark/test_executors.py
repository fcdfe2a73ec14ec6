"""A job without executors ends in time."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from spark_bridge.spark.executors import ExecutorWatch, NoExecutors


class Spark:
    """Executors that come and go, and a clock."""

    def __init__(self) -> None:
        self.executors = 0
        self.now_s = 100.0
        self.asked = 0

    def watch(self, limit_ms: int) -> ExecutorWatch:
        return ExecutorWatch(self.count, "10.0.0.7:4711", limit_ms, lambda: self.now_s)

    def count(self) -> int:
        self.asked += 1
        return self.executors


def test_a_job_ends_when_there_was_no_executor_for_the_whole_time() -> None:
    spark = Spark()
    watch = spark.watch(120_000)
    for seconds, executors in ((119, 0), (1, 1), (119, 0)):
        spark.now_s += seconds
        spark.executors = executors
        watch.check()
    spark.now_s += 1
    with pytest.raises(NoExecutors, match=r"no executor for 2 minutes: .* at 10.0.0.7:4711 \(--driv"):
        watch.check()


def test_spark_is_asked_once_a_second() -> None:
    spark = Spark()
    watch = spark.watch(10_000)
    for _ in range(50):
        spark.now_s += 0.1
        watch.check()
    assert spark.asked <= 5


def test_without_a_limit_a_job_waits() -> None:
    spark = Spark()
    watch = spark.watch(0)
    spark.now_s += 1e9
    watch.check()
