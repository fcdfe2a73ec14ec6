"""Places of copies that are made to verify an open store, each with a lock that its maker holds.

    verifying-<token>, verifying-<token>.making    the copy, and the copy as it is made
    verifying-<token>.lock                         held while the copy is in use

The number of the maker's process would not do: several containers may have mounted the store, where two processes have
the same number, and none sees whether one of another container is alive.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, Final

from engine.store.disk.modes import open_as_store

PREFIX: Final = "verifying-"
MAKING: Final = ".making"
LOCK: Final = ".lock"


@contextmanager
def place_for_copy(directory: Path) -> Iterator[Path]:
    """Yield a path at which nothing is; what is there afterwards is removed.  Raises: OSError."""
    place, lock = _locked(directory)
    try:
        yield place
    finally:
        with lock:
            _remove(place)


def _locked(directory: Path) -> tuple[Path, BinaryIO]:
    while True:
        place = directory / f"{PREFIX}{token_hex(8)}"
        lock = open(_lock_of(place), "xb", opener=open_as_store)  # noqa: SIM115
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _lock_of(place).exists():
                return place, lock
        except BaseException:
            lock.close()
            raise
        lock.close()  # somebody has cleaned up between the two


def remove_abandoned(directory: Path) -> None:
    """Remove copies of killed verifications: their links would keep what retention drops."""
    found = {path.name.partition(".")[0] for path in directory.glob(f"{PREFIX}*")}
    for place in (directory / name for name in sorted(found)):
        try:
            lock = open(_lock_of(place), "rb")  # noqa: SIM115
        except FileNotFoundError:  # an older build made none
            _remove(place)
            continue
        except PermissionError:
            continue  # another user's
        with lock, suppress(OSError):  # it is in use
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(place)


def _remove(place: Path) -> None:
    for path in (place, place.with_name(place.name + MAKING)):
        shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        os.unlink(_lock_of(place))  # last: until then it is held


def _lock_of(place: Path) -> Path:
    return place.with_name(place.name + LOCK)
