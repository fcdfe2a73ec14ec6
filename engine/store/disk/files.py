"""The only place where the store touches the operating system, so that tests can pass in a disk that misbehaves.

Every method may raise OSError, as the system does; the caller decides what that means.  Reads and writes are
positional and may be short.  Nothing is mapped: a broken disk must raise, not kill the process by SIGBUS.
"""

from __future__ import annotations

import errno
import os
from abc import abstractmethod

from mypy_extensions import mypyc_attr

from engine.store.disk.directory_lock import take
from engine.store.disk.modes import FILE_MODE, make_directory


@mypyc_attr(allow_interpreted_subclasses=True)
class File:
    @abstractmethod
    def pwrite(self, octets: bytes | memoryview, position: int) -> int:
        """Write at ``position``; return how many octets were taken."""

    @abstractmethod
    def pread(self, size: int, position: int) -> bytes:
        """Read at most ``size`` octets at ``position``; fewer at the end of the file."""

    @abstractmethod
    def preallocate(self, size: int) -> None:
        """Make the file ``size`` octets long, zeros, with room on the disk for all of them."""

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Cut or extend the file."""

    @abstractmethod
    def size(self) -> int:
        """Return the length."""

    def descriptor(self) -> int:
        """Return the number that the system knows the file by; -1 if it knows none."""
        return -1

    @abstractmethod
    def begin_write_back(self) -> None:
        """Have the system start writing the octets to the disk; files that are synced next share that work."""

    @abstractmethod
    def fdatasync(self) -> None:
        """Return once the octets, and the length if reading needs it, survive a power cut."""

    @abstractmethod
    def fsync(self) -> None:
        """Do what fdatasync does, for all metadata of the file, too."""

    @abstractmethod
    def close(self) -> None:
        """Close it; a second call does nothing."""


@mypyc_attr(allow_interpreted_subclasses=True)
class WholeSync:
    """All files of one file system, synced at once."""

    @abstractmethod
    def sync(self) -> None:
        """Return once everything that was written before, octets and names, survives a power cut.

        Raises: OSError, also for anything that the system failed to write since the last call, or since this was
        opened.
        """

    @abstractmethod
    def close(self) -> None:
        """Close it; a second call does nothing."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Files:
    """A file system.  Paths are strings."""

    @abstractmethod
    def create(self, path: str) -> File:
        """Make a new, empty file for reading and writing; it replaces what is left of an earlier attempt."""

    @abstractmethod
    def open(self, path: str) -> File:
        """Open an existing file for reading and writing."""

    @abstractmethod
    def open_to_read(self, path: str) -> File:
        """Open an existing file for reading."""

    @abstractmethod
    def lock(self, path: str) -> File | None:
        """Make or open a file and lock it for this process; None if another process holds it.

        Closing the file, or the end of the process, releases the lock.
        """

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory of that name."""

    @abstractmethod
    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none if it does not exist."""

    @abstractmethod
    def make_directory(self, path: str) -> None:
        """Make a directory, and those above it, unless it is there."""

    @abstractmethod
    def remove_directory(self, path: str) -> None:
        """Remove a directory, unless it is missing or not empty."""

    @abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Give a file another name, replacing any file of that name."""

    @abstractmethod
    def unlink(self, path: str) -> None:
        """Remove a file, unless it is missing."""

    @abstractmethod
    def sync_directory(self, path: str) -> None:
        """Return once the names in a directory survive a power cut."""

    @abstractmethod
    def open_whole(self, path: str) -> WholeSync | None:
        """Return the call that syncs the whole file system of a directory; None if each file must be synced.

        Open it before the writes that it is to sync.
        """

    @abstractmethod
    def random_bytes(self, count: int) -> bytes:
        """Return octets that cannot be guessed."""

    @abstractmethod
    def process_id(self) -> int:
        """Return the number of this process."""


def write_fully(file: File, octets: bytes | memoryview, position: int) -> None:
    """Write all of ``octets``, however often the system takes only a part."""
    written = file.pwrite(octets, position)
    if written == len(octets):
        return
    view = memoryview(octets)
    while True:
        if written <= 0:
            raise OSError(errno.EIO, "the system accepted no octet of a write")
        view = view[written:]
        position += written
        if not view:
            return
        written = file.pwrite(view, position)


def read_fully(file: File, size: int, position: int) -> bytes:
    """Read ``size`` octets, fewer only at the end of the file."""
    octets = file.pread(size, position)
    if len(octets) == size or not octets:
        return octets
    parts = [octets]
    left = size - len(octets)
    while left and octets:
        position += len(octets)
        octets = file.pread(left, position)
        parts.append(octets)
        left -= len(octets)
    return b"".join(parts)


def read_file(files: Files, path: str, size: int, position: int = 0) -> bytes:
    """Open a file, read ``size`` octets, fewer only at its end, and close it."""
    file = files.open_to_read(path)
    try:
        return read_fully(file, size, position)
    finally:
        file.close()


def describe(error: OSError, path: str) -> str:
    """Return one line for an error of the system: the file and the system's message."""
    return f"{path}: {error.strerror or error}"


def is_full(error: OSError) -> bool:
    """Return whether the disk, or the user's quota on it, has no room."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class RealFile(File):
    """A file of the operating system."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def pwrite(self, octets: bytes | memoryview, position: int) -> int:
        return os.pwrite(self._descriptor, octets, position)

    def pread(self, size: int, position: int) -> bytes:
        return os.pread(self._descriptor, size, position)

    def preallocate(self, size: int) -> None:
        os.posix_fallocate(self._descriptor, 0, size)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def descriptor(self) -> int:
        return self._descriptor

    def begin_write_back(self) -> None:
        # Linux starts writing all dirty pages when told that they are not needed.  So the space of many files is
        # allocated before the first fsync, whose journal commit then serves the others, too.
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def fdatasync(self) -> None:
        os.fdatasync(self._descriptor)

    def fsync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        # The number may soon belong to another file: every later use of this object must fail instead.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class RealFiles(Files):
    """The file system of the machine."""

    __slots__ = ()

    def create(self, path: str) -> File:
        return RealFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, FILE_MODE))

    def open(self, path: str) -> File:
        return RealFile(os.open(path, os.O_RDWR))

    def open_to_read(self, path: str) -> File:
        return RealFile(os.open(path, os.O_RDONLY))

    def lock(self, path: str) -> File | None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        is_ours = False
        try:
            is_ours = take(descriptor)
        finally:
            if not is_ours:
                os.close(descriptor)
        return RealFile(descriptor) if is_ours else None

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list_directory(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def make_directory(self, path: str) -> None:
        make_directory(path)

    def remove_directory(self, path: str) -> None:
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def open_whole(self, path: str) -> WholeSync | None:
        from engine.store.disk.file_system_sync import open_real  # only a gateway writes that much at once

        return open_real(path)

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def process_id(self) -> int:
        return os.getpid()
