"""A Spark session for one export: local, quiet, bound to loopback, its workers with our interpreter."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from spark_bridge import source
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
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    # Rows go to the file of their destination and day as they come; without this Spark sorts every partition first.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # No checksum files beside the Parquet files: they would stay behind when files are moved into place.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}


class SessionFailed(Exception):
    """The JVM did not start; the text holds what it said."""


def start(master: str, scratch: Path) -> SparkSession:
    """Start a session; ``scratch`` takes Spark's temporary files and what the JVM prints.

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
    builder = SparkSession.builder.master(master).appName("penstock export")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={log_configuration}")
    builder = builder.config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    builder = builder.config("spark.local.dir", str(scratch))
    output = scratch / "jvm.log"
    try:
        session = _with_stderr_in(output, builder)
    except Exception as error:  # py4j and pyspark raise what they like; the JVM's own words are what helps
        said = output.read_text(errors="replace")[-2000:].strip()
        raise SessionFailed(f"Spark did not start: {error}\n{said}") from error
    source.register(session)
    return session


def _with_stderr_in(output: Path, builder: SparkSession.Builder) -> SparkSession:
    """Start the JVM with its standard error in a file: it warns about its own modules on every start."""
    with open(output, "wb") as file:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            return builder.getOrCreate()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
