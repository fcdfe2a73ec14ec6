"""Planted bugs of the store that one fault of the disk reveals: one for each of disk_faults.py."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import Final

from engine.store.disk.files import write_fully
from tests.support.disk.disk_faults import (
    BIT_FLIP,
    CRASH,
    LOST_WRITE,
    NO_SPACE,
    READ_ERROR,
    REORDERED_WRITES,
    SHORT_WRITE,
    SYNC_ERROR,
    TORN_SECTOR,
    WRITE_ERROR,
)
from tests.support.disk.disk_inode import SECTOR_BYTES
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.disk.files_wrapper import FilesWrapper, FileWrapper
from tests.support.store.store_bugs import (
    FileBug,
    ReadErrorIsTheEnd,
    ReceiptBeforeSync,
    RenamedBeforeSync,
    ShortWriteIgnored,
    SyncErrorIgnored,
)
from tests.support.store.store_history import Bug
from tests.support.store.store_records import is_whole, records, sign

SMALL_BYTES: Final = 2_000  # size of a record: larger ones may have zeros in their body


class SectorsTrusted(Bug):
    """Recovery accepts a record when each of its sectors begins and the last one ends, as if sectors never tore."""

    def disk_found(self, disk: FaultyFiles) -> None:
        for octets, position, size in records(disk):
            end = position + size
            borders = range(position - position % SECTOR_BYTES + SECTOR_BYTES, end, SECTOR_BYTES)
            is_begun = all(any(octets[at : at + 8]) for at in borders) and octets[end - 1]
            is_torn = any(not any(octets[at - 16 : at]) for at in borders)
            if size < SMALL_BYTES and is_begun and is_torn and not is_whole(octets, position, size):
                sign(octets, position, size)


class FlipsTrusted(Bug):
    """Recovery and readers accept a record without missing parts, even with a wrong checksum."""

    def disk_found(self, disk: FaultyFiles) -> None:
        for octets, position, size in records(disk):
            record = octets[position : position + size]
            if size < SMALL_BYTES and record[-1] and bytes(16) not in record[64:]:
                sign(octets, position, size)


class _Refused(FileWrapper):
    """A write that the system refuses for one reason counts as successful."""

    error = 0

    def pwrite(self, octets: bytes | memoryview, position: int) -> int:
        try:
            return self.inner.pwrite(octets, position)
        except OSError as error:
            if error.errno != self.error:
                raise
            return len(octets)


class NoSpaceIgnored(FileBug):
    """A write without space counts as successful."""

    class Layer(FilesWrapper):
        class Hopeful(_Refused):
            error = errno.ENOSPC

        file_class = Hopeful

    layer = Layer


class FailedWriteIgnored(FileBug):
    """A write with an error of the disk counts as successful."""

    class Layer(FilesWrapper):
        class Hopeful(_Refused):
            error = errno.EIO

        file_class = Hopeful

    layer = Layer


class CreatedInPlace(FileBug):
    """A segment is not prepared under another name: its first octets are written under its final name."""

    class Layer(FilesWrapper):
        def rename(self, source: str, target: str) -> None:
            if not target.endswith(".log"):
                self.inner.rename(source, target)
                return
            made = self.inner.open(source)
            octets = made.pread(made.size(), 0)
            made.truncate(0)
            made.fsync()
            self.inner.rename(source, target)
            self.inner.sync_directory(os.path.dirname(target))
            write_fully(made, octets, 0)
            made.fsync()
            made.close()

    layer = Layer


@dataclass(frozen=True, slots=True)
class Proof:
    """``bug`` is found on a disk with ``fault``, and not on one without it.

    others: faults that can also reveal this bug; neither disk has them.
    """

    fault: str
    bug: type[Bug]
    others: frozenset[str] = frozenset()


PROOFS: Final = (
    Proof(SHORT_WRITE, ShortWriteIgnored),
    Proof(TORN_SECTOR, SectorsTrusted, frozenset((BIT_FLIP,))),
    Proof(BIT_FLIP, FlipsTrusted),
    # A changed octet above the checkpoint's offset counts as the end of the log.
    Proof(LOST_WRITE, ReceiptBeforeSync, frozenset((BIT_FLIP,))),
    # A failed sync loses earlier writes, and no later ones.
    Proof(REORDERED_WRITES, RenamedBeforeSync, frozenset((SYNC_ERROR,))),
    Proof(NO_SPACE, NoSpaceIgnored),
    Proof(WRITE_ERROR, FailedWriteIgnored),
    Proof(READ_ERROR, ReadErrorIsTheEnd),
    Proof(SYNC_ERROR, SyncErrorIgnored),
    # An error also ends a step in the middle.
    Proof(CRASH, CreatedInPlace, frozenset((READ_ERROR, WRITE_ERROR, SYNC_ERROR, NO_SPACE))),
)
