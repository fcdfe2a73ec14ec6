"""Copies of stores in a real directory for readers: from the disk in memory, and from tests/vectors."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.store.read.reader import StoreReader
from tests.support.disk.faulty_files import FaultyFiles

VECTORS = Path(__file__).resolve().parents[2] / "vectors"


def copy_to(directory: Path, files: FaultyFiles) -> StoreReader:
    """Return a reader of the store on the disk, which no process holds."""
    for path in files.paths():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(bytes(files.octets(path)))
    return StoreReader(directory / "data")


@contextmanager
def copied(files: FaultyFiles) -> Iterator[StoreReader]:
    """Give a reader of a copy for a moment; where the system can, its directory is in memory."""
    memory = "/dev/shm"
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as directory:
        yield copy_to(Path(directory), files)


def unpack_vector(name: str, directory: Path) -> Path:
    """Unpack a store of an earlier version; return its directory."""
    with tarfile.open(VECTORS / f"store_{name}.tar.gz") as archive:
        # Not as an argument, which Python 3.11 knows only from its fourth revision on.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(directory)
    return directory / "data"
