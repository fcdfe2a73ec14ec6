"""A store's files for readers over HTTP: the list of one moment, and ranges of the files while the gateway goes on.

Served are the files that a copy of the store has, and no others.
"""

from __future__ import annotations

import base64
import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.store.format.file_heads import unpack_checkpoint
from engine.store.log.checkpoint import FILE_NAME as CHECKPOINT_FILE
from engine.store.read.copied_files import COPIED, copied_files
from engine.store.read.segment_files import read_checkpoint
from engine.values.errors import StoreError

RANGE_BYTES_MAX: Final = 512 * 1024  # of one answer: what the loop writes at once, and a request holds
RANGE: Final = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})")
RANGES_ALLOWED: Final = "one range of octets: bytes=FIRST-LAST, bytes=FIRST- or bytes=-COUNT"


class NoSuchRange(Exception):
    """The file ends before the range begins.  size, tag: of the file, see ``Part``."""

    def __init__(self, size: int, tag: str) -> None:
        super().__init__(f"the file has {size} octets")
        self.size = size
        self.tag = tag


@dataclass(frozen=True, slots=True)
class Part:
    """Octets of a file from ``first`` on.  size: of the file.  tag: differs if another file has taken its name."""

    octets: bytes
    first: int
    size: int
    tag: str


def listing(directory: Path) -> bytes:
    """Return the JSON of the files with sizes and tags, and of the checkpoint that was read before them.

    Everything that this checkpoint speaks of is in the files of the list.
    Raises: StoreError if there is no checkpoint yet; OSError.
    """
    path = directory / CHECKPOINT_FILE
    while True:
        octets = path.read_bytes()
        known = unpack_checkpoint(octets, str(path))
        files = ", ".join(_described(place, status) for place, status in copied_files(directory))
        again = read_checkpoint(path)
        if again is None:
            raise StoreError("the store has no checkpoint yet")
        if known is not None and known.first_offset == again.first_offset:
            break  # otherwise retention may have dropped files in between
    checkpoint = base64.b64encode(octets).decode()
    return f'{{"checkpoint": "{checkpoint}", "range_bytes_max": {RANGE_BYTES_MAX}, "files": [{files}]}}'.encode()


def _described(path: str, status: os.stat_result) -> str:
    # Built by hand, as the names need no escapes: json.dumps would keep the interpreter from the loop for all of it.
    return f'{{"path": "{path}", "size": {status.st_size}, "tag": "{_tag(status)}"}}'


def _tag(status: os.stat_result) -> str:
    return f"{status.st_ino:x}"


def bounds(header: str) -> tuple[int, int] | None:
    """Return the first and last octet of a Range header; -1 for the one that is open, None without the header.

    Raises: ValueError.
    """
    if not header:
        return None
    found = RANGE.fullmatch(header)
    if found is None:
        raise ValueError
    first, last = (int(text) if text else -1 for text in found.groups())
    if (first < 0 and last < 0) or 0 <= last < first:
        raise ValueError
    return first, last


def read_part(directory: Path, path: str, asked: tuple[int, int] | None) -> Part:
    """Return the beginning of a range, at most ``RANGE_BYTES_MAX`` octets of it.

    Raises: FileNotFoundError, also for files that are not served; NoSuchRange; OSError.
    """
    if not COPIED.fullmatch(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    descriptor = os.open(directory / path, os.O_RDONLY)
    try:
        status = os.fstat(descriptor)
        first, stop = _within(status, asked)
        octets = os.pread(descriptor, min(stop - first, RANGE_BYTES_MAX), first)
        return Part(octets, first, status.st_size, _tag(status))
    finally:
        os.close(descriptor)


def _within(status: os.stat_result, asked: tuple[int, int] | None) -> tuple[int, int]:
    """Return where the range begins and ends in a file.  Raises: NoSuchRange."""
    size = status.st_size
    if asked is None:
        return 0, size
    first, last = asked
    if first < 0:
        first, last = max(0, size - last), -1  # the last octets, so many
    if first >= size:
        raise NoSuchRange(size, _tag(status))
    return first, size if last < 0 else min(size, last + 1)
