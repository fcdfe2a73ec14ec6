"""A Spark job: its progress, Ctrl-C, its failure."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import RDD, SparkContext
from pyspark.errors import PySparkException
from tqdm import tqdm

from engine.values.errors import PenstockError
from spark_bridge.spark.executors import ExecutorWatch, NoExecutors
from spark_bridge.spark.session import HeldInterrupt

T = TypeVar("T")

PROGRESS_INTERVAL_S: Final = 0.2


class JobFailed(PenstockError):
    """A job has failed; the text is Spark's own, with the traceback of the task that failed."""

    condition: ClassVar[str] = "job-failed"
    scope: ClassVar[str] = "request"


@dataclass(frozen=True, slots=True)
class Progress:
    """A bar on standard error while a job runs.  total: in ``unit``, shared equally by the tasks."""

    title: str
    total: int
    unit: str
    is_shown: bool


def collect(spark: SparkContext, job: RDD[T], progress: Progress, watch: ExecutorWatch | None) -> list[T]:
    """Return what the tasks return, in their order.  Raises: JobFailed, NoExecutors, KeyboardInterrupt."""
    # In a thread, because py4j reports an interrupt of a call with tracebacks.
    with ThreadPoolExecutor(1, "job") as threads:
        running = threads.submit(job.collect)
        try:
            with HeldInterrupt() as interrupt:
                _follow(spark, running, progress, interrupt, watch)
            return running.result()
        except (Py4JError, PySparkException) as error:  # the latter where a session of SQL exists, too
            raise JobFailed(str(error)) from error
        except (KeyboardInterrupt, NoExecutors):
            with suppress(Py4JError, OSError):  # a terminal interrupts the JVM, too
                spark.cancelAllJobs()
            raise


def _follow(
    spark: SparkContext,
    running: Future[Any],
    progress: Progress,
    interrupt: HeldInterrupt,
    watch: ExecutorWatch | None,
) -> None:
    """Draw the progress of Spark's tasks until they end.  Raises: NoExecutors, KeyboardInterrupt."""
    tracker = spark.statusTracker()
    total = progress.total
    with tqdm(
        total=total, desc=progress.title, unit=progress.unit, unit_scale=True, disable=not progress.is_shown
    ) as bar:
        while not wait([running], PROGRESS_INTERVAL_S).done and not interrupt.has_come:
            if watch is not None:
                watch.check()
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info is not None and info.numTasks:
                    bar.update(total * info.numCompletedTasks // info.numTasks - bar.n)
        if interrupt.has_come:  # which may also be why the tasks have ended
            raise KeyboardInterrupt
        bar.update(total - bar.n)
