"""Destinations -> Parquet: the new messages in a store since the last export into the same directory."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time_ns
from typing import ClassVar, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from tqdm import tqdm

from engine.store.plain_words import duration
from engine.store.read.export_watermarks import write_watermark
from engine.store.read.leases import Lease, end_lease, write_lease
from engine.store.read.reader import StoreReader
from engine.values.errors import PenstockError, RangeGone, StoreCorrupt, StoreError
from spark_bridge import selection, session
from spark_bridge.arrow.records import Piece
from spark_bridge.lost import Damaged, Lost
from spark_bridge.offsets import Manifest, Target, check_continues
from spark_bridge.parquet import Written, write_partition
from spark_bridge.plan import Plan, make_plan
from spark_bridge.removed import Removed, Rows, removed_messages, sum_rows, tell
from spark_bridge.selection import Selection

WORKER_ERROR: Final = re.compile(
    rf"^(?:{re.escape(PenstockError.__module__)}\.(\w+)|\w*Error|pyarrow[\w.]*): (.+)$", re.MULTILINE
)
STORE_ERRORS: Final[dict[str, type[StoreError]]] = {
    error.__name__: error for error in (StoreError, StoreCorrupt, RangeGone)
}
PROGRESS_INTERVAL_S: Final = 0.2
HOUR_MS: Final = 3_600_000


class ExportFailed(PenstockError):
    """Spark has failed; the text has the reason, if it is known."""

    condition: ClassVar[str] = "export-failed"
    scope: ClassVar[str] = "request"


@dataclass(frozen=True, slots=True)
class Request:
    """skip_gone: continue if retention has removed messages that were not exported yet.

    skip_damaged: continue without unreadable records, and count them; only with ``verify``.
    lease_ms: how long the gateway's retention is asked to keep the exported range, counted from the beginning.
    """

    data: Path
    destination: str
    target: Path
    master: str = "local[2]"
    skip_gone: bool = False
    verify: bool = True
    skip_damaged: bool = False
    lease_ms: int = HOUR_MS


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one export.  ``manifest`` is empty if there was nothing new.

    gone_offset, removed, gone_ranges: messages that retention removed before their export, as in a manifest.
    damaged: the unreadable records.
    note: an error that does not affect the exported messages, "" for none.
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
    gone_ranges: tuple[tuple[int, int], ...] = ()
    damaged: tuple[Damaged, ...] = ()

    def gone(self) -> str:
        """Describe the messages that retention had removed before their export, "" for none."""
        told = []
        if self.gone_offset < self.from_offset:
            told.append(f"everything from log offset {self.gone_offset} to {self.from_offset}")
        told += [f"everything from log offset {first} to {end}" for first, end in self.gone_ranges]
        if self.removed:
            told.append(tell(self.removed))
        return ", ".join(told)


def export(
    request: Request,
    shows_progress: bool = False,
    spark: SparkContext | None = None,
    starter: Callable[[str, Path], SparkContext] = session.start,
) -> Result:
    """Add the new messages to the target directory.

    shows_progress: draw a bar on standard error.
    spark: the session to use; without it ``starter`` starts a JVM for this export.
    Raises: TargetError, StoreError (RangeGone, StoreCorrupt), JavaNotFound, SessionFailed, ExportFailed; ValueError
    for a bad destination pattern.
    """
    began = monotonic()
    chosen = selection.parse(request.destination)
    reader = StoreReader(request.data.absolute())
    target = Target(request.target.absolute())
    with target.hold(), ExitStack() as started:
        number, exported_to = target.next_range(reader.store_id, str(chosen))
        start = _start(request, reader, exported_to)
        if start == reader.end().offset:
            return _nothing_new(request, reader, chosen, start)
        # The lease, then the JVM, then the plan: by then a drop that was under way has ended, and the rest stays.
        notes = [started.enter_context(_lease(request, reader, start))]
        looked = monotonic()
        if spark is None:
            scratch = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="penstock-export-")))
            spark = starter(request.master, scratch)
            started.callback(spark.stop)
        jvm_seconds = monotonic() - looked
        reader = StoreReader(request.data.absolute())
        end = reader.end()
        wanted = reader.oldest_offset if exported_to is None else exported_to
        start = _start(request, reader, exported_to)
        started.enter_context(_hint(request))
        plan = make_plan(
            reader,
            chosen,
            start,
            end.offset,
            request.verify,
            skip_gone=request.skip_gone,
            skip_damaged=request.skip_damaged,
        )
        if exported_to is not None:  # the first export takes the present messages
            _removed(request, reader, plan, None, notes)
        staging = target.staging(number)
        # A failed export cleans up here; the next export cleans up after a killed one.
        started.callback(shutil.rmtree, staging, ignore_errors=True)
        written = _run(spark, plan, staging, shows_progress)
        removed: tuple[Removed, ...] = ()
        if exported_to is not None:
            # Once more, because retention continues: the tasks' findings count.
            rows = sum_rows(each.rows for each in written)
            removed = _removed(request, StoreReader(reader.directory), plan, rows, notes)
        manifest = _manifest(number, str(chosen), plan, end.time_ms, wanted, staging.name, written, removed)
        path = target.commit(manifest)
        notes.append(_tell_gateway(request, plan))
        return _result(manifest, str(path), jvm_seconds, monotonic() - began - jvm_seconds, notes)


def _manifest(
    number: int,
    destination: str,
    plan: Plan,
    to_time_ms: int,
    gone_offset: int,
    staging: str,
    written: list[Written],
    removed: tuple[Removed, ...],
) -> Manifest:
    lost = Lost(list(plan.damaged))
    for each in written:
        lost.add(each.lost)
    return Manifest(
        number=number,
        store_id=plan.store_id,
        destination=destination,
        from_offset=plan.start,
        to_offset=plan.stop,
        to_time_ms=to_time_ms,
        gone_offset=gone_offset,
        created_ms=time_ns() // 1_000_000,
        staging=staging,
        files=tuple(file for each in written for file in each.files),
        removed=removed,
        gone=tuple(lost.gone),
        damaged=tuple(sorted(set(lost.damaged), key=lambda one: (one.from_offset, one.destination))),
    )


def _result(manifest: Manifest, path: str, jvm_seconds: float, export_seconds: float, notes: list[str]) -> Result:
    return Result(
        store_id=manifest.store_id,
        destination=manifest.destination,
        from_offset=manifest.from_offset,
        to_offset=manifest.to_offset,
        to_time_ms=manifest.to_time_ms,
        gone_offset=manifest.gone_offset,
        removed=manifest.removed,
        rows=manifest.rows,
        bytes=manifest.bytes,
        files=len(manifest.files),
        manifest=path,
        jvm_seconds=round(jvm_seconds, 3),
        export_seconds=round(export_seconds, 3),
        note="; ".join(dict.fromkeys(filter(None, notes))),
        gone_ranges=manifest.gone,
        damaged=manifest.damaged,
    )


def _start(request: Request, reader: StoreReader, exported_to: int | None) -> int:
    """Return the existing offset to begin at.  Raises: RangeGone, StoreCorrupt if a file is missing, StoreError."""
    end = reader.end().offset
    start = reader.oldest_offset if exported_to is None else exported_to
    check_continues(start, end)
    if request.skip_gone:
        start = max(start, reader.oldest_offset)
    try:
        with _hint(request):
            reader.check_range(start, end, request.skip_damaged)
    except RangeGone as error:
        raise RangeGone(f"{error}; --skip-gone exports what is left") from None
    return start


@contextmanager
def _hint(request: Request) -> Iterator[None]:
    """Add to an error of damage how to continue without it."""
    try:
        yield
    except StoreCorrupt as error:
        if request.skip_damaged:
            raise
        raise StoreCorrupt(f"{error}; --skip-damaged exports the rest and counts the damaged records") from None


def _removed(
    request: Request, reader: StoreReader, plan: Plan, rows: Rows | None, notes: list[str]
) -> tuple[Removed, ...]:
    """Return what retention has removed; ``notes`` takes a note if damage prevents the count.  Raises: RangeGone."""
    try:
        removed = removed_messages(reader, plan.destinations, plan.start, plan.stop, rows)
    except StoreCorrupt as error:
        if not request.skip_damaged:
            raise
        notes.append(f"messages that retention has removed cannot be counted: {error}")
        return ()
    if removed and not request.skip_gone:
        raise RangeGone(
            f"retention has removed messages before their export: {tell(removed)}; --skip-gone exports what is left"
        )
    return removed


def _nothing_new(request: Request, reader: StoreReader, chosen: Selection, at: int) -> Result:
    end = reader.end()
    note = _tell_gateway(request, make_plan(reader, chosen, at, at, request.verify, skip_damaged=request.skip_damaged))
    return Result(reader.store_id, str(chosen), at, at, end.time_ms, at, (), 0, 0, 0, "", 0.0, 0.0, note)


@contextmanager
def _lease(request: Request, reader: StoreReader, start: int) -> Iterator[str]:
    """Ask retention to keep the exported range for the requested time; yield why it does not, "" if it does."""
    data, now_ms = request.data.absolute(), time_ns() // 1_000_000
    lease = Lease(f"the export to {request.target.absolute()}", start, now_ms + request.lease_ms)
    note = ""
    try:
        if request.lease_ms:
            write_lease(data, reader.store_id, lease, now_ms)
    except OSError as error:
        note = f"the gateway's retention does not wait for this export: {error}"
    try:
        yield note
    except RangeGone as error:
        if time_ns() // 1_000_000 < lease.until_ms:
            raise
        told = f"this export's lease has run out after {duration(request.lease_ms)} (--lease)"
        raise RangeGone(f"{error}; {told}") from None
    finally:
        end_lease(data, lease.reader)


def _tell_gateway(request: Request, plan: Plan) -> str:
    """Record for retention how far the destinations are exported; return why that failed, "" if it did not."""
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
    """Let Spark's workers write the range to the staging directory, under the final names of the files.

    A name consists of range and task, so a task that runs twice writes the same file.
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
    """Return the exception of a task; a worker sends only its traceback."""
    said = WORKER_ERROR.search(text)
    if said is None:
        return ExportFailed(text)
    return STORE_ERRORS.get(said.group(1) or "", ExportFailed)(said.group(2))


class _Watch:
    """Draws the progress of Spark's tasks, inside its ``with`` block."""

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
