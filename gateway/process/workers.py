"""Threads for the engine's jobs: one thread per lane, results handed back to the event loop.

Syncs of the log have three ways: the system's own, the engine's thread if they are short, and the lane's thread.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

from engine.ports.workers import FILE_LANE, READ_LANE, SYNC_LANE, DataSync, Job, Workers
from engine.values.histogram import Histogram
from gateway.process.system_syncs import SyncEnd, SystemSyncs

# While the disk is quick, a small sync runs on the engine's own thread: handing it to another one and back takes longer
# than the sync (docs/decisions/0006).  After a slow sync the next few run on the other thread.
HERE_S: Final = 0.001
FORGETTING: Final = 0.5  # of how slow a sync was, with each one after it

LANE_NAMES = {SYNC_LANE: "penstock-sync", READ_LANE: "penstock-read", FILE_LANE: "penstock-file"}


@mypyc_attr(allow_interpreted_subclasses=True)
class JobSink:
    """Takes finished jobs on the event loop's thread."""

    @abstractmethod
    def job_done(self, job: Job) -> None: ...

    @abstractmethod
    def job_failed(self, job: Job, error: Exception) -> None:
        """``Job.run`` has raised, which it must not: the fault is ours, and its work may be incomplete."""


class SystemSync(SyncEnd):
    """A sync that the system does: None while there is none."""

    def __init__(self, workers: ThreadWorkers) -> None:
        self._workers = workers
        self.job: DataSync | None = None

    def sync_ended(self, error: OSError | None) -> None:
        job = self.job
        assert job is not None
        self.job = None
        job.synced(error)
        self._workers.system_sync_done(job)


class ThreadWorkers(Workers):
    """Daemon threads, so that a disk that hangs for ever does not keep the process from ending."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: Callable[[], float] = time.perf_counter,
        sync_times: Histogram | None = None,
        system_syncs: SystemSyncs | None = None,
    ) -> None:
        """seconds: the clock that syncs are timed with.  sync_times: gets the time of each.

        system_syncs: does the syncs that the engine's thread does not do, until it refuses one; None for a thread.
        """
        self._loop = loop
        self._seconds = seconds
        self._sync_times = sync_times
        self._system_syncs = system_syncs
        self._system_sync = SystemSync(self)
        self._system_start_s = 0.0
        self._behind: deque[Job] = deque()  # jobs of its lane that wait for the system's sync
        self._sink: JobSink | None = None
        self._queues: dict[int, queue.SimpleQueue[Job]] = {}
        self._early: list[tuple[Job, Exception | None]] = []
        self._under_way = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._syncs_in_thread = 0
        self._slowest_s = 1.0  # the disk's speed is unknown yet
        for lane, name in LANE_NAMES.items():
            self._queues[lane] = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(self._queues[lane],), name=name, daemon=True).start()

    def attach(self, sink: JobSink) -> None:
        """Hand finished jobs to ``sink``, also those that finished before there was one."""
        self._sink = sink
        for job, error in self._early:
            self._hand_over(sink, job, error)
        self._early.clear()

    def submit(self, job: Job, lane: int) -> None:
        self._under_way += 1
        self._is_idle.clear()
        if lane == SYNC_LANE:
            self._sync(job)
        else:
            self._queues[lane].put(job)

    def _sync(self, job: Job) -> None:
        is_first = self._syncs_in_thread == 0 and self._system_sync.job is None
        if is_first and self._slowest_s < HERE_S and job.is_short():
            self._done(job, self._run_timed(job))
        else:
            self._sync_elsewhere(job)

    def _sync_elsewhere(self, job: Job) -> None:
        if self._system_sync.job is not None:
            self._behind.append(job)
        elif self._syncs_in_thread or not self._is_with_system(job):
            self._syncs_in_thread += 1
            self._queues[SYNC_LANE].put(job)

    def _is_with_system(self, job: Job) -> bool:
        """Give the system a sync; return False if it has to be run."""
        system_syncs = self._system_syncs
        if system_syncs is None or not isinstance(job, DataSync):
            return False
        descriptor = job.descriptor()
        if descriptor < 0:
            return False
        self._system_start_s = self._seconds()
        if not system_syncs.start(descriptor, self._system_sync):
            self.close()  # an older kernel, or a file system without: it will not change its mind
            return False
        self._system_sync.job = job
        return True

    def system_sync_done(self, job: DataSync) -> None:
        """Hand over a sync that the system has ended, and start those behind it."""
        self._timed(self._seconds() - self._system_start_s)
        behind, self._behind = self._behind, deque()
        for other in behind:
            self._sync_elsewhere(other)
        self._done(job, None)

    def _run_timed(self, job: Job) -> Exception | None:
        start = self._seconds()
        error = self._run(job)
        self._timed(self._seconds() - start)
        return error

    def _timed(self, took_s: float) -> None:
        self._slowest_s = max(took_s, self._slowest_s * FORGETTING)
        if self._sync_times is not None:  # one sync at a time, on whichever thread
            self._sync_times.add(took_s)

    def _run(self, job: Job) -> Exception | None:
        """Run a job; return its exception, so that its lane continues until the engine has stopped the process."""
        try:
            job.run()
        except Exception as error:
            return error
        return None

    def close(self) -> None:
        """Give back what the system lent for its syncs; later ones run on the thread."""
        system_syncs, self._system_syncs = self._system_syncs, None
        if system_syncs is not None:
            system_syncs.close()

    async def drained(self, patience_s: float) -> bool:
        """Wait until no job is under way; return False if that took longer than ``patience_s``."""
        try:
            async with asyncio.timeout(patience_s):
                while self._under_way:  # the end of the last job may have led to another one meanwhile
                    await self._is_idle.wait()
        except TimeoutError:
            return False
        return True

    def _serve(self, jobs: queue.SimpleQueue[Job]) -> None:
        while True:
            job = jobs.get()
            is_sync = jobs is self._queues[SYNC_LANE]
            error = self._run_timed(job) if is_sync else self._run(job)
            try:
                self._loop.call_soon_threadsafe(self._sync_done if is_sync else self._done, job, error)
            except RuntimeError:
                return  # the loop has closed: the gateway has stopped

    def _sync_done(self, job: Job, error: Exception | None) -> None:
        self._syncs_in_thread -= 1
        self._done(job, error)

    def _done(self, job: Job, error: Exception | None) -> None:
        if self._sink is None:
            self._early.append((job, error))
        else:
            self._hand_over(self._sink, job, error)
        self._under_way -= 1
        if self._under_way == 0:
            self._is_idle.set()

    def _hand_over(self, sink: JobSink, job: Job, error: Exception | None) -> None:
        if error is None:
            sink.job_done(job)
        else:
            sink.job_failed(job, error)
