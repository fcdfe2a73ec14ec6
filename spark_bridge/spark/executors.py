"""Notices that a Spark elsewhere gives a job no executors, which Spark itself would wait for without an end."""

from __future__ import annotations

import re
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, Final

from engine.store.plain_words import duration
from engine.values.errors import PenstockError

if TYPE_CHECKING:
    from pyspark import SparkContext

LOCAL: Final = re.compile(r"local(\[.*\])?")
WAIT_MS: Final = 10 * 60_000
CHECK_INTERVAL_S: Final = 1.0


def is_local(master: str) -> bool:
    """Return whether executors are on this machine, inside the JVM of the driver."""
    return LOCAL.fullmatch(master) is not None


class NoExecutors(PenstockError):
    """None has come in time; the text has the address that they connect to."""

    condition: ClassVar[str] = "no-executors"
    scope: ClassVar[str] = "request"


class ExecutorWatch:
    """``check`` is called all the while that a job runs.

    count: returns how many executors there are now.  driver: the address that they connect to.
    limit_ms: how long there may be none, 0 for no limit.
    """

    def __init__(
        self, count: Callable[[], int], driver: str, limit_ms: int, clock: Callable[[], float] = monotonic
    ) -> None:
        self._count = count
        self._driver = driver
        self._limit_ms = limit_ms
        self._clock = clock
        self._seen_s = clock()
        self._next_s = self._seen_s + CHECK_INTERVAL_S

    def check(self) -> None:
        """Raises: NoExecutors."""
        now_s = self._clock()
        if not self._limit_ms or now_s < self._next_s:
            return
        self._next_s = now_s + CHECK_INTERVAL_S
        if self._count():
            self._seen_s = now_s
        elif (now_s - self._seen_s) * 1000 >= self._limit_ms:
            raise NoExecutors(
                f"Spark has had no executor for {duration(self._limit_ms)}: the cluster has no free worker, or "
                f"executors do not reach this machine at {self._driver} (--driver-host)"
            )


def watch_of(spark: SparkContext, master: str, limit_ms: int) -> ExecutorWatch | None:
    """Return a watch for the jobs of a context; None for a local one, which is its own executor."""
    if is_local(master):
        return None

    def count() -> int:
        return int(spark._jsc.sc().getExecutorMemoryStatus().size()) - 1  # the driver is one of them

    conf = spark.getConf()
    return ExecutorWatch(count, f"{conf.get('spark.driver.host')}:{conf.get('spark.driver.port')}", limit_ms)
