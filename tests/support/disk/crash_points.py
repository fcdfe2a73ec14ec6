"""Every disk that a stop between two operations of a piece of work can leave, from one run of that work."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.support.disk.disk_inode import Inode
from tests.support.disk.faulty_files import FaultyFile, FaultyFiles


class StoppableFile(FaultyFile):
    """A write that is torn in the copy made before it, as by a stop in its middle."""

    def pwrite(self, octets: bytes | memoryview, position: int) -> int:
        files = self._files
        assert isinstance(files, StoppableFiles)
        kept = len(files.stopped)
        taken = super().pwrite(octets, position)
        for disk in files.stopped[kept:]:
            disk.tear(disk.copies[id(self._inode)], octets, position)
        return taken


class StoppableFiles(FaultyFiles):
    """A disk that keeps a copy of itself before each operation, while it ``is_keeping``.

    copies: each file of the original -> its copy.
    """

    file_class = StoppableFile

    def __init__(self, seed: int = 0, crash_at: int = 0, without: frozenset[str] = frozenset()) -> None:
        super().__init__(seed, crash_at, without)
        self.is_keeping = False
        self.stopped: list[StoppableFiles] = []
        self.copies: dict[int, Inode] = {}

    def enter(self, operation: str, path: str) -> None:
        super().enter(operation, path)
        if self.is_keeping:
            self.stopped.append(self._copy())

    def tear(self, inode: Inode, octets: bytes | memoryview, position: int) -> None:
        """Cut the power in the middle of a write."""
        taken = self.torn_at(position, len(octets))
        inode.write(octets[:taken], position)
        self.note_order(inode, position, bytes(octets[:taken]))

    def contents(self) -> dict[str, bytes]:
        return {path: bytes(self.octets(path)) for path in self.paths()}

    def _copy(self) -> StoppableFiles:
        copy = StoppableFiles(self._seed, 0, self.without)
        copy.operations = self.operations
        copy.pid = self.pid
        copy._chance = random.Random()
        copy._chance.setstate(self._chance.getstate())
        copy._number, copy._synced_number = self._number, self._synced_number
        copy._names = {directory: self._copied(names, copy) for directory, names in self._names.items()}
        copy._durable_names = {directory: self._copied(names, copy) for directory, names in self._durable_names.items()}
        copy._changes = [
            (directory, change if change.inode is None else change.of(self._copied_inode(change.inode, copy)))
            for directory, change in self._changes
        ]
        return copy

    def _copied(self, names: dict[str, Inode], copy: StoppableFiles) -> dict[str, Inode]:
        return {name: self._copied_inode(inode, copy) for name, inode in names.items()}

    def _copied_inode(self, inode: Inode, copy: StoppableFiles) -> Inode:
        known = copy.copies.get(id(inode))
        if known is None:
            known = copy.copies[id(inode)] = inode.copy()
        return known


def disks_left_by(files: StoppableFiles, work: Callable[[], object], is_power_cut: bool) -> list[StoppableFiles]:
    """Do ``work``; return the disks that a stop before or during each of its operations leaves.

    Disks with the same octets are returned once, because a start finds the same on them.
    """
    files.is_keeping = True
    work()
    files.is_keeping = False
    left: dict[frozenset[tuple[str, bytes]], StoppableFiles] = {}
    for disk in files.stopped:
        after = disk.crash() if is_power_cut else disk.killed()
        assert isinstance(after, StoppableFiles)
        left.setdefault(frozenset(after.contents().items()), after)
    return list(left.values())
