"""Writes the entries of closed segments to the disk: in parts, and for many queues with one sync.

The entries of the last segment's records are in memory only.  When the log rolls, workers write and sync them, and
the checkpoint's consume-queue offset moves up to the new segment.  Readers take no entries above that offset, and
recovery rebuilds them from the log.  So writing them earlier, or at a stop, would gain nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from engine.ports.workers import FILE_LANE, Job
from engine.store.context import StoreContext
from engine.store.disk import disk_health as parts
from engine.store.disk.disk_job import DiskJob
from engine.store.disk.files import describe
from engine.store.format.layout import LANE_SHIFT
from engine.store.log.checkpoint import CheckpointFile
from engine.store.log.log_port import LogFollower
from engine.store.queues.consume_queue_files import BLOCKS_TOGETHER, ConsumeQueueFiles
from engine.store.state.consume_queue import Closing, ConsumeQueue, EntryBlock
from engine.store.state.log_state import StoreState

TOGETHER: Final = 512  # queues whose entries are gathered, or released, per turn of the engine
MERGED_MAX: Final = 512  # segments closed meanwhile are batched together up to this many blocks

RETRY: Final = 0
GATHER: Final = 1
LET_GO: Final = 2


class ConsumeQueues(LogFollower):
    """Writes the entries of closed segments to the disk, some queues at a time.

    Other work of the same worker, and of the engine, gets its turn in between.  Segments closed meanwhile wait and are
    then written together, so each queue's file is written once for all of them.  When too much waits, nothing more is
    accepted.

    ``_batch``: blocks under way, by queue and in order; ``_batch_end`` is the consume-queue offset once all are on the
    disk.  ``_written``: how many of them are in their files; ``_let_go``: how many are also durable and out of memory.
    ``_is_whole``: all of them are synced at once after they were written.  ``_taken``: segments being gathered for the
    batch.  ``_closings``: waiting segments, with ``_waiting_bytes`` of entries.
    """

    __slots__ = (
        "files",
        "_state",
        "_checkpoint",
        "_context",
        "_closings",
        "_taken",
        "_waiting_bytes",
        "_batch",
        "_batch_end",
        "_written",
        "_let_go",
        "_is_whole",
        "_is_in_flight",
        "_durable",
        "_is_closed",
    )

    def __init__(
        self,
        context: StoreContext,
        files: ConsumeQueueFiles,
        state: StoreState,
        checkpoint: CheckpointFile,
        closings: list[Closing],
        durable: int,
    ) -> None:
        self.files = files
        self._state = state
        self._checkpoint = checkpoint
        self._context = context
        self._closings: deque[Closing] = deque(closings)
        self._waiting_bytes = sum(closing.entry_bytes for closing in closings)
        self._taken: list[Closing] = []
        self._batch: list[EntryBlock] = []
        self._batch_end = 0
        self._written = 0
        self._let_go = 0
        self._is_whole = False
        self._is_in_flight = False
        self._durable = durable
        self._is_closed = False

    def segments_closed(self, closings: list[Closing]) -> None:
        self._closings.extend(closings)
        self._waiting_bytes += sum(closing.entry_bytes for closing in closings)
        if self._is_overfull():
            self._context.health.fail(
                parts.CONSUME_QUEUE,
                f"{self.files.root}: entries of {len(self._closings)} segments wait for the disk to take others",
            )

    def _is_overfull(self) -> bool:
        # A single segment may exceed the limit; otherwise it would never be accepted.
        return len(self._closings) > 1 and self._waiting_bytes > self._context.settings.waiting_entries_bytes

    def log_durable(self, offset: int) -> None:
        """Store the entries of segments that are wholly durable and have a durable successor."""
        self._durable = offset
        if not self._is_in_flight and not self._is_closed:
            self._begin_batch()

    def _begin_batch(self) -> None:
        closings = self._closings
        count = 0
        while closings and closings[0].end < self._durable:
            count += closings[0].block_count()
            if self._taken and count > MERGED_MAX:
                break
            self._taken.append(closings.popleft())
        if self._taken:
            self._is_in_flight = True
            self._gather()

    def _gather(self) -> None:
        """Gather the entries of the segments in ``_taken``, and have them stored."""
        left = TOGETHER
        for closing in self._taken:
            left -= closing.gather(left)
            if not closing.is_gathered():
                self._context.call_later(0, self, GATHER)
                return
        blocks: list[EntryBlock] = []
        for closing in self._taken:
            self._waiting_bytes -= closing.entry_bytes
            blocks += closing.blocks
            self._batch_end = closing.end
        if len(self._taken) > 1:
            blocks.sort(key=_queue)
        self._taken = []
        self._batch = blocks
        self._written = 0
        self._let_go = 0
        self._is_whole = self.files.can_sync_whole(len(blocks))
        if blocks:
            self._store_next()
        else:
            self._finish_batch()

    def _store_next(self) -> None:
        if self._written < len(self._batch):
            blocks = self._batch[self._written : self._written + BLOCKS_TOGETHER]
            self._context.workers.submit(StoreEntriesJob(self, blocks, self._is_whole), FILE_LANE)
        else:
            self._context.workers.submit(DiskJob(self.files.sync_whole, self.synced, self.files.root), FILE_LANE)

    def stored(self, count: int, reason: str) -> None:
        """Handle the outcome of a job: ``count`` more blocks are written, and durable unless all are synced at once."""
        if self._is_closed:
            return
        if reason:
            self._fail(reason)
            return
        self._written += count
        if self._is_whole:
            self._store_next()
        else:
            self._go_on()

    def synced(self, _: None, reason: str) -> None:
        """Handle the outcome of the sync of all that was written."""
        if self._is_closed:
            return
        if reason:
            # The system may have forgotten what it could not write, and the failure may concern other files than ours.
            self._written = 0
            self._is_whole = False
            self._fail(reason)
        else:
            self._go_on()

    def _fail(self, reason: str) -> None:
        self._context.health.fail(parts.CONSUME_QUEUE, reason)
        self._context.call_later(self._context.settings.retry_interval_ms, self, RETRY)

    def _go_on(self) -> None:
        """Release blocks that are durable, and have others stored."""
        end = min(self._written, self._let_go + TOGETHER)
        for block in self._batch[self._let_go : end]:
            lane = self._lane(block)
            if lane is not None:
                assert lane.closing[0] is block, "blocks of a queue reach the disk in their order"
                del lane.closing[0]
        self._let_go = end
        if end < self._written:
            self._context.call_later(0, self, LET_GO)
            return
        if not self._is_overfull():
            self._context.health.heal(parts.CONSUME_QUEUE)
        if end < len(self._batch):
            self._store_next()
        else:
            self._finish_batch()

    def _finish_batch(self) -> None:
        self._batch = []
        self._checkpoint.values.consume_queue_offset = self._batch_end
        self._is_in_flight = False
        self._begin_batch()

    def _lane(self, block: EntryBlock) -> ConsumeQueue | None:
        """Return the lane of a block, None if its destination was closed meanwhile."""
        if block.destination_id == 0:
            return self._state.system
        return self._state.lanes.get((block.destination_id << LANE_SHIFT) | block.priority)

    def timer_fired(self, key: int) -> None:
        if self._is_closed:
            return
        if key == RETRY:
            self._store_next()
        elif key == GATHER:
            self._gather()
        else:
            self._go_on()

    def close(self) -> None:
        """Store no more; the next start rebuilds missing entries from the log."""
        self._is_closed = True


def _queue(block: EntryBlock) -> tuple[int, int]:
    return block.destination_id, block.priority


@dataclass(slots=True, eq=False)
class StoreEntriesJob(Job):
    """Writes some blocks of entries, and syncs them unless all are synced at once."""

    _queues: ConsumeQueues
    _blocks: list[EntryBlock]
    _is_whole: bool
    _reason: str = ""

    def run(self) -> None:
        files = self._queues.files
        try:
            if self._is_whole:
                files.write(self._blocks)
            else:
                files.store_one_by_one(self._blocks)
        except OSError as error:
            self._reason = describe(error, files.root)

    def finish(self) -> None:
        self._queues.stored(len(self._blocks), self._reason)
