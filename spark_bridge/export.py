"""Destinations -> Parquet: what is new in a store since the last export into the same directory."""

from __future__ import annotations

import re
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time_ns
from typing import Final

import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tqdm import tqdm

from engine.errors import PenstockError, RangeGone
from engine.store.reader import StoreReader
from spark_bridge import selection, session
from spark_bridge.offsets import ExportedFile, Manifest, Target, check_continues

PARTITION_COLUMNS: Final = ("destination", "date")
# Of values that never repeat a dictionary only costs time.
UNIQUE_COLUMNS: Final = ("message_id", "log_offset", "queue_offset", "body", "body_text", "correlation_id")
COMPRESSION: Final = "snappy"
PART_NAME: Final = re.compile(r"part-(\d+)-[0-9a-f-]+\.c(\d+)\b.*\.parquet")
WORKER_ERROR: Final = re.compile(r"^(?:engine\.errors\.\w+|ValueError): (.+)$", re.MULTILINE)
PROGRESS_INTERVAL_S: Final = 0.2


class ExportFailed(PenstockError):
    """Spark could not do it; the text says why, as far as it can be told."""


@dataclass(frozen=True, slots=True)
class Request:
    """skip_gone: go on with what is left where retention has dropped messages that were not exported yet."""

    data: Path
    destination: str
    target: Path
    master: str = "local[2]"
    skip_gone: bool = False
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """What one export added.  ``manifest`` is empty if there was nothing new."""

    store_id: str
    destination: str
    from_offset: int
    to_offset: int
    to_time_ms: int
    rows: int
    bytes: int
    files: int
    manifest: str
    jvm_seconds: float = field(compare=False)
    export_seconds: float = field(compare=False)


def export(request: Request, shows_progress: bool = False, spark: SparkSession | None = None) -> Result:
    """Add what is new to the target directory.

    shows_progress: draw a bar on standard error.
    spark: a session to use (``spark_bridge.source`` registered); without one a JVM is started for this export.
    Raises: TargetError, StoreError (RangeGone, StoreCorrupt), JavaNotFound, SessionFailed, ExportFailed; ValueError
    for a bad destination pattern.
    """
    chosen = str(selection.parse(request.destination))
    reader = StoreReader(request.data)
    target = Target(request.target)
    with target.hold():
        number, exported_to = target.next_range(reader.store_id, chosen)
        end = reader.end()
        start = wanted = reader.first_offset if exported_to is None else exported_to
        check_continues(start, end.offset)
        if start < reader.first_offset and request.skip_gone:
            start = reader.first_offset
        try:
            reader.check_range(start, end.offset)
        except RangeGone as error:
            raise RangeGone(f"{error}; --skip-gone exports what is left") from None
        if start == end.offset:
            return Result(reader.store_id, chosen, start, start, end.time_ms, 0, 0, 0, "", 0.0, 0.0)
        with tempfile.TemporaryDirectory(prefix="penstock-export-") as scratch:
            began = monotonic()
            own = session.start(request.master, Path(scratch)) if spark is None else None
            started = monotonic()
            try:
                files = _write(own or spark, request, target, number, start, end.offset, shows_progress)
            finally:
                if own is not None:
                    own.stop()
        manifest = Manifest(
            number,
            reader.store_id,
            chosen,
            start,
            end.offset,
            end.time_ms,
            wanted,
            time_ns() // 1_000_000,
            tuple(files),
        )
        path = target.commit(manifest)
        return Result(
            reader.store_id,
            chosen,
            start,
            end.offset,
            end.time_ms,
            manifest.rows,
            manifest.bytes,
            len(files),
            str(path),
            started - began,
            monotonic() - started,
        )


def _write(
    spark: SparkSession | None,
    request: Request,
    target: Target,
    number: int,
    start: int,
    stop: int,
    shows_progress: bool,
) -> list[ExportedFile]:
    """Let Spark write the range to the staging directory, under the names that the files will keep."""
    assert spark is not None
    staging = target.staging(number)
    messages = (
        spark.read.format("penstock")
        .option("path", str(request.data.absolute()))
        .option("destination", request.destination)
        .option("from-offset", start)
        .option("to-offset", stop)
        .option("verify", "true" if request.verify else "false")
        .load()
    )
    writer = messages.write.mode("append").partitionBy(*PARTITION_COLUMNS).option("compression", COMPRESSION)
    for name in UNIQUE_COLUMNS:
        writer = writer.option(f"parquet.enable.dictionary#{name}", "false")
    with _Watch(spark, stop - start, shows_progress):
        try:
            writer.parquet(staging.absolute().as_uri())
        except PySparkException as error:
            said = WORKER_ERROR.findall(str(error))
            raise ExportFailed(said[-1] if said else str(error)) from error
    return _rename(staging, f"{start:020}-{stop:020}")


def _rename(staging: Path, prefix: str) -> list[ExportedFile]:
    """Name files by their range, task and number, so that a name says where its rows come from."""
    files: list[ExportedFile] = []
    for path in sorted(staging.rglob("part-*.parquet")):
        part = PART_NAME.fullmatch(path.name)
        assert part is not None, f"Spark wrote {path.name}"
        place = path.with_name(f"{prefix}-{part.group(1)}-{part.group(2)}.parquet")
        path.rename(place)
        rows = pq.read_metadata(place).num_rows
        files.append(ExportedFile(str(place.relative_to(staging)), rows, place.stat().st_size))
    return files


class _Watch:
    """Draws what part of Spark's tasks is done, while it is entered."""

    def __init__(self, spark: SparkSession, total_bytes: int, shows_progress: bool) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._total_bytes = total_bytes
        self._shows_progress = shows_progress
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="export progress", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        with tqdm(
            total=self._total_bytes, desc="export", unit="B", unit_scale=True, disable=not self._shows_progress
        ) as bar:
            while not self._done.wait(PROGRESS_INTERVAL_S):
                for stage in self._tracker.getActiveStageIds():
                    info = self._tracker.getStageInfo(stage)
                    if info is not None and info.numTasks:
                        bar.update(self._total_bytes * info.numCompletedTasks // info.numTasks - bar.n)
            bar.update(self._total_bytes - bar.n)
