"""Consume queues: the entries of each destination and priority, in files of fixed-size entries.  Layout: format.py.

The entries of the last segment's records are in memory only.  When the log rolls, workers write and sync them, and
the checkpoint's consume-queue offset moves up to the new segment.  Readers take no entries from above it, and
recovery rebuilds them from the log, so nothing would be won by writing them earlier, nor at a stop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from contextlib import closing
from itertools import islice
from typing import Final

from engine.errors import StoreCorrupt
from engine.ports import FILE_LANE, Clock, Job, Timers, TimerTarget, Workers
from engine.store import health as parts
from engine.store.checkpoint import CheckpointFile
from engine.store.commit_log import Closing
from engine.store.files import File, Files, describe, read_fully, write_fully
from engine.store.format import ENTRIES_PER_FILE, ENTRY_BYTES, LANE_SHIFT
from engine.store.health import Health
from engine.store.state import EntryBlock, Lane, StoreState

SUFFIX: Final = ".cq"
CUT_SUFFIX: Final = ".cq.cut"  # of a file that is to take another one's place
# Blocks of entries that are synced together.  Each is an open file meanwhile, and the next segment's file, which is
# made by the same worker, may have to wait for as many.
BLOCKS_TOGETHER: Final = 128


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

    __slots__ = ("root", "_files", "_named")

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self.root = root
        self._named: set[str] = set()  # files whose names would survive a power cut

    def store(self, blocks: list[EntryBlock]) -> None:
        """Write blocks of entries at their places and sync them.  Doing it twice does no harm."""
        for start in range(0, len(blocks), BLOCKS_TOGETHER):
            self._store_together(blocks[start : start + BLOCKS_TOGETHER])

    def look_again(self) -> None:
        """Take no file for being there: somebody else may have removed it."""
        self._named.clear()

    def _store_together(self, blocks: list[EntryBlock]) -> None:
        opened: dict[str, File] = {}
        directories: dict[str, None] = {}
        try:
            for block in blocks:
                self._write_block(block, opened, directories)
            for file in opened.values():
                file.begin_write_back()
            for file in opened.values():
                file.fsync()
        finally:
            for file in opened.values():
                file.close()
        for directory in directories:
            self._files.sync_directory(directory)
        self._named.update(opened)

    def _write_block(self, block: EntryBlock, opened: dict[str, File], directories: dict[str, None]) -> None:
        directory = lane_directory(self.root, block.destination_id, block.priority)
        position = 0
        while position < len(block.octets):
            entry = block.first + position // ENTRY_BYTES
            first = entry - entry % ENTRIES_PER_FILE
            octets = bytes(block.octets[position : position + (first + ENTRIES_PER_FILE - entry) * ENTRY_BYTES])
            path = f"{directory}/{file_name(first)}"
            file = opened.get(path)
            if file is None:
                if path not in self._named:
                    # Also where the file is there: who made it may have failed before the names were synced.
                    self._files.make_directory(directory)
                    directories[directory] = None
                    directories[f"{self.root}/{block.destination_id}"] = None
                    directories[self.root] = None
                is_there = path in self._named or self._files.exists(path)
                file = opened[path] = self._files.open(path) if is_there else self._files.create(path)
            write_fully(file, octets, (entry - first) * ENTRY_BYTES)
            position += len(octets)

    def paths_of(self, block: EntryBlock) -> list[str]:
        """Return the files that a block of entries stands in."""
        directory = lane_directory(self.root, block.destination_id, block.priority)
        first = block.first - block.first % ENTRIES_PER_FILE
        return [f"{directory}/{file_name(each)}" for each in range(first, block.end(), ENTRIES_PER_FILE)]

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
            if first >= tail or name.endswith(CUT_SUFFIX):
                self._files.unlink(path)
                self._named.discard(path)
                is_changed = True
            elif first >= 0 and (count := _entry_count(self._files, path)) > tail - first:
                if count == ENTRIES_PER_FILE:
                    self._replace(path, (tail - first) * ENTRY_BYTES)
                    is_changed = True
                    continue
                file = self._files.open(path)
                try:
                    file.truncate((tail - first) * ENTRY_BYTES)
                    file.fsync()
                finally:
                    file.close()
        if is_changed:
            self._files.sync_directory(directory)

    def _replace(self, path: str, size: int) -> None:
        """Put the first ``size`` octets of a full file in its place: a backup of this store, or the one
        whose backup this is, may share it.
        """
        new_path = path.removesuffix(SUFFIX) + CUT_SUFFIX
        with closing(self._files.open_to_read(path)) as file:
            octets = read_fully(file, size, 0)
        with closing(self._files.create(new_path)) as file:
            write_fully(file, octets, 0)
            file.fsync()
        self._files.rename(new_path, path)

    def drop_below(self, destination_id: int, priority: int, entry: int) -> int:
        """Remove the files that hold nothing from ``entry`` on; return the first index that is left."""
        kept = entry - entry % ENTRIES_PER_FILE
        if kept:
            directory = lane_directory(self.root, destination_id, priority)
            for name in self._files.list_directory(directory):
                if 0 <= file_first(name) < kept:
                    self._files.unlink(f"{directory}/{name}")
                    self._named.discard(f"{directory}/{name}")
        return kept

    def remove_gone(self, known: Container[int], number_limit: int) -> None:
        """Remove the queues of destinations below ``number_limit`` that are not among the known ones."""
        for name in self._files.list_directory(self.root):
            if name.isdigit() and 0 < int(name) < number_limit and int(name) not in known:
                for priority in self._files.list_directory(f"{self.root}/{name}"):
                    self.truncate(int(name), int(priority), 0)
                    self._files.remove_directory(lane_directory(self.root, int(name), int(priority)))
                self._files.remove_directory(f"{self.root}/{name}")


def _entry_count(files: Files, path: str) -> int:
    file: File = files.open_to_read(path)
    try:
        return file.size() // ENTRY_BYTES
    finally:
        file.close()


class ConsumeQueues(TimerTarget):
    """Brings the entries of closed segments to the disk, some queues at a time.

    Other work of the same worker gets its turn between.  What is closed meanwhile waits and then goes together, each
    queue's file being written once however many segments were closed.  When too much waits, nothing more is accepted.

    ``_batch``: what is on its way: blocks by queue, those of one queue in their order; ``_batch_end`` is the
    consume-queue offset once all are on the disk.  ``_closings``: what waits, ``_waiting_bytes`` of entries.
    """

    __slots__ = (
        "files",
        "_state",
        "_checkpoint",
        "_health",
        "_workers",
        "_timers",
        "_clock",
        "_retry_interval_ms",
        "_waiting_limit_bytes",
        "_closings",
        "_waiting_bytes",
        "_batch",
        "_batch_end",
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
        waiting_limit_bytes: int,
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
        self._waiting_limit_bytes = waiting_limit_bytes
        self._closings: deque[Closing] = deque(closings)
        self._waiting_bytes = sum(closing.entry_bytes() for closing in closings)
        self._batch: deque[EntryBlock] = deque()
        self._batch_end = 0
        self._is_in_flight = False
        self._durable = durable
        self._is_closed = False

    def add(self, closings: list[Closing]) -> None:
        """Take what a roll of the log has closed."""
        self._closings.extend(closings)
        self._waiting_bytes += sum(closing.entry_bytes() for closing in closings)
        if self._is_overfull():
            self._health.fail(
                parts.CONSUME_QUEUE,
                f"{self.files.root}: entries of {len(self._closings)} segments wait for the disk to take others",
            )

    def _is_overfull(self) -> bool:
        # One segment alone may have more, and would never be accepted.
        return len(self._closings) > 1 and self._waiting_bytes > self._waiting_limit_bytes

    def log_durable(self, offset: int) -> None:
        """Store the entries of segments that are durable as a whole, and whose successor has begun durably."""
        self._durable = offset
        if self._is_in_flight or self._is_closed:
            return
        if not self._batch:
            self._fill_batch()
        if self._batch:
            self._is_in_flight = True
            self._store_next()

    def _fill_batch(self) -> None:
        closings = self._closings
        blocks: list[EntryBlock] = []
        while closings and closings[0].end < self._durable:
            closing = closings.popleft()
            self._waiting_bytes -= closing.entry_bytes()
            blocks += closing.blocks
            self._batch_end = closing.end
        blocks.sort(key=_queue)
        self._batch.extend(blocks)
        if not blocks and self._batch_end:
            self._checkpoint.consume_queue_offset = self._batch_end

    def _store_next(self) -> None:
        blocks = list(islice(self._batch, BLOCKS_TOGETHER))
        self._workers.submit(StoreEntriesJob(self, blocks), FILE_LANE)

    def stored(self, blocks: list[EntryBlock], reason: str) -> None:
        """Take the outcome of a job."""
        if self._is_closed:
            return
        if reason:
            self._health.fail(parts.CONSUME_QUEUE, reason)
            self._timers.call_at(self._clock.monotonic_ms() + self._retry_interval_ms, self, 0)
            return
        self._is_in_flight = False
        for block in blocks:
            self._batch.popleft()
            lane = self._lane(block)
            if lane is not None:
                assert lane.closing[0] is block, "blocks of a queue reach the disk in their order"
                del lane.closing[0]
        if not self._batch:
            self._checkpoint.consume_queue_offset = self._batch_end
        if not self._is_overfull():
            self._health.heal(parts.CONSUME_QUEUE)
        self.log_durable(self._durable)

    def _lane(self, block: EntryBlock) -> Lane | None:
        """Return the lane of a block, None where its destination was closed meanwhile."""
        if block.destination_id == 0:
            return self._state.system
        return self._state.lanes.get((block.destination_id << LANE_SHIFT) | block.priority)

    def timer_fired(self, key: int) -> None:
        if not self._is_closed:
            self._store_next()

    def close(self) -> None:
        """Store no more: the next start takes from the log what is not in the files."""
        self._is_closed = True


def _queue(block: EntryBlock) -> tuple[int, int]:
    return block.destination_id, block.priority


class StoreEntriesJob(Job):
    """Writes and syncs some blocks of entries."""

    __slots__ = ("_queues", "_blocks", "_reason")

    def __init__(self, queues: ConsumeQueues, blocks: list[EntryBlock]) -> None:
        self._queues = queues
        self._blocks = blocks
        self._reason = ""

    def run(self) -> None:
        try:
            self._queues.files.store(self._blocks)
        except OSError as error:
            self._reason = describe(error, self._queues.files.root)

    def finish(self) -> None:
        self._queues.stored(self._blocks, self._reason)
