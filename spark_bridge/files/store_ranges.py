"""The files of a store in an object store, read by ranges.  It is a copy that does not change, as a backup is.

It is listed once.  Small reads (heads of segments, steps of a bisection in a consume queue) share blocks, which are
kept for a while; large ones are one request each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import ClassVar, Final, Protocol

import pyarrow as pa

from engine.store.read.store_files import StoreFile, StoreFiles

BLOCK_BYTES: Final = 1 << 16
SMALL_BYTES: Final = 8192
BLOCKS_KEPT: Final = 256
GAP_BYTES: Final = 1 << 17


class Objects(Protocol):
    """What is asked of an object store, see ``ObjectFiles``."""

    title: str

    def sizes(self) -> dict[str, int]: ...

    def open(self, path: str) -> pa.NativeFile: ...

    def told(self, what: str) -> AbstractContextManager[None]: ...


class RangedFiles(StoreFiles):
    """sizes: of all files by path; by default they are listed.  Copies sent to other processes do not list them again.

    Raises: LakeError.
    """

    def __init__(self, objects: Objects, sizes: Mapping[str, int] | None = None) -> None:
        self.title = objects.title
        self._objects = objects
        self._sizes = objects.sizes() if sizes is None else sizes
        self._folders: dict[str, set[str]] = {}
        for path in self._sizes:
            while path:
                path, _, name = path.rpartition("/")
                self._folders.setdefault(path, set()).add(name)
        self._sources: dict[str, pa.NativeFile] = {}
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def __reduce__(self) -> tuple[type[RangedFiles], tuple[Objects, Mapping[str, int]]]:
        return type(self), (self._objects, self._sizes)

    def open(self, path: str) -> StoreFile:
        return _RangedFile(self, path, self.size(path))

    def names(self, folder: str) -> list[str]:
        if folder not in self._folders:
            raise FileNotFoundError(f"{self.title}/{folder}")
        return sorted(self._folders[folder])

    def size(self, path: str) -> int:
        if path not in self._sizes:
            raise FileNotFoundError(f"{self.title}/{path}")
        return self._sizes[path]

    def block(self, path: str, number: int) -> bytes:
        """Return a block of a file, from memory if it has been read lately."""
        found = self._blocks.pop((path, number), None)
        if found is None:
            start = number * BLOCK_BYTES
            found = self.octets(path, start, min(start + BLOCK_BYTES, self.size(path)))
            if len(self._blocks) >= BLOCKS_KEPT:
                self._blocks.popitem(last=False)
        self._blocks[path, number] = found
        return found

    def head(self, path: str, size: int) -> bytes:
        """Return the beginning of a file, no more than a block."""
        return self.block(path, 0)[:size]

    def octets(self, path: str, start: int, stop: int) -> bytes:
        """Return a range of a file.  Raises: LakeError."""
        with self._objects.told(f"read {path}"):
            source = self._sources.get(path)
            if source is None:
                source = self._sources[path] = self._objects.open(path)
            octets: bytes = source.read_at(stop - start, start)
            return octets


class _RangedFile(StoreFile):
    __slots__ = ("_files", "_path", "_size")

    gap_bytes: ClassVar[int] = GAP_BYTES

    def __init__(self, files: RangedFiles, path: str, size: int) -> None:
        self._files = files
        self._path = path
        self._size = size

    def pread(self, size: int, position: int) -> bytes:
        stop = min(position + size, self._size)
        if position >= stop:
            return b""
        if size > SMALL_BYTES:
            return self._files.octets(self._path, position, stop)
        if not position:
            return self._files.head(self._path, stop)
        first = position // BLOCK_BYTES
        last = (stop - 1) // BLOCK_BYTES
        octets = b"".join(self._files.block(self._path, number) for number in range(first, last + 1))
        return octets[position - first * BLOCK_BYTES : stop - first * BLOCK_BYTES]

    def pread_into(self, target: memoryview, position: int) -> int:
        octets = self.pread(len(target), position)
        target[: len(octets)] = octets
        return len(octets)

    def close(self) -> None:
        """Nothing: the files share their connections."""
