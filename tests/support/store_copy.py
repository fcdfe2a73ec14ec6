"""A store of the disk in memory, brought to a real directory for readers."""

from __future__ import annotations

from pathlib import Path

from engine.store.read.reader import StoreReader
from tests.support.faulty_files import FaultyFiles


def copy_to(directory: Path, files: FaultyFiles) -> StoreReader:
    """Return a reader of what is on the disk; nobody holds it."""
    for path in files.paths():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(bytes(files.octets(path)))
    return StoreReader(directory / "data")
