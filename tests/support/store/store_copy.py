"""Stores brought to a real directory for readers: of the disk in memory, and of tests/vectors."""

from __future__ import annotations

import tarfile
from pathlib import Path

from engine.store.read.reader import StoreReader
from tests.support.disk.faulty_files import FaultyFiles

VECTORS = Path(__file__).resolve().parents[2] / "vectors"


def copy_to(directory: Path, files: FaultyFiles) -> StoreReader:
    """Return a reader of what is on the disk; nobody holds it."""
    for path in files.paths():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(bytes(files.octets(path)))
    return StoreReader(directory / "data")


def unpack_vector(name: str, directory: Path) -> Path:
    """Unpack a store that an earlier version wrote; return where it is."""
    with tarfile.open(VECTORS / f"store_{name}.tar.gz") as archive:
        # Not as an argument: Python 3.11 knows that from its fourth revision on.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(directory)
    return directory / "data"
