"""A segment's file as the octets of the log that it holds."""

from __future__ import annotations

from engine.store.disk.files import File, Files, read_fully
from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.format.record_cursor import LogOctets, record_at
from engine.store.format.sparse_runs import NOT_THERE, Runs
from engine.store.log.segment import Segment, read_runs


class SegmentOctets(LogOctets):
    """An open file, closed by the part that opened it.  base: of the segment."""

    __slots__ = ("file", "base")

    def __init__(self, file: File, base: int, runs: Runs | None) -> None:
        super().__init__(runs)
        self.file = file
        self.base = base

    def position(self, offset: int) -> int:
        """Return where a log offset is in the file, NOT_THERE if its record was taken out."""
        if self.runs is not None:
            return self.runs.position(offset)
        return layout.SEGMENT_HEADER_BYTES + offset - self.base

    def pread(self, size: int, offset: int) -> bytes:
        if self.runs is None:
            return read_fully(self.file, size, layout.SEGMENT_HEADER_BYTES + offset - self.base)
        position = self.runs.position(offset)
        if position == NOT_THERE:
            return b""
        return read_fully(self.file, min(size, self.runs.end_of(offset) - offset), position)


def open_octets(files: Files, segment: Segment) -> SegmentOctets:
    """Open a segment's file to read it; the file itself says whether it is sparse.

    Raises: OSError, StoreCorrupt.
    """
    return open_path(files, segment.path(), segment.base)


def open_path(files: Files, path: str, base: int) -> SegmentOctets:
    """Do the same for the path of a segment's file."""
    file = files.open_to_read(path)
    try:
        return SegmentOctets(file, base, read_runs(file, path))
    except BaseException:
        file.close()
        raise


def snapshot_record(files: Files, segment: Segment) -> Record | None:
    """Return the snapshot at the beginning of a segment, None if there is no whole one.  Raises: OSError."""
    # The first record follows the header even in a sparse segment.
    file = files.open_to_read(segment.path())
    try:
        record = record_at(SegmentOctets(file, segment.base, None), segment.base, segment.limit())
    finally:
        file.close()
    return record if record is not None and record.type == layout.SNAPSHOT else None
