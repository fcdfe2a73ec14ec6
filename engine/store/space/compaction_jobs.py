"""Workers' jobs of compaction: read segments, put the new file in place, remove leftovers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from engine.ports.workers import Job
from engine.store.context import StoreContext
from engine.store.disk.files import Files, describe
from engine.store.read.leases import leased, read_leases
from engine.store.space.sparse_segment import Thinning
from engine.values.errors import StoreError

STEP_BYTES: Final = 512 << 10  # read at a time; other work of the same worker gets its turn in between


class ThinningTarget(ABC):
    """Handles the outcomes of these jobs.  left_over: files of segments that the disk could not remove yet."""

    left_over: list[str]

    @abstractmethod
    def stepped(self, thinning: Thinning, count: int, reason: str, is_damaged: bool) -> None:
        """Handle the outcome of a step that read ``count`` octets."""

    @abstractmethod
    def placed(self, thinning: Thinning, reason: str, is_leased: bool) -> None:
        """Handle a segment that is sparse now.  is_leased: it is not, because a reader has come meanwhile."""


class StepJob(Job):
    """Reads some octets of a segment."""

    __slots__ = ("_compaction", "_thinning", "_count", "_reason", "_is_damaged")

    def __init__(self, compaction: ThinningTarget, thinning: Thinning) -> None:
        self._compaction = compaction
        self._thinning = thinning
        self._count = 0
        self._reason = ""
        self._is_damaged = False

    def run(self) -> None:
        try:
            self._count = self._thinning.step(STEP_BYTES)
        except OSError as error:
            self._reason = describe(error, self._thinning.segment.path())
        except StoreError as error:
            self._reason = str(error)
            self._is_damaged = True

    def finish(self) -> None:
        self._compaction.stepped(self._thinning, self._count, self._reason, self._is_damaged)


class PlaceJob(Job):
    """Completes a new file, syncs it and gives it the segment's name, unless a reader is using the segment."""

    __slots__ = (
        "_compaction",
        "_context",
        "_thinning",
        "_now_ms",
        "_lease_max_ms",
        "_is_leased",
        "_reason",
    )

    def __init__(
        self, compaction: ThinningTarget, context: StoreContext, thinning: Thinning, lease_max_ms: int
    ) -> None:
        self._compaction = compaction
        self._context = context
        self._thinning = thinning
        self._now_ms = context.clock.wall_ms()
        self._lease_max_ms = lease_max_ms
        self._is_leased = False
        self._reason = ""

    def run(self) -> None:
        try:
            context = self._context
            end = self._thinning.segments[-1].limit()
            self._thinning.finish(self._now_ms, context.store_id)
            leases = read_leases(context.files, context.directory, context.store_id, self._now_ms, self._lease_max_ms)
            self._is_leased = leased(leases, end) is not None
            if not self._is_leased:
                self._thinning.put_in_place()
        except OSError as error:
            self._reason = describe(error, self._thinning.segment.path())

    def finish(self) -> None:
        self._compaction.placed(self._thinning, self._reason, self._is_leased)


class RemoveJob(Job):
    """Removes the files of segments that were merged into another one."""

    __slots__ = ("_compaction", "_files", "_paths")

    def __init__(self, compaction: ThinningTarget, files: Files, paths: list[str]) -> None:
        self._compaction = compaction
        self._files = files
        self._paths = paths

    def run(self) -> None:
        try:
            while self._paths:
                self._files.unlink(self._paths[0])
                del self._paths[0]
        except OSError:
            pass  # harmless; the next pass or the next start tries again

    def finish(self) -> None:
        self._compaction.left_over += self._paths


class GiveUpJob(Job):
    """Removes an unfinished new file."""

    __slots__ = ("_thinning",)

    def __init__(self, thinning: Thinning) -> None:
        self._thinning = thinning

    def run(self) -> None:
        self._thinning.give_up()

    def finish(self) -> None:
        pass
