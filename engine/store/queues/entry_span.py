"""Some consecutive entries of one consume queue, passed from memory and files to a worker."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from engine.ports.store import StoreListener
from engine.ports.workers import Job
from engine.store.disk.files import read_fully
from engine.store.format import layout
from engine.store.log.open_files import OpenFiles
from engine.store.queues.consume_queue_files import file_name, lane_directory
from engine.store.state.consume_queue import ConsumeQueue
from engine.values.errors import StoreCorrupt, StoreError
from engine.values.stored import NEVER_MS, Entry, EntryColumns, expired_entries

ENTRY_BYTES: Final = layout.ENTRY_BYTES


def read_entries(open_files: OpenFiles, directory: str, entry: int, count: int) -> bytes:
    """Return up to ``count`` entries from ``entry`` on, of one file.  Raises: OSError, StoreCorrupt."""
    in_file = entry % layout.ENTRIES_PER_FILE
    count = min(count, layout.ENTRIES_PER_FILE - in_file)
    path = f"{directory}/{file_name(entry - in_file)}"
    octets = read_fully(open_files.get(path, 0), count * ENTRY_BYTES, in_file * ENTRY_BYTES)
    if len(octets) < count * ENTRY_BYTES:
        raise StoreCorrupt(f"{path}: entry {entry + len(octets) // ENTRY_BYTES} is missing")
    return octets


class EntrySpan:
    """Entries ``first`` to ``end`` (excluded) of ``lane`` at the time of creation.

    Entries in memory are copied at once, on the engine's thread; ``read`` adds those in files, on a worker's.
    """

    __slots__ = ("destination_id", "priority", "first", "end", "_root", "_memory_first", "_memory")

    def __init__(self, root: str, lane: ConsumeQueue, first: int, end: int) -> None:
        self.destination_id = lane.destination_id
        self.priority = lane.priority
        self.first = first
        self.end = end
        self._root = root
        self._memory_first = lane.closing[0].first if lane.closing else lane.entries_first
        memory = bytearray()
        for block in lane.closing:
            if block.first < end and block.end() > first:
                octets = block.octets
                memory += octets[max(first - block.first, 0) * ENTRY_BYTES : (end - block.first) * ENTRY_BYTES]
        if lane.entries_first < end:
            at = lane.entries_first
            memory += lane.entries[max(first - at, 0) * ENTRY_BYTES : (end - at) * ENTRY_BYTES]
        self._memory = bytes(memory)

    def read(self, open_files: OpenFiles) -> bytes:
        """Return the octets of all entries.  Raises: OSError, StoreCorrupt."""
        parts: list[bytes] = []
        entry = self.first
        file_end = min(self.end, self._memory_first)
        directory = lane_directory(self._root, self.destination_id, self.priority)
        while entry < file_end:
            octets = read_entries(open_files, directory, entry, file_end - entry)
            parts.append(octets)
            entry += len(octets) // ENTRY_BYTES
        parts.append(self._memory)
        return b"".join(parts)


def entry_columns(first: int, octets: bytes) -> EntryColumns:
    """Convert the octets of entries to columns."""
    words = array("Q", octets)
    halves = array("I", octets)
    if sys.byteorder == "big":
        words.byteswap()
        halves.byteswap()
    head_bytes = layout.MESSAGE_HEAD_BYTES
    columns = EntryColumns(first)
    columns.places = words[0::5]
    columns.sizes = array("I", [size - head_bytes if size > head_bytes else 0 for size in halves[2::10]])
    columns.tags = halves[4::10]
    columns.expiries = array("q", words[3::5].tobytes())
    return columns


def written_end(lane: ConsumeQueue, end: int, written: int) -> int:
    """Return ``end``, or less if records of the last entries are at or above ``written``."""
    for octets, first in [
        (lane.entries, lane.entries_first),
        *((block.octets, block.first) for block in reversed(lane.closing)),
    ]:
        count = min(end - first, len(octets) // ENTRY_BYTES)
        if count > 0:
            written_count = bisect_left(range(count), written, key=_LogOffsets(octets).at)
            if written_count:
                return first + written_count
            end = first
    return end


@dataclass(slots=True, eq=False)
class _LogOffsets:
    """The log offsets of entries, by their place."""

    _octets: bytearray

    def at(self, entry: int) -> int:
        return int.from_bytes(self._octets[entry * ENTRY_BYTES : entry * ENTRY_BYTES + 8], "little")


class ExpiredJob(Job):
    """One ``Store.look_for_expired``.  asked_first: first entry requested; those before the span were dropped."""

    __slots__ = ("_listener", "_open_files", "_span", "_asked_first", "_wall_ms", "_next", "_expired", "_next_ms")

    def __init__(
        self, listener: StoreListener, open_files: OpenFiles, span: EntrySpan, asked_first: int, wall_ms: int
    ) -> None:
        self._listener = listener
        self._open_files = open_files
        self._span = span
        self._asked_first = asked_first
        self._wall_ms = wall_ms
        self._next = asked_first
        self._expired: list[Entry] = []
        self._next_ms = NEVER_MS

    def run(self) -> None:
        span = self._span
        try:
            octets = span.read(self._open_files)
        except (OSError, StoreError):
            return  # a page of these entries reports the error; the next sweep tries again
        self._expired, self._next_ms = expired_entries(entry_columns(span.first, octets), self._wall_ms)
        self._next = span.end

    def finish(self) -> None:
        span = self._span
        self._listener.expired_found(
            span.destination_id, span.priority, self._asked_first, self._next, self._expired, self._next_ms
        )
