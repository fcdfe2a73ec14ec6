"""Spark for one export: local, quiet, bound to loopback, its workers with our interpreter."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import ClassVar, Final

from pyspark import SparkConf, SparkContext

from engine.values.errors import PenstockError
from spark_bridge.jvm import find_java_home, packaged_java
from spark_bridge.workers import ship

LOG_CONFIGURATION: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""

SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
}


class SessionFailed(PenstockError):
    """The JVM did not start; the text has its output."""

    condition: ClassVar[str] = "spark-failed"
    scope: ClassVar[str] = "request"


def start(master: str, scratch: Path) -> SparkContext:
    """Start Spark; ``scratch`` takes its temporary files and the output of the JVM.

    Raises: JavaNotFound, SessionFailed.
    """
    home = find_java_home(os.environ, packaged_java())
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    else:
        os.environ.pop("JAVA_HOME", None)
    # Otherwise the workers would use the ``python3`` on the PATH, with other packages.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    log_configuration = scratch / "log4j2.properties"
    log_configuration.write_text(LOG_CONFIGURATION)
    settings = SparkConf().setMaster(master).setAppName("penstock export").setAll(list(SETTINGS.items()))
    settings.set("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={log_configuration}")
    settings.set("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    settings.set("spark.local.dir", str(scratch))
    output = scratch / "jvm.log"
    try:
        context = _with_stderr_in(output, settings)
    except Exception as error:  # py4j and pyspark raise many exceptions; the output of the JVM helps
        said = output.read_text(errors="replace")[-2000:].strip()
        raise SessionFailed(f"Spark did not start: {error}\n{said}") from error
    ship(context)
    return context


def _with_stderr_in(output: Path, settings: SparkConf) -> SparkContext:
    """Start the JVM with its standard error in a file: it warns about its own modules on every start."""
    with open(output, "wb") as file:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            return SparkContext(conf=settings)
        finally:
            os.dup2(kept, 2)
            os.close(kept)
