"""What goes to Spark's workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from spark_bridge.spark.workers import worker_zip
from tests.support.store.sample_store import SampleStore

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
sys.modules["crc32c"] = None  # an executor elsewhere may lack it
import spark_bridge.parquet, spark_bridge.source
import spark_bridge.files.gateway_store  # what a plan brings, if the store is that of a gateway elsewhere
rooms = ("config", "engine", "gateway", "protocols", "spark_bridge")
ours = [name for name in sys.modules if name.split(".")[0] in rooms]
for name in ours:
    assert sys.modules[name].__file__.startswith(sys.argv[1]), name
assert "engine.store.read.reader" in ours
for name in ("asyncio", "aiohttp", "uvloop", "mypy_extensions"):
    assert name not in sys.modules, name
"""

# The planning process of a session that has registered the source has the modules of the zip, too.
STREAMS = """
import sys
sys.path.insert(0, sys.argv[1])
from spark_bridge.stream.micro_batches import LogStream
for options in ({}, {"reader": "billing"}):
    stream = LogStream({"path": sys.argv[2], **options}, ["log_offset"])
    stream.has_read(stream.first())
assert sys.modules["engine"].__file__.startswith(sys.argv[1])
"""


@pytest.mark.damages_store("written by hand")
def test_the_zip_is_all_that_a_stream_imports(tmp_path: Path) -> None:
    archive = worker_zip(tmp_path / "worker.zip")
    with SampleStore(tmp_path / "data") as store:
        store.publish()
    words = [sys.executable, "-I", "-c", STREAMS, str(archive), str(tmp_path / "data")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_zip_is_all_that_a_worker_imports(tmp_path: Path) -> None:
    archive = worker_zip(tmp_path / "worker.zip")
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, str(archive)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
