"""Copies a store at one durable offset, while a gateway may write to it, and without asking that gateway.

Segments that are full and durable never change again.  They are linked if the file system can, so they cost no space
until retention drops them here.  A segment that becomes sparse meanwhile may lack messages that were pending at the
backup's offset; the backup then begins again.  The segment in use is copied up to the durable offset.  Full
consume-queue files are linked, others copied; opening the copy cuts entries past its end.  The key index is left out,
as the gateway makes it again.  Files and directories of the copy have the permissions of those in the store.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import FileIO
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, Final

from engine.store.disk.files import RealFiles
from engine.store.disk.modes import DIRECTORY_MODE, FILE_MODE, make_directory
from engine.store.disk.named_errors import naming
from engine.store.format import layout
from engine.store.format.file_heads import Checkpoint, pack_checkpoint
from engine.store.log.checkpoint import FILE_NAME as CHECKPOINT_FILE
from engine.store.log.store_directory import LOG_DIRECTORY, QUEUE_DIRECTORY, STORE_FILE
from engine.store.read.copied_files import log_files, queue_files
from engine.store.read.reader import StoreReader
from engine.values.errors import StoreError

COPY_BYTES: Final = 4 << 20
NO_LINK: Final = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)
TRIES: Final = 3  # retention may drop or thin a file between the listing and the link
FULL_QUEUE_BYTES: Final = layout.ENTRIES_PER_FILE * layout.ENTRY_BYTES


class BackupRefused(StoreError):
    """The target must not be written to."""


class _Dropped(Exception):
    """Internal: retention has dropped a file meanwhile."""


Identity = tuple[int, int]  # of a file: inode and length


@dataclass(slots=True)
class Backup:
    """A finished backup.  until_offset, until_ms: it contains everything durable up to there."""

    directory: str
    until_offset: int = 0
    until_ms: int = 0
    linked_files: int = 0
    copied_files: int = 0
    copied_bytes: int = 0


def back_up(source: Path, target: Path) -> Backup:
    """Copy the store in ``source`` to ``target``, which must be empty or missing; the copy is durable afterwards.

    Raises: BackupRefused, StoreError; OSError, and then nothing of the target is left; ValueError if a path is invalid.
    """
    # In the store's own directory a start would take the copy for files of the store, or remove it.
    if target.resolve().is_relative_to(source.resolve()):
        raise BackupRefused(f"{target} is inside of the store {source}; allowed is any other directory")
    return copy_store(source, target)


def copy_store(source: Path, target: Path) -> Backup:
    """Do the same, also for a copy inside the store's directory.

    Raises: BackupRefused, StoreError; OSError, and then nothing of the target is left.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BackupRefused(f"{target} exists and is not empty; allowed is a directory that is empty or missing")
    # Under another name until it is whole, so that a partial backup is never taken for a whole one.
    making = target.with_name(target.name + ".making")
    if making.exists():
        raise BackupRefused(
            f"{making} exists: a backup is running, or an interrupted backup left it and it can be removed"
        )
    for _ in range(TRIES):
        try:
            identities = _identities(source)
            found = _Copy(StoreReader(source), making, identities).run()
        except _Dropped:
            shutil.rmtree(making, ignore_errors=True)
            continue
        except (OSError, StoreError):
            shutil.rmtree(making, ignore_errors=True)
            raise
        if target.exists():
            target.rmdir()
        making.rename(target)
        RealFiles().sync_directory(str(target.absolute().parent))
        found.directory = str(target)
        return found
    raise StoreError(f"retention has dropped files of {source} {TRIES} times before they could be linked; try again")


class _Copy:
    """identities: of the segments that existed before the offset of the backup was chosen."""

    def __init__(self, reader: StoreReader, target: Path, identities: dict[str, Identity]) -> None:
        self._reader = reader
        self._target = target
        self._identities = identities
        self._made = Backup(str(target))

    def run(self) -> Backup:
        reader = self._reader
        checkpoint = reader.checkpoint
        if checkpoint is None or not reader.segments:
            raise StoreError(f"{reader.directory} has no checkpoint: start a gateway on it first")
        end = reader.end()
        self._made.until_offset, self._made.until_ms = end.offset, end.time_ms
        make_directory(str(self._target.parent))
        self._make_directory("")
        used = [segment for segment in reader.segments if segment.base < max(end.offset, 1)]
        self._make_directory(LOG_DIRECTORY)
        *full, last = [f"{LOG_DIRECTORY}/{segment.path.name}" for segment in used]
        for path in full:
            self._link(path)
        self._check_identities(full)
        # What a crash has left above the published offset is for the next start to judge.
        stop = end.offset if end.is_published else used[-1].limit
        self._copy(last, layout.SEGMENT_HEADER_BYTES + stop - used[-1].base)
        self._sync(LOG_DIRECTORY)
        self._copy_queues()
        self._copy(STORE_FILE, None)
        self._write_checkpoint(checkpoint, end.is_published)
        self._sync("")
        return self._made

    def _check_identities(self, paths: list[str]) -> None:
        """Raise _Dropped if another file has taken the name of one that was there at the beginning."""
        present = _identities(self._reader.directory)  # without those that were dropped since they were linked
        if any(self._identities.get(path, present[path]) != present[path] for path in paths if path in present):
            raise _Dropped

    def _make_directory(self, name: str) -> None:
        """Make a directory of the copy, and those above it, readable for those who may read the store's."""
        if (self._target / name).is_dir():
            return
        if name:
            self._make_directory(name.rpartition("/")[0])
        path = self._target / name
        path.mkdir(mode=0o700)
        path.chmod(_mode(self._reader.directory / name, DIRECTORY_MODE))

    def _copy_queues(self) -> None:
        self._make_directory(QUEUE_DIRECTORY)
        for folder, files in groupby(queue_files(self._reader.directory), lambda file: file[0].rpartition("/")[0]):
            self._make_directory(folder)
            for path, status in files:
                try:
                    if status.st_size == FULL_QUEUE_BYTES:
                        self._link(path)
                    else:
                        self._copy(path, None)
                except _Dropped:
                    continue  # the entries of dropped records
            self._sync(folder)

    def _write_checkpoint(self, known: Checkpoint, is_published: bool) -> None:
        """Write the published offset as that of a clean stop; the checkpoint of a crashed store is copied unchanged."""
        first = max(known.first_offset, self._reader.first_offset)
        slot = pack_checkpoint(replace(known, is_clean=is_published, first_offset=first))
        place = known.generation % 2 * layout.CHECKPOINT_SLOT_BYTES
        mode = _mode(self._reader.directory / CHECKPOINT_FILE, FILE_MODE)
        with self._new(CHECKPOINT_FILE) as file:
            os.fchmod(file.fileno(), mode)
            file.write(bytes(2 * layout.CHECKPOINT_SLOT_BYTES))
            file.seek(place)
            file.write(slot)
            file.flush()
            os.fsync(file.fileno())

    def _link(self, path: str) -> None:
        try:
            os.link(self._reader.directory / path, self._target / path)
        except FileNotFoundError:
            raise _Dropped from None
        except OSError as error:
            if error.errno not in NO_LINK:
                raise
            self._copy(path, None)
        else:
            self._made.linked_files += 1

    def _copy(self, path: str, size: int | None) -> None:
        try:
            source = open(self._reader.directory / path, "rb", buffering=0)  # noqa: SIM115
        except FileNotFoundError:
            raise _Dropped from None
        with source, self._new(path) as copy:
            status = os.fstat(source.fileno())
            os.fchmod(copy.fileno(), status.st_mode & 0o777)
            left = status.st_size if size is None else size
            while left and (octets := self._read(source, min(left, COPY_BYTES))):
                copy.write(octets)
                left -= len(octets)
                self._made.copied_bytes += len(octets)
            copy.flush()
            os.fsync(copy.fileno())
        self._made.copied_files += 1

    def _read(self, source: FileIO, size: int) -> bytes:
        with naming(Path(source.name)):
            return source.read(size)

    @contextmanager
    def _new(self, path: str) -> Iterator[BinaryIO]:
        """Make a file of the copy.  Its writes are buffered: one alone may take a part of its octets on a full disk."""
        with naming(self._target / path), open(self._target / path, "xb", opener=_private) as file:
            yield file

    def _sync(self, name: str) -> None:
        with naming(self._target / name):
            RealFiles().sync_directory(str(self._target / name))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _mode(path: Path, default: int) -> int:
    """Return the permissions of a file or directory of the store; ``default`` if it has gone."""
    try:
        return os.stat(path).st_mode & 0o777
    except FileNotFoundError:
        return default


def _identities(source: Path) -> dict[str, Identity]:
    return {path: (status.st_ino, status.st_size) for path, status in log_files(source)}
