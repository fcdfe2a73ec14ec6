"""The torn tail of a log after an unclean stop: made durable, cut to what is whole, and sealed.

roll_forward.py decides where the log ends.

The log then continues in a new segment, because readers may have seen records past the end that is found now.
"""

from __future__ import annotations

from typing import Final

from engine.store.disk.files import File, Files, read_fully, write_fully
from engine.store.format import layout
from engine.store.format.file_heads import Checkpoint
from engine.store.log.segment import PREPARED_SUFFIX, Segment, load_segment, records_limit, seal
from engine.store.log.store_directory import LogRange, RecoveryReport
from engine.values.errors import StoreCorrupt

READ_BYTES: Final = 4 << 20

HEADER_BYTES: Final = layout.SEGMENT_HEADER_BYTES


class TornTail:
    """The log ends just below ``end``; ``sequence`` is that of the next record."""

    __slots__ = ("_files", "_directory", "_segments", "_durable", "_is_durable_known", "_report", "_end", "_sequence")

    def __init__(
        self,
        files: Files,
        directory: str,
        segments: list[Segment],
        checkpoint: Checkpoint | None,
        report: RecoveryReport,
        end: int,
        sequence: int,
    ) -> None:
        self._files = files
        self._directory = directory
        self._segments = segments
        self._durable = checkpoint.durable_offset if checkpoint is not None else 0
        self._is_durable_known = checkpoint is not None
        self._report = report
        self._end = end
        self._sequence = sequence

    def cut(self, last: int) -> None:
        """Make the log durable and end the segment at ``last``, so that no offset ever names two records."""
        for place, segment in enumerate(self._segments[: last + 1]):
            # Seals count as well: an earlier start may have been stopped between writing and syncing them.
            if not self._is_durable_known or segment.limit() > self._durable:
                self._sync_tail(segment, min(records_limit(self._segments, place), self._end))
        for segment in self._segments[last + 1 :]:
            self._end_segment(segment, segment.base)
        if self._end < self._segments[last].limit():
            self._end_segment(self._segments[last], self._end)
        self._adopt_prepared()
        self._files.sync_directory(self._directory)

    def _sync_tail(self, segment: Segment, end: int) -> None:
        """Make records durable that the previous process may have written but not synced.

        They are first written again: if a sync had failed, the system may believe them to be on the disk.  Without a
        checkpoint that may be any record, even in a store whose very first sync has failed.
        """
        file = self._files.open(segment.path())
        try:
            # A sparse one was synced before it was renamed.
            offset = end if segment.is_sparse else max(segment.base, self._durable)
            while offset < end:
                position = HEADER_BYTES + offset - segment.base
                octets = read_fully(file, min(READ_BYTES, end - offset), position)
                if not octets:
                    break
                write_fully(file, octets, position)
                offset += len(octets)
            file.fsync()
        finally:
            file.close()

    def _end_segment(self, segment: Segment, end: int) -> None:
        """Seal a segment at ``end`` and free the room after it; a sparse one has a seal already and no such room."""
        if segment.is_sparse:
            return
        position = HEADER_BYTES + end - segment.base
        file = self._files.open(segment.path())
        try:
            if self._report.cut is None and _has_octets(file, position):
                self._report.cut = LogRange(
                    end, segment.limit(), segment.path(), position, "octets after the last whole record"
                )
            seal(file, end, self._sequence)
            file.truncate(position)
            file.fsync()
        finally:
            file.close()
        segment.sealed_end = end

    def _adopt_prepared(self) -> None:
        """End a segment that was prepared ahead as if it had been used.

        It may have been used: its last rename may have been lost, and messages written to it may have been delivered.
        """
        for name in self._files.list_directory(self._directory):
            if not name.endswith(PREPARED_SUFFIX):
                continue
            path = f"{self._directory}/{name}"
            try:
                segment, _ = load_segment(self._files, self._directory, name)
            except StoreCorrupt:
                segment = None  # the process stopped while making it
            if segment is None or segment.base != self._segments[-1].limit():
                self._files.unlink(path)
            else:
                self._files.rename(path, segment.path())
                self._segments.append(segment)
                self._end_segment(segment, segment.base)


def _has_octets(file: File, position: int) -> bool:
    while octets := read_fully(file, READ_BYTES, position):
        if octets != bytes(len(octets)):
            return True
        position += len(octets)
    return False
