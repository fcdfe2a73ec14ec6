"""The Spark job of an export: its tasks, their errors, their progress."""

from __future__ import annotations

import re
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Final, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import RDD, SparkContext
from pyspark.errors import PySparkException
from tqdm import tqdm

from engine.values.errors import PenstockError, RangeGone, StoreCorrupt, StoreError
from spark_bridge.attempts import Attempt
from spark_bridge.errors import LakeError
from spark_bridge.log.lost import Lost
from spark_bridge.log.records import Piece
from spark_bridge.log.settlements import Ranges
from spark_bridge.parquet import Written, file_name, write_partition
from spark_bridge.read.plan import Plan, read_settlements, with_settled
from spark_bridge.spark.session import HeldInterrupt
from spark_bridge.tasks import Tasks

T = TypeVar("T")

WORKER_ERROR: Final = re.compile(
    rf"^(?:(?:{re.escape(PenstockError.__module__)}|{re.escape(LakeError.__module__)})\.(\w+)|\w*Error|pyarrow[\w.]*)"
    r": (.+)$",
    re.MULTILINE,
)
KNOWN_ERRORS: Final[dict[str, type[PenstockError]]] = {
    error.__name__: error for error in (StoreError, StoreCorrupt, RangeGone, LakeError)
}
PROGRESS_INTERVAL_S: Final = 0.2


class ExportFailed(PenstockError):
    """Spark has failed; the text has the reason, if it is known."""

    condition: ClassVar[str] = "export-failed"
    scope: ClassVar[str] = "request"


class OnSpark(Tasks):
    """shows_progress: draw a bar on standard error."""

    def __init__(self, spark: SparkContext, shows_progress: bool = False) -> None:
        self._spark = spark
        self._shows_progress = shows_progress

    def _settled(self, plan: Plan) -> Plan:
        shared = self._spark.broadcast(plan)

        def task(pieces: list[Piece]) -> tuple[Ranges, Lost]:
            return read_settlements(shared.value, pieces)

        tasks = self._spark.parallelize(plan.partitions, len(plan.partitions))
        try:
            return with_settled(plan, _run(self._spark, tasks.map(task), 0, False))
        finally:
            with suppress(Py4JError, OSError):
                shared.destroy()

    def write_files(self, plan: Plan, attempt: Attempt, rate_bytes: int) -> list[Written]:
        if rate_bytes:
            plan = replace(plan, rate_bytes=max(1, rate_bytes // self._spark.defaultParallelism))
        shared = self._spark.broadcast(plan)

        def task(numbered: tuple[int, list[Piece]]) -> Written:
            number, pieces = numbered
            return write_partition(shared.value, pieces, attempt.files, file_name(shared.value, number, attempt))

        tasks = self._spark.parallelize(list(enumerate(plan.partitions)), max(1, len(plan.partitions)))
        try:
            return _run(self._spark, tasks.map(task), plan.stop - plan.start, self._shows_progress)
        finally:
            with suppress(Py4JError, OSError):
                shared.destroy()


def _run(spark: SparkContext, job: RDD[T], total_bytes: int, shows_progress: bool) -> list[T]:
    # In a thread, because py4j reports an interrupt of a call with tracebacks.
    with ThreadPoolExecutor(1, "export") as threads:
        running = threads.submit(job.collect)
        try:
            with HeldInterrupt() as interrupt:
                _watch(spark, running, total_bytes, shows_progress, interrupt)
            return running.result()
        except (Py4JError, PySparkException) as error:  # the latter where a session of SQL exists, too
            raise _of_worker(str(error)) from error
        except KeyboardInterrupt:
            with suppress(Py4JError, OSError):  # a terminal interrupts the JVM, too
                spark.cancelAllJobs()
            raise


def _of_worker(text: str) -> PenstockError:
    """Return the exception of a task; a worker sends only its traceback."""
    said = WORKER_ERROR.search(text)
    if said is None:
        return ExportFailed(text)
    return KNOWN_ERRORS.get(said.group(1) or "", ExportFailed)(said.group(2))


def _watch(
    spark: SparkContext, running: Future[Any], total_bytes: int, shows_progress: bool, interrupt: HeldInterrupt
) -> None:
    """Draw the progress of Spark's tasks until they end.  Raises: KeyboardInterrupt."""
    tracker = spark.statusTracker()
    with tqdm(total=total_bytes, desc="export", unit="B", unit_scale=True, disable=not shows_progress) as bar:
        while not wait([running], PROGRESS_INTERVAL_S).done and not interrupt.has_come:
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info is not None and info.numTasks:
                    bar.update(total_bytes * info.numCompletedTasks // info.numTasks - bar.n)
        if interrupt.has_come:  # which may also be why the tasks have ended
            raise KeyboardInterrupt
        bar.update(total_bytes - bar.n)
