"""Who may read what the store and its readers make: the owner and the group, less what a stricter umask takes away."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Final

DIRECTORY_MODE: Final = 0o750
FILE_MODE: Final = 0o640


def open_as_store(path: str, flags: int) -> int:
    """Open a file, as ``opener`` of ``open``: it is no more readable than those of the store."""
    descriptor = os.open(path, flags, FILE_MODE)
    narrow(descriptor)
    return descriptor


def make_directory(path: str) -> None:
    """Make a directory, and those above it, unless it is there."""
    if not os.path.isdir(path):
        parent = os.path.dirname(path.rstrip("/"))
        if parent:
            make_directory(parent)  # os.makedirs would make those between readable for everybody
        os.makedirs(path, DIRECTORY_MODE, exist_ok=True)


def is_wider(path: str | int) -> bool:
    """Say whether more may be done with our own file or directory than with those of the store; a link never is."""
    found = os.stat(path) if isinstance(path, int) else os.lstat(path)
    return found.st_uid == os.geteuid() and _narrowed(found) != stat.S_IMODE(found.st_mode)


def narrow(path: str | int) -> None:
    """Give our own file or directory, which an older build may have made, at most the modes of the store."""
    if is_wider(path):
        with suppress(OSError):  # a file system without modes
            os.chmod(path, _narrowed(os.stat(path)))


def _narrowed(found: os.stat_result) -> int:
    if stat.S_ISDIR(found.st_mode):
        return stat.S_IMODE(found.st_mode) & (DIRECTORY_MODE | stat.S_ISGID | stat.S_ISVTX)
    if stat.S_ISREG(found.st_mode):
        return stat.S_IMODE(found.st_mode) & (FILE_MODE | stat.S_IXUSR | stat.S_IXGRP)
    return stat.S_IMODE(found.st_mode)
