"""The key index follows the log: a worker reads what has become durable and adds its keys to the files.

On the engine's thread this costs one test of a flag per message, and one comparison per sync.  Nothing depends on the
index: messages not in it are found by reading the log, and an index that cannot be written only falls behind.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from engine.ports.workers import FILE_LANE, Job
from engine.store.context import StoreContext
from engine.store.disk.disk_job import DiskJob
from engine.store.disk.files import describe
from engine.store.index.index_directory import IndexDirectory
from engine.store.index.index_file import INDEX_DIRECTORY
from engine.store.log.commit_log import CommitLog
from engine.store.log.log_port import LogFollower
from engine.store.log.segment import LogMap
from engine.values.message import KEYED

NOTED_MAX: Final = 500_000  # recorded messages with keys; beyond, the log is scanned for them


@dataclass(slots=True, eq=False)
class KeyIndex(LogFollower):
    """Starts a worker a while after something became durable.

    reason: why the disk refused the last attempt, "" if it did not.
    """

    _context: StoreContext
    _index: IndexDirectory
    _log: CommitLog
    reason: str = ""
    _durable: int = 0
    _known_from: int = field(init=False)
    _noted: list[int] = field(default_factory=list)
    _is_waiting: bool = False  # for a timer or a job
    _is_closed: bool = False

    def __post_init__(self) -> None:
        self._known_from = self._log.end
        self._log.noted_flags = KEYED
        # At once: while the directory is held, readers trust a growing file.
        try:
            self._index.open(self._log.files.segments[0].base, self._log.end)
        except OSError as error:
            self.reason = describe(error, INDEX_DIRECTORY)

    def log_durable(self, offset: int) -> None:
        """Note how far the log is durable; a worker continues from here."""
        self._durable = offset
        if not self._is_waiting:
            self._wait()

    def _wait(self) -> None:
        self._is_waiting = True
        self._context.call_later(self._context.settings.index_interval_ms, self, 0)

    def timer_fired(self, key: int) -> None:
        if not self._is_closed:
            self._context.workers.submit(self._job(self._durable), FILE_LANE)

    def _job(self, stop: int) -> Job:
        log = self._log
        self._noted += log.noted
        log.noted.clear()
        if len(self._noted) > NOTED_MAX:
            self._noted = []
            self._known_from = log.end
        work = partial(_follow, self._index, log.files.map(), stop, self._known_from, self._noted)
        return DiskJob(work, self.followed, INDEX_DIRECTORY)

    def followed(self, _: None, reason: str) -> None:
        """Handle the outcome of a job."""
        self.reason = reason
        self._is_waiting = False
        del self._noted[: bisect_left(self._noted, self._index.end)]
        # A file that must be made again begins below; the log is then scanned up to here.
        self._known_from = max(self._known_from, self._index.end)
        if not self._is_closed and self._index.end < self._durable:
            self._wait()

    def begin_anew(self) -> None:
        """Have all files removed and made again; the log appended so far is scanned."""
        self._noted = []
        self._log.noted.clear()
        self._known_from = self._log.end
        self._context.workers.submit(DiskJob(self._index.begin_anew, self.began_anew, INDEX_DIRECTORY), FILE_LANE)

    def began_anew(self, _: None, reason: str) -> None:
        """Continue from the beginning."""
        self.reason = reason
        self.log_durable(self._durable)

    def has_reached(self, offset: int) -> bool:
        """Say whether messages up to a log offset are in the index, or the disk refuses to store them."""
        return self._index.end >= offset or bool(self.reason)

    def wind_down(self) -> None:
        """Start no more jobs."""
        self._is_closed = True

    def catch_up(self) -> None:
        """Index up to the end of the log, or to where the disk refuses."""
        while self._index.end < self._log.end and not self.reason:
            job = self._job(self._log.end)
            job.run()
            job.finish()

    def close(self) -> None:
        """Index up to the end, or some way towards it, and bring the files to the disk."""
        self._job(self._log.end).run()
        try:
            self._index.close()
        except OSError:
            pass  # the next start removes a file that is not at rest, and makes it again


def _follow(index: IndexDirectory, log: LogMap, stop: int, known_from: int, noted: list[int]) -> None:
    """Extend the index up to ``stop``, or some way towards it.  noted: not changed until the job is finished."""
    if index.end < 0:
        index.open(log.bases[0], stop)
    index.follow(log, stop, known_from, noted)
