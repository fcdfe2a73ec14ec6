"""The files of a store, by their paths: those of a directory, or of a place elsewhere that gives ranges of them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path, PosixPath
from typing import Any, ClassVar


class StoreFile(ABC):
    """An open file, which must be closed.

    gap_bytes: unneeded octets up to this size are cheaper to read than a part behind them on its own.
    """

    __slots__ = ()

    gap_bytes: ClassVar[int] = 0

    @abstractmethod
    def pread(self, size: int, position: int) -> bytes:
        """Return ``size`` octets from a position on; fewer at the end of the file."""

    @abstractmethod
    def pread_into(self, target: memoryview, position: int) -> int:
        """Fill ``target``, or the beginning of it, from a position on; return the number of octets, 0 at the end."""

    @abstractmethod
    def close(self) -> None: ...


class StoreFiles(ABC):
    """The files of a store that is no directory of this machine, as of one moment.

    title: of its place.  is_live: a gateway has the store open, so its checkpoint says how far it may be read.
    """

    title: str
    is_live: ClassVar[bool] = False

    @abstractmethod
    def open(self, path: str) -> StoreFile:
        """Open a file.  Raises: FileNotFoundError."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Return the names in a folder.  Raises: FileNotFoundError."""

    @abstractmethod
    def size(self, path: str) -> int:
        """Return the octets of a file.  Raises: FileNotFoundError."""


class RemotePath(PosixPath):
    """The path of such a file or folder.  The functions below take it; the operating system does not."""

    files: StoreFiles

    @classmethod
    def of(cls, files: StoreFiles, place: str = "") -> RemotePath:
        """Return the path of a file by its place in the store."""
        made = cls(f"/{place}")
        made.files = files
        return made

    @property
    def place(self) -> str:
        """The path below the store."""
        return "/".join(self.parts[1:])

    def __truediv__(self, key: str | os.PathLike[str]) -> RemotePath:
        return RemotePath.of(self.files, f"{self.place}/{key}".lstrip("/"))

    @property
    def parent(self) -> RemotePath:
        return RemotePath.of(self.files, self.place.rpartition("/")[0])

    def __str__(self) -> str:
        return f"{self.files.title}/{self.place}".rstrip("/")

    def __fspath__(self) -> str:
        raise TypeError(f"{self} is no path of this machine")

    def __reduce__(self) -> tuple[Any, ...]:
        return RemotePath.of, (self.files, self.place)


class LocalFile(StoreFile):
    """A file of this machine; errors of reading name it."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY)

    def pread(self, size: int, position: int) -> bytes:
        try:
            return os.pread(self._descriptor, size, position)
        except OSError as error:
            raise self._named(error) from error

    def pread_into(self, target: memoryview, position: int) -> int:
        try:
            return os.preadv(self._descriptor, [target], position)
        except OSError as error:
            raise self._named(error) from error

    def _named(self, error: OSError) -> OSError:
        return OSError(error.errno, error.strerror, str(self._path))

    def close(self) -> None:
        os.close(self._descriptor)


def open_file(path: Path) -> StoreFile:
    """Open a file of a store.  Raises: FileNotFoundError."""
    return path.files.open(path.place) if isinstance(path, RemotePath) else LocalFile(path)


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder of a store.  Raises: FileNotFoundError."""
    return folder.files.names(folder.place) if isinstance(folder, RemotePath) else os.listdir(folder)


def size_of(path: Path) -> int:
    """Return the octets of a file of a store.  Raises: FileNotFoundError."""
    return path.files.size(path.place) if isinstance(path, RemotePath) else path.stat().st_size


def octets_of(path: Path) -> bytes:
    """Return a small file of a store.  Raises: FileNotFoundError."""
    return open_file(path).pread(size_of(path), 0) if isinstance(path, RemotePath) else path.read_bytes()
