"""Modules for Spark's workers: a zip of the readers of a store, without the gateway."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from pyspark import SparkContext

WORKER_MODULES: Final = (
    "engine/__init__.py",
    "engine/values/__init__.py",
    "engine/values/destination.py",
    "engine/values/errors.py",
    "engine/values/message.py",
    "engine/values/outcomes.py",
    "engine/store/__init__.py",
    "engine/store/disk/__init__.py",
    "engine/store/disk/directory_lock.py",
    "engine/store/format/__init__.py",
    "engine/store/format/file_heads.py",
    "engine/store/format/layout.py",
    "engine/store/format/record.py",
    "engine/store/format/record_cursor.py",
    "engine/store/format/sparse_runs.py",
    "engine/store/plain_words.py",
    "engine/store/read/__init__.py",
    "engine/store/read/catalog.py",
    "engine/store/read/entry_files.py",
    "engine/store/read/reader.py",
    "engine/store/read/segment_files.py",
    "spark_bridge/__init__.py",
    "spark_bridge/arrow/__init__.py",
    "spark_bridge/arrow/arrays.py",
    "spark_bridge/arrow/columns.py",
    "spark_bridge/arrow/headers.py",
    "spark_bridge/arrow/records.py",
    "spark_bridge/arrow/schema.py",
    "spark_bridge/arrow/settlements.py",
    "spark_bridge/arrow/subscriptions.py",
    "spark_bridge/lost.py",
    "spark_bridge/offsets.py",
    "spark_bridge/parquet.py",
    "spark_bridge/plan.py",
    "spark_bridge/removed.py",
    "spark_bridge/salvage.py",
    "spark_bridge/selection.py",
    "spark_bridge/source.py",
    "spark_bridge/workers.py",
)


def ship(context: SparkContext) -> None:
    """Give the workers their modules, wherever they run and whatever their working directory is."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    # Executors fetch the file from this place when they start.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # A unique name, because Spark refuses another file of the same name.
    context.addPyFile(str(worker_zip(folder / f"{folder.name}.zip")))


def worker_zip(path: Path) -> Path:
    """Write the modules that a worker needs into a zip."""
    root = Path(__file__).parent.parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in WORKER_MODULES:
            archive.write(root / name, name)
    return path
