"""Workers' jobs of a group commit: sync segments, and rewrite data after a failed sync."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.ports.workers import DataSync, Job
from engine.store.context import StoreContext
from engine.store.disk.files import Files, describe
from engine.store.log.segment import NEW_SUFFIX, SUFFIX, Chunk, Segment, make_segment_file, seal, segment_name
from engine.values.pieces import Pieces

if TYPE_CHECKING:
    from engine.store.log.group_commit import GroupCommit

SMALL_SYNC_BYTES: Final = 4096  # a message or two, as from a single sender


class SyncJob(DataSync):
    """Syncs segments in the order of the log."""

    __slots__ = ("_commit", "_files", "_segments", "_target", "_size_bytes", "broken", "reason")

    def __init__(
        self, commit: GroupCommit, files: Files, segments: list[Segment], target: int, size_bytes: int
    ) -> None:
        self._commit = commit
        self._size_bytes = size_bytes
        self._files = files
        self._segments = segments
        self._target = target
        self.broken: Segment | None = None
        self.reason = ""

    def run(self) -> None:
        for segment in self._segments:
            try:
                segment.sync(self._files)
            except OSError as error:
                self._failed(segment, error)
                return

    def _failed(self, segment: Segment, error: OSError) -> None:
        self.broken = segment
        self.reason = describe(error, segment.path())

    def descriptor(self) -> int:
        segments = self._segments
        return segments[0].data_descriptor() if len(segments) == 1 else -1

    def synced(self, error: OSError | None) -> None:
        if error is not None:
            self._failed(self._segments[0], error)

    def is_short(self) -> bool:
        return self._size_bytes <= SMALL_SYNC_BYTES

    def finish(self) -> None:
        self._commit.sync_finished(self._target, self.broken, self.reason)


class RepairJob(Job):
    """Writes the octets of ``old`` that are not durable into a new file."""

    __slots__ = ("_commit", "_files", "_old", "new", "_parts", "_created_ms", "_store_id", "_next_sequence", "reason")

    def __init__(
        self,
        commit: GroupCommit,
        context: StoreContext,
        old: Segment,
        new: Segment,
        chunks: list[Chunk],
        next_sequence: int,
    ) -> None:
        self._commit = commit
        self._files = context.files
        self._old = old
        self.new = new
        self._parts = [part for chunk in chunks for part in chunk.parts]
        self._created_ms = context.clock.wall_ms()
        self._store_id = context.store_id
        self._next_sequence = next_sequence
        self.reason = ""

    def run(self) -> None:
        new = self.new
        path = f"{new.directory}/{segment_name(new.base)}"
        try:
            new.file = make_segment_file(self._files, path + NEW_SUFFIX, new, self._created_ms, self._store_id)
            offset = new.base
            pieces = Pieces()
            while pieces.place < len(self._parts):
                octets = pieces.take(self._parts)
                new.write(octets, offset)
                offset += len(octets)
            self._files.rename(path + NEW_SUFFIX, path + SUFFIX)
            new.sync(self._files)
        except OSError as error:
            self.reason = describe(error, path + SUFFIX)
            new.close()
            return
        if new.base > self._old.base and self._old.file is not None:
            try:
                seal(self._old.file, new.base, self._next_sequence)
                self._old.file.fdatasync()
            except OSError:
                pass  # the base of the continuation, which is on the disk, says the same

    def finish(self) -> None:
        self._commit.repair_finished(self._old, self.new, self.reason)
