"""A file system in memory that fails on request and loses data like a machine in a power cut.  Same seed, same disk.

These survive a crash, as on ext4 with ordered journalling:

- Octets of a file: those synced with fsync or fdatasync, and some of the 512-octet sectors written since then.  The
  seed chooses these, in no order; sometimes only the beginning of the sector that was being written survives.
- A file's length: that of its last sync, or a later one if the seed chooses it.  Octets beyond the surviving sectors,
  also in preallocated room, are zeros.
- Names (made, renamed, removed): those synced with the directory, and the first of the later changes, in their order
  because the journal keeps it.  The seed chooses how many.

A failed sync loses its octets, as on Linux: the pages count as clean, are still read, and vanish with the crash
although a later sync succeeds.  The same holds for octets that the system could not write by itself; the next sync then
reports an error, once.

A disk may be ``without`` some of the faults in disk_faults.py: a planted bug must then be found by another fault.
"""

from __future__ import annotations

import errno
import os
import random
from dataclasses import dataclass

from engine.store.disk.files import File, Files, WholeSync
from tests.support.disk.disk_faults import (
    CRASH,
    ERRORS,
    LOST_WRITE,
    NO_SPACE,
    REORDERED_WRITES,
    SHORT_WRITE,
    SYNC_ERROR,
    TORN_SECTOR,
)
from tests.support.disk.disk_inode import SECTOR_BYTES, Inode, Tearing

PAGE_BYTES = 4096  # pages of the system's memory: a process that is killed in a write has written whole pages


class Crashed(Exception):
    """The machine has lost its power, and no code of it runs any more."""


class Crashing(Crashed):
    """The machine loses its power at this very operation."""


@dataclass
class Fault:
    """The next ``count`` calls of ``operation`` on paths containing ``path`` fail, after ``skip`` successful ones.

    operation: a method of File or Files.
    """

    operation: str
    error: int
    path: str = ""
    count: int = 1
    skip: int = 0


@dataclass
class _Change:
    """One change of a directory: ``inode`` is None for a removed name; ``old_name`` is the one that a rename ends."""

    name: str
    inode: Inode | None
    old_name: str = ""
    number: int = 0

    def of(self, inode: Inode) -> _Change:
        """Return the same change with another file."""
        return _Change(self.name, inode, self.old_name, self.number)


class FaultyFile(File):
    def __init__(self, files: FaultyFiles, path: str, inode: Inode, is_writable: bool) -> None:
        self._files = files
        self._path = path
        self._inode = inode
        self._is_writable = is_writable
        self._is_open = True
        self.lock_path = ""

    def _enter(self, operation: str) -> None:
        self._files.enter(operation, self._path)
        if not self._is_open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        assert self._is_writable or operation in ("pread", "size"), f"{operation} on a file that is open to read"

    def pwrite(self, octets: bytes | memoryview, position: int) -> int:
        try:
            self._enter("pwrite")
        except Crashing:
            taken = self._files.torn_at(position, len(octets))
            self._inode.write(octets[:taken], position)
            self._files.note_order(self._inode, position, bytes(octets[:taken]))
            raise
        taken = self._files.room_for(self._path, len(octets), max(0, position + len(octets) - len(self._inode.octets)))
        self._inode.write(octets[:taken], position)
        self._files.note_order(self._inode, position, bytes(octets[:taken]))
        return taken

    def pread(self, size: int, position: int) -> bytes:
        self._enter("pread")
        return bytes(self._inode.octets[position : position + size])

    def preallocate(self, size: int) -> None:
        self._enter("preallocate")
        self._files.room_for(self._path, 0, max(0, size - len(self._inode.octets)))
        self._inode.resize(max(size, len(self._inode.octets)))
        self._files.note_order(self._inode, len(self._inode.octets), None)

    def truncate(self, size: int) -> None:
        self._enter("truncate")
        self._inode.resize(size)
        self._files.note_order(self._inode, size, None)

    def size(self) -> int:
        self._enter("size")
        return len(self._inode.octets)

    def begin_write_back(self) -> None:
        self._enter("begin_write_back")

    def fdatasync(self) -> None:
        self._sync("fdatasync")

    def fsync(self) -> None:
        self._sync("fsync")

    def _sync(self, operation: str) -> None:
        try:
            self._enter(operation)
            if self._inode.has_lost:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        except OSError:
            self._inode.lose()
            raise
        self._files.sync_inode(self._inode)

    def close(self) -> None:
        self._is_open = False
        if self.lock_path:
            self._files.locks.discard(self.lock_path)


class FaultyWholeSync(WholeSync):
    """Sync all files and names at once.  Failed writes are lost, as in a sync of each file."""

    def __init__(self, files: FaultyFiles, path: str) -> None:
        self._files = files
        self._path = path
        self._is_open = True

    def sync(self) -> None:
        if not self._is_open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        self._files.sync_everything(self._path)

    def close(self) -> None:
        self._is_open = False


class FaultyFiles(Files):
    """crash_at: the number of the operation at which the power is cut, counted from 1; 0 for never.

    without: faults of disk_faults.py that this disk does not have.
    """

    file_class: type[FaultyFile] = FaultyFile

    def __init__(self, seed: int = 0, crash_at: int = 0, without: frozenset[str] = frozenset()) -> None:
        self.without = without
        self._seed = seed
        self._chance = random.Random(seed)
        self.crash_at = crash_at
        self.operations = 0
        self.is_crashed = False
        self.faults: list[Fault] = []
        self.locks: set[str] = set()
        self.short_writes = 0  # this many of the next writes are short
        self.free_bytes = -1  # -1: as much as is wanted
        self.error_rate = 0.0  # share of the writes and syncs that fail
        self.pid = 4711
        self._names: dict[str, dict[str, Inode]] = {".": {}}
        self._durable_names: dict[str, dict[str, Inode]] = {".": {}}
        self._changes: list[tuple[str, _Change]] = []  # changes of names since the sync of their directory, in order
        self._number = 0  # number of the last change of a file or a name
        self._synced_number = 0  # number of the last change before a sync of all files

    # Called by tests.

    def fail(self, operation: str, error: int, path: str = "", count: int = 1, skip: int = 0) -> None:
        """Make calls fail, see Fault."""
        self.faults.append(Fault(operation, error, path, count, skip))

    def heal(self) -> None:
        """Remove all faults."""
        self.faults.clear()
        self.error_rate = 0.0
        self.free_bytes = -1

    def is_faulty(self) -> bool:
        """Say whether a fault is set, or a failure has not been reported yet."""
        inodes = [inode for entries in self._names.values() for inode in entries.values()]
        has_lost = any(inode.has_lost or inode.is_loss_secret for inode in inodes)
        return has_lost or bool(self.faults) or self.error_rate > 0 or self.free_bytes >= 0

    def crash(self) -> FaultyFiles:
        """Cut the power; return the disk as the next start finds it."""
        self.is_crashed = True
        after = self._next()
        kept = self._chance.randint(0, len(self._changes))
        # With a random generator of its own, so that other choices of a seed stay the same.
        tearing = Tearing(random.Random(self._seed), TORN_SECTOR in self.without)
        is_ordered = REORDERED_WRITES in self.without
        last = self._chance.randint(self._synced_number, self._number) if is_ordered else 0
        if LOST_WRITE in self.without:
            kept, last = len(self._changes), self._number
        elif is_ordered:
            kept = sum(change.number <= last for _, change in self._changes)
        names = {directory: dict(entries) for directory, entries in self._durable_names.items()}
        for directory, change in self._changes[:kept]:
            entries = names.setdefault(directory, {})
            entries.pop(change.old_name, None)
            if change.inode is None:
                entries.pop(change.name, None)
            else:
                entries[change.name] = change.inode
        survivors: dict[int, Inode] = {}
        for directory in sorted(names):
            after._names[directory] = {}
            for name, inode in sorted(names[directory].items()):
                if id(inode) not in survivors:
                    if LOST_WRITE in self.without:
                        survivor = inode.whole()
                    elif is_ordered:
                        survivor = inode.as_of(last)
                    else:
                        survivor = inode.survivor(self._chance, tearing)
                    survivors[id(inode)] = survivor
                after._names[directory][name] = survivors[id(inode)]
        for directory in self._names:
            after._names.setdefault(directory, {})
        after._durable_names = {directory: dict(entries) for directory, entries in after._names.items()}
        return after

    def _next(self) -> FaultyFiles:
        """Return an empty disk for the next start."""
        after = type(self)(self._seed + 1)
        after.without = self.without
        after.pid = self.pid + 1
        return after

    def note_order(self, inode: Inode, position: int, octets: bytes | None) -> None:
        """Record a change of a file, if this disk keeps the order of changes."""
        if REORDERED_WRITES in self.without:
            self._number += 1
            inode.ordered.append((self._number, position, octets))

    def write_back(self, loss_rate: float = 0.0) -> None:
        """Write sectors to the disk as the system does by itself: in order of path and place, up to a point.

        loss_rate: share of the sectors that the disk refuses.
        """
        if REORDERED_WRITES in self.without:
            return
        if SYNC_ERROR in self.without:
            loss_rate = 0.0  # a sync would report that
        inodes = {id(inode): inode for path in self.paths() if (inode := self._find(path)) is not None}
        sectors = [(inode, sector) for inode in inodes.values() for sector in sorted(inode.dirty)]
        for inode, sector in sectors[: self._chance.randint(0, len(sectors))]:
            if loss_rate and self._chance.random() < loss_rate:
                inode.lose_sector(sector)
            else:
                inode.write_back(sector)

    def flip(self, path: str, position: int, mask: int) -> None:
        """Change bits of an octet, for reads and on the disk."""
        inode = self.inode(path)
        octet = inode.octets[position]
        for octets in (inode.octets, inode.durable):
            if position < len(octets) and octets[position] == octet:
                octets[position] ^= mask

    def killed(self) -> FaultyFiles:
        """Kill the process; return the same disk with all written octets, synced or not."""
        self.is_crashed = True
        after = self._next()
        after._number = self._number
        after._synced_number = self._synced_number
        after._names = self._names
        after._durable_names = self._durable_names
        after._changes = self._changes
        return after

    def octets(self, path: str) -> bytearray:
        """Return the content of a file, to examine or to damage."""
        return self.inode(path).octets

    def inode(self, path: str) -> Inode:
        """Return the file behind a name."""
        inode = self._find(path)
        assert inode is not None, f"{path} is not there"
        return inode

    def settle(self) -> None:
        """Make everything durable, also damage made by a test."""
        for entries in self._names.values():
            for inode in entries.values():
                inode.dirty.update(range((len(inode.octets) + SECTOR_BYTES - 1) // SECTOR_BYTES))
                inode.sync()
        self._changes.clear()
        self._durable_names = {directory: dict(entries) for directory, entries in self._names.items()}

    def paths(self, suffix: str = "") -> list[str]:
        """Return all files."""
        return sorted(
            f"{directory}/{name}"
            for directory, entries in self._names.items()
            for name in entries
            if name.endswith(suffix)
        )

    # Called by files.

    def enter(self, operation: str, path: str) -> None:
        """Count an operation; crash or fail if its time has come."""
        if self.is_crashed:
            raise Crashed
        self.operations += 1
        if self.operations == self.crash_at and CRASH not in self.without:
            self.is_crashed = True
            raise Crashing
        may_fail = ERRORS.get(operation, "") not in self.without
        for fault in self.faults:
            is_full = fault.error == errno.ENOSPC and ERRORS.get(operation, "") != SYNC_ERROR
            is_had = NO_SPACE not in self.without if is_full else may_fail
            if is_had and fault.operation == operation and fault.path in path:
                if fault.skip:
                    fault.skip -= 1
                elif fault.count:
                    fault.count -= 1
                    raise OSError(fault.error, os.strerror(fault.error))
        can_fail = may_fail and operation in ("pwrite", "fdatasync", "fsync", "preallocate", "syncfs")
        if can_fail and self.error_rate and self._chance.random() < self.error_rate:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def torn_at(self, position: int, size: int) -> int:
        """Return how many octets of the last write were written: none, all, or whole pages."""
        if SHORT_WRITE in self.without:
            return self._chance.choice((0, size))
        ends = range((position // PAGE_BYTES + 1) * PAGE_BYTES - position, size, PAGE_BYTES)
        choices: list[int] = [0, size, *ends]
        return self._chance.choice(choices)

    def sync_inode(self, inode: Inode) -> None:
        """Make a file durable; to be overridden by disks that lie."""
        inode.sync()
        self._synced_number = self._number

    def sync_everything(self, path: str) -> None:
        """Make all files and names durable.  path: any path of the file system; there is only one."""
        inodes = {id(inode): inode for each in self.paths() if (inode := self._find(each)) is not None}.values()
        try:
            self.enter("syncfs", path)
            if any(inode.is_loss_secret for inode in inodes):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        except OSError:
            for inode in inodes:
                for sector in sorted(inode.dirty):
                    if self._chance.random() < 0.5:
                        inode.lose_sector(sector)
                inode.is_loss_secret = False
            raise
        for inode in inodes:
            self.sync_inode(inode)
        for directory in list(self._names):
            self._durable_names[directory] = dict(self._names[directory])
        self._changes.clear()
        self._synced_number = self._number

    def room_for(self, path: str, size: int, growth: int) -> int:
        """Return how many octets of a write are accepted."""
        if self.free_bytes >= 0 and NO_SPACE not in self.without:
            if growth > self.free_bytes:
                fitting = size - growth + self.free_bytes
                if fitting <= 0 or not size or SHORT_WRITE in self.without:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self.free_bytes = 0
                return fitting  # the system accepts as much as fits, and refuses the next write
            self.free_bytes -= growth
        if self.short_writes and size > 1 and SHORT_WRITE not in self.without:
            self.short_writes -= 1
            return self._chance.randint(1, size - 1)
        return size

    def _split(self, path: str) -> tuple[str, str]:
        directory, _, name = path.rpartition("/")
        return directory, name

    def _find(self, path: str) -> Inode | None:
        directory, name = self._split(path)
        return self._names.get(directory, {}).get(name)

    def _change(self, path: str, inode: Inode | None) -> None:
        directory, name = self._split(path)
        if directory not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if inode is None:
            gone = self._names[directory].pop(name)
            if self.free_bytes >= 0:
                self.free_bytes += len(gone.octets)
        else:
            self._names[directory][name] = inode
        self._number += 1
        self._changes.append((directory, _Change(name, inode, number=self._number)))

    # Files.

    def create(self, path: str) -> File:
        self.enter("create", path)
        inode = Inode()
        self._change(path, inode)
        return self.file_class(self, path, inode, True)

    def open(self, path: str) -> File:
        return self._open("open", path, True)

    def open_to_read(self, path: str) -> File:
        return self._open("open_to_read", path, False)

    def _open(self, operation: str, path: str, is_writable: bool) -> File:
        self.enter(operation, path)
        inode = self._find(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self.file_class(self, path, inode, is_writable)

    def lock(self, path: str) -> File | None:
        self.enter("lock", path)
        if path in self.locks:
            return None
        inode = self._find(path)
        if inode is None:
            inode = Inode()
            self._change(path, inode)
        self.locks.add(path)
        file = self.file_class(self, path, inode, True)
        file.lock_path = path
        return file

    def exists(self, path: str) -> bool:
        self.enter("exists", path)
        return path in self._names or self._find(path) is not None

    def list_directory(self, path: str) -> list[str]:
        self.enter("list_directory", path)
        directories = {
            directory[len(path) + 1 :].split("/")[0] for directory in self._names if directory.startswith(path + "/")
        }
        return sorted(directories | set(self._names.get(path, {})))

    def make_directory(self, path: str) -> None:
        # Directories are durable at once; only the names of files matter here.
        self.enter("make_directory", path)
        parts = path.split("/")
        for length in range(1, len(parts) + 1):
            self._names.setdefault("/".join(parts[:length]), {})
            self._durable_names.setdefault("/".join(parts[:length]), {})

    def remove_directory(self, path: str) -> None:
        self.enter("remove_directory", path)
        if not self.list_directory(path):
            self._names.pop(path, None)

    def rename(self, source: str, target: str) -> None:
        self.enter("rename", target)
        inode = self._find(source)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        directory, new_name = self._split(target)
        old_directory, old_name = self._split(source)
        assert directory == old_directory, "the store renames within a directory"
        del self._names[directory][old_name]
        self._names[directory][new_name] = inode
        self._number += 1
        self._changes.append((directory, _Change(new_name, inode, old_name, self._number)))

    def unlink(self, path: str) -> None:
        self.enter("unlink", path)
        if self._find(path) is not None:
            self._change(path, None)

    def sync_directory(self, path: str) -> None:
        self.enter("sync_directory", path)
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._durable_names[path] = dict(self._names[path])
        self._synced_number = self._number
        self._changes = [change for change in self._changes if change[0] != path]

    def open_whole(self, path: str) -> WholeSync | None:
        self.enter("open_whole", path)
        return FaultyWholeSync(self, path) if path in self._names else None

    def random_bytes(self, count: int) -> bytes:
        return self._chance.randbytes(count)

    def process_id(self) -> int:
        return self.pid
