"""One flush for many appends: hands batches to the medium and makes them durable.

While the store is open, only this file decides when the log is synced.  gateway.loop.engine_loop asks for it at the end
of a turn; engine.store_listener confirms to clients once it hears the durable offset.

Octets stay in memory until a sync has covered them.  After a failed write they are written again.  After a failed
sync the system may have forgotten what it could not write, and may report success the next time.  So that file is no
longer trusted, and the same octets are written, at the same log offsets, to a new one.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from engine.ports.store import StoreListener
from engine.ports.workers import SYNC_LANE
from engine.store.context import StoreContext
from engine.store.disk import disk_health as parts
from engine.store.disk.files import describe
from engine.store.log.checkpoint import CheckpointFile
from engine.store.log.commit_log import CommitLog
from engine.store.log.log_port import DurableLog, LogFollower
from engine.store.log.segment import Chunk, LogMap, Segment
from engine.store.log.sync_jobs import RepairJob, SyncJob
from engine.store.log.sync_lag import SyncLag
from engine.store.settings import ASYNC
from engine.values.errors import StoreError
from engine.values.pieces import PIECE_BYTES

RETRY: Final = 0
FLUSH: Final = 1
WRITE: Final = 2
NO_LIMIT: Final = 1 << 62
NOT_COUNTED: Final = -1
BACKLOG_PART: Final = 32  # of what is not written: so much of large messages is written in a turn, if it is more


class GroupCommit(DurableLog):
    """The log on one disk.

    ``durable`` moves only once the checkpoint file has it, by a plain write without a sync of its own.  The checkpoint
    tells readers how far to read, and the next start below which offset damage is more than a torn tail.
    is_async: confirmed once written; the sync follows at an interval.
    """

    __slots__ = (
        "_log",
        "_checkpoint",
        "_followers",
        "_context",
        "_listener",
        "_is_async",
        "_unwritten",
        "_unsynced",
        "_is_in_flight",
        "_is_wanted",
        "_awaits_retry",
        "_is_writing",
        "_is_retry_set",
        "_heal_offset",
        "_reported",
        "_broken",
        "_synced_segment",
        "_lag",
        "_is_closed",
    )

    def __init__(self, context: StoreContext, log: CommitLog, checkpoint: CheckpointFile) -> None:
        super().__init__(log.end)
        self._log = log
        self._checkpoint = checkpoint
        self._followers: list[LogFollower] = []
        self._context = context
        self._listener: StoreListener | None = None
        self._is_async = context.settings.flush == ASYNC
        self._unwritten: deque[Chunk] = deque()
        self._unsynced: deque[Chunk] = deque()
        self._is_in_flight = False  # a sync or a repair is with a worker
        self._is_wanted = False  # another sync follows the one in flight
        self._awaits_retry = False  # batches wait in memory until the retry
        self._is_writing = False  # a divided chunk is written, a piece in each turn
        self._is_retry_set = False
        self._heal_offset = 0
        self._reported = log.end  # the durable offset that followers and the listener know
        self._broken: Segment | None = None  # its sync failed and it is not replaced yet
        self._synced_segment: Segment | None = None  # of the last chunk that a sync has covered
        self._is_closed = False
        self._lag = SyncLag(context, self)
        if self._is_async:
            context.call_later(context.settings.flush_interval_ms, self, FLUSH)

    def attach(self, listener: StoreListener) -> None:
        self._listener = listener

    def follow(self, follower: LogFollower) -> None:
        self._followers.append(follower)

    def write(self) -> None:
        chunks = self._log.take_chunks()
        if chunks:
            self._unwritten.extend(chunks)
            if self._log.closings:
                closings = self._log.take_closings()
                for follower in self._followers:
                    follower.segments_closed(closings)
            if not self._awaits_retry and not self._is_writing:
                self._write_out()
            self._log.prepare_ahead()

    def _write_out(self, is_all: bool = False) -> None:
        """Write what waits; of large messages so much as ``_large_share`` says, and the next turns write the rest.

        What comes after them in the log waits for them.  With ``is_all`` everything is written.
        """
        unwritten = self._unwritten
        before = self.written
        large_bytes = NO_LIMIT if is_all else NOT_COUNTED  # what may still be written of large messages
        while unwritten:
            chunk = unwritten[0]
            segment = chunk.segment
            try:
                if segment.file is None or not segment.is_on_disk:
                    self._log.files.put_on_disk(segment)
                parts = chunk.parts
                if len(parts) == 1:
                    segment.write(parts[0], chunk.offset)
                else:
                    if large_bytes == NOT_COUNTED:
                        large_bytes = self._large_share()
                    end = chunk.offset
                    while end < chunk.end and large_bytes >= PIECE_BYTES:
                        end = chunk.write_piece()
                        large_bytes -= PIECE_BYTES
                    if end < chunk.end:
                        break
            except OSError as error:
                self._await_retry(describe(error, segment.path()))
                break
            unwritten.popleft()
            self._unsynced.append(chunk)
            self.written = chunk.end
        if unwritten and not self._awaits_retry:
            self._is_writing = True
            self._context.call_later(0, self, WRITE)
        if not self._is_closed:  # then another thread closes it, and may set no timer
            self._lag.look()
        if self._is_async and self.written > before and self._listener is not None:
            self._listener.durable(self.written)

    def _large_share(self) -> int:
        """Return how much of large messages is written in a turn: more if the disk would fall behind."""
        return max(PIECE_BYTES, (self._log.end - self.written) // BACKLOG_PART)

    def sync(self) -> None:
        if self._is_in_flight or self._awaits_retry:
            self._is_wanted = True
            return
        self.write()
        if self._unsynced and not self._awaits_retry:
            self._start_sync()

    def _start_sync(self) -> None:
        self._is_in_flight = True
        self._is_wanted = False
        self._context.workers.submit(self._sync_job(), SYNC_LANE)

    def _sync_job(self) -> SyncJob:
        segments = list(dict.fromkeys([chunk.segment for chunk in self._unsynced]))
        return SyncJob(self, self._context.files, segments, self.written, self.written - self.durable)

    def sync_finished(self, target: int, broken: Segment | None, reason: str) -> None:
        """Handle the outcome of a sync: everything below ``target`` is durable, or ``broken`` could not be synced."""
        self._is_in_flight = False
        if self._is_closed:
            return
        if broken is not None:
            self._broken = broken
            self._await_retry(reason)
            return
        self._synced(target)
        if self._is_wanted:
            self._is_wanted = False
            self.sync()
        self._report()
        if not self._awaits_retry and target >= self._heal_offset:
            self._context.health.heal(parts.LOG)

    def _synced(self, target: int) -> None:
        """Release what a sync has covered, and publish it."""
        unsynced = self._unsynced
        last: Chunk | None = None
        segment = self._synced_segment
        while unsynced and unsynced[0].end <= target:
            last = unsynced.popleft()
            if segment is not last.segment:
                if segment is not None:
                    segment.close()  # full and durable: only readers need it now, and they open the file themselves
                segment = self._synced_segment = last.segment
        if last is not None:
            if last.segment is not self._log.files.segments[-1] and not (
                unsynced and unsynced[0].segment is last.segment
            ):
                last.segment.close()
            values = self._checkpoint.values
            values.durable_offset = last.end
            values.durable_time_ms = last.store_time_ms
            values.next_sequence = last.next_sequence
            self._publish()

    def _publish_and_report(self) -> bool:
        is_published = self._publish()
        self._report()
        return is_published

    def map(self) -> LogMap:
        return self._log.files.map()

    def drop_prefix(self, base: int) -> bool:
        values = self._checkpoint.values
        before = values.first_offset
        values.first_offset = base
        if not self._publish_and_report():
            # Readers and the next start would look for the removed segments.  No later checkpoint may record this drop
            # either, because the segments may be needed by then.
            values.first_offset = before
            return False
        segments = self._log.files.segments
        self._log.files.drop(sum([segment.base < base for segment in segments]))
        return True

    def require(self, version: int) -> None:
        if version <= self._checkpoint.values.version:
            return
        # If the disk refuses, that is reported, and the next checkpoint contains the version.
        self._checkpoint.values.version = version
        if not self._publish():
            return
        try:
            self._checkpoint.sync()
        except OSError as error:
            self._context.health.fail(parts.CHECKPOINT, describe(error, self._checkpoint.path))
            self._set_retry()

    def _publish(self) -> bool:
        """Publish the checkpoint; return False after a failure, which is reported and retried soon."""
        try:
            self._checkpoint.publish()
        except OSError as error:
            self._context.health.fail(parts.CHECKPOINT, describe(error, self._checkpoint.path))
            self._set_retry()
            return False
        self._context.health.heal(parts.CHECKPOINT)
        self.durable = self._checkpoint.values.durable_offset
        return True

    def _report(self) -> None:
        """Report how far the log is durable, if that has changed."""
        if self.durable > self._reported:
            self._reported = self.durable
            for follower in self._followers:
                follower.log_durable(self.durable)
            if not self._is_async and self._listener is not None:
                self._listener.durable(self.durable)
            self._lag.synced()

    def _await_retry(self, reason: str) -> None:
        self._awaits_retry = True
        self._set_retry()
        self._context.health.fail(parts.LOG, reason)

    def _set_retry(self) -> None:
        if not self._is_retry_set and not self._is_closed:
            self._is_retry_set = True
            self._context.call_later(self._context.settings.retry_interval_ms, self, RETRY)

    def timer_fired(self, key: int) -> None:
        if self._is_closed:
            return
        if key == FLUSH:
            self._context.call_later(self._context.settings.flush_interval_ms, self, FLUSH)
            self.sync()
            return
        if key == WRITE:
            self._is_writing = False
            if not self._awaits_retry:
                self._write_out()
            return
        self._is_retry_set = False
        if self._context.health.is_failing(parts.CHECKPOINT):
            self._publish_and_report()
        if not self._awaits_retry:
            return
        if self._is_in_flight:
            self._set_retry()
        elif self._broken is not None:
            self._is_in_flight = True
            self._context.workers.submit(self._repair(self._broken), SYNC_LANE)
        else:
            self._resume()

    def _resume(self) -> None:
        """Write what was held back; later batches are written at once again."""
        self._awaits_retry = False
        self._write_out()
        if self._awaits_retry:
            return
        self._heal_offset = self.written
        if self._unsynced:
            self._start_sync()
        else:
            self._context.health.heal(parts.LOG)

    def _repair(self, broken: Segment) -> RepairJob:
        chunks = [chunk for chunk in self._unsynced if chunk.segment is broken]
        start = chunks[0].offset
        new = Segment(broken.directory, start, broken.limit() - start, broken.is_continuation or start > broken.base)
        next_sequence = self._checkpoint.values.next_sequence
        return RepairJob(self, self._context, broken, new, chunks, next_sequence)

    def repair_finished(self, old: Segment, new: Segment, reason: str) -> None:
        """Accept a new file with everything of ``old`` that is not durable, or the reason why there is none."""
        self._is_in_flight = False
        if self._is_closed:
            return
        if reason:
            self._await_retry(reason)
            return
        self._replace(old, new)
        self._resume()

    def _replace(self, old: Segment, new: Segment) -> None:
        new.is_on_disk = True
        if new.base == old.base:
            new.edition = old.edition + 1
        self._log.files.replace(old, new)
        self._log.segment_replaced(old, new)
        for chunks in (self._unsynced, self._unwritten):
            for chunk in chunks:
                if chunk.segment is old:
                    chunk.move(new)
        self._broken = None

    def close(self) -> None:
        self._is_closed = True
        self._unwritten.extend(self._log.take_chunks())
        if self._broken is not None:
            job = self._repair(self._broken)
            job.run()
            if job.reason:
                raise StoreError(job.reason)
            self._replace(self._broken, job.new)
        self._write_out(is_all=True)
        if self._unwritten:
            raise StoreError(f"{self._unwritten[0].segment.path()}: log offsets from {self.written} are not written")
        if self._unsynced:
            job_of_sync = self._sync_job()
            job_of_sync.run()
            if job_of_sync.broken is not None:
                raise StoreError(job_of_sync.reason)
            self._synced(self.written)
