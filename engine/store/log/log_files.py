"""The log's segments in order, and their files: made, prepared ahead, replaced, closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.ports.workers import FILE_LANE, Job
from engine.store.context import StoreContext
from engine.store.disk.files import File, Files
from engine.store.log.segment import (
    NEW_SUFFIX,
    PREPARED_SUFFIX,
    SUFFIX,
    LogMap,
    Segment,
    make_segment_file,
    segment_name,
)

GROWN_SNAPSHOTS: Final = 3  # room in the next segment, in snapshots of the last size: two, grown by half
LEAST_BYTES: Final = 64 * 1024  # room in a segment that is made small because the disk is nearly full
NEVER: Final = 1 << 62


class LogFiles:
    """segments: the last of them is open for records.  segment_bytes: usual size of a segment.

    prepare_at: end of the log from which the next one must be prepared.
    """

    __slots__ = ("segments", "segment_bytes", "_map", "_context", "_directory", "_prepared", "prepare_at", "_is_closed")

    def __init__(self, context: StoreContext, directory: str, segments: list[Segment]) -> None:
        self.segments = segments
        self.segment_bytes = context.settings.segment_bytes
        self._map: LogMap | None = None
        self._context = context
        self._directory = directory
        self._prepared: Segment | None = None
        self.prepare_at = _half_of(segments[-1])
        self._is_closed = False

    def map(self) -> LogMap:
        """Return a map of the log as it is now."""
        if self._map is None:
            self._map = LogMap(self.segments)
        return self._map

    def disk_bytes(self) -> int:
        """Return the size of the segments' files."""
        return sum([segment.disk_bytes() for segment in self.segments])

    def begin(self, base: int, capacity: int) -> Segment:
        """Continue in a new segment at ``base`` with room for at least ``capacity`` octets."""
        segment = self._prepared
        if segment is None or segment.base != base or segment.capacity < capacity:
            self._discard_prepared()
            segment = Segment(self._directory, base, max(capacity, self.segment_bytes), False)
        self._prepared = None
        return self._add(segment)

    def begin_continuation(self, start: int) -> Segment:
        """End the current segment at ``start``, and continue there in one without room yet."""
        self.segments[-1].sealed_end = start
        self._discard_prepared()  # it was made for the earlier end of the current segment
        return self._add(Segment(self._directory, start, 0, True))

    def _add(self, segment: Segment) -> Segment:
        self.segments.append(segment)
        self.prepare_at = _half_of(segment)
        self._map = None
        return segment

    def end_at(self, limit: int) -> None:
        """Set the end of the room of the current segment, which has no file yet."""
        current = self.segments[-1]
        current.capacity = limit - current.base
        self.prepare_at = _half_of(current)
        self._map = None

    def shrink(self, least: int) -> bool:
        """Halve the room of the current segment, which has no file yet; return False if it can be no smaller."""
        current = self.segments[-1]
        capacity = max(current.capacity // 2 & ~7, min(LEAST_BYTES, self.segment_bytes), least)
        if capacity >= current.capacity:
            return False
        self.end_at(current.base + capacity)
        return True

    def put_on_disk(self, segment: Segment) -> None:
        """Make sure that ``segment`` has its file, open.  Raises: OSError."""
        context = self._context
        files = context.files
        if segment.is_on_disk:
            if segment.file is None:
                segment.file = files.open(segment.path())
            return
        path = f"{self._directory}/{segment_name(segment.base)}"
        if segment.file is not None:
            # Not synced here, on the engine's thread: the first sync does that.  Until then recovery makes sure that
            # no offset in it is used again, whichever name survives.
            files.rename(path + PREPARED_SUFFIX, path + SUFFIX)
        else:
            file = make_segment_file(files, path + NEW_SUFFIX, segment, context.clock.wall_ms(), context.store_id)
            try:
                files.rename(path + NEW_SUFFIX, path + SUFFIX)
                files.sync_directory(self._directory)
            except OSError:
                file.close()
                raise
            segment.file = file
            segment.is_name_durable = True
        segment.is_on_disk = True

    def prepare_next(self, snapshot_bytes: int) -> None:
        """Have a worker make the next segment's file, in one attempt.  snapshot_bytes: size of the last snapshot."""
        self.prepare_at = NEVER
        capacity = max(self.segment_bytes, GROWN_SNAPSHOTS * snapshot_bytes)
        segment = Segment(self._directory, self.segments[-1].limit(), capacity, False)
        context = self._context
        job = PrepareJob(self, context.files, segment, context.clock.wall_ms(), context.store_id)
        context.workers.submit(job, FILE_LANE)

    def segment_prepared(self, segment: Segment, file: File | None) -> None:
        """Accept the prepared segment; if it could not be made, its first use tries again and reports the error."""
        if file is None:
            return
        segment.file = file
        if self._is_closed:
            segment.close()  # another process may own the directory by now; the next start removes the file
            return
        self._prepared = segment
        if segment.base != self.segments[-1].limit():
            self._discard_prepared()

    def _discard_prepared(self) -> None:
        segment = self._prepared
        if segment is None:
            return
        self._prepared = None
        segment.close()
        try:
            self._context.files.unlink(f"{self._directory}/{segment_name(segment.base)}{PREPARED_SUFFIX}")
        except OSError:
            pass  # the next start of the store removes it

    def replace(self, old: Segment, new: Segment) -> None:
        """Put ``new``, made after a failed sync, in the place of ``old`` or of its last part."""
        place = self.segments.index(old)
        if new.base > old.base:
            old.sealed_end = new.base
            self.segments.insert(place + 1, new)
        else:
            self.segments[place] = new
        self._map = None
        old.close()

    def drop(self, count: int) -> None:
        """Forget the oldest ``count`` segments."""
        del self.segments[:count]
        self._map = None

    def thinned(self, segment: Segment, parts: list[Segment]) -> list[str]:
        """Note that a segment is sparse now, and that ``parts`` were merged into it; return their paths.

        If retention has dropped ``segment`` meanwhile, the others stay as they are.
        """
        found = [part for part in parts if part in self.segments] if segment in self.segments else []
        for part in found:
            self.segments.remove(part)
        self._map = None
        return [part.path() for part in found]

    def close(self) -> None:
        self._is_closed = True
        self._discard_prepared()
        for segment in self.segments:
            segment.close()


def _half_of(segment: Segment) -> int:
    return segment.limit() - segment.capacity // 2


@dataclass(slots=True, eq=False)
class PrepareJob(Job):
    """Makes the file of the next segment, whose allocation takes the disk a while."""

    _log: LogFiles
    _files: Files
    _segment: Segment
    _created_ms: int
    _store_id: str
    _file: File | None = None

    def run(self) -> None:
        directory = self._segment.directory
        path = f"{directory}/{segment_name(self._segment.base)}{PREPARED_SUFFIX}"
        try:
            self._file = make_segment_file(self._files, path, self._segment, self._created_ms, self._store_id)
            self._files.sync_directory(directory)
        except OSError:
            # Not fatal: the segment is made again when it is needed, and only then an error matters.
            if self._file is not None:
                self._file.close()
                self._file = None

    def finish(self) -> None:
        self._log.segment_prepared(self._segment, self._file)
