"""Consume queues: the entries of each destination and priority, in files of fixed-size entries.  Layout: format.py.

The entries of the last segment's records are in memory only.  When the log rolls, a worker writes and syncs them, and
the checkpoint's consume-queue offset moves up to the new segment.  Readers take no entries from above it, and
recovery rebuilds them from the log, so nothing would be won by writing them earlier.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from engine.errors import StoreCorrupt
from engine.ports import FILE_LANE, Clock, Job, Timers, TimerTarget, Workers
from engine.store import health as parts
from engine.store.checkpoint import CheckpointFile
from engine.store.commit_log import Closing
from engine.store.files import File, Files, describe, write_fully
from engine.store.format import ENTRIES_PER_FILE, ENTRY_BYTES
from engine.store.health import Health
from engine.store.state import EntryBlock, Lane, StoreState

SUFFIX: Final = ".cq"


def lane_directory(root: str, destination_id: int, priority: int) -> str:
    """Return the directory of one consume queue."""
    return f"{root}/{destination_id}/{priority}"


def file_name(first: int) -> str:
    """Return the name of the file whose first entry has index ``first``."""
    return f"{first:020d}{SUFFIX}"


def file_first(name: str) -> int:
    """Return the index that a file's name says, -1 if it is no such file."""
    digits = name.removesuffix(SUFFIX)
    return int(digits) if digits != name and digits.isdigit() else -1


class ConsumeQueueFiles:
    """The files themselves; used by one thread at a time, keeps none of them open."""

    __slots__ = ("root", "_files")

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self.root = root

    def store(self, blocks: list[EntryBlock]) -> None:
        """Write blocks of entries at their places and sync them.  Doing it twice does no harm."""
        parents: dict[str, None] = {}
        for block in blocks:
            self._store_block(block)
            parents[f"{self.root}/{block.destination_id}"] = None
        # Also where no name is new: an attempt before this one may have failed between making and syncing it.
        for directory in parents:
            self._files.sync_directory(directory)
        if parents:
            self._files.sync_directory(self.root)

    def _store_block(self, block: EntryBlock) -> None:
        directory = lane_directory(self.root, block.destination_id, block.priority)
        self._files.make_directory(directory)
        position = 0
        while position < len(block.octets):
            entry = block.first + position // ENTRY_BYTES
            first = entry - entry % ENTRIES_PER_FILE
            octets = bytes(block.octets[position : position + (first + ENTRIES_PER_FILE - entry) * ENTRY_BYTES])
            path = f"{directory}/{file_name(first)}"
            file = self._files.open(path) if self._files.exists(path) else self._files.create(path)
            try:
                write_fully(file, octets, (entry - first) * ENTRY_BYTES)
                file.fsync()
            finally:
                file.close()
            position += len(octets)
        self._files.sync_directory(directory)

    def found(self, destination_id: int, priority: int) -> tuple[int, int]:
        """Return (first, end): which entries the files of one queue hold, (0, 0) if there are none.

        Raises: StoreCorrupt when a file is missing between two others.
        """
        directory = lane_directory(self.root, destination_id, priority)
        first = end = -1
        for name in self._files.list_directory(directory):
            number = file_first(name)
            if number < 0:
                continue
            if first < 0:
                first = number
            elif number != end:
                raise StoreCorrupt(f"{directory}: the file with entry {end} is missing or too short")
            end = number + _entry_count(self._files, f"{directory}/{name}")
        return max(first, 0), max(end, 0)

    def queues(self) -> list[tuple[int, int]]:
        """Return (destination, priority) of every queue that has a directory."""
        found: list[tuple[int, int]] = []
        for name in self._files.list_directory(self.root):
            if name.isdigit():
                for priority in self._files.list_directory(f"{self.root}/{name}"):
                    if priority.isdigit():
                        found.append((int(name), int(priority)))
        return found

    def truncate(self, destination_id: int, priority: int, tail: int) -> None:
        """Remove all entries from ``tail`` on, and sync."""
        directory = lane_directory(self.root, destination_id, priority)
        is_changed = False
        for name in self._files.list_directory(directory):
            first = file_first(name)
            path = f"{directory}/{name}"
            if first >= tail:
                self._files.unlink(path)
                is_changed = True
            elif first >= 0 and _entry_count(self._files, path) > tail - first:
                file = self._files.open(path)
                try:
                    file.truncate((tail - first) * ENTRY_BYTES)
                    file.fsync()
                finally:
                    file.close()
        if is_changed:
            self._files.sync_directory(directory)

    def drop_below(self, destination_id: int, priority: int, entry: int) -> int:
        """Remove the files that hold nothing from ``entry`` on; return the first index that is left."""
        kept = entry - entry % ENTRIES_PER_FILE
        if kept:
            directory = lane_directory(self.root, destination_id, priority)
            for name in self._files.list_directory(directory):
                if 0 <= file_first(name) < kept:
                    self._files.unlink(f"{directory}/{name}")
        return kept


def _entry_count(files: Files, path: str) -> int:
    file: File = files.open_to_read(path)
    try:
        return file.size() // ENTRY_BYTES
    finally:
        file.close()


class ConsumeQueues(TimerTarget):
    """Brings the entries of closed segments to the disk, one segment after the other."""

    __slots__ = (
        "files",
        "_state",
        "_checkpoint",
        "_health",
        "_workers",
        "_timers",
        "_clock",
        "_retry_interval_ms",
        "_closings",
        "_is_in_flight",
        "_durable",
        "_is_closed",
    )

    def __init__(
        self,
        files: ConsumeQueueFiles,
        state: StoreState,
        checkpoint: CheckpointFile,
        health: Health,
        workers: Workers,
        timers: Timers,
        clock: Clock,
        retry_interval_ms: int,
        closings: list[Closing],
        durable: int,
    ) -> None:
        self.files = files
        self._state = state
        self._checkpoint = checkpoint
        self._health = health
        self._workers = workers
        self._timers = timers
        self._clock = clock
        self._retry_interval_ms = retry_interval_ms
        self._closings: deque[Closing] = deque(closings)
        self._is_in_flight = False
        self._durable = durable
        self._is_closed = False

    def add(self, closings: list[Closing]) -> None:
        """Take what a roll of the log has closed."""
        self._closings.extend(closings)

    def log_durable(self, offset: int) -> None:
        """Store the entries of segments that are durable as a whole, and whose successor has begun durably."""
        self._durable = offset
        if not self._is_in_flight and not self._is_closed and self._closings and self._closings[0].end < offset:
            self._is_in_flight = True
            self._workers.submit(StoreEntriesJob(self, self._closings[0]), FILE_LANE)

    def stored(self, closing: Closing, reason: str) -> None:
        """Take the outcome of a job."""
        if self._is_closed:
            return
        if reason:
            self._health.fail(parts.CONSUME_QUEUE, reason)
            self._timers.call_at(self._clock.monotonic_ms() + self._retry_interval_ms, self, 0)
            return
        self._is_in_flight = False
        self._closings.popleft()
        self._forget(closing)
        self._health.heal(parts.CONSUME_QUEUE)
        self.log_durable(self._durable)

    def _forget(self, closing: Closing) -> None:
        for block in closing.blocks:
            lane = self._lane(block)
            assert lane.closing[0] is block, "blocks of a queue reach the disk in their order"
            del lane.closing[0]
        self._checkpoint.consume_queue_offset = closing.end

    def _lane(self, block: EntryBlock) -> Lane:
        if block.destination_id == 0:
            return self._state.system
        return self._state.open_lane(block.destination_id, block.priority)

    def timer_fired(self, key: int) -> None:
        if not self._is_closed:
            self._workers.submit(StoreEntriesJob(self, self._closings[0]), FILE_LANE)

    def close(self, end: int) -> None:
        """Store the entries of every record, all of them below log offset ``end``; blocks.

        Raises: OSError.
        """
        self._is_closed = True
        last = [block for lane in self._state.all_lanes() if (block := lane.close_entries()) is not None]
        self._closings.append(Closing(end, last))
        while self._closings:
            self.files.store(self._closings[0].blocks)
            self._forget(self._closings.popleft())


class StoreEntriesJob(Job):
    """Writes and syncs the entries of one closed segment."""

    __slots__ = ("_queues", "_closing", "_reason")

    def __init__(self, queues: ConsumeQueues, closing: Closing) -> None:
        self._queues = queues
        self._closing = closing
        self._reason = ""

    def run(self) -> None:
        try:
            self._queues.files.store(self._closing.blocks)
        except OSError as error:
            self._reason = describe(error, self._queues.files.root)

    def finish(self) -> None:
        self._queues.stored(self._closing, self._reason)
