"""A lake in a directory.  What is written is synced, and so is the directory that names it."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, Final

import pyarrow as pa

from engine.store.disk.modes import is_wider, make_directory, narrow, open_as_store
from engine.store.disk.named_errors import naming
from spark_bridge.errors import TargetBusy
from spark_bridge.files.lake_files import FileStatus, LakeFiles, OutputFile

SYNCS_AT_ONCE: Final = 32
TEMPORARY: Final = ".penstock.tmp"
TOKEN: Final = re.compile(r"[0-9a-f]{16}")
NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


class LocalFiles(LakeFiles):
    """Files and directories that it makes have the modes of the store's, as they hold the same bodies."""

    is_remote = False

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.title = self.identity = str(self.directory)

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self.directory / folder))
        except FileNotFoundError:
            return []

    def walk(self, folder: str) -> list[str]:
        found: list[list[str]] = []
        for parent, folders, files in os.walk(self.directory / folder, followlinks=True):
            folders[:] = [name for name in folders if not name.startswith("_")]
            inside = Path(parent).relative_to(self.directory).parts
            found += ([*inside, name] for name in files)
        return ["/".join(parts) for parts in sorted(found)]

    def status(self, path: str) -> FileStatus | None:
        try:
            found = os.stat(self.directory / path)
        except FileNotFoundError:
            return None
        return FileStatus(found.st_size, found.st_mtime_ns // 1_000_000)

    def open(self, path: str) -> pa.NativeFile:
        return pa.OSFile(str(self.directory / path), "rb")

    def write(self, path: str, octets: bytes) -> None:
        place = self.directory / path
        os.replace(_beside(place, octets), place)
        sync(place.parent)

    def write_if_absent(self, path: str, octets: bytes) -> bool:
        place = self.directory / path
        temporary = _beside(place, octets)
        try:
            os.link(temporary, place)  # fails if the name is there; a rename would replace it
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_LINKS or place.exists():
                raise
            os.rename(temporary, place)  # a file system without links
        finally:
            temporary.unlink(missing_ok=True)
        sync(place.parent)
        return True

    def output(self, path: str) -> OutputFile:
        return _LocalOutput(self.directory / path)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            (self.directory / path).unlink(missing_ok=True)

    def marks(self, path: str) -> set[str]:
        try:
            return set((self.directory / path).read_text(encoding="utf-8").splitlines())
        except FileNotFoundError:
            return set()

    def mark(self, path: str, text: str) -> None:
        place = self.directory / path
        make_directory(str(place.parent))
        with naming(place), open(place, "a", encoding="utf-8", opener=open_as_store) as output:
            output.write(f"\n{text}\n")  # a run that was killed may have left half a line
            output.flush()
            os.fsync(output.fileno())

    @contextmanager
    def hold(self, folder: str) -> Iterator[str]:
        """The lock file has the token: another container may know another directory by this path.

        Raises: TargetBusy if another export is at work here.
        """
        held = self.directory / folder
        make_directory(str(held))
        with open(held / "lock", "a+b", opener=open_as_store) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TargetBusy(f"another export is writing to {self.title}") from None
            yield _token_in(lock)

    def narrow(self, folder: str, exported: Callable[[], Iterable[str]]) -> None:
        """The directory of the lake stays as it is: its owner has chosen that."""
        if not is_wider(str(self.directory / folder)):
            return
        places: dict[Path, None] = {}
        for path in exported():
            place = self.directory / path
            parents = (one for one in place.parents if self.directory in one.parents)
            places |= dict.fromkeys([place, *parents])
        for one in places:
            with suppress(FileNotFoundError):  # the owner may have moved it
                narrow(str(one))
        narrow(str(self.directory / folder))  # last: until then the next export would go on

    def reason(self, error: OSError) -> str:
        return error.strerror or str(error)

    def below(self, folder: str) -> LocalFiles:
        """Make a folder, unless it is there, and return its files."""
        make_directory(str(self.directory / folder))
        return LocalFiles(self.directory / folder)

    def sync_folders(self) -> None:
        """Sync every directory, so that no name in them is lost."""
        sync_all(Path(folder) for folder, _, _ in os.walk(self.directory))

    def move(self, source: LocalFiles, paths: Iterable[str]) -> None:
        """Take files out of another directory of this file system, without those that are not there any more."""
        touched = {self.directory}
        for path in paths:
            staged, place = source.directory / path, self.directory / path
            if staged.exists():
                make_directory(str(place.parent))
                os.rename(staged, place)
                touched.update(parent for parent in place.parents if parent.is_relative_to(self.directory))
        sync_all(touched)

    def delete_folder(self, folder: str) -> None:
        shutil.rmtree(self.directory / folder, ignore_errors=True)


class _LocalOutput(OutputFile):
    """Written under a name of this attempt's own: Spark may run a task twice at once, also on two machines."""

    def __init__(self, place: Path) -> None:
        make_directory(str(place.parent))
        self._place = place
        self._temporary = place.with_suffix(f".{token_hex(8)}.tmp")
        self.stream: BinaryIO = open(self._temporary, "wb", opener=open_as_store)  # noqa: SIM115

    def finish(self) -> int:
        with naming(self._place):
            self.stream.flush()
            os.fsync(self.stream.fileno())
            size = os.fstat(self.stream.fileno()).st_size
            self.stream.close()
        os.replace(self._temporary, self._place)
        return size

    def discard(self) -> None:
        with suppress(OSError):  # what it has buffered finds no room either
            self.stream.close()
        self._temporary.unlink()


def _token_in(lock: BinaryIO) -> str:
    """Return the token in a lock file that is held; write one if it has none."""
    lock.seek(0)
    found = lock.read().decode("ascii", "replace").strip()
    if not TOKEN.fullmatch(found):
        found = token_hex(8)
        lock.truncate(0)
        lock.write(f"{found}\n".encode("ascii"))
        lock.flush()
    return found


def _beside(place: Path, octets: bytes) -> Path:
    """Write a synced file beside ``place``; return its path."""
    make_directory(str(place.parent))
    temporary = place.with_name(TEMPORARY)
    # One that was killed may have left it, even as a second name of a file that it made: that must not change.
    temporary.unlink(missing_ok=True)
    with naming(place), open(temporary, "xb", opener=open_as_store) as output:
        output.write(octets)
        output.flush()
        os.fsync(output.fileno())
    return temporary


def sync_all(folders: Iterable[Path]) -> None:
    with ThreadPoolExecutor(SYNCS_AT_ONCE) as threads:  # a disk syncs several in the time of one
        list(threads.map(sync, folders))


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
