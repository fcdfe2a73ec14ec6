"""A read by its options, and without Spark a stream of record batches for DuckDB, Polars, pandas and others.

    import penstock
    waiting = penstock.scan("data", destination="orders.>", columns=["destination", "delivery_state"]).read_all()

Options: path; table (messages unless given, deliveries, dead_letters); destination (pattern, everything unless given);
lake (directory or URL of an export: its rows, then the log from the end of its last range); from-offset, to-offset,
from-time, to-time (from the oldest kept record to the durable end unless given; states are as of the end); verify
(checksums, true unless "false"); partition-bytes; body (text, binary or both); payload (variant: one more column, of
bodies that are JSON); columns (names with commas, for SQL; all unless given); where (rows, see ``where``).
Their names may be written from-offset, fromOffset or from_offset; OTHER_NAMES are understood, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa

from engine.store.read import selection
from engine.store.read.catalog import read_catalog
from engine.store.read.reader import StoreReader
from engine.store.read.selection import Selection
from engine.values.destination import uri
from spark_bridge.arrow.bodies import AS_TEXT, FORMS
from spark_bridge.arrow.schema import DELIVERIES, MESSAGES, ON_REQUEST, PAYLOAD, SCHEMAS, TABLES, chosen_schema
from spark_bridge.files.choice import files_at, store_at
from spark_bridge.log.times import offset_at
from spark_bridge.manifests import Manifest, check_continues
from spark_bridge.read.filters import ENDLESS, RowFilter, row_filter
from spark_bridge.read.lake import Bounds, Lake, last_manifest, make_lake, read_lake
from spark_bridge.read.pieces import BATCH_ROWS, read_pieces
from spark_bridge.read.plan import PARTITION_BYTES, Plan, make_plan
from spark_bridge.read.where import parse, with_zone

OPTIONS: Final = (
    "path",
    "table",
    "destination",
    "lake",
    "from-offset",
    "to-offset",
    "from-time",
    "to-time",
    "verify",
    "partition-bytes",
    "body",
    PAYLOAD,
    "columns",
    "where",
)
MAX_BYTES: Final = "max-bytes-per-trigger"
MAX_MESSAGES: Final = "max-messages-per-trigger"
FAIL_ON_DATA_LOSS: Final = "fail-on-data-loss"
READER: Final = "reader"
OF_STREAMS: Final = (MAX_BYTES, MAX_MESSAGES, FAIL_ON_DATA_LOSS, READER)
# Names that users of Spark's source for Kafka know, and those of Delta for a read of the past.
OTHER_NAMES: Final = {
    "starting-offsets": "from-offset",
    "ending-offsets": "to-offset",
    "starting-time": "from-time",
    "starting-timestamp": "from-time",
    "ending-time": "to-time",
    "ending-timestamp": "to-time",
    "as-of": "to-time",
    "timestamp-as-of": "to-time",
    "max-offsets-per-trigger": MAX_MESSAGES,
}
WHOLE: Final = {"from-offset": "earliest", "to-offset": "latest"}  # values that mean the whole log
AS_VARIANT: Final = "variant"  # of option payload
STATE_COLUMNS: Final = frozenset({"delivery_state", "delivery_cause", "subscription_states"})


@dataclass(frozen=True, slots=True)
class Read:
    """A planned read.  plan: of the log.  lake: rows before it, None for the log alone.

    Tasks are numbered, those of the lake first.
    """

    plan: Plan
    lake: Lake | None

    def tasks(self) -> int:
        """Return the number of tasks."""
        return len(self.plan.partitions) + (0 if self.lake is None else len(self.lake.partitions))

    def rows(self, task: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task.  Raises: RangeGone, StoreCorrupt, FileNotFoundError for a file of the lake."""
        if self.lake is not None:
            if task < len(self.lake.partitions):
                yield from self.plan.chosen(read_lake(self.lake, self.lake.partitions[task], BATCH_ROWS))
                return
            task -= len(self.lake.partitions)
        yield from read_pieces(self.plan, self.plan.partitions[task])


def scan(path: str, columns: Sequence[str] = (), **options: object) -> pa.RecordBatchReader:
    """Return the rows of a table in the order of the log, read as they are taken; by default all columns.

    Raises: ValueError with the option and its allowed values; RangeGone, StoreCorrupt, StoreError, also while reading.
    """
    read = plan_read({name: str(value) for name, value in options.items()} | {"path": str(path)}, columns)
    return pa.RecordBatchReader.from_batches(
        chosen_schema(read.plan.table, read.plan.shown),
        (batch for task in range(read.tasks()) for batch in read.rows(task)),
    )


def table_of(options: Mapping[str, str]) -> str:
    """Return the table that options name.  Raises: ValueError."""
    table = named_options(options).get("table", MESSAGES).lower()
    if table not in TABLES:
        raise ValueError(f"option 'table' is {table!r}; it takes {', '.join(TABLES)}")
    return table


def columns_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns that options name, by default all that they allow.  Raises: ValueError."""
    columns = tuple(name.strip() for name in named_options(options).get("columns", "").split(",") if name.strip())
    check_columns(options, columns)
    return columns or _allowed_columns(options)


def check_columns(options: Mapping[str, str], columns: Sequence[str]) -> None:
    """Raises: ValueError for a column that a read with these options does not have."""
    allowed = _allowed_columns(options)
    for name in columns:
        if name == PAYLOAD and name not in allowed:
            raise ValueError(f"column {name!r} needs option 'payload': variant")
        if name not in allowed:
            raise ValueError(f"unknown column {name!r}; {table_of(options)} has {', '.join(allowed)}")


def _allowed_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns of the table, and those that options add.  Raises: ValueError."""
    table, form = table_of(options), named_options(options).get(PAYLOAD)
    columns = tuple(SCHEMAS[table].names)
    if form is None:
        return columns
    if form.lower() != AS_VARIANT:
        raise ValueError(f"option 'payload' is {form!r}; it takes {AS_VARIANT}")
    if table not in ON_REQUEST:
        raise ValueError(f"option 'payload' is for the tables {' and '.join(ON_REQUEST)}; {table} has no bodies")
    return (*columns, PAYLOAD)


def plan_read(options: Mapping[str, str], columns: Sequence[str] = (), store: Path | None = None) -> Read:
    """Plan a read by its options; by default of the columns that these name.

    store: the path of the store, if it is known; ``path`` only says where it is.
    Raises: ValueError with the option and its allowed values; RangeGone, StoreError, TargetError, LakeError.
    """
    given = named_options(options)
    for name in OF_STREAMS:
        if name in given:
            raise ValueError(f"option {name!r} is for streams (spark.readStream)")
    table = table_of(given)
    columns = columns or columns_of(given)
    check_columns(given, columns)
    path = path_of(given)
    verify = flag_of(given, "verify")
    body = given.get("body", AS_TEXT).lower()
    if body not in FORMS:
        raise ValueError(f"option 'body' is {body!r}; it takes text, binary or both")
    files = files_at(given["lake"]) if given.get("lake") else None
    last = None if files is None else last_manifest(files, table)
    chosen = selection.parse(given.get("destination", ">" if last is None else last.destination))
    times = {end: time_of(given, end) for end in ("from", "to")}
    offsets = {end: number_of(given, f"{end}-offset", 0) for end in ("from", "to")}
    partition_bytes = number_of(given, "partition-bytes", 1) or PARTITION_BYTES
    reader = StoreReader(store or store_at(path))
    for end, time_ms in times.items():
        if time_ms is not None:
            offsets[end] = offset_at(reader, time_ms)
    conditions = parse(given.get("where", ""), table)
    wanted = row_filter(conditions, table)
    needed = {*columns, *(each.column for each in conditions)}
    has_states = table != DELIVERIES and not STATE_COLUMNS.isdisjoint(needed)
    start, stop = offsets["from"], offsets["to"]
    if last is not None:
        _check_lake(reader, last, chosen, has_states and stop is not None)
        start, stop = _after(reader, last.to_offset, start, stop)
    # Of a read that leaves out much, what lies between its records is not worth reading.
    is_partial = bool(conditions) or str(chosen) != ">"
    chosen = replace(chosen, only=wanted.destinations())
    plan = make_plan(
        reader,
        chosen,
        _later(reader, start, stop, wanted.start),
        stop,
        verify,
        partition_bytes,
        body=body,
        tables=(table,),
        settles=has_states,
    )
    plan = replace(plan.of_table(table, columns).narrowed(wanted, conditions), skips_gaps=is_partial)
    if files is None or last is None:
        return Read(plan, None)
    bounds = _bounds(last.to_offset, times, offsets, wanted)
    return Read(plan, make_lake(files, last.tables, table, plan.columns, chosen, bounds, partition_bytes))


def _bounds(
    lake_end: int, times: Mapping[str, int | None], offsets: Mapping[str, int | None], wanted: RowFilter
) -> Bounds:
    """Return which rows of the lake the options choose.  lake_end: log offset at which it ends."""
    lowest = 0 if times["from"] is not None else offsets["from"] or 0
    highest = lake_end if offsets["to"] is None else min(lake_end, offsets["to"])
    to_ms = ENDLESS if times["to"] is None else times["to"]
    return Bounds(
        max(lowest, wanted.start),
        min(highest, wanted.stop),
        max(times["from"] or 0, wanted.from_ms),
        min(to_ms, wanted.to_ms),
    )


def _later(reader: StoreReader, start: int | None, stop: int | None, wanted: int) -> int | None:
    """Return where to begin if nothing before ``wanted`` is needed."""
    if not wanted:
        return start
    least = reader.oldest_offset if start is None else start
    return max(least, min(wanted, reader.end().offset if stop is None else stop))


def _check_lake(reader: StoreReader, last: Manifest, chosen: Selection, has_old_states: bool) -> None:
    """Raise ValueError, or StoreError for an older copy of the store, if lake and log are no single history."""
    if last.store_id != reader.store_id:
        raise ValueError(f"option 'lake' holds an export of store {last.store_id}; 'path' is store {reader.store_id}")
    check_continues(last.to_offset, reader.end().offset)
    exported = selection.parse(last.destination)
    for info in read_catalog(reader).destinations.values():
        if chosen.matches(info.kind, info.name) and not exported.matches(info.kind, info.name):
            name = uri(info.kind, info.name)
            raise ValueError(f"option 'lake' holds an export of {last.destination!r}; {name} has no history there")
    if has_old_states:
        raise ValueError(
            "options 'lake' and 'to-offset' or 'to-time' do not go with columns of states, which are in the lake as of "
            "their exports; the table deliveries tells how each message ended"
        )


def _after(reader: StoreReader, exported_to: int, start: int | None, stop: int | None) -> tuple[int, int]:
    """Return the part of a range that only the log has."""
    end = reader.end().offset
    stop = end if stop is None else stop
    if stop <= exported_to:
        return end, end
    # A time before the oldest kept record means that record; all from the lake's end on is needed then.
    is_within = start is not None and start > max(exported_to, reader.oldest_offset)
    return (start if start is not None and is_within else exported_to), stop


def named_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options by their names in OPTIONS.  Raises: ValueError for an unknown one and for one given twice."""
    names = {name.replace("-", ""): name for name in (*OPTIONS, *OF_STREAMS)}
    names |= {name.replace("-", ""): meant for name, meant in OTHER_NAMES.items()}
    given: dict[str, str] = {}
    for name, value in options.items():
        known = names.get(name.lower().replace("-", "").replace("_", ""))
        if known is None:
            raise ValueError(f"unknown option {name!r}; penstock takes {', '.join(OPTIONS)}")
        if known in given:
            raise ValueError(f"option {known!r} is given twice, also as {name!r}")
        given[known] = value
    return given


def path_of(given: Mapping[str, str]) -> str:
    """Return the directory of the store.  Raises: ValueError."""
    if not given.get("path"):
        raise ValueError("option 'path' is missing: the directory of the store")
    return given["path"]


def flag_of(given: Mapping[str, str], name: str) -> bool:
    """Return an option that is true by default.  Raises: ValueError."""
    text = given.get(name, "true").lower()
    if text not in ("true", "false"):
        raise ValueError(f"option {name!r} is {text!r}; it takes true or false")
    return text == "true"


def number_of(given: Mapping[str, str], name: str, least: int) -> int | None:
    """Return a whole number, None for all of the log.  Raises: ValueError."""
    text = given.get(name)
    if text is None or text == WHOLE.get(name):
        return None
    if not text.isdecimal() or int(text) < least:
        other = f", or {WHOLE[name]}" if name in WHOLE else ""
        raise ValueError(f"option {name!r} is {text!r}; it takes a whole number, at least {least}{other}")
    return int(text)


def time_of(given: Mapping[str, str], end: str) -> int | None:
    """Return milliseconds since 1970; a time without a zone is UTC, as in the commands.  Raises: ValueError."""
    name = f"{end}-time"
    text = given.get(name)
    if text is None:
        return None
    if f"{end}-offset" in given:
        raise ValueError(f"options '{end}-offset' and {name!r} are both given; one of them is enough")
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        time = with_zone(datetime.fromisoformat(text))
    except ValueError:
        allowed = "2026-11-23T09:00:00Z or milliseconds since 1970"
        raise ValueError(f"option {name!r} is {text!r}; it takes {allowed}") from None
    return round(time.timestamp() * 1000)
