"""Faults on the disk of a store: failing operations, and octets that change by themselves."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.support.disk.disk_inode import Inode
from tests.support.disk.faulty_files import FaultyFiles

FAULTS: Final = (
    ("fdatasync", errno.EIO),
    ("fdatasync", errno.ENOSPC),
    ("fsync", errno.EIO),
    ("pwrite", errno.EIO),
    ("pwrite", errno.ENOSPC),
    ("pwrite", errno.EROFS),
    ("preallocate", errno.ENOSPC),
    ("create", errno.EMFILE),
    ("open", errno.EIO),
    ("open_to_read", errno.EMFILE),
    ("pread", errno.EIO),
    ("size", errno.EIO),
    ("truncate", errno.EIO),
    ("rename", errno.EIO),
    ("unlink", errno.EROFS),
    ("sync_directory", errno.EIO),
    ("list_directory", errno.EIO),
    ("make_directory", errno.ENOSPC),
    ("exists", errno.EIO),
)


def break_disk(files: FaultyFiles, chance: Random, skip_limit: int = 3) -> str:
    """Make something fail from now on; return its description."""
    kind = chance.random()
    if kind < 0.3:
        count = chance.randint(1, 2)
        files.fail("fdatasync", errno.EIO, count=count)
        return f"fdatasync fails {count} times"
    if kind < 0.7:
        operation, error = chance.choice(FAULTS)
        count = chance.choice((1, 1, 2, 5, 1_000))
        skip = chance.randint(0, skip_limit)
        files.fail(operation, error, count=count, skip=skip)
        return f"{operation} fails {count} times after {skip} with {errno.errorcode[error]}"
    if kind < 0.8:
        files.free_bytes = chance.randint(0, 9_000)
        return f"{files.free_bytes} octets are free"
    if kind < 0.9:
        files.write_back(loss_rate=chance.choice((0.2, 1.0)))
        return "the system fails to write back"
    files.error_rate = chance.choice((0.05, 0.2, 1.0))
    return f"writes and syncs fail at {files.error_rate}"


@dataclass(slots=True)
class Rot:
    """One changed octet, with everything needed to change it back."""

    path: str
    position: int
    mask: int
    inode: Inode
    octet: int

    @classmethod
    def draw(cls, files: FaultyFiles, chance: Random) -> Rot | None:
        """Change an octet of a file that recovery or readers use; return None if there is none."""
        paths = [path for path in files.paths() if not path.endswith("/lock") and files.octets(path)]
        if not paths:
            return None
        path = chance.choice(paths)
        octets = files.octets(path)
        used = len(octets.rstrip(b"\0")) or 1  # preferably not in room that was never written
        position = chance.randrange(used if chance.random() < 0.9 else len(octets))
        mask = 1 << chance.randrange(8)
        files.flip(path, position, mask)
        return cls(path, position, mask, files.inode(path), octets[position])

    def mend(self, files: FaultyFiles) -> None:
        """Change it back, unless the file was replaced or the octet was overwritten.

        The successor of a consume queue's file has the same entries at the same places.
        """
        if self.path not in files.paths():
            return
        octets = files.octets(self.path)
        is_same = files.inode(self.path) is self.inode or self.path.endswith(".cq")
        if is_same and self.position < len(octets) and octets[self.position] == self.octet:
            files.flip(self.path, self.position, self.mask)

    def __str__(self) -> str:
        return f"bit {self.mask:#x} of octet {self.position} of {self.path}"
