"""Where the tasks of a command's exports run: in this process, or on a Spark that all of them share."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from spark_bridge.spark.executors import watch_of
from spark_bridge.tasks import Tasks

if TYPE_CHECKING:
    from pyspark import SparkContext

    from spark_bridge.spark.session import Starter


class OneSpark:
    """Starts a JVM for the first export that needs it, and stops it at the end of its ``with`` block.

    One that has died is replaced for the next export.

    shows_progress: draw a bar on standard error.  spark: the session to use; without it ``starter`` starts a JVM.
    """

    def __init__(
        self, shows_progress: bool = False, spark: SparkContext | None = None, starter: Starter | None = None
    ) -> None:
        self._shows_progress = shows_progress
        self._spark = spark
        self._starter = starter
        self._is_ours = False
        self._started = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._started.close()

    def tasks(self, master: str, driver_host: str, nice: int, executor_wait_ms: int) -> Tasks:
        """Raises: JavaNotFound, SessionFailed."""
        from spark_bridge.job import OnSpark
        from spark_bridge.spark import session

        if self._is_ours and self._spark is not None and not session.answers(self._spark):
            self._started.close()
            self._spark = None
        if self._spark is None:
            running = session.running(master, driver_host, nice, self._starter or session.start_for_tasks)
            self._spark = self._started.enter_context(running)
            self._is_ours = True
        watch = watch_of(self._spark, master, executor_wait_ms) if self._is_ours else None
        return OnSpark(self._spark, self._shows_progress, watch)
