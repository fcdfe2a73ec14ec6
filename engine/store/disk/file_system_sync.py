"""syncfs: one call makes everything durable that was written to a file system, contents and names.

Syncing ten thousand small files one by one takes ten thousand journal commits; this takes one.  It is used only if the
system is known to report everything that it could not write: kernel write-back errors since Linux 5.8, errors of the
file system itself since 5.17.  Layered and remote file systems may not report them.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from dataclasses import dataclass
from typing import Final

from engine.store.disk.files import WholeSync

LINUX_SINCE: Final = (5, 17)
# Type numbers in statfs: ext2 to ext4, XFS, Btrfs.
TRUSTED: Final = frozenset((0xEF53, 0x58465342, 0x9123683E))
STATFS_BYTES: Final = 256  # more than any system has; the type is its first long


@dataclass(slots=True, eq=False)
class RealWholeSync(WholeSync):
    """syncfs on an open directory, whose descriptor remembers which errors were reported."""

    _libc: ctypes.CDLL
    _descriptor: int

    def sync(self) -> None:
        if self._libc.syncfs(self._descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def open_real(path: str) -> WholeSync | None:
    """Return the call for the file system of a directory, None if it is missing or not trusted."""
    if sys.platform != "linux" or not is_telling(platform.release()):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    found = ctypes.create_string_buffer(STATFS_BYTES)
    if libc.fstatfs(descriptor, found) != 0 or ctypes.c_long.from_buffer(found).value not in TRUSTED:
        os.close(descriptor)
        return None
    return RealWholeSync(libc, descriptor)


def is_telling(release: str) -> bool:
    """Return whether the kernel of that release, "6.1.0-13-amd64", reports everything that it could not write."""
    numbers = release.split(".")[:2]
    return len(numbers) == 2 and all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) >= LINUX_SINCE
