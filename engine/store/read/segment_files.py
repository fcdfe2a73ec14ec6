"""The files of the log as a reader finds them, and where the records of each are.

Spark workers load this module from a zip that holds little else, so it imports little.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.store.format import layout
from engine.store.format.file_heads import (
    HEADS_BYTES,
    Checkpoint,
    NotWhole,
    unpack_checkpoint,
    unpack_seal,
    unpack_segment_header,
    unpack_sparse_head,
)
from engine.store.format.record import Record
from engine.store.format.record_cursor import LogOctets, record_at
from engine.store.format.sparse_runs import NOT_THERE, Runs, unpack_runs
from engine.store.read.store_files import StoreFile, names_in, octets_of, open_file
from engine.values.errors import RangeGone, StoreCorrupt, StoreError

CHECKPOINT_TRIES: Final = 20
CHECKPOINT_WAIT_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """One file of the log; it holds records from ``base`` up to at most ``limit``.

    span_end: where the next segment begins; above ``limit`` if this one was sealed early.
    is_sparse: records were removed.  That may happen at any time: ``open_segment`` returns the present state.
    """

    path: Path
    base: int
    limit: int
    span_end: int
    is_continuation: bool
    is_sparse: bool = False


class OpenSegment(LogOctets):
    """The file of a segment, which must be closed; ``runs``: where its records are if it is sparse."""

    __slots__ = ("segment", "file")

    def __init__(self, segment: SegmentFile, file: StoreFile, runs: Runs | None) -> None:
        super().__init__(runs)
        self.segment = segment
        self.file = file

    def pread(self, size: int, offset: int) -> bytes:
        if self.runs is None:
            return self.file.pread(size, layout.SEGMENT_HEADER_BYTES + offset - self.segment.base)
        position = self.runs.position(offset)
        if position == NOT_THERE:
            return b""
        return self.file.pread(min(size, self.runs.end_of(offset) - offset), position)

    def record(self, offset: int) -> Record | None:
        """Return the whole record that begins at a log offset, None if none does."""
        return record_at(self, offset, self.segment.limit)

    def close(self) -> None:
        self.file.close()


def open_segment(segment: SegmentFile) -> OpenSegment:
    """Open a segment's file and find its records.

    Raises: RangeGone if retention has dropped the file, StoreCorrupt, also if it is missing otherwise.
    """
    try:
        file = open_file(segment.path)
    except FileNotFoundError:
        successor = _open_successor(segment)
        if successor is None:
            raise _gone(segment) from None
        file = successor
    try:
        octets = file.pread(HEADS_BYTES, 0)
        unpack_segment_header(octets, str(segment.path))
        head = unpack_sparse_head(octets, str(segment.path))
        runs = None
        if head is not None:
            table = file.pread(head.table_bytes, head.table_position)
            runs = unpack_runs(table, head, str(segment.path))
    except BaseException:
        file.close()
        raise
    return OpenSegment(segment, file, runs)


def _gone(segment: SegmentFile) -> StoreError:
    """Return why a file is not there any more.  Retention publishes where the log begins before it drops one."""
    checkpoint = read_checkpoint(segment.path.parent.parent / "checkpoint")
    offsets = f"log offsets {segment.base} to {segment.limit}"
    if checkpoint is not None and checkpoint.first_offset <= segment.base:
        return StoreCorrupt(f"{offsets} do not exist: the file of that segment, {segment.path.name}, is missing")
    return RangeGone(f"{offsets} are gone: retention has dropped {segment.path.name}")


def _open_successor(segment: SegmentFile) -> StoreFile | None:
    """Return the open file of the sparse segment into which a segment was merged, if there is one."""
    folder = segment.path.parent
    names = [name for name in names_in(folder) if name.endswith(".log") and name < segment.path.name]
    if not names:
        return None
    path = folder / max(names)
    try:
        file = open_file(path)
    except FileNotFoundError:
        return None
    try:
        header = unpack_segment_header(file.pread(HEADS_BYTES, 0), str(path))
    except BaseException:
        file.close()
        raise
    if header.is_sparse and segment.base < header.base + header.capacity:
        return file
    file.close()
    return None


def list_segments(folder: Path, store_id: str) -> list[SegmentFile]:
    """Return the segments by base; a file still being made (no valid header) is left out.

    Raises: StoreCorrupt for a file of another store, version or name.
    """
    while True:
        found = _list_segments(folder, store_id)
        if found is not None:
            return found


def _list_segments(folder: Path, store_id: str) -> list[SegmentFile] | None:
    """Do the same; None if a file has gone, as it may have been merged into one read before."""
    heads: list[tuple[int, int, int, bool, bool, Path]] = []
    try:
        names = sorted(name for name in names_in(folder) if name.endswith(".log") and name[:-4].isdigit())
    except FileNotFoundError:
        return []
    for name in names:
        path = folder / name
        try:
            file = open_file(path)
        except FileNotFoundError:
            return None
        try:
            octets = file.pread(layout.SEAL_POSITION + layout.SEAL.size + layout.CRC.size, 0)
        finally:
            file.close()
        try:
            header = unpack_segment_header(octets, str(path))
        except NotWhole:
            continue
        base = header.base
        if heads and heads[-1][4] and base < heads[-1][2]:
            continue  # merged into that one
        if base != int(name[:-4]) or header.store_id != store_id:
            raise StoreCorrupt(f"{path}: its header names base {base} of store {header.store_id!r}")
        limit = base + header.capacity
        try:
            seal = unpack_seal(octets, str(path))
        except NotWhole:
            seal = None  # the gateway is writing it
        end = limit if seal is None else seal.end
        heads.append((base, end, limit, header.is_continuation, header.is_sparse, path))
    segments: list[SegmentFile] = []
    for number, (base, limit, span_end, is_continuation, is_sparse, path) in enumerate(heads):
        if number + 1 < len(heads):
            next_base = heads[number + 1][0]
            limit, span_end = min(limit, next_base), min(span_end, next_base)
        segments.append(SegmentFile(path, base, limit, span_end, is_continuation, is_sparse))
    return segments


def read_checkpoint(path: Path) -> Checkpoint | None:
    """Return the newer valid slot; None if there is no checkpoint or neither slot is valid.

    The gateway overwrites the older slot while we read, so a single bad read proves nothing.
    """
    for attempt in range(CHECKPOINT_TRIES):
        if attempt:
            time.sleep(CHECKPOINT_WAIT_S)
        try:
            octets = octets_of(path)
        except FileNotFoundError:
            return None
        found = unpack_checkpoint(octets, str(path))
        if found is not None:
            return found
    return None
