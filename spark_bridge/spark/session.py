"""Spark for one command: quiet, its workers with our interpreter, bound to loopback unless they run elsewhere."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final, Self, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from engine.values.errors import PenstockError
from spark_bridge.spark.executors import is_local
from spark_bridge.spark.jvm import find_java_home, packaged_java
from spark_bridge.spark.workers import ROOT, WORKER_MODULES, ship

LOG_CONFIGURATION: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""

T = TypeVar("T")
Starter = Callable[[str, Path, str, int], SparkContext]

# The compiler that optimises would take two seconds of processor time from the workers, and gain nothing.
ONLY_STARTS_TASKS: Final = "-XX:TieredStopAtLevel=1"
LOOPBACK: Final = "127.0.0.1"
STANDALONE: Final = "spark://"
MASTER_LIMIT_S: Final = 20.0  # until it accepts a connection
WORKER_PYTHON: Final = "PYSPARK_PYTHON"
WORKER_DAEMON: Final = "spark_bridge.spark.daemon"


class SessionFailed(PenstockError):
    """The JVM did not start, and the text has its output; or no master can be reached."""

    condition: ClassVar[str] = "spark-failed"
    scope: ClassVar[str] = "request"


@dataclass(frozen=True, slots=True)
class Program:
    """What Spark is started for.  name: in its lists.  modules: what its workers import, as ``WORKER_MODULES``."""

    name: str
    modules: Mapping[str, str]


EXPORT: Final = Program("penstock export", WORKER_MODULES)


def settings_for(master: str, driver_host: str, name: str = EXPORT.name) -> dict[str, str]:
    """Return the settings of Spark.

    driver_host: name or address by which workers elsewhere reach this process; "" for the one that Spark finds.
    """
    settings = {
        "spark.master": master,
        "spark.app.name": name,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    if is_local(master):
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
        settings |= {"spark.python.daemon.module": WORKER_DAEMON, "spark.executorEnv.PYTHONPATH": str(ROOT)}
    elif driver_host:
        settings |= {"spark.driver.host": driver_host, "spark.driver.bindAddress": "0.0.0.0"}
    return settings


def check_master(master: str) -> None:
    """Connect to a master of Spark's own cluster manager: Spark would try for a minute, and then give no reason.

    Raises: SessionFailed if all of ``spark://HOST:PORT,HOST:PORT`` cannot be reached.
    """
    if not master.startswith(STANDALONE):
        return
    reasons = []
    for place in master.removeprefix(STANDALONE).split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal():
            reasons.append(f"{place!r} is not HOST:PORT")
            continue
        try:
            socket.create_connection((host.strip("[]"), int(port)), MASTER_LIMIT_S).close()
        except (OSError, OverflowError) as error:
            reasons.append(f"{place}: {error}")
        else:
            return
    raise SessionFailed(f"the Spark master cannot be reached: {'; '.join(reasons)}")


def worker_python(master: str, environment: Mapping[str, str]) -> str:
    """Return the interpreter of the workers: on other machines the user may name one, as for any Spark program.

    Otherwise the workers would use the ``python3`` on their PATH, with other packages.
    """
    named = "" if is_local(master) else environment.get(WORKER_PYTHON, "")
    return named or sys.executable


def start(
    master: str,
    scratch: Path,
    driver_host: str = "",
    nice: int = 0,
    program: Program = EXPORT,
    has_queries: bool = True,
) -> SparkContext:
    """Start Spark; ``scratch`` takes its temporary files and the output of the JVM.

    nice: how much its priority is lowered; that of this process stays.  has_queries: the JVM does not only start tasks.
    Raises: JavaNotFound, SessionFailed, KeyboardInterrupt when no JVM is left.
    """
    check_master(master)
    home = find_java_home(os.environ, packaged_java())
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    else:
        os.environ.pop("JAVA_HOME", None)
    os.environ[WORKER_PYTHON] = worker_python(master, os.environ)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master):
        os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    log_configuration = scratch / "log4j2.properties"
    log_configuration.write_text(LOG_CONFIGURATION)
    settings = SparkConf().setAll(list(settings_for(master, driver_host, program.name).items()))
    options = f"-Dlog4j2.configurationFile={log_configuration}"
    settings.set("spark.driver.extraJavaOptions", options if has_queries else f"{options} {ONLY_STARTS_TASKS}")
    settings.set("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    settings.set("spark.local.dir", str(scratch))
    output = scratch / "jvm.log"
    interrupt = HeldInterrupt()
    try:
        with interrupt, open(output, "wb") as file:
            context = SparkContext(conf=settings, gateway=niced(nice, partial(_launch, settings, file)))
    except Exception as error:  # py4j and pyspark raise many exceptions; the output of the JVM helps
        _forget_dead_jvm()
        said = output.read_text(errors="replace")[-2000:].strip()
        raise SessionFailed(f"Spark did not start: {error}\n{said}") from error
    if interrupt.has_come:
        context.stop()
        raise KeyboardInterrupt
    ship(context, program.modules)
    return context


start_for_tasks: Final = partial(start, has_queries=False)


@contextmanager
def running(master: str, driver_host: str, nice: int, starter: Starter = start) -> Iterator[SparkContext]:
    """Start Spark for the time of a ``with`` block.  Raises: as ``start``."""
    with tempfile.TemporaryDirectory(prefix="penstock-spark-") as scratch:
        context = starter(master, Path(scratch), driver_host, nice)
        try:
            yield context
        finally:
            _stop(context)


def answers(context: SparkContext) -> bool:
    """Return whether its JVM is alive."""
    try:
        context.statusTracker().getActiveStageIds()
    except (Py4JError, OSError):
        return False
    return True


def _stop(context: SparkContext) -> None:
    is_alive = answers(context)
    with suppress(*() if is_alive else (Py4JError, OSError)):
        context.stop()
    _forget_dead_jvm()


def _forget_dead_jvm() -> None:
    """Let the next start begin a JVM of its own: pyspark would go on with the one that it knows."""
    gateway: Any = SparkContext._gateway
    try:
        if gateway is not None:
            gateway.jvm.java.lang.System.nanoTime()
    except (Py4JError, OSError):
        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None


class HeldInterrupt:
    """Holds Ctrl-C back inside its ``with`` block: pyspark forgets a JVM whose start is interrupted, and it stays.

    py4j reports a call that is cut, and reads its answer as that of the next one.  The block also undoes pyspark's own
    handler, which talks to the JVM through the connection that it interrupts.
    """

    def __init__(self) -> None:
        self.has_come = False
        self._is_main = threading.current_thread() is threading.main_thread()
        self._before = signal.getsignal(signal.SIGINT)

    def __enter__(self) -> Self:
        if self._is_main:
            signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_main:
            signal.signal(signal.SIGINT, self._before)

    def _take(self, *_: object) -> None:
        self.has_come = True


def _launch(settings: SparkConf, output: BinaryIO) -> Any:
    """Start the JVM with its standard error in a file: it warns about its own modules on every start."""
    return launch_gateway(settings, {"stderr": output})  # type: ignore[no-untyped-call]


def niced(nice: int, call: Callable[[], T]) -> T:
    """Return the result of a call in a thread of lower priority; processes that it starts have it, too (Linux)."""

    def called() -> T:
        os.nice(nice)
        return call()

    with ThreadPoolExecutor(1, "niced") as threads:
        return threads.submit(called).result()
