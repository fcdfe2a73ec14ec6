"""Destinations -> Parquet: the new messages in a store since the last export into the same directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Final

from engine.store.read import selection
from engine.store.read.catalog import read_catalog
from engine.store.read.reader import StoreReader
from engine.store.read.selection import Selection
from engine.store.read.store_files import RemotePath
from engine.values.errors import PenstockError, RangeGone, StoreCorrupt
from spark_bridge.arrow.bodies import AS_TEXT
from spark_bridge.arrow.schema import MESSAGES
from spark_bridge.errors import ListOutdated
from spark_bridge.files.choice import store_at
from spark_bridge.files.growing_store import GrowingStore
from spark_bridge.files.place import is_url
from spark_bridge.gateway_notes import notes_for
from spark_bridge.iceberg.publication import Publication, publication
from spark_bridge.log.lost import Lost, merged
from spark_bridge.log.removed import Removed, Rows, removed_messages, sum_rows, tell
from spark_bridge.manifests import Manifest, check_continues
from spark_bridge.one_spark import OneSpark
from spark_bridge.parquet import Written, by_destination
from spark_bridge.partitioning import BY_DESTINATION, MOST_DESTINATIONS, Partitioning, partitioning_for
from spark_bridge.read.plan import PARTITION_BYTES, Plan, make_plan
from spark_bridge.rehearsal import Rehearsal
from spark_bridge.result import Result
from spark_bridge.retention_notes import RetentionNotes
from spark_bridge.spark.executors import WAIT_MS
from spark_bridge.target import NextRange, Target, target_at
from spark_bridge.tasks import InProcess, Tasks

if TYPE_CHECKING:
    from pyspark import SparkContext

    from spark_bridge.spark.session import Starter

HOUR_MS: Final = 3_600_000
NICE: Final = 10
LOCAL: Final = "local[2]"
NO_SPARK: Final = "none"
ATTEMPTS: Final = 5  # at reading a store whose files change after they were listed
FILE_LEAST_BYTES: Final = 1 << 20
FILE_MOST_BYTES: Final = 256 << 20  # also of the log for one task, which keeps much of it in memory
FAILURES: Final = (PenstockError, OSError, ValueError)  # what an export raises
MANY: Final = (
    "this target has files for each of its many destinations; exports to a new one --partition-by date are faster"
)


@dataclass(frozen=True, slots=True)
class Request:
    """skip_gone: continue if retention has removed messages that were not exported yet.

    skip_damaged: continue without unreadable records, and count them; only with ``verify``.
    lease_ms: how long the gateway's retention is asked to keep the exported range, counted from the beginning.
    body: one of ``bodies.FORMS``.  driver_host: see ``session.settings_for``.
    data: the store's directory, the URL of its copy in an object store or of its gateway, or a store that is followed.
    target: a directory, or the URL of a place in an object store.  master: of Spark; NO_SPARK: in this process.
    tables: () for those that the target holds, messages if it is new.
    is_rehearsal: find out what would be added, and write nothing, neither to the target nor to the store.
    nice: how much a local Spark's priority is lowered.  rate_bytes: of the log in a second, 0 for no limit.
    executor_wait_ms: see ``ExecutorWatch``, for a Spark elsewhere.
    partitioning: () for that of the target; a new one has it by the number of its destinations.
    iceberg: catalogue and namespace, CATALOGUE.NAMESPACE, where the tables are published, too; "" for nowhere.
    file_bytes: the size of files, see ``_task_bytes``; 0 for whatever PARTITION_BYTES of the log need.
    """

    data: Path | str | GrowingStore
    destination: str
    target: Path | str
    master: str = LOCAL
    skip_gone: bool = False
    verify: bool = True
    skip_damaged: bool = False
    lease_ms: int = HOUR_MS
    body: str = AS_TEXT
    driver_host: str = ""
    nice: int = NICE
    rate_bytes: int = 0
    tables: tuple[str, ...] = ()
    is_rehearsal: bool = False
    executor_wait_ms: int = WAIT_MS
    partitioning: Partitioning = ()
    iceberg: str = ""
    file_bytes: int = 0

    def store(self) -> Path:
        """Return the path of the store.  Raises: TargetError, LakeError."""
        if isinstance(self.data, GrowingStore):
            return self.data.now()
        return store_at(self.data if is_url(str(self.data)) else Path(self.data).absolute())

    def needs_spark(self) -> bool:
        return self.master != NO_SPARK and not self.is_rehearsal


def export(
    request: Request, shows_progress: bool = False, spark: SparkContext | None = None, starter: Starter | None = None
) -> Result:
    """Add the new messages to the target.

    shows_progress: draw a bar on standard error.  spark: the session to use; without it ``starter`` starts a JVM.
    Raises: TargetError, LakeError, StoreError (RangeGone, StoreCorrupt), JavaNotFound, SessionFailed, ExportFailed;
    ValueError for a bad destination pattern.
    """
    with OneSpark(shows_progress, spark, starter) as one:
        return export_on(one, request)


def export_on(spark: OneSpark, request: Request) -> Result:
    """Do the same with the Spark of several exports."""
    target = target_at(request.target)
    if request.is_rehearsal:
        target = Rehearsal(target.files)
    return export_to(target, request, spark)


def export_to(target: Target, request: Request, spark: OneSpark | None = None) -> Result:
    """Add the new messages to a target that is open.  spark: None if the request needs none.

    A gateway elsewhere may change its files before it knows of the lease, and when it is started again after a kill:
    then the export begins anew.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            return _export_once(target, request, spark)
        except ListOutdated:
            if not left:
                raise
    raise AssertionError("the last attempt returns or raises")


def _export_once(target: Target, request: Request, spark: OneSpark | None) -> Result:
    began = monotonic()
    chosen = selection.parse(request.destination)
    reader = StoreReader(request.store())
    with target.hold() as token, ExitStack() as started:
        retention = notes_for(reader.directory, target.files.identity, request.lease_ms, request.is_rehearsal, token)
        known = target.next_range(reader.store_id, str(chosen), request.tables, request.partitioning)
        number, exported_to, tables, partitioning = known
        also = publication(request.iceberg, target.files, tables, partitioning, request.is_rehearsal)
        iceberg = started.enter_context(also)
        start = _start(request, reader, exported_to)
        if start == reader.end().offset:
            return _nothing_new(request, retention, iceberg, reader, chosen, start, known)
        if exported_to is None and not _matches(request, reader, chosen):
            # Without a manifest the directory is free for the pattern that was meant.
            return _nothing_matches(request, reader, chosen, start)
        # The lease, then the JVM, then the plan: by then a drop that was under way has ended, and the rest stays.
        notes = [started.enter_context(retention.lease(reader.store_id, start))]
        looked = monotonic()
        tasks: Tasks = InProcess()
        if request.needs_spark():
            assert spark is not None
            tasks = spark.tasks(request.master, request.driver_host, request.nice, request.executor_wait_ms)
        jvm_seconds = monotonic() - looked
        reader = StoreReader(_listed_again(request, reader.directory))
        end = reader.end()
        wanted = reader.oldest_offset if exported_to is None else exported_to
        start = _start(request, reader, exported_to)
        started.enter_context(_hint(request))
        plan = _plan(request, reader, chosen, start, end.offset, tables, target)
        plan = replace(tasks.settled(plan), partitioning=partitioning or partitioning_for(len(plan.destinations)))
        if exported_to is not None:  # the first export takes the present messages
            _removed(request, reader, plan, None, notes)
        # A failed export cleans up here; a later export cleans up after a killed one.
        attempt = started.enter_context(target.attempt(number))
        removed: tuple[Removed, ...] = ()
        written = tasks.write_files(plan, attempt, request.rate_bytes)
        if exported_to is not None:
            # Once more, because retention continues: the tasks' findings count, if they have read messages.
            rows = sum_rows(each.rows for each in written) if MESSAGES in tables else None
            removed = _removed(request, StoreReader(reader.directory), plan, rows, notes)
        manifest = _manifest(number, str(chosen), plan, end.time_ms, wanted, attempt.name, written, removed)
        path = target.commit(manifest)
        notes += [retention.reached(chosen, plan), _many(request, plan, written), iceberg.publish(plan.partitioning)]
        result = _result(manifest, path, jvm_seconds, monotonic() - began - jvm_seconds, notes)
        rehearsed = by_destination(written) if request.is_rehearsal else {}
        return replace(result, is_rehearsal=request.is_rehearsal, destinations=rehearsed)


def _plan(
    request: Request,
    reader: StoreReader,
    chosen: Selection,
    start: int,
    end: int,
    tables: tuple[str, ...],
    target: Target,
) -> Plan:
    plan = make_plan(
        reader,
        chosen,
        start,
        end,
        request.verify,
        _task_bytes(request.file_bytes, target),
        skip_gone=request.skip_gone,
        skip_damaged=request.skip_damaged,
        body=request.body,
        tables=tables,
        settles=False,
        checks_entries=True,
    )
    return replace(plan, file_bytes=request.file_bytes)


def _task_bytes(file_bytes: int, target: Target) -> int:
    """Return how much of the log one task reads: what filled a file of this size in the export before."""
    if not file_bytes:
        return PARTITION_BYTES
    return min(int(file_bytes * max(1.0, target.log_per_byte())), FILE_MOST_BYTES)


def _many(request: Request, plan: Plan, written: list[Written]) -> str:
    """Return a note where each of many destinations has files of its own, unless that was asked for."""
    is_asked = request.partitioning or plan.partitioning != BY_DESTINATION
    return MANY if not is_asked and len(by_destination(written)) > MOST_DESTINATIONS else ""


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
        gone=tuple(merged(lost.gone)),
        damaged=tuple(sorted(set(lost.damaged), key=lambda one: (one.from_offset, one.destination))),
        tables=plan.tables,
        partitioning=plan.partitioning,
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
        tables=manifest.rows_by_table(),
        partitioning=manifest.partitioning,
    )


def _listed_again(request: Request, store: Path) -> Path:
    """Return the path of a store as it is now: a gateway elsewhere lists its files once."""
    return request.store() if isinstance(store, RemotePath) and store.files.is_live else store


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


def _matches(request: Request, reader: StoreReader, chosen: Selection) -> bool:
    """Return whether the store has a destination of the pattern, or may have one where it is damaged."""
    if request.skip_damaged:
        return True
    with _hint(request):
        catalog = read_catalog(reader, checks_entries=True)
        return any(chosen.matches(each.kind, each.name) for each in catalog.destinations.values())


def _nothing_new(
    request: Request,
    retention: RetentionNotes,
    iceberg: Publication,
    reader: StoreReader,
    chosen: Selection,
    at: int,
    known: NextRange,
) -> Result:
    plan = make_plan(reader, chosen, at, at, request.verify, skip_damaged=request.skip_damaged, tables=known.tables)
    notes = [retention.reached(chosen, plan), iceberg.publish(known.partitioning)]
    nothing = _nothing(request, reader, chosen, at, "; ".join(filter(None, notes)))
    return replace(nothing, partitioning=known.partitioning)


def _nothing_matches(request: Request, reader: StoreReader, chosen: Selection, at: int) -> Result:
    note = f"no destination of the store matches {str(chosen)!r}"
    return replace(_nothing(request, reader, chosen, at, note), has_matched=False)


def _nothing(request: Request, reader: StoreReader, chosen: Selection, at: int, note: str) -> Result:
    there = reader.store_id, str(chosen), at, at, reader.end().time_ms, at
    return Result(*there, (), 0, 0, 0, "", 0.0, 0.0, note, is_rehearsal=request.is_rehearsal)
