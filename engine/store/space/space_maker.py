"""The shared part of retention and compaction: their view of the store, and their survey of a segment."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeVar

from engine.ports.timers import TimerTarget
from engine.ports.workers import FILE_LANE, READ_LANE
from engine.store.context import StoreContext
from engine.store.disk.disk_job import DiskJob
from engine.store.log.checkpoint import CheckpointFile
from engine.store.log.commit_log import CommitLog
from engine.store.log.log_port import DurableLog
from engine.store.log.open_files import OpenFiles
from engine.store.queues.consume_queue_files import ConsumeQueueFiles
from engine.store.read.export_watermarks import Watermarks, read_watermarks
from engine.store.read.leases import Lease, read_leases
from engine.store.space.backlog_sizes import BacklogSizes
from engine.store.space.retention_rules import RetentionRules

LANES_AT_ONCE: Final = 512  # queues examined per turn of the engine
NONE: Final = -1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoreParts:
    """The parts of one open store that use space."""

    context: StoreContext
    log: CommitLog
    commit: DurableLog
    checkpoint: CheckpointFile
    queue_files: ConsumeQueueFiles
    open_files: OpenFiles
    rules: RetentionRules


class Claims(NamedTuple):
    """What readers ask for: those that read now, and those that have read so far."""

    leases: list[Lease]
    exported: Watermarks


class SpaceMaker(TimerTarget):
    """reason: why the disk refused the last attempt, "" if it did not; then only space is not freed."""

    __slots__ = (
        "reason",
        "rules",
        "_context",
        "_log",
        "_commit",
        "_checkpoint",
        "_queue_files",
        "_open_files",
        "_sizes",
        "_is_closed",
    )

    def __init__(self, parts: StoreParts) -> None:
        self.reason = ""
        self.rules = parts.rules
        self._context = parts.context
        self._log = parts.log
        self._commit = parts.commit
        self._checkpoint = parts.checkpoint
        self._queue_files = parts.queue_files
        self._open_files = parts.open_files
        self._sizes = BacklogSizes(parts.context.files, parts.queue_files.root)
        self._is_closed = False

    def _call_later(self, wait_ms: int, key: int) -> None:
        self._context.call_later(wait_ms, self, key)

    def _next_snapshot(self, start: int) -> int:
        """Return the place of the next segment from ``start`` on that begins with a snapshot; it covers those before.

        NONE if recovery may start before it; then everything from there on stays as it is.
        """
        segments = self._log.files.segments
        for place in range(start, len(segments)):
            if segments[place].base > self._checkpoint.values.consume_queue_offset:
                break
            if segments[place].opens_with_snapshot():
                return place
        return NONE

    def _work(self, work: Callable[[], T], done: Callable[[T | None, str], None] | None = None) -> None:
        """Have a worker do ``work``; ``done`` gets its result, or the reason why the disk refused."""
        self._context.workers.submit(DiskJob(work, done, self._context.directory), FILE_LANE)

    def _measure(self, lanes: list[tuple[int, int, int]]) -> None:
        """Have the sizes of some lanes added up from one entry to another; ``_measured`` follows."""
        self._work(partial(self._sizes.move_all, lanes), self._measured)

    @abstractmethod
    def _measured(self, _: None, reason: str) -> None:
        """Handle the answer: the windows are where they should be, or the reason why they are not."""

    def _read_claims(self, now_ms: int) -> Claims:
        """Return what readers ask for; on a worker, right before what depends on it.  Raises: OSError."""
        context = self._context
        files, directory, store_id = context.files, context.directory, context.store_id
        leases = read_leases(files, directory, store_id, now_ms, self.rules.lease_max_ms)
        return Claims(leases, read_watermarks(files, directory, store_id))

    def _forget(self, paths: list[str]) -> None:
        """Let readers close files that are gone or were replaced."""
        self._context.workers.submit(DiskJob(partial(self._open_files.forget_dropped, paths)), READ_LANE)

    def close(self) -> None:
        """Start nothing more; the next start removes unfinished files."""
        self._is_closed = True
