"""What others may do with files that are made under some umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(directory: Path) -> tuple[set[int], set[int]]:
    """Return the modes of a directory and those in it, and those of its files."""
    paths = [directory, *directory.rglob("*")]
    return (
        {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_dir()},
        {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_file()},
    )
