"""Where messages are in the log, by their places in consume queues."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from engine.store.format import layout
from engine.store.read.entry_files import EntryFile, entry_files
from spark_bridge.log.records import Int64s, entries_at

GAP_ENTRIES: Final = 1024  # unneeded entries up to this number are cheaper to read than to skip


@dataclass(slots=True)
class TailEntries:
    """Messages of one lane that no consume queue on the disk has, ascending: queue offset, log offset, store time."""

    entries: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))


class Places:
    """entries_offset: consume queues on the disk have the messages below it, ``tail`` has those above, by lane."""

    def __init__(self, directory: Path, entries_offset: int, tail: dict[int, TailEntries]) -> None:
        self._directory = directory
        self._entries_offset = entries_offset
        self._tail = tail
        self._files: dict[int, list[EntryFile]] = {}

    def find(self, lanes: Int64s, entries: Int64s) -> tuple[Int64s, Int64s]:
        """Return log offset and store time of each entry; the offset is -1 where retention has dropped the entry."""
        offsets = np.full(len(entries), -1, dtype=np.int64)
        times = np.zeros(len(entries), dtype=np.int64)
        for lane in np.unique(lanes).tolist():
            rows = np.flatnonzero(lanes == lane)
            rows = rows[np.argsort(entries[rows], kind="stable")]
            breaks = np.flatnonzero(np.diff(entries[rows]) > GAP_ENTRIES) + 1
            for near in np.split(rows, breaks):
                self._listed(lane, entries[near], near, offsets, times)
            self._in_tail(lane, entries[rows], rows, offsets, times)
        return offsets, times

    def _listed(self, lane: int, entries: Int64s, rows: Int64s, offsets: Int64s, times: Int64s) -> None:
        files = self._files.get(lane)
        if files is None:
            number, priority = lane >> layout.LANE_SHIFT, lane & ((1 << layout.LANE_SHIFT) - 1)
            files = self._files[lane] = entry_files(self._directory, number, priority)
        first = int(entries[0])
        read = entries_at(files, first, int(entries[-1]) + 1)[entries - first]
        # Offset 0 is the first snapshot's: an entry with 0 names no message.
        is_there = (read["offset"] > 0) & (read["offset"] < self._entries_offset)
        offsets[rows[is_there]] = read["offset"][is_there]
        times[rows[is_there]] = read["store_time"][is_there]

    def _in_tail(self, lane: int, entries: Int64s, rows: Int64s, offsets: Int64s, times: Int64s) -> None:
        tail = self._tail.get(lane)
        if tail is None:
            return
        known = np.frombuffer(tail.entries, dtype=np.int64)
        at = np.minimum(np.searchsorted(known, entries), len(known) - 1)
        is_there = known[at] == entries
        offsets[rows[is_there]] = np.frombuffer(tail.offsets, dtype=np.int64)[at[is_there]]
        times[rows[is_there]] = np.frombuffer(tail.times, dtype=np.int64)[at[is_there]]
