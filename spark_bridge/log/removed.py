"""Messages that retention removed before their export: counted, so that nobody believes they were never sent.

Segments begin with snapshots, which have the length of each lane: the difference of two is the number of messages sent
between them.  Messages that a sparse segment in between lacks were removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from engine.store.format import layout
from engine.store.plain_words import counted
from engine.store.read.entry_files import entry_files
from engine.store.read.reader import DestinationInfo, StoreReader, first_record, scan_piece
from engine.store.read.segment_files import SegmentFile, open_segment
from engine.values.destination import uri
from engine.values.errors import RangeGone, StoreCorrupt
from spark_bridge.log.records import Int64s, entries_at

TOLD_MAX: Final = 3

Rows = dict[tuple[int, int], int]  # (base of a segment, number of a destination) -> messages


@dataclass(frozen=True, slots=True)
class Removed:
    """Messages of one destination that were somewhere between two log offsets."""

    destination: str
    messages: int
    from_offset: int
    to_offset: int

    def __str__(self) -> str:
        told = counted(self.messages, "message")
        return f"{told} of {self.destination} (log offsets {self.from_offset} to {self.to_offset})"


def removed_messages(
    reader: StoreReader, chosen: Mapping[int, DestinationInfo], start: int, stop: int, rows: Rows | None = None
) -> tuple[Removed, ...]:
    """Return the missing messages of the chosen destinations from ``start`` to ``stop``, the largest number first.

    rows: messages that an export has read of each segment; by default those that the segments hold now.
    If consume queues were made again after messages had been removed, messages before and after ``start`` in its
    segment cannot always be distinguished, and all are counted.
    Raises: RangeGone, StoreCorrupt.
    """
    found: dict[int, Removed] = {}
    for group, following in _groups(reader.segments):
        low, high = max(start, group[0].base), following.base
        if low >= high or high > stop or not any(map(is_sparse, group)):
            continue
        sent = _sent(reader, group[0], following, chosen, low)
        if not sent:
            continue
        there = _held(group, low) if rows is None else rows
        for number, count in sent.items():
            lost = count - sum(there.get((segment.base, number), 0) for segment in group)
            if lost > 0:
                known = found.get(number)
                name = uri(chosen[number].kind, chosen[number].name)
                found[number] = Removed(
                    name, lost + (known.messages if known else 0), known.from_offset if known else low, high
                )
    return tuple(sorted(found.values(), key=lambda each: (-each.messages, each.destination)))


def check_whole(start: int, listed: Int64s, left: Int64s) -> None:
    """Raise RangeGone if retention has removed any of the listed messages from log offset ``start`` on.

    left: those that are there.
    """
    if len(left) == len(listed):
        return
    removed = np.setdiff1d(listed, left)
    removed = removed[removed >= start]
    if len(removed):
        raise RangeGone(
            f"retention has removed {counted(len(removed), 'message')} (log offsets {removed[0]} to {removed[-1]})"
        )


def is_sparse(segment: SegmentFile) -> bool:
    """Return whether records have been removed from a segment."""
    file = open_segment(segment)
    try:
        return file.runs is not None
    finally:
        file.close()


def sum_rows(parts: Iterable[Rows]) -> Rows:
    """Return the messages that several tasks have read."""
    total: Rows = {}
    for part in parts:
        for key, count in part.items():
            total[key] = total.get(key, 0) + count
    return total


def tell(removed: Sequence[Removed]) -> str:
    """Describe what was removed, for the destinations that lost most."""
    told = ", ".join(map(str, removed[:TOLD_MAX]))
    others = removed[TOLD_MAX:]
    if not others:
        return told
    return f"{told}, and {sum(each.messages for each in others)} of {len(others)} other destinations"


def _groups(segments: list[SegmentFile]) -> Iterator[tuple[list[SegmentFile], SegmentFile]]:
    """Yield segments from one with a snapshot up to the next one with a snapshot, and that one."""
    group: list[SegmentFile] = []
    for segment in segments:
        if segment.base < segment.limit and not segment.is_continuation:
            if group:
                yield group, segment
            group = []
        elif not group:
            continue
        group.append(segment)


def _sent(
    reader: StoreReader, segment: SegmentFile, following: SegmentFile, chosen: Mapping[int, DestinationInfo], low: int
) -> dict[int, int]:
    """Return by number how many messages of the chosen destinations were appended from ``low`` to ``following``."""
    sent: dict[int, int] = {}
    before = _tails(segment)
    for (number, priority), end in _tails(following).items():
        first = before.get((number, priority), 0)
        if number not in chosen or first >= end:
            continue
        count = end - first
        if low > segment.base:
            offsets = entries_at(entry_files(reader.directory, number, priority), first, end)["offset"]
            known = np.flatnonzero((offsets > 0) & (offsets < min(low, reader.entries_offset)))
            count -= int(known[-1]) + 1 if len(known) else 0
        if count:
            sent[number] = sent.get(number, 0) + count
    return sent


def _tails(segment: SegmentFile) -> dict[tuple[int, int], int]:
    """Return how long each lane was when ``segment`` began."""
    record = first_record(segment, segment.limit)
    if record is None or record.type != layout.SNAPSHOT:
        raise StoreCorrupt(f"{segment.path.name} does not open with a snapshot")
    snapshot = record.described()
    return {
        (int(destination["id"]), int(lane["priority"])): int(lane["tail"])
        for destination in snapshot["destinations"]
        for lane in destination["lanes"]
    }


def _held(group: list[SegmentFile], low: int) -> Rows:
    rows: Rows = {}
    for segment in group:
        for record in scan_piece(segment, segment.base, segment.limit):
            if record.type == layout.MESSAGE and record.offset >= low:
                key = (segment.base, record.destination_id)
                rows[key] = rows.get(key, 0) + 1
    return rows
