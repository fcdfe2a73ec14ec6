"""The schedules of a stopped or running store, from its last snapshot and the log after it."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from typing import Any

from engine.features.scheduler.pending_schedules import REPEATING_LANE
from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.read.catalog import read_catalog
from engine.store.read.entry_files import entries_in, entry_files
from engine.store.read.reader import StoreReader
from engine.store.read.records import last_state
from engine.store.state.log_state import StoreState
from engine.values.destination import QUEUE, SCHEDULE_QUEUE, uri
from engine.values.stored import Attempts, Range

Found = tuple[int, int, int, int, int, int]  # due time, log offset, lane, queue offset, size, target's number


def scheduled_in(directory: str, destination: str, most: int) -> tuple[int, list[dict[str, Any]]]:
    """Return how many messages are scheduled, and the first due ones.

    destination: only these, as a URI; "" for all.  Raises: StoreError.
    """
    reader = StoreReader(directory)
    names = _names(reader)
    schedules = _Schedules(reader)
    count = 0

    def wanted() -> Iterator[Found]:
        nonlocal count
        for one in schedules.pending():
            count += 1
            if not destination or names.get(one[5], "") == destination:
                yield one

    first = nsmallest(most, wanted())
    return count, [
        {
            "id": f"ID:{reader.store_id}-{place}",
            "destination": names.get(target, ""),
            "due_ms": due_ms,
            "size_bytes": size - layout.MESSAGE_HEAD_BYTES,
            "repeats": lane == REPEATING_LANE,
            "fired": schedules.fired(lane, entry),
            "held": "",
        }
        for due_ms, place, lane, entry, size, target in first
    ]


def entries_of(directory: str, destination: str) -> dict[str, Range]:
    """Return the entry of each message scheduled, by its id.

    destination: only these, as a URI; "" for all.  Raises: StoreError.
    """
    reader = StoreReader(directory)
    names = _names(reader)
    found: dict[str, Range] = {}
    for _, place, lane, entry, record_bytes, target in _Schedules(reader).pending():
        if not destination or names.get(target, "") == destination:
            size = record_bytes - layout.MESSAGE_HEAD_BYTES
            found[f"ID:{reader.store_id}-{place}"] = Range(lane, entry, 1, 0, size, (size,))
    return found


def _names(reader: StoreReader) -> dict[int, str]:
    return {info.destination_id: uri(info.kind, info.name) for info in read_catalog(reader).destinations.values()}


class _Schedules:
    """recent: entries of records that are not in files yet: lane, queue offset, log offset, size, due time, target."""

    def __init__(self, reader: StoreReader) -> None:
        self._reader = reader
        self._state = StoreState()
        self._number = 0
        self._recent: list[tuple[int, int, int, int, int, int]] = []
        self._read_log()

    def pending(self) -> Iterator[Found]:
        """Yield all pending schedules, in no order."""
        if not self._number:
            return
        stop = self._reader.entries_offset
        for lane in self._state.destinations[self._number].lanes:
            settled = lane.settled
            for file in entry_files(self._reader.directory, self._number, lane.priority):
                if file.first + file.count <= settled.cursor:
                    continue
                for entry, (place, size, _, _, _, _, target, _, due_ms, _) in entries_in(file):
                    if size and place < stop and not settled.contains(entry):
                        yield self._found(lane.priority, entry, place, size, due_ms, target)
        for lane_number, entry, place, size, due_ms, target in self._recent:
            if not self._state.open_lane(self._number, lane_number).settled.contains(entry):
                yield self._found(lane_number, entry, place, size, due_ms, target)

    def fired(self, lane: int, entry: int) -> int:
        """Return how often a pending schedule has fired."""
        known = self._attempts(lane, entry)
        return 0 if known is None else known.count

    def _found(self, lane: int, entry: int, place: int, size: int, due_ms: int, target: int) -> Found:
        known = self._attempts(lane, entry)
        return (due_ms if known is None else known.due_ms, place, lane, entry, size, target)

    def _attempts(self, lane: int, entry: int) -> Attempts | None:
        return self._state.open_lane(self._number, lane).attempts_of(entry)

    def _read_log(self) -> None:
        reader = self._reader
        end = reader.end().offset
        self._state, start = last_state(reader)
        self._number = self._state.number_of(QUEUE, SCHEDULE_QUEUE)
        for record in reader.scan(start, end):
            self._apply(record)

    def _apply(self, record: Record) -> None:
        if record.type == layout.DESTINATION and not self._number:
            described = record.described()
            if described["kind"] == QUEUE and described["name"] == SCHEDULE_QUEUE:
                self._number = int(described["id"])
                self._state.add_destination(self._number, QUEUE, SCHEDULE_QUEUE)
        if record.destination_id != self._number or not self._number:
            return
        if record.type == layout.MESSAGE:
            message = record.message()
            lane, target, due_ms = message.priority, message.tag_hash, message.expires_ms
            self._recent.append((lane, message.queue_offset, record.offset, record.size, due_ms, target))
        elif record.type in (layout.SETTLEMENT, layout.ATTEMPTS):
            said = record.settlement()
            for priority, first, count, fired in said.ranges:
                progress = self._state.open_lane(self._number, priority)
                if record.type == layout.SETTLEMENT:
                    progress.settle(first, count)
                else:
                    time_ms = record.store_time_ms
                    attempts = Attempts(fired, said.due_or_freed, time_ms, time_ms, said.cause, 0)
                    progress.fail(first, count, attempts)
