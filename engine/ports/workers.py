"""The worker threads that the engine is given: lanes of jobs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

SYNC_LANE: Final = 0  # data syncs and repairs of the commit log, nothing else
READ_LANE: Final = 1  # pages of a backlog
FILE_LANE: Final = 2  # preallocation, consume-queue files, retention


@mypyc_attr(allow_interpreted_subclasses=True)
class Job:
    """Work that would block: ``run`` on a worker thread, then ``finish`` on the engine's thread."""

    @abstractmethod
    def run(self) -> None:
        """Do the work, touching nothing that the engine's thread may touch meanwhile; never raises."""

    @abstractmethod
    def finish(self) -> None:
        """Return the result to the part that submitted the job."""

    def is_short(self) -> bool:
        """Say whether the job may take less time than handing it to another thread and back."""
        return False


@mypyc_attr(allow_interpreted_subclasses=True)
class DataSync(Job):
    """A job that syncs the data of files and does nothing else, so the system can often do it without a thread."""

    @abstractmethod
    def descriptor(self) -> int:
        """Return the number of the one open file whose fdatasync is all of ``run``; -1 if there is more to do."""

    @abstractmethod
    def synced(self, error: OSError | None) -> None:
        """Take the outcome of that fdatasync, which was called in the place of ``run``."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Workers:
    """Threads for jobs.  Jobs of one lane run one after the other, in the order of their submission."""

    @abstractmethod
    def submit(self, job: Job, lane: int) -> None:
        """Run ``job`` soon; one that ``is_short`` may be run and finished before the return.

        lane: SYNC_LANE, READ_LANE or FILE_LANE.
        """
