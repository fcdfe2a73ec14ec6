"""The shared part of retention and compaction: their view of the store, and their survey of a segment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.ports.timers import TimerTarget
from engine.ports.workers import FILE_LANE, READ_LANE
from engine.store.context import StoreContext
from engine.store.log.checkpoint import CheckpointFile
from engine.store.log.commit_log import CommitLog
from engine.store.log.durable_log import DurableLog
from engine.store.log.open_files import ForgetJob, OpenFiles
from engine.store.queues.consume_queue_files import ConsumeQueueFiles
from engine.store.space.backlog_sizes import BacklogSizes, MeasureJob, SizesTarget
from engine.store.space.retention_rules import RetentionRules
from engine.store.space.segment_survey import LookTarget

LANES_AT_ONCE: Final = 512  # queues examined per turn of the engine
NONE: Final = -1


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


class SpaceMaker(TimerTarget, LookTarget, SizesTarget):
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
            if segments[place].base > self._checkpoint.consume_queue_offset:
                break
            if segments[place].opens_with_snapshot():
                return place
        return NONE

    def _measure(self, lanes: list[tuple[int, int, int]]) -> None:
        """Have the sizes of some lanes added up from one entry to another; ``measured`` follows."""
        self._context.workers.submit(MeasureJob(self, self._sizes, lanes), FILE_LANE)

    def _forget(self, paths: list[str]) -> None:
        """Let readers close files that are gone or were replaced."""
        self._context.workers.submit(ForgetJob(self._open_files, paths), READ_LANE)

    def close(self) -> None:
        """Start nothing more; the next start removes unfinished files."""
        self._is_closed = True
