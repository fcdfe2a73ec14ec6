"""The Spark job of an export: its tasks and their errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import RDD, SparkContext

from engine.values.errors import PenstockError, RangeGone, StoreCorrupt, StoreError
from spark_bridge.attempts import Attempt
from spark_bridge.errors import LakeError, ListOutdated
from spark_bridge.log.lost import Lost
from spark_bridge.log.records import Piece
from spark_bridge.log.settlements import Ranges
from spark_bridge.parquet import Written, file_name, write_partition
from spark_bridge.read.plan import Plan, read_settlements, with_settled
from spark_bridge.spark.executors import ExecutorWatch
from spark_bridge.spark.jobs import JobFailed, Progress, collect
from spark_bridge.tasks import Tasks

T = TypeVar("T")

WORKER_ERROR: Final = re.compile(
    rf"^(?:(?:{re.escape(PenstockError.__module__)}|{re.escape(LakeError.__module__)})\.(\w+)|\w*Error|pyarrow[\w.]*)"
    r": (.+)$",
    re.MULTILINE,
)
KNOWN_ERRORS: Final[dict[str, type[PenstockError]]] = {
    error.__name__: error for error in (StoreError, StoreCorrupt, RangeGone, LakeError, ListOutdated)
}


class ExportFailed(PenstockError):
    """Spark has failed; the text has the reason, if it is known."""

    condition: ClassVar[str] = "export-failed"
    scope: ClassVar[str] = "request"


class OnSpark(Tasks):
    """shows_progress: draw a bar on standard error.  watch: of executors elsewhere."""

    def __init__(self, spark: SparkContext, shows_progress: bool = False, watch: ExecutorWatch | None = None) -> None:
        self._spark = spark
        self._shows_progress = shows_progress
        self._watch = watch

    def _settled(self, plan: Plan) -> Plan:
        def task(pieces: list[Piece]) -> tuple[Ranges, Lost]:
            return read_settlements(plan, pieces)

        with _jvm():
            tasks = self._spark.parallelize(plan.partitions, len(plan.partitions))
            return with_settled(plan, self._run(tasks.map(task), 0, False))

    def write_files(self, plan: Plan, attempt: Attempt, rate_bytes: int) -> list[Written]:
        if rate_bytes:
            with _jvm():
                plan = replace(plan, rate_bytes=max(1, rate_bytes // self._spark.defaultParallelism))

        def task(numbered: tuple[int, list[Piece]]) -> Written:
            number, pieces = numbered
            return write_partition(plan, pieces, attempt.files, partial(file_name, plan, number, attempt))

        with _jvm():
            tasks = self._spark.parallelize(list(enumerate(plan.partitions)), max(1, len(plan.partitions)))
            return self._run(tasks.map(task), plan.stop - plan.start, self._shows_progress)

    def _run(self, job: RDD[T], total_bytes: int, shows_progress: bool) -> list[T]:
        try:
            return collect(self._spark, job, Progress("export", total_bytes, "B", shows_progress), self._watch)
        except JobFailed as error:
            raise _of_worker(str(error)) from error


@contextmanager
def _jvm() -> Iterator[None]:
    """Raises: ExportFailed if the JVM has died, or does not answer."""
    try:
        yield
    except (Py4JError, ConnectionError) as error:
        raise ExportFailed(f"the connection to Spark's JVM is lost: {error}") from error


def _of_worker(text: str) -> PenstockError:
    """Return the exception of a task; a worker sends only its traceback."""
    said = WORKER_ERROR.search(text)
    if said is None:
        return ExportFailed(text)
    return KNOWN_ERRORS.get(said.group(1) or "", ExportFailed)(said.group(2))
