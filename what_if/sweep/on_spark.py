"""A sweep as tasks of Spark: a run is a task.

The trace goes to the workers by broadcast, so all runs see the same rows, also while a gateway adds to the store, and
no worker has to reach the place that it came from.  A worker's process keeps it for its next task.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext

from spark_bridge.spark.executors import WAIT_MS, ExecutorWatch, watch_of
from spark_bridge.spark.jobs import JobFailed, Progress, collect
from spark_bridge.spark.session import Program, running, start_for_tasks
from what_if.model.scenario import Scenario
from what_if.report.results import Result
from what_if.sweep.attempt import SimulationFailed, attempt, failed
from what_if.trace.trace import Trace

SIMULATION: Final = Program(
    "penstock simulate",
    {
        "config": "*",
        "engine": "**/*",
        "what_if": "figures run",
        "what_if/model": "*",
        "what_if/ports": "*",
        "what_if/report": "results",
        "what_if/sweep": "attempt",
        "what_if/trace": "trace",
    },
)
LOST_TASK: Final = re.compile(r"Lost task (\d+)\.\d+ in stage \S+ \(TID \d+\) \((\S+) executor \S+\): (.*)")
# The error of a worker's Python, or that of a Python that could not start.
WORKER_ERROR: Final = re.compile(
    r"^(?:Caused by: )?(?:[\w.]+\.)?(\w*Error(?:: .+)?|\w*Exception: Cannot run program .+)$", re.MULTILINE
)
CRASHED: Final = "exited unexpectedly"
SAID_MOST: Final = 500  # characters of what Spark says


def sweep_on(
    master: str, driver_host: str, nice: int, trace: Trace, scenarios: Sequence[Scenario], shows_progress: bool
) -> list[Result]:
    """Start Spark for a sweep.  Raises: SimulationFailed, NoExecutors, JavaNotFound, SessionFailed."""
    with running(master, driver_host, nice, partial(start_for_tasks, program=SIMULATION)) as spark:
        return sweep_by(spark, trace, scenarios, shows_progress, watch_of(spark, master, WAIT_MS))


def sweep_by(
    spark: SparkContext,
    trace: Trace,
    scenarios: Sequence[Scenario],
    shows_progress: bool = False,
    watch: ExecutorWatch | None = None,
) -> list[Result]:
    """Run scenarios in a session whose workers have the modules of ``SIMULATION``.

    Raises: SimulationFailed, NoExecutors.
    """
    shared = spark.broadcast(trace)

    def task(named: tuple[str, bytes]) -> Result | str:
        name, pickled = named
        try:
            return attempt(name, lambda: (shared.value, pickle.loads(pickled)), os.uname().nodename)
        except SimulationFailed as error:
            return str(error)  # raised, Spark would try it again, and it would fail again

    named = [(scenario.name, pickle.dumps(scenario)) for scenario in scenarios]
    tasks = spark.parallelize(named, len(named))
    try:
        progress = Progress("simulate", len(scenarios), " runs", shows_progress)
        found = collect(spark, tasks.map(task), progress, watch)
    except JobFailed as error:
        raise SimulationFailed(why_lost(str(error), [scenario.name for scenario in scenarios])) from error
    finally:
        with suppress(Py4JError, OSError):
            shared.destroy()
    results = [each for each in found if isinstance(each, Result)]
    failures = [each for each in found if isinstance(each, str)]
    if failures:
        others = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise SimulationFailed(f"{failures[0]}{others}")
    return results


def why_lost(said: str, names: Sequence[str]) -> str:
    """Return what users are told of a job that has failed.  said: by Spark.  names: of its runs."""
    lost = LOST_TASK.search(said)
    errors: list[str] = WORKER_ERROR.findall(said)
    if lost is None:
        return f"Spark failed: {errors[-1] if errors else said.strip()[:SAID_MOST]}"
    number, host, reason = int(lost.group(1)), lost.group(2), lost.group(3)
    if CRASHED in reason:
        why = "its worker was killed, perhaps because memory was short; executors with fewer cores need less"
    else:
        why = errors[-1] if errors else reason[:SAID_MOST]
    return failed([names[number]], why, host)
