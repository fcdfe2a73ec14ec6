"""Sweeps on Spark: the same results as in processes, and what is said of runs that fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, cast

import pytest

pytest.importorskip("pyspark")

from pyspark import SparkContext

from spark_bridge.spark.session import WORKER_DAEMON
from spark_bridge.spark.workers import worker_zip
from tests.support.process.sessions import command_of, interrupt, processes_of
from tests.support.store.one_process_spark import OneProcessSpark
from tests.support.what_if.recorded_store import write_store
from tests.support.what_if.sweeps import broken, combinations, deadly, short_trace, too_large
from what_if.sweep.attempt import SimulationFailed
from what_if.sweep.on_spark import SIMULATION, sweep_by, why_lost
from what_if.sweep.processes import sweep_in_processes

ROOT: Final = Path(__file__).parents[4]

# What the run of a task imports, with the zip alone.
PROGRAM: Final = """
import sys
sys.path.insert(0, sys.argv[1])
import what_if.sweep.attempt, what_if.run, what_if.model.scenario
rooms = ("config", "engine", "gateway", "protocols", "spark_bridge", "what_if")
for name, module in list(sys.modules.items()):
    if name.split(".")[0] in rooms:
        assert module.__file__.startswith(sys.argv[1]), name
for name in ("numpy", "pyarrow", "asyncio", "aiohttp"):
    assert name not in sys.modules, name
"""

JOB: Final = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times, most recent \
failure: Lost task 1.3 in stage 0.0 (TID 7) (10.0.0.5 executor 2): {}
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2898)
"""


def one_process() -> SparkContext:
    return cast(SparkContext, OneProcessSpark())


def test_the_zip_is_all_that_a_run_imports(tmp_path: Path) -> None:
    archive = worker_zip(tmp_path / "worker.zip", SIMULATION.modules)
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, str(archive)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_each_run_is_a_task() -> None:
    assert sweep_by(one_process(), short_trace(), combinations()) == sweep_in_processes(
        short_trace(), combinations(), 1
    )


def test_runs_that_fail_are_named_with_their_host() -> None:
    runs = [broken("prefetch=3"), *combinations(), broken("prefetch=4")]
    host = os.uname().nodename
    with pytest.raises(
        SimulationFailed, match=f"^the run 'prefetch=3' failed on {host}: TypeError: .* [(]and 1 more[)]$"
    ):
        sweep_by(one_process(), short_trace(), runs)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
            "its worker was killed, perhaps because memory was short; executors with fewer cores need less",
        ),
        (
            "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: worker lost",
            "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: worker lost",
        ),
        (
            "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
            '  File "worker.py", line 1, in main\n'
            "ModuleNotFoundError: No module named 'crc32c'\n",
            "ModuleNotFoundError: No module named 'crc32c'",
        ),
        (
            "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
            '  File "worker.py", line 1, in main\n'
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has "
            "different version: 3.12 than that in driver: 3.11\n",
            "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in "
            "driver: 3.11",
        ),
        (
            "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\nMemoryError\n",
            "MemoryError",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory',
            'java.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory',
        ),
    ],
)
def test_a_task_that_spark_has_given_up(reason: str, told: str) -> None:
    assert why_lost(JOB.format(reason), ["a", "b"]) == f"the run 'b' failed on 10.0.0.5: {told}"


def test_a_job_without_such_a_task() -> None:
    assert why_lost("Connection refused\n", ["a", "b"]) == "Spark failed: Connection refused"
    of_newer_spark = (
        "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
        ": org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown: "
        'Traceback (most recent call last):\n  File "worker.py", line 1, in main\n'
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has 3.12\n"
    )
    told = "Spark failed: PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has 3.12"
    assert why_lost(of_newer_spark, ["a", "b"]) == told


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")  # pyspark's own
def test_spark_gives_the_same_as_one_process(spark: SparkContext) -> None:
    trace = short_trace()
    assert sweep_by(spark, trace, combinations()) == sweep_in_processes(trace, combinations(), 1)
    with pytest.raises(SimulationFailed, match="^the run 'prefetch=3' failed on .*: TypeError: "):
        sweep_by(spark, trace, [*combinations(), broken("prefetch=3")])
    with pytest.raises(SimulationFailed, match="^the run 'prefetch=9' failed on .*: out of memory$"):
        sweep_by(spark, trace, [*combinations(), too_large("prefetch=9")])
    with pytest.raises(SimulationFailed, match="^the run 'prefetch=4' failed on .*: its worker was killed, "):
        sweep_by(spark, trace, [combinations()[0], deadly("prefetch=4")])


@pytest.mark.spark
def test_an_interrupt_leaves_neither_a_jvm_nor_a_traceback(tmp_path: Path) -> None:
    write_store(tmp_path / "data")
    command = [sys.executable, "-m", "gateway", "simulate", "--from", str(tmp_path / "data"), "--nice", "0"]
    many = ",".join(["1"] * 9_999)  # more than run before the signal comes
    command += ["--master", "local[1]", "--runs-max", "10000", "--consumers", many]
    daemon = WORKER_DAEMON.encode()
    interrupt(command, tmp_path, lambda session: any(daemon in command_of(pid) for pid in processes_of(session)))
