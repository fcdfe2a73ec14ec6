"""``penstock run`` on a disk that fails on a test's request: started in place of the module ``gateway``.

The file ``faults`` beside the data directory lists the failing calls, one "operation errno path-part" per line.  "*"
means every operation that changes something, and "-" every path.  Without the file nothing fails.  With HANGS a call
does not return.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
import threading
from pathlib import Path
from typing import Final

from engine.store.disk.files import File, RealFiles
from gateway.cli import run
from gateway.cli.shared.parsers import CommandError
from tests.support.disk.files_wrapper import FilesWrapper, FileWrapper

FAULTS: Final = "faults"
HANGS: Final = errno.ETIME
CHANGES: Final = frozenset(
    ("create", "pwrite", "preallocate", "truncate", "fsync", "fdatasync", "rename", "unlink", "sync_directory", "open")
)


def write_faults(data: Path, *faults: tuple[str, int, str]) -> None:
    """Make calls fail from now on: (operation, errno, part of the path)."""
    lines = [f"{operation} {errno.errorcode[number]} {part or '-'}" for operation, number, part in faults]
    new = data.parent / f"{FAULTS}.new"
    new.write_text("\n".join(lines))
    new.rename(data.parent / FAULTS)


def heal(data: Path) -> None:
    """Remove all faults."""
    (data.parent / FAULTS).unlink(missing_ok=True)


class AilingFile(FileWrapper):
    def __init__(self, inner: File, path: str, files: AilingFiles) -> None:
        super().__init__(inner, path)
        self._files = files

    def pwrite(self, octets: bytes | memoryview, position: int) -> int:
        self._files.check("pwrite", self.path)
        return self.inner.pwrite(octets, position)

    def pread(self, size: int, position: int) -> bytes:
        self._files.check("pread", self.path)
        return self.inner.pread(size, position)

    def preallocate(self, size: int) -> None:
        self._files.check("preallocate", self.path)
        self.inner.preallocate(size)

    def truncate(self, size: int) -> None:
        self._files.check("truncate", self.path)
        self.inner.truncate(size)

    def fdatasync(self) -> None:
        self._files.check("fdatasync", self.path)
        self.inner.fdatasync()

    def fsync(self) -> None:
        self._files.check("fsync", self.path)
        self.inner.fsync()


class AilingFiles(FilesWrapper):
    """The machine's files, except for the calls in the list."""

    def __init__(self, faults: Path) -> None:
        super().__init__(RealFiles())
        self._faults = faults

    def check(self, operation: str, path: str) -> None:
        """Fail if the call is in the list."""
        try:
            lines = self._faults.read_text().splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            failing, name, part = line.split(" ", 2)
            is_meant = failing == operation or (failing == "*" and operation in CHANGES)
            if is_meant and (part == "-" or part in path):
                number = getattr(errno, name)
                if number == HANGS:
                    threading.Event().wait()
                raise OSError(number, os.strerror(number), path)

    def create(self, path: str) -> File:
        self.check("create", path)
        return AilingFile(self.inner.create(path), path, self)

    def open(self, path: str) -> File:
        self.check("open", path)
        return AilingFile(self.inner.open(path), path, self)

    def open_to_read(self, path: str) -> File:
        self.check("open_to_read", path)
        return AilingFile(self.inner.open_to_read(path), path, self)

    def rename(self, source: str, target: str) -> None:
        self.check("rename", target)
        self.inner.rename(source, target)

    def unlink(self, path: str) -> None:
        self.check("unlink", path)
        self.inner.unlink(path)

    def sync_directory(self, path: str) -> None:
        self.check("sync_directory", path)
        self.inner.sync_directory(path)


def main() -> int:
    parser = argparse.ArgumentParser()
    run.add_parser(parser.add_subparsers(required=True))
    arguments = parser.parse_args()
    try:
        return run.run(arguments, AilingFiles(Path(arguments.data).parent / FAULTS))
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
