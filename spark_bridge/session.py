"""Spark for one export: local, quiet, bound to loopback, its workers with our interpreter."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import ClassVar, Final

from pyspark import SparkConf, SparkContext

from engine.errors import PenstockError
from spark_bridge.jvm import find_java_home

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

# What a worker imports, nothing of the gateway.
WORKER_MODULES: Final = (
    "engine/__init__.py",
    "engine/destination.py",
    "engine/errors.py",
    "engine/message.py",
    "engine/ports.py",
    "engine/store/__init__.py",
    "engine/store/format.py",
    "engine/store/reader.py",
    "spark_bridge/__init__.py",
    "spark_bridge/columns.py",
    "spark_bridge/headers.py",
    "spark_bridge/offsets.py",
    "spark_bridge/parquet.py",
    "spark_bridge/plan.py",
    "spark_bridge/records.py",
    "spark_bridge/schema.py",
    "spark_bridge/selection.py",
    "spark_bridge/session.py",
    "spark_bridge/settlements.py",
    "spark_bridge/source.py",
)


class SessionFailed(PenstockError):
    """The JVM did not start; the text holds what it said."""

    condition: ClassVar[str] = "spark-failed"
    scope: ClassVar[str] = "request"


def start(master: str, scratch: Path) -> SparkContext:
    """Start Spark; ``scratch`` takes its temporary files and what the JVM prints.

    Raises: JavaNotFound, SessionFailed.
    """
    home = find_java_home(os.environ)
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    else:
        os.environ.pop("JAVA_HOME", None)
    # Otherwise the workers are whatever ``python3`` is on the PATH, with other packages.
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
    except Exception as error:  # py4j and pyspark raise what they like; the JVM's own words are what helps
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


def ship(context: SparkContext) -> None:
    """Give the workers what they import, wherever they run and whatever directory they start in."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    # Executors fetch the file when they start, from where it was.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # A name of its own, as Spark refuses another file of the same name.
    context.addPyFile(str(worker_zip(folder / f"{folder.name}.zip")))


def worker_zip(path: Path) -> Path:
    """Write the modules that a worker needs into a zip."""
    root = Path(__file__).parent.parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in WORKER_MODULES:
            archive.write(root / name, name)
    return path
