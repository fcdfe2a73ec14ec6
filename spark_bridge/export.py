"""Destinations -> Parquet: what is new in a store since the last export into the same directory."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, time_ns
from typing import ClassVar, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from tqdm import tqdm

from engine.errors import PenstockError, RangeGone, StoreCorrupt, StoreError
from engine.store.reader import StoreReader
from engine.store.watermarks import write_watermark
from spark_bridge import selection, session
from spark_bridge.offsets import Manifest, Target, check_continues
from spark_bridge.parquet import Written, write_partition
from spark_bridge.plan import Plan, make_plan
from spark_bridge.records import Piece
from spark_bridge.removed import Removed, removed_messages, sum_rows, tell

WORKER_ERROR: Final = re.compile(r"^(?:engine\.errors\.(\w+)|\w*Error|pyarrow[\w.]*): (.+)$", re.MULTILINE)
STORE_ERRORS: Final[dict[str, type[StoreError]]] = {
    error.__name__: error for error in (StoreError, StoreCorrupt, RangeGone)
}
PROGRESS_INTERVAL_S: Final = 0.2


class ExportFailed(PenstockError):
    """Spark could not do it; the text says why, as far as it can be told."""

    condition: ClassVar[str] = "export-failed"
    scope: ClassVar[str] = "request"


@dataclass(frozen=True, slots=True)
class Request:
    """skip_gone: go on with what is left where retention has removed messages that were not exported yet."""

    data: Path
    destination: str
    target: Path
    master: str = "local[2]"
    skip_gone: bool = False
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """What one export added.  ``manifest`` is empty if there was nothing new.

    gone_offset, removed: what retention was faster with, as in a manifest.
    note: what went wrong that does not matter to what was exported, "" for nothing.
    """

    store_id: str
    destination: str
    from_offset: int
    to_offset: int
    to_time_ms: int
    gone_offset: int
    removed: tuple[Removed, ...]
    rows: int
    bytes: int
    files: int
    manifest: str
    jvm_seconds: float = field(compare=False)
    export_seconds: float = field(compare=False)
    note: str = field(default="", compare=False)

    def gone(self) -> str:
        """Return in words what is not exported because retention had removed it, "" for nothing."""
        told = []
        if self.gone_offset < self.from_offset:
            told.append(f"everything from log offset {self.gone_offset} to {self.from_offset}")
        if self.removed:
            told.append(tell(self.removed))
        return ", ".join(told)


def export(request: Request, shows_progress: bool = False, spark: SparkContext | None = None) -> Result:
    """Add what is new to the target directory.

    shows_progress: draw a bar on standard error.
    spark: what to run on, see ``session.start``; without it a JVM is started for this export.
    Raises: TargetError, StoreError (RangeGone, StoreCorrupt), JavaNotFound, SessionFailed, ExportFailed; ValueError
    for a bad destination pattern.
    """
    began = monotonic()
    chosen = selection.parse(request.destination)
    reader = StoreReader(request.data.absolute())
    target = Target(request.target.absolute())
    with target.hold(), ExitStack() as started:
        number, exported_to = target.next_range(reader.store_id, str(chosen))
        end = reader.end()
        start = wanted = reader.oldest_offset if exported_to is None else exported_to
        check_continues(start, end.offset)
        if request.skip_gone:
            start = max(start, reader.oldest_offset)
        try:
            plan = make_plan(reader, chosen, start, end.offset, request.verify)
        except RangeGone as error:
            raise RangeGone(f"{error}; --skip-gone exports what is left") from None
        if start == end.offset:
            note = _tell_gateway(request, plan)
            none = Result(reader.store_id, str(chosen), start, start, end.time_ms, start, (), 0, 0, 0, "", 0.0, 0.0)
            return replace(none, note=note)
        if exported_to is not None:  # the first export takes what is there
            _check(request, removed_messages(reader, plan.destinations, start, plan.stop))
        planned = monotonic()
        if spark is None:
            scratch = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="penstock-export-")))
            spark = session.start(request.master, scratch)
            started.callback(spark.stop)
        jvm_seconds = monotonic() - planned
        staging = target.staging(number)
        # What fails cleans up here, what is killed leaves it to the next export.
        started.callback(shutil.rmtree, staging, ignore_errors=True)
        written = _run(spark, plan, staging, shows_progress)
        files = [file for each in written for file in each.files]
        removed: tuple[Removed, ...] = ()
        if exported_to is not None:
            # Once more, as retention goes on: what the tasks have found counts.
            rows = sum_rows(each.rows for each in written)
            removed = removed_messages(StoreReader(reader.directory), plan.destinations, start, plan.stop, rows)
            _check(request, removed)
        manifest = Manifest(
            number=number,
            store_id=reader.store_id,
            destination=str(chosen),
            from_offset=start,
            to_offset=end.offset,
            to_time_ms=end.time_ms,
            gone_offset=wanted,
            created_ms=time_ns() // 1_000_000,
            staging=staging.name,
            files=tuple(files),
            removed=removed,
        )
        path = target.commit(manifest)
        return Result(
            store_id=reader.store_id,
            destination=str(chosen),
            from_offset=start,
            to_offset=end.offset,
            to_time_ms=end.time_ms,
            gone_offset=wanted,
            removed=removed,
            rows=manifest.rows,
            bytes=manifest.bytes,
            files=len(files),
            manifest=str(path),
            jvm_seconds=round(jvm_seconds, 3),
            export_seconds=round(monotonic() - began - jvm_seconds, 3),
            note=_tell_gateway(request, plan),
        )


def _check(request: Request, removed: tuple[Removed, ...]) -> None:
    if removed and not request.skip_gone:
        raise RangeGone(
            f"retention has removed what was not exported yet: {tell(removed)}; --skip-gone exports what is left"
        )


def _tell_gateway(request: Request, plan: Plan) -> str:
    """Let retention know how far the destinations are exported; return why that failed, "" if it did not."""
    try:
        write_watermark(
            request.data.absolute(),
            plan.store_id,
            str(request.target.absolute()),
            request.destination,
            sorted(plan.destinations),
            plan.stop,
            time_ns() // 1_000_000,
        )
    except OSError as error:
        return f"the gateway's retention does not learn of this export: {error}"
    return ""


def _run(spark: SparkContext, plan: Plan, staging: Path, shows_progress: bool) -> list[Written]:
    """Let Spark's workers write the range to the staging directory, under the names that the files will keep.

    A name tells range and task, so that whatever runs twice gives the same file.
    """
    prefix = f"{plan.start:020}-{plan.stop:020}"
    shared = spark.broadcast(plan)

    def task(numbered: tuple[int, list[Piece]]) -> Written:
        number, pieces = numbered
        return write_partition(shared.value, pieces, staging, f"{prefix}-{number:05}.parquet")

    with _Watch(spark, plan.stop - plan.start, shows_progress):
        try:
            tasks = spark.parallelize(list(enumerate(plan.partitions)), max(1, len(plan.partitions)))
            written: list[Written] = tasks.map(task).collect()
        except Py4JError as error:
            raise _of_worker(str(error)) from error
        finally:
            shared.destroy()
    return written


def _of_worker(text: str) -> PenstockError:
    """Return what a task has raised; all that comes from a worker is its traceback."""
    said = WORKER_ERROR.search(text)
    if said is None:
        return ExportFailed(text)
    return STORE_ERRORS.get(said.group(1) or "", ExportFailed)(said.group(2))


class _Watch:
    """Draws what part of Spark's tasks is done, while it is entered."""

    def __init__(self, spark: SparkContext, total_bytes: int, shows_progress: bool) -> None:
        self._tracker = spark.statusTracker()
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
