"""Whether the entries of consume queues are those that were written, before an export relies on them.

They have no checksums: nobody would miss a message whose entry a disk has lost or changed.  But the snapshots of the
log have the length of each queue, neither offsets nor times go back in one, and what readers choose by is there twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from engine.store.format import layout
from engine.store.read.entry_files import entry_files
from engine.store.read.reader import StoreReader
from engine.store.read.selection import Selection
from spark_bridge.log.records import Entries, entries_at

AT_ONCE: Final = 1 << 18
Queue = tuple[int, int]  # number of the destination, priority


def are_sound(reader: StoreReader, chosen: Selection, start: int, stop: int) -> bool:
    """Say whether all records that an export needs have entries: from ``start`` to ``stop``, as far as there are any.

    Zeros in place of entries are doubtful also where records are gone: only the log can tell.
    """
    covered = min(stop, reader.entries_offset)
    last = reader.snapshot_below(covered) if start < covered else None
    if last is None:
        return True
    before = dict(_queues(reader.snapshot_below(start), chosen))
    return all(
        _is_sound(reader.directory, queue, before.get(queue, 0), length)
        for queue, length in _queues(last, chosen)
        if before.get(queue, 0) < length
    )


def _queues(snapshot: dict[str, Any] | None, chosen: Selection) -> Iterator[tuple[Queue, int]]:
    """Yield the queues of chosen destinations, and that of all records that are no messages, with their lengths."""
    if snapshot is None:
        return
    yield (layout.SYSTEM_QUEUE, 0), int(snapshot["system_tail"])
    for destination in snapshot["destinations"]:
        if chosen.matches(int(destination["kind"]), str(destination["name"])):
            for lane in destination["lanes"]:
                yield (int(destination["id"]), int(lane["priority"])), int(lane["tail"])


def _is_sound(directory: Path, queue: Queue, first: int, end: int) -> bool:
    files = entry_files(directory, *queue)
    if files:
        first = max(first, files[0].first)  # retention has dropped what is before
    # Each part begins with the last entry of the one before, so that all neighbours are compared.
    return all(
        _are_in_order(entries_at(files, low, min(low + AT_ONCE + 1, end)), queue) for low in range(first, end, AT_ONCE)
    )


def _are_in_order(entries: Entries, queue: Queue) -> bool:
    offsets, sizes = entries["offset"], entries["size"].astype(np.int64)
    is_message = entries["type"] == layout.MESSAGE
    is_right = (sizes >= layout.RECORD_HEADER_BYTES) & (offsets % layout.ALIGNMENT == 0)
    number, priority = queue
    is_right &= (entries["check"] == 0) | (entries["check"] == ~entries["flags"])  # 0: of earlier versions
    if number == layout.SYSTEM_QUEUE:
        check = entries["group"]
        is_right &= ~is_message & ((check == 0) | (check == ~(entries["type"] ^ entries["tag"])))
    else:
        is_right &= is_message & (entries["priority"] == priority)
    ends = offsets + (sizes + layout.ALIGNMENT - 1) // layout.ALIGNMENT * layout.ALIGNMENT
    is_after = (offsets[1:] >= ends[:-1]) & (np.diff(entries["store_time"]) >= 0)
    return bool(is_right.all() and is_after.all())
