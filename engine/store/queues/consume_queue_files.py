"""Consume queues: the entries of each destination and priority, in files of fixed-size entries.

Layout: format/layout.py.
"""

from __future__ import annotations

from collections.abc import Container
from contextlib import closing
from typing import Final

from engine.store.disk.files import File, Files, WholeSync, read_fully, write_fully
from engine.store.format.layout import ENTRIES_PER_FILE, ENTRY_BYTES
from engine.store.settings import WHOLE_SYNC_FILES
from engine.store.state.consume_queue import ConsumeQueue, EntryBlock
from engine.values.errors import StoreCorrupt

SUFFIX: Final = ".cq"
CUT_SUFFIX: Final = ".cq.cut"  # of a file that will replace another
# Blocks of entries written together.  Unless the file system is synced as a whole, each is a file that stays open until
# its sync.  The next segment's file, made by the same worker, may have to wait for all of them.
BLOCKS_TOGETHER: Final = 128


def lane_directory(root: str, destination_id: int, priority: int) -> str:
    return f"{root}/{destination_id}/{priority}"


def file_name(first: int) -> str:
    """Return the name of the file whose first entry has index ``first``."""
    return f"{first:020d}{SUFFIX}"


def file_first(name: str) -> int:
    """Return the index in a file's name, -1 for another file."""
    digits = name.removesuffix(SUFFIX)
    return int(digits) if digits != name and digits.isdigit() else -1


class ConsumeQueueFiles:
    """The files; used by one thread at a time, none of them stays open.

    After a failed sync the system may lose what is written to the same places again, and report success.  So the file
    gets a successor with all its entries, which are written anew.

    whole_sync_files: with this many or more, the whole file system is synced instead of each file.
    """

    __slots__ = ("root", "_files", "_named", "_spoiled", "_whole", "_whole_sync_files", "_written")

    def __init__(self, files: Files, root: str, whole_sync_files: int = WHOLE_SYNC_FILES) -> None:
        self._files = files
        self.root = root
        self._whole_sync_files = whole_sync_files
        self._named: set[str] = set()  # files whose names would survive a power cut
        self._written: set[str] = set()  # paths written since the last ``sync_whole``
        self._spoiled: set[str] = set()  # files whose last sync has failed
        self._whole: WholeSync | None = None

    def store(self, blocks: list[EntryBlock]) -> None:
        """Write blocks of entries at their places and sync them.  Repeating it does no harm."""
        if self.can_sync_whole(len(blocks)):
            for start in range(0, len(blocks), BLOCKS_TOGETHER):
                self.write(blocks[start : start + BLOCKS_TOGETHER])
            self.sync_whole()
        else:
            self.store_one_by_one(blocks)

    def store_one_by_one(self, blocks: list[EntryBlock]) -> None:
        """Do the same, and sync each file."""
        for start in range(0, len(blocks), BLOCKS_TOGETHER):
            self._store_together(blocks[start : start + BLOCKS_TOGETHER])

    def can_sync_whole(self, block_count: int) -> bool:
        """Return whether this many blocks are better written and synced by ``sync_whole``; call it before writing."""
        if block_count < self._whole_sync_files or self._spoiled:
            return False
        if self._whole is None:
            try:
                self._files.make_directory(self.root)
                self._whole = self._files.open_whole(self.root)
            except OSError:
                pass  # writing the file reports it
        return self._whole is not None

    def write(self, blocks: list[EntryBlock]) -> None:
        """Write blocks of entries at their places; they survive a power cut after ``sync_whole``."""
        for block in blocks:
            opened: dict[str, File] = {}
            try:
                self._write_block(block, opened, {})
            finally:
                for file in opened.values():
                    file.close()
            self._written.update(opened)

    def sync_whole(self) -> None:
        """Sync everything that was written; after an error it has to be written again."""
        assert self._whole is not None, "``can_sync_whole`` was asked first"
        written = self._written
        self._written = set()
        try:
            self._whole.sync()
        except OSError:
            self._spoiled |= written
            raise
        self._named |= written

    def close(self) -> None:
        if self._whole is not None:
            self._whole.close()
            self._whole = None

    def forget_found(self) -> None:
        """Check for each file again, as another part may have removed it."""
        self._named.clear()

    def _store_together(self, blocks: list[EntryBlock]) -> None:
        opened: dict[str, File] = {}
        directories: dict[str, None] = {}
        try:
            for block in blocks:
                self._write_block(block, opened, directories)
            for file in opened.values():
                file.begin_write_back()
            for path, file in opened.items():
                self._sync(path, file)
        finally:
            for file in opened.values():
                file.close()
        for path in opened:
            if path in self._spoiled:
                self._files.rename(_new_path(path), path)
                self._spoiled.discard(path)
        for directory in directories:
            self._files.sync_directory(directory)
        self._named.update(opened)

    def _sync(self, path: str, file: File) -> None:
        try:
            file.fsync()
        except OSError:
            self._spoiled.add(path)
            raise

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
                if path in self._spoiled:
                    self._named.discard(path)  # its name will mean another file
                if path not in self._named:
                    # Even if the file exists: its maker may have failed before the names were synced.
                    self._files.make_directory(directory)
                    directories[directory] = None
                    directories[f"{self.root}/{block.destination_id}"] = None
                    directories[self.root] = None
                file = opened[path] = self._opened(path)
            write_fully(file, octets, (entry - first) * ENTRY_BYTES)
            position += len(octets)

    def _opened(self, path: str) -> File:
        """Open a file to write; instead of a spoiled one its successor."""
        if path in self._spoiled:
            return self._begun(path, ENTRIES_PER_FILE * ENTRY_BYTES)
        is_there = path in self._named or self._files.exists(path)
        return self._files.open(path) if is_there else self._files.create(path)

    def paths_of(self, block: EntryBlock) -> list[str]:
        """Return the files that a block of entries is in."""
        directory = lane_directory(self.root, block.destination_id, block.priority)
        first = block.first - block.first % ENTRIES_PER_FILE
        return [f"{directory}/{file_name(each)}" for each in range(first, block.end(), ENTRIES_PER_FILE)]

    def found(self, destination_id: int, priority: int) -> tuple[int, int]:
        """Return (first, end): the entries in the files of one queue, (0, 0) if there are none.

        Raises: StoreCorrupt when a file is missing between two others.
        """
        first, end, _ = self.extent(destination_id, priority)
        return first, end

    def extent(self, destination_id: int, priority: int) -> tuple[int, int, bool]:
        """Return the same, and whether ``truncate`` would have nothing to remove."""
        directory = lane_directory(self.root, destination_id, priority)
        first = end = -1
        is_neat = True
        for name in self._files.list_directory(directory):
            number = file_first(name)
            if number < 0:
                is_neat = is_neat and not name.endswith(CUT_SUFFIX)
                continue
            if first < 0:
                first = number
            elif number != end:
                raise StoreCorrupt(f"{directory}: the file with entry {end} is missing or too short")
            end = number + _entry_count(self._files, f"{directory}/{name}")
        return max(first, 0), max(end, 0), is_neat

    def queues(self) -> list[tuple[int, int]]:
        """Return (destination, priority) of every queue that has a directory."""
        found: list[tuple[int, int]] = []
        for name in self._files.list_directory(self.root):
            if name.isdigit():
                for priority in self._files.list_directory(f"{self.root}/{name}"):
                    if priority.isdigit():
                        found.append((int(name), int(priority)))
        return found

    def read(self, destination_id: int, priority: int, first: int, end: int) -> bytes:
        """Return the entries from ``first`` to ``end`` (excluded), all of which must be there."""
        directory = lane_directory(self.root, destination_id, priority)
        octets: list[bytes] = []
        while first < end:
            base = first - first % ENTRIES_PER_FILE
            until = min(end, base + ENTRIES_PER_FILE)
            with closing(self._files.open_to_read(f"{directory}/{file_name(base)}")) as file:
                octets.append(read_fully(file, (until - first) * ENTRY_BYTES, (first - base) * ENTRY_BYTES))
            first = until
        return b"".join(octets)

    def truncate(self, destination_id: int, priority: int, tail: int) -> None:
        """Remove all entries from ``tail`` on, and sync.

        A file that loses some of them is replaced: the sync of these may have failed in an earlier process, and a
        backup of this store, or the store of which this is a backup, may share the file.
        """
        directory = lane_directory(self.root, destination_id, priority)
        is_changed = False
        for name in self._files.list_directory(directory):
            first = file_first(name)
            path = f"{directory}/{name}"
            if first >= tail or name.endswith(CUT_SUFFIX):
                self._files.unlink(path)
                self._named.discard(path)
                self._spoiled.discard(path)
                is_changed = True
            elif first >= 0 and _entry_count(self._files, path) > tail - first:
                with closing(self._begun(path, (tail - first) * ENTRY_BYTES)) as file:
                    file.fsync()
                self._files.rename(_new_path(path), path)
                is_changed = True
        if is_changed:
            self._files.sync_directory(directory)

    def leave_out(self, lanes: list[ConsumeQueue]) -> None:
        """Let queues without files continue at their tails, as their earlier entries are unknown."""
        # The last entry is enough; the part of its file before it is a hole.
        self.store(
            [EntryBlock(lane.destination_id, lane.priority, lane.tail - 1, bytearray(ENTRY_BYTES)) for lane in lanes]
        )

    def _begun(self, path: str, size: int) -> File:
        """Return a new file with the first ``size`` octets of one that it will replace."""
        with closing(self._files.open_to_read(path)) as file:
            octets = read_fully(file, size, 0)
        new = self._files.create(_new_path(path))
        try:
            write_fully(new, octets, 0)
        except OSError:
            new.close()
            raise
        return new

    def drop_below(self, destination_id: int, priority: int, entry: int) -> int:
        """Remove the files with no entry at ``entry`` or above; return the first index that is left."""
        kept = entry - entry % ENTRIES_PER_FILE
        if kept:
            directory = lane_directory(self.root, destination_id, priority)
            for name in self._files.list_directory(directory):
                if 0 <= file_first(name) < kept:
                    self._files.unlink(f"{directory}/{name}")
                    self._named.discard(f"{directory}/{name}")
                    self._spoiled.discard(f"{directory}/{name}")
        return kept

    def remove_gone(self, known: Container[int], number_limit: int) -> None:
        """Remove the queues of destinations below ``number_limit`` that are not among the known ones."""
        for name in self._files.list_directory(self.root):
            if name.isdigit() and 0 < int(name) < number_limit and int(name) not in known:
                for priority in self._files.list_directory(f"{self.root}/{name}"):
                    self.truncate(int(name), int(priority), 0)
                    self._files.remove_directory(lane_directory(self.root, int(name), int(priority)))
                self._files.remove_directory(f"{self.root}/{name}")


def _new_path(path: str) -> str:
    return path.removesuffix(SUFFIX) + CUT_SUFFIX


def _entry_count(files: Files, path: str) -> int:
    file: File = files.open_to_read(path)
    try:
        return file.size() // ENTRY_BYTES
    finally:
        file.close()
