"""Disk usage of a store, segment by segment, and what keeps each segment.

Retention drops whole segments, from the oldest on.  A segment stays while a queue or durable subscription has an
unsettled message in it.  Segments that nobody needs stay until retention's time or size is over.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.index.index_file import INDEX_DIRECTORY
from engine.store.read.entry_files import entries_in, entry_files
from engine.store.read.reader import StoreReader
from engine.store.read.records import last_state
from engine.store.space.retention_reasons import Keeping, KeptReasons
from engine.store.state.consume_queue import ConsumeQueue
from engine.store.state.destination import LoggedDestination
from engine.store.state.log_state import StoreState
from engine.values.destination import DUPLICATE_IDS_QUEUE, PREPARED_QUEUE, SCHEDULE_QUEUE, TOPIC, uri
from engine.values.stored import Range

BEHIND: Final = "behind a segment that stays"
DUE: Final = "retention drops it at its next check"
INTERNAL_OWNERS: Final = {
    SCHEDULE_QUEUE: "the schedule",
    DUPLICATE_IDS_QUEUE: "duplicate ids",
    PREPARED_QUEUE: "prepared transactions",
}
BLOCK_BYTES: Final = 512  # what stat counts blocks in


@dataclass(slots=True)
class Pin:
    """The need of one queue or durable subscription for one segment."""

    owner: str
    messages: int = 0
    bytes: int = 0
    oldest_ms: int = 0


@dataclass(slots=True)
class SegmentSpace:
    """One segment.  disk_bytes: of the file; log_bytes: from its base to an upper bound of its records' end.

    is_sparse: unneeded records were removed.
    reasons: if requested, why a segment still exists though nobody needs anything in it.
    """

    name: str
    base: int
    log_bytes: int
    disk_bytes: int
    is_current: bool = False
    is_sparse: bool = False
    pins: list[Pin] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Space:
    """The whole store.  ``segments[].pins`` are known only if they were requested: told_why."""

    directory: str
    first_offset: int
    end_offset: int
    end_ms: int
    log_disk_bytes: int
    queue_disk_bytes: int
    index_disk_bytes: int
    told_why: bool
    segments: list[SegmentSpace]


def space_of(reader: StoreReader, tells_why: bool, keeping: Keeping | None = None) -> Space:
    """Return the disk usage of the store.  keeping: the gateway's configured retention, if known.

    Raises: StoreError.
    """
    end = reader.end()
    segments: list[SegmentSpace] = []
    for segment in reader.segments:
        size = _disk_bytes(segment.path)
        length = segment.limit - segment.base
        segments.append(SegmentSpace(segment.path.name, segment.base, length, size, is_sparse=segment.is_sparse))
    for each in reversed(segments):
        if each.base < max(end.offset, 1):
            each.is_current = True
            break
    if tells_why and segments:
        _Pins(reader, segments).find()
        _tell_reasons(segments, KeptReasons(reader, keeping))
    return Space(
        str(reader.directory),
        reader.first_offset,
        end.offset,
        end.time_ms,
        sum(each.disk_bytes for each in segments),
        _tree_bytes(reader.directory / "consumequeue"),
        _tree_bytes(reader.directory / INDEX_DIRECTORY),
        tells_why,
        segments,
    )


def _tell_reasons(segments: list[SegmentSpace], reasons: KeptReasons) -> None:
    """Add to each unneeded segment why it still exists."""
    stays = False  # an earlier one stays
    for place, each in enumerate(segments):
        if not each.pins and not each.is_current:
            own = reasons.of(place)
            each.reasons = own or [BEHIND if stays else DUE]
            stays = stays or bool(own)
        stays = stays or bool(each.pins)


class _Pins:
    """Walks through the unsettled entries."""

    def __init__(self, reader: StoreReader, segments: list[SegmentSpace]) -> None:
        self._reader = reader
        self._segments = segments
        self._bases = [segment.base for segment in segments]
        self._pins: dict[tuple[int, str], Pin] = {}
        self._recent: dict[int, list[tuple[int, int, int, int]]] = {}  # by lane: entry, offset, size, time

    def find(self) -> None:
        state = self._state()
        for destination in state.destinations.values():
            for lane in destination.lanes:
                self._add_lane(destination, lane)

    def _state(self) -> StoreState:
        """Return the state at the reader's end: the last snapshot, and the records after it."""
        reader = self._reader
        state, start = last_state(reader)
        for record in reader.scan(start, reader.end().offset):
            self._apply(state, record)
        return state

    def _apply(self, state: StoreState, record: Record) -> None:
        if record.type == layout.MESSAGE:
            message = record.message()
            lane = state.open_lane(record.destination_id, message.priority)
            lane.tail = message.queue_offset + 1
            key = (record.destination_id << layout.LANE_SHIFT) | message.priority
            recent = (message.queue_offset, record.offset, record.size, record.store_time_ms)
            self._recent.setdefault(key, []).append(recent)
        elif record.type == layout.SETTLEMENT:
            ranges = [Range(priority, first, count) for priority, first, count, _ in record.settlement().ranges]
            state.settle(record.destination_id, ranges, 0)
        elif record.type in (layout.DESTINATION, layout.SUBSCRIPTION, layout.CLOSE):
            state.take(record.type, record.described())

    def _add_lane(self, destination: LoggedDestination, lane: ConsumeQueue) -> None:
        first = destination.first_needed(lane)
        if first >= lane.tail:
            return
        owner = INTERNAL_OWNERS.get(destination.name) or uri(destination.kind, destination.name)
        members = destination.holders.members if destination.kind == TOPIC else []
        for entry, offset, size, time_ms in self._entries(lane, first):
            if members:
                for member in members:
                    if member.lane(lane.priority).needs(entry):
                        self._add(f"{owner} for {member.name}", offset, size, time_ms)
            elif not lane.settled.contains(entry):
                self._add(owner, offset, size, time_ms)

    def _entries(self, lane: ConsumeQueue, first: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (entry, log offset, size, store time) from ``first`` on, from the files and then the log's end."""
        stop = self._reader.entries_offset
        for file in entry_files(self._reader.directory, lane.destination_id, lane.priority):
            if file.first + file.count <= first:
                continue
            for entry, (offset, size, *_, time_ms) in entries_in(file, first):
                if offset >= stop:
                    break
                if size:
                    yield entry, offset, size, time_ms
        key = (lane.destination_id << layout.LANE_SHIFT) | lane.priority
        yield from (recent for recent in self._recent.get(key, []) if recent[0] >= first)

    def _add(self, owner: str, offset: int, size: int, time_ms: int) -> None:
        place = bisect_right(self._bases, offset) - 1
        pin = self._pins.get((place, owner))
        if pin is None:
            pin = self._pins[(place, owner)] = Pin(owner, oldest_ms=time_ms)
            self._segments[place].pins.append(pin)
        pin.messages += 1
        pin.bytes += size


def _disk_bytes(path: Path) -> int:
    try:
        return os.stat(path).st_blocks * BLOCK_BYTES
    except FileNotFoundError:  # removed meanwhile
        return 0


def _tree_bytes(folder: Path) -> int:
    return sum(_disk_bytes(Path(parent) / name) for parent, _, names in os.walk(folder) for name in names)
