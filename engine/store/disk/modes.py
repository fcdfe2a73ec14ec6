"""Who may read what the store and its readers make: the owner and the group, less what a stricter umask takes away."""

from __future__ import annotations

import os
from typing import Final

DIRECTORY_MODE: Final = 0o750
FILE_MODE: Final = 0o640


def open_as_store(path: str, flags: int) -> int:
    """Open a file, as ``opener`` of ``open``: a new one is no more readable than those of the store."""
    return os.open(path, flags, FILE_MODE)


def make_directory(path: str) -> None:
    """Make a directory, and those above it, unless it is there."""
    if not os.path.isdir(path):
        parent = os.path.dirname(path.rstrip("/"))
        if parent:
            make_directory(parent)  # os.makedirs would make those between readable for everybody
        os.makedirs(path, DIRECTORY_MODE, exist_ok=True)
