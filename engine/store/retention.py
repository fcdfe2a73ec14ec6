"""Space: consumed segments are dropped from the oldest on, by age and by total size.  Live ones never.

A segment may go when every queue's cursor is past the entries of its records and a later segment's snapshot, on the
disk, says so for recovery.  How long the queues were when it ended stands in the snapshot that follows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from engine.errors import StoreError
from engine.ports import FILE_LANE, READ_LANE, Clock, Job, Timers, TimerTarget, Workers
from engine.store import format as layout
from engine.store.checkpoint import CheckpointFile
from engine.store.commit_log import CommitLog
from engine.store.consume_queue import ConsumeQueueFiles
from engine.store.files import Files, describe, read_fully
from engine.store.group_commit import GroupCommit
from engine.store.open_files import ForgetJob, OpenFiles
from engine.store.segment import Segment
from engine.store.settings import StoreSettings
from engine.store.snapshot import load_snapshot
from engine.store.state import StoreState

NOT_AGREED: Final = -1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a segment opens with: the state, store time and sequence of that record."""

    state: StoreState
    time_ms: int
    sequence: int


def read_snapshot(files: Files, segment: Segment) -> Snapshot | None:
    """Return what ``segment`` opens with; None if there is no whole snapshot."""
    file = files.open_to_read(segment.path())
    try:
        head = read_fully(file, layout.RECORD_HEADER_BYTES, layout.SEGMENT_HEADER_BYTES)
        if len(head) < layout.RECORD_HEADER_BYTES:
            return None
        size, crc, record_type, _, _, _, offset, sequence, time_ms = layout.RECORD_HEADER.unpack(head)
        if record_type != layout.SNAPSHOT or offset != segment.base or size > segment.capacity:
            return None
        octets = read_fully(file, size, layout.SEGMENT_HEADER_BYTES)
    finally:
        file.close()
    if len(octets) < size or crc32c(octets[8:]) != crc:
        return None
    try:
        return Snapshot(load_snapshot(octets[layout.RECORD_HEADER_BYTES :]), time_ms, sequence)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{segment.path()}, position {layout.SEGMENT_HEADER_BYTES}: {error!r} in a snapshot") from None


class Retention(TimerTarget):
    """Looks at the oldest segment at an interval.

    ``_next``: the segment after the oldest ones that opens with a snapshot; with ``_tails``, the queues' lengths at
    its base, and ``_time_ms``, when it began: what has to be known before everything below it may go.
    """

    __slots__ = (
        "reason",
        "_log",
        "_commit",
        "_checkpoint",
        "_queue_files",
        "_open_files",
        "_files",
        "_workers",
        "_timers",
        "_clock",
        "_time_limit_ms",
        "_bytes_limit",
        "_interval_ms",
        "_next",
        "_tails",
        "_time_ms",
        "_agreed_offset",
        "_is_in_flight",
        "_is_closed",
    )

    def __init__(
        self,
        log: CommitLog,
        commit: GroupCommit,
        checkpoint: CheckpointFile,
        queue_files: ConsumeQueueFiles,
        open_files: OpenFiles,
        files: Files,
        workers: Workers,
        timers: Timers,
        clock: Clock,
        settings: StoreSettings,
    ) -> None:
        self.reason = ""  # why the last attempt failed; space is then not freed, nothing else suffers
        self._log = log
        self._commit = commit
        self._checkpoint = checkpoint
        self._queue_files = queue_files
        self._open_files = open_files
        self._files = files
        self._workers = workers
        self._timers = timers
        self._clock = clock
        self._time_limit_ms = settings.retention_time_ms
        self._bytes_limit = settings.retention_bytes
        self._interval_ms = settings.retention_interval_ms
        self._next: Segment | None = None
        self._tails: StoreState | None = None
        self._time_ms = 0
        self._agreed_offset = NOT_AGREED
        self._is_in_flight = False
        self._is_closed = False
        timers.call_at(clock.monotonic_ms() + self._interval_ms, self, 0)

    def timer_fired(self, key: int) -> None:
        if not self._is_closed:
            self._timers.call_at(self._clock.monotonic_ms() + self._interval_ms, self, 0)
            self.check()

    def check(self) -> None:
        """Drop the oldest segment, and the next one after it, as far as the rules allow; workers do the work."""
        if self._is_in_flight or self._is_closed:
            return
        # Recovery starts at the consume-queue offset: everything from there on stays.
        following = None
        for segment in self._log.segments[1:]:
            if segment.base > self._checkpoint.consume_queue_offset:
                return
            if not segment.is_continuation and segment.sealed_end != segment.base:
                following = segment
                break
        if following is None:
            return
        if following is not self._next:
            self._is_in_flight = True
            self._workers.submit(LookJob(self, self._files, following), FILE_LANE)
        elif not self._may_drop():
            self._agreed_offset = NOT_AGREED
        else:
            # What settled the last message must not be lost after the message itself is gone.
            if self._agreed_offset == NOT_AGREED:
                self._agreed_offset = self._log.end
            if self._commit.durable >= self._agreed_offset:
                self._agreed_offset = NOT_AGREED
                self._drop(following)

    def looked(self, segment: Segment, tails: StoreState | None, time_ms: int, reason: str) -> None:
        """Take what the snapshot of the second oldest segment says."""
        self._is_in_flight = False
        self.reason = reason
        if tails is not None:
            self._next = segment
            self._tails = tails
            self._time_ms = time_ms
            self.check()

    def _may_drop(self) -> bool:
        assert self._tails is not None
        log = self._log
        is_old = self._clock.wall_ms() - self._time_ms > self._time_limit_ms
        if not is_old and log.end - log.segments[0].base <= self._bytes_limit:
            return False
        state = log.state
        for key, lane in self._tails.lanes.items():
            destination = state.destinations.get(lane.destination_id)
            if destination is not None and destination.first_needed(state.lanes[key]) < lane.tail:
                return False
        return True

    def _drop(self, following: Segment) -> None:
        assert self._tails is not None
        segments = self._log.segments
        place = segments.index(following)
        paths = [segment.path() for segment in segments[:place]]
        self._checkpoint.first_offset = following.base
        if not self._commit.publish():
            return  # readers and the next start would look for what is gone
        self._log.drop_segments(place)
        self._open_files.dropped.update(paths)
        for key, lane in self._tails.lanes.items():
            kept = self._log.state.lanes.get(key)
            if kept is not None:
                kept.kept_first = lane.tail - lane.tail % layout.ENTRIES_PER_FILE
        self._is_in_flight = True
        self._workers.submit(DropJob(self, self._files, self._queue_files, paths, self._tails), FILE_LANE)

    def dropped(self, paths: list[str], reason: str) -> None:
        """Go on with the next oldest."""
        self._is_in_flight = False
        self.reason = reason
        self._workers.submit(ForgetJob(self._open_files, paths), READ_LANE)
        if not reason:
            self.check()

    def close(self) -> None:
        """Drop no more."""
        self._is_closed = True


class LookJob(Job):
    """Reads the snapshot that a segment opens with."""

    __slots__ = ("_retention", "_files", "_segment", "_tails", "_time_ms", "_reason")

    def __init__(self, retention: Retention, files: Files, segment: Segment) -> None:
        self._retention = retention
        self._files = files
        self._segment = segment
        self._tails: StoreState | None = None
        self._time_ms = 0
        self._reason = ""

    def run(self) -> None:
        try:
            found = read_snapshot(self._files, self._segment)
        except OSError as error:
            self._reason = describe(error, self._segment.path())
        except StoreError as error:
            self._reason = str(error)
        else:
            if found is None:
                self._reason = f"{self._segment.path()}: its snapshot is damaged"
            else:
                self._tails, self._time_ms = found.state, found.time_ms

    def finish(self) -> None:
        self._retention.looked(self._segment, self._tails, self._time_ms, self._reason)


class DropJob(Job):
    """Removes the files of dropped segments and of consume-queue entries that lead to nothing else."""

    __slots__ = ("_retention", "_files", "_queue_files", "_paths", "_tails", "_reason")

    def __init__(
        self,
        retention: Retention,
        files: Files,
        queue_files: ConsumeQueueFiles,
        paths: list[str],
        tails: StoreState,
    ) -> None:
        self._retention = retention
        self._files = files
        self._queue_files = queue_files
        self._paths = paths
        self._tails = tails
        self._reason = ""

    def run(self) -> None:
        path = ""
        try:
            for path in self._paths:
                self._files.unlink(path)
            tails = self._tails
            for lane in tails.all_lanes():
                self._queue_files.drop_below(lane.destination_id, lane.priority, lane.tail)
            # What was closed before that snapshot has no message in what is left.
            self._queue_files.remove_gone(tails.destinations, tails.next_destination)
        except OSError as error:
            self._reason = describe(error, path)

    def finish(self) -> None:
        self._retention.dropped(self._paths, self._reason)
