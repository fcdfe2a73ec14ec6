"""The plan of one read, fixed before its first partition starts: range, destinations, partitions, settlements.

Below the checkpoint's consume-queue offset the consume queues have the places of records.  Above it the log is scanned
twice: here for destinations, settlements and possible beginnings of partitions, and by the partitions themselves.
States of messages need the settlements of all partitions; an export lets Spark's workers read them, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from engine.store.format import layout
from engine.store.read.catalog import Catalog, read_catalog
from engine.store.read.entry_files import lanes
from engine.store.read.reader import DestinationInfo, StoreReader
from engine.store.read.selection import Selection
from engine.values.destination import uri
from engine.values.message import DEAD_LETTER
from spark_bridge.arrow.bodies import AS_TEXT
from spark_bridge.arrow.schema import DEAD_LETTERS, DELIVERIES, MESSAGES, SCHEMAS
from spark_bridge.arrow.subscriptions import Subscriber, label
from spark_bridge.log.lost import Damaged, Lost
from spark_bridge.log.records import GAP_BYTES, Piece, cell_end, lane_entries
from spark_bridge.log.salvage import Stretch
from spark_bridge.log.settlements import Ranges, Settled, by_lane, joined, of_owners, read_ranges
from spark_bridge.log.sound_entries import are_sound
from spark_bridge.partitioning import BY_DESTINATION, Partitioning
from spark_bridge.read.deliveries import DeliveryLog, delivery_log
from spark_bridge.read.filters import ENDLESS, EVERYTHING, RowFilter
from spark_bridge.read.tail import Tail, read_tail
from spark_bridge.read.where import Condition, chosen_rows

PARTITION_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Plan:
    """One consistent read.

    settled: by lane, see ``read_settlements``.  settling: the queues and subscriptions whose settlements count.
    skip_gone, skip_damaged: continue without unreadable ranges and records.  damaged: those found already.
    body: one of ``bodies.FORMS``.  rate_bytes: of the log that one task may read in a second, 0 for no limit.
    partitioning, file_bytes: of the files that an export writes; see ``OneDestinationFile``.
    tables: those that can be read; table: the one that ``read_pieces`` reads, see ``of_table``.
    wanted, conditions: see ``narrowed``.  shown: the columns that its rows have, of those that are read.
    skips_gaps: rather read record by record than what lies between them.
    deliveries: None if the plan has no such table.
    whole_from: if retention has removed single messages from this log offset on, their partition is an error.
    """

    directory: Path
    store_id: str
    start: int
    stop: int
    verify: bool
    destinations: dict[int, DestinationInfo]
    settling: frozenset[int]
    settled: dict[int, Settled]
    subscribers: dict[int, list[Subscriber]]
    partitions: list[list[Piece]]
    skip_gone: bool = False
    skip_damaged: bool = False
    damaged: tuple[Damaged, ...] = ()
    body: str = AS_TEXT
    columns: tuple[str, ...] = ()
    rate_bytes: int = 0
    tables: tuple[str, ...] = (MESSAGES,)
    table: str = MESSAGES
    deliveries: DeliveryLog | None = None
    wanted: RowFilter = EVERYTHING
    conditions: tuple[Condition, ...] = ()
    shown: tuple[str, ...] = ()
    skips_gaps: bool = False
    whole_from: int = ENDLESS
    partitioning: Partitioning = BY_DESTINATION
    file_bytes: int = 0

    def narrowed(self, wanted: RowFilter, conditions: tuple[Condition, ...]) -> Plan:
        """Return the plan with the rows for which conditions hold; it need not read more than ``wanted``."""
        before = ([piece for piece in pieces if piece.start < wanted.stop] for pieces in self.partitions)
        cut = [
            [replace(each, stop=min(each.stop, wanted.stop)) if each.has_entries else each for each in pieces]
            for pieces in before
            if pieces
        ]
        columns = tuple(dict.fromkeys((*self.columns, *(each.column for each in conditions))))
        return replace(self, wanted=wanted, conditions=conditions, columns=columns, partitions=cut)

    def chosen(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows for which the conditions hold, of those of ``columns``."""
        return chosen_rows(batches, self.conditions, self.shown) if self.conditions else batches

    def of_table(self, table: str, columns: Sequence[str] = ()) -> Plan:
        """Return the plan that reads one of its tables; by default all columns."""
        shown = tuple(columns) or tuple(SCHEMAS[table].names)
        return replace(self, table=table, columns=shown, shown=shown)

    def flags(self) -> int:
        """Return the flags that messages of the table have."""
        return DEAD_LETTER if self.table == DEAD_LETTERS else 0


def make_plan(
    reader: StoreReader,
    selection: Selection,
    start: int | None = None,
    stop: int | None = None,
    verify: bool = True,
    partition_bytes: int = PARTITION_BYTES,
    skip_gone: bool = False,
    skip_damaged: bool = False,
    body: str = AS_TEXT,
    tables: Sequence[str] = (MESSAGES,),
    settles: bool = True,
    checks_entries: bool = False,
) -> Plan:
    """Plan a read of the messages from log offset ``start`` to ``stop``, by default the oldest kept and the end.

    skip_damaged: leave out and count unreadable records; only with ``verify``.  body: one of ``bodies.FORMS``.
    tables: those to read; the plan is of the first one.  settles: read settlements now, not by ``read_settlements``.
    checks_entries: read the log itself if consume queues are damaged.
    Raises: RangeGone, StoreCorrupt also for a missing file; ValueError for a range beyond the end.
    """
    end = reader.end()
    start = reader.oldest_offset if start is None else start
    stop = end.offset if stop is None else stop
    reader.check_range(start, stop, skip_damaged)
    lost = Lost() if skip_damaged else None
    if checks_entries and not are_sound(reader, selection, start, stop):
        reader.distrust_entries()
    middle = max(start, min(stop, reader.entries_offset))
    tail = read_tail(reader, middle, stop, partition_bytes, skip_damaged, DELIVERIES in tables)
    catalog = _catalog(reader, start, stop, tail, lost, checks_entries)
    chosen = {number: info for number, info in catalog.destinations.items() if selection.matches(info.kind, info.name)}
    subscribers = _subscribers(catalog, chosen)
    settling = {*chosen, *(one.number for of_topic in subscribers.values() for one in of_topic)}
    deliveries: DeliveryLog | None = None
    if DELIVERIES in tables:
        is_alone = set(tables) == {DELIVERIES}
        deliveries = delivery_log(reader, catalog, chosen, tail.events, tail.messages, verify, skip_damaged, is_alone)
    if lost is not None:
        lost.damaged += [_damaged(stretch, chosen) for stretch in tail.stretches]
        _count_missing(reader, start, min(stop, reader.entries_offset), settling, chosen, lost)
    plan = Plan(
        reader.directory,
        reader.store_id,
        start,
        stop,
        verify,
        chosen,
        frozenset(settling),
        by_lane([of_owners(ranges, settling) for ranges in tail.settled]),
        subscribers,
        _partitions(_cut(reader, start, middle, partition_bytes) + tail.pieces, partition_bytes),
        skip_gone,
        skip_damaged,
        () if lost is None else tuple(lost.damaged),
        body,
        tables=tuple(tables),
        deliveries=deliveries,
    ).of_table(tables[0])
    return with_settled(plan) if settles and set(tables) != {DELIVERIES} else plan


def read_settlements(plan: Plan, pieces: list[Piece]) -> tuple[Ranges, Lost]:
    """Return the settlements in one partition, without those of the tail, and the damage.

    They may settle messages of every earlier partition, so all are needed before messages are read: ``with_settled``.
    Raises: RangeGone, StoreCorrupt.
    """
    lost = Lost()
    found: list[Ranges] = []
    for piece in pieces:
        if piece.has_entries:
            allowed = lost if plan.skip_damaged else None
            found += read_ranges(
                plan.directory, piece.segment, piece.start, piece.stop, plan.settling, plan.verify, allowed
            )
    return joined(found), lost


def has_few_settlements(plan: Plan) -> bool:
    """Return whether reading all settlements takes no longer than one partition: each may need a read of its own."""
    covered = [piece for pieces in plan.partitions for piece in pieces if piece.has_entries]
    if not covered:
        return True
    entries = lane_entries(plan.directory, layout.SYSTEM_QUEUE, 0, covered[0].start, covered[-1].stop)
    return int(np.count_nonzero(entries["type"] == layout.SETTLEMENT)) * GAP_BYTES <= PARTITION_BYTES


def with_settled(plan: Plan, read: Iterable[tuple[Ranges, Lost]] | None = None) -> Plan:
    """Return the plan with the states of messages.  read: of every partition; by default it is read now."""
    found = [read_settlements(plan, pieces) for pieces in plan.partitions] if read is None else [*read]
    settled = by_lane([*(ranges for ranges, _ in found), *(each.ranges(lane) for lane, each in plan.settled.items())])
    damaged = tuple(one for _, lost in found for one in lost.damaged)
    return replace(plan, settled=settled, damaged=plan.damaged + damaged)


def _damaged(stretch: Stretch, chosen: dict[int, DestinationInfo]) -> Damaged:
    info = chosen.get(stretch.destination_id)
    name = "" if info is None else uri(info.kind, info.name)
    return Damaged(name, stretch.records, stretch.start, stretch.stop)


def _catalog(
    reader: StoreReader, start: int, stop: int, tail: Tail, lost: Lost | None, checks_entries: bool
) -> Catalog:
    if lost is None:
        return read_catalog(reader, stop, tail.metadata, checks_entries=checks_entries)
    skipped: list[tuple[int, int]] = []
    catalog = read_catalog(reader, stop, tail.metadata, skipped)
    # An earlier read counted the damage before this one; the tail counts what no consume queue covers.
    counted = [(first, end) for first, end in skipped if start <= first < reader.entries_offset]
    lost.damaged += [Damaged("", 1, first, end) for first, end in counted]
    return catalog


def _count_missing(
    reader: StoreReader,
    start: int,
    stop: int,
    settling: set[int],
    chosen: dict[int, DestinationInfo],
    lost: Lost,
) -> None:
    """Count the entries of consume queues in missing files."""
    for first, end in reader.missing(start, stop):
        for number, info in chosen.items():
            count = sum(
                len(lane_entries(reader.directory, number, priority, first, end))
                for priority in lanes(reader.directory, number)
            )
            if count:
                lost.damaged.append(Damaged(uri(info.kind, info.name), count, first, end))
        entries = lane_entries(reader.directory, layout.SYSTEM_QUEUE, 0, first, end)
        count = int(np.count_nonzero(np.isin(entries["tag"], np.array(sorted(settling), dtype=np.uint32))))
        if count:
            lost.damaged.append(Damaged("", count, first, end))


def _subscribers(catalog: Catalog, chosen: dict[int, DestinationInfo]) -> dict[int, list[Subscriber]]:
    """Return the durable subscriptions of the chosen topics."""
    found: dict[int, list[Subscriber]] = {}
    for info in catalog.subscriptions.values():
        if info.topic_id in chosen:
            of_topic = found.setdefault(info.topic_id, [])
            taken = {one.label for one in of_topic}
            of_topic.append(Subscriber(info.number, label(info.name, taken, info.number), info.starts))
    return found


def _cut(reader: StoreReader, start: int, stop: int, partition_bytes: int) -> list[Piece]:
    """Return the pieces of the part of the log that consume queues cover, in order."""
    pieces: list[Piece] = []
    for segment in reader.segments:
        low, high = max(start, segment.base), min(stop, segment.limit)
        while low < high:
            cut = min(high, cell_end(low, partition_bytes))
            pieces.append(Piece(segment, low, cut, True))
            low = cut
    return pieces


def _partitions(pieces: list[Piece], partition_bytes: int) -> list[list[Piece]]:
    """Put all pieces of a cell (a store may have small segments) into one partition."""
    partitions: dict[int, list[Piece]] = {}
    for piece in pieces:
        partitions.setdefault(piece.start // partition_bytes, []).append(piece)
    return list(partitions.values())
