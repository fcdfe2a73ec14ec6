"""The key index follows the log: a worker reads what has become durable and adds its keys to the files.

On the engine's thread this costs one test of a flag per message, and one comparison per sync.  Nothing depends on the
index: messages not in it are found by reading the log, and an index that cannot be written only falls behind.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from engine.ports.workers import FILE_LANE, Job
from engine.store.context import StoreContext
from engine.store.disk.files import describe
from engine.store.index.index_directory import IndexDirectory
from engine.store.index.index_file import INDEX_DIRECTORY
from engine.store.log.commit_log import CommitLog
from engine.store.log.log_follower import LogFollower
from engine.store.log.log_map import LogMap
from engine.values.errors import StoreError
from engine.values.message import KEYED

NOTED_MAX: Final = 500_000  # recorded messages with keys; beyond, the log is scanned for them


class KeyIndex(LogFollower):
    """Starts a worker a while after something became durable.

    reason: why the disk refused the last attempt, "" if it did not.
    """

    __slots__ = (
        "reason",
        "_index",
        "_log",
        "_context",
        "_durable",
        "_known_from",
        "_noted",
        "_is_waiting",
        "_is_closed",
    )

    def __init__(self, context: StoreContext, index: IndexDirectory, log: CommitLog) -> None:
        self.reason = ""
        self._index = index
        self._log = log
        self._context = context
        self._durable = 0
        self._known_from = log.end
        self._noted: list[int] = []
        log.noted_flags = KEYED
        self._is_waiting = False  # for a timer or a job
        self._is_closed = False
        # At once: while the directory is held, readers trust a growing file.
        try:
            index.open(log.files.segments[0].base, log.end)
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

    def _job(self, stop: int) -> IndexJob:
        log = self._log
        self._noted += log.noted
        log.noted.clear()
        if len(self._noted) > NOTED_MAX:
            self._noted = []
            self._known_from = log.end
        return IndexJob(self, self._index, log.files.map(), stop, self._known_from, self._noted)

    def followed(self, reason: str) -> None:
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
        self._context.workers.submit(AnewJob(self, self._index), FILE_LANE)

    def began_anew(self, reason: str) -> None:
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


class IndexJob(Job):
    """Extends the index up to an offset, or some way towards it."""

    __slots__ = ("_owner", "_index", "_log", "_stop", "_known_from", "_noted", "_reason")

    def __init__(
        self, owner: KeyIndex, index: IndexDirectory, log: LogMap, stop: int, known_from: int, noted: list[int]
    ) -> None:
        self._owner = owner
        self._index = index
        self._log = log
        self._stop = stop
        self._known_from = known_from
        self._noted = noted  # not changed until the job is finished
        self._reason = ""

    def run(self) -> None:
        try:
            if self._index.end < 0:
                self._index.open(self._log.bases[0], self._stop)
            self._index.follow(self._log, self._stop, self._known_from, self._noted)
        except OSError as error:
            self._reason = describe(error, str(error.filename or INDEX_DIRECTORY))
        except StoreError as error:
            self._reason = str(error)

    def finish(self) -> None:
        self._owner.followed(self._reason)


class AnewJob(Job):
    """Removes the files of the index."""

    __slots__ = ("_owner", "_index", "_reason")

    def __init__(self, owner: KeyIndex, index: IndexDirectory) -> None:
        self._owner = owner
        self._index = index
        self._reason = ""

    def run(self) -> None:
        try:
            self._index.begin_anew()
        except OSError as error:
            self._reason = describe(error, str(error.filename or INDEX_DIRECTORY))

    def finish(self) -> None:
        self._owner.began_anew(self._reason)
