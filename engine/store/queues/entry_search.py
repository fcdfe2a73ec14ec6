"""Finds where a replay begins in each consume queue: a binary search by log offset or store time.

The entries of the last segment are in memory and are searched at once; earlier ones are in files and are left to a
worker.
"""

from __future__ import annotations

from typing import Final

from engine.ports.store import StoreListener
from engine.ports.workers import Job
from engine.store.disk.files import describe
from engine.store.format import layout
from engine.store.log.open_files import OpenFiles
from engine.store.queues.consume_queue_files import lane_directory
from engine.store.queues.entry_span import read_entries
from engine.store.state.consume_queue import ConsumeQueue
from engine.values.errors import StoreError
from engine.values.stored import SEEK_ENTRY, SEEK_LOG, LanePlace

ENTRY_BYTES: Final = layout.ENTRY_BYTES
LOG_OFFSET_AT: Final = 0  # in an entry
STORE_TIME_AT: Final = 32
ENTRIES_AT_ONCE: Final = 256  # examined at a time for one whose record is not lost


class EntrySearch:
    """The first entry of ``lane`` whose field at ``at`` is not below ``wanted``; its tail if there is none.

    The engine's thread creates it; a worker continues with ``find`` if the entry may be in a file.
    """

    __slots__ = ("_directory", "_at", "_wanted", "_low", "_high", "_blocks")

    def __init__(self, root: str, lane: ConsumeQueue, at: int, wanted: int) -> None:
        self._directory = lane_directory(root, lane.destination_id, lane.priority)
        self._at = at
        self._wanted = wanted
        self._blocks = [(block.first, block.octets) for block in lane.closing]
        self._blocks.append((lane.entries_first, lane.entries))
        first = self._blocks[0][0]
        found = self._search(first, lane.tail, None)
        # Before the first entry in memory there may be others that are not below, either.
        self._low = min(lane.kept_first, found) if found == first else found
        self._high = found
        self._blocks = []

    def find(self, open_files: OpenFiles) -> int:
        """Raises: OSError, StoreError."""
        found = self._search(self._low, self._high, open_files)
        return self._kept(found, self._high, open_files)[0]  # entries of lost records may come before it

    def _search(self, low: int, high: int, open_files: OpenFiles | None) -> int:
        while low < high:
            middle = (low + high) // 2
            entry, octets = self._kept(middle, high, open_files)
            if entry == high or int.from_bytes(octets[self._at : self._at + 8], "little") >= self._wanted:
                high = middle
            else:
                low = entry + 1
        return low

    def _kept(self, low: int, high: int, open_files: OpenFiles | None) -> tuple[int, bytes]:
        """Return the first entry in [low, high) that is not zeros, like those of lost records, else ``high``."""
        while low < high:
            octets = self._read(low, min(high - low, ENTRIES_AT_ONCE), open_files)
            left = len(octets.lstrip(b"\0"))
            if left:
                at = (len(octets) - left) // ENTRY_BYTES
                return low + at, octets[at * ENTRY_BYTES : (at + 1) * ENTRY_BYTES]
            low += len(octets) // ENTRY_BYTES
        return high, b""

    def _read(self, entry: int, count: int, open_files: OpenFiles | None) -> bytes:
        """Return some entries, of one block or file."""
        if open_files is None:
            first, octets = next(block for block in reversed(self._blocks) if block[0] <= entry)
            return bytes(octets[(entry - first) * ENTRY_BYTES : (entry - first + count) * ENTRY_BYTES])
        return read_entries(open_files, self._directory, entry, count)


class SeekJob(Job):
    """One ``Store.seek``; it finds nothing if its reader has gone before it begins."""

    __slots__ = ("_listener", "_open_files", "_reader", "_log_start", "_searches", "_places", "_reason")

    def __init__(
        self,
        listener: StoreListener,
        open_files: OpenFiles,
        root: str,
        lanes: list[ConsumeQueue],
        log_start: int,
        what: int,
        value: int,
        reader: int,
    ) -> None:
        self._listener = listener
        self._open_files = open_files
        self._reader = reader
        self._log_start = log_start
        self._searches: list[tuple[int, int, EntrySearch | None, EntrySearch]] = []
        at = LOG_OFFSET_AT if what == SEEK_LOG else STORE_TIME_AT
        for lane in lanes:
            wanted = None if what == SEEK_ENTRY else EntrySearch(root, lane, at, value)
            kept = EntrySearch(root, lane, LOG_OFFSET_AT, log_start)
            self._searches.append((lane.priority, value, wanted, kept))
        self._places: list[LanePlace] = []
        self._reason = ""

    def is_short(self) -> bool:
        return not self._listener.is_awaited(self._reader)

    def run(self) -> None:
        if self.is_short():
            return
        try:
            for priority, entry, wanted, kept in self._searches:
                first = entry if wanted is None else wanted.find(self._open_files)
                self._places.append(LanePlace(priority, first, kept.find(self._open_files)))
        except OSError as error:
            self._reason = describe(error, str(error.filename or "a consume queue"))
        except StoreError as error:
            self._reason = str(error)

    def finish(self) -> None:
        if self._reason:
            self._listener.seek_failed(self._reader, self._reason)
        else:
            self._listener.sought(self._reader, self._log_start, self._places)
