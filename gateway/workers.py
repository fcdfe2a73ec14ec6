"""Threads for the engine's jobs: one thread a lane, results handed back to the event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from abc import ABC, abstractmethod

from engine.ports import FILE_LANE, READ_LANE, SYNC_LANE, Job, Workers

LANE_NAMES = {SYNC_LANE: "penstock-sync", READ_LANE: "penstock-read", FILE_LANE: "penstock-file"}


class JobSink(ABC):
    """Takes finished jobs on the event loop's thread."""

    @abstractmethod
    def job_done(self, job: Job) -> None: ...


class ThreadWorkers(Workers):
    """Daemon threads, so that a disk that hangs for ever does not keep the process from ending."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._sink: JobSink | None = None
        self._queues: dict[int, queue.SimpleQueue[Job]] = {}
        self._early: list[Job] = []
        self._under_way = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        for lane, name in LANE_NAMES.items():
            self._queues[lane] = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(self._queues[lane],), name=name, daemon=True).start()

    def attach(self, sink: JobSink) -> None:
        """Hand finished jobs to ``sink``, also those that finished before there was one."""
        self._sink = sink
        for job in self._early:
            sink.job_done(job)
        self._early.clear()

    def submit(self, job: Job, lane: int) -> None:
        self._under_way += 1
        self._is_idle.clear()
        self._queues[lane].put(job)

    async def drained(self, patience_s: float) -> bool:
        """Wait until nothing is under way; return False if that took longer than ``patience_s``."""
        try:
            await asyncio.wait_for(self._is_idle.wait(), patience_s)
        except TimeoutError:
            return False
        return True

    def _serve(self, jobs: queue.SimpleQueue[Job]) -> None:
        while True:
            job = jobs.get()
            job.run()
            try:
                self._loop.call_soon_threadsafe(self._done, job)
            except RuntimeError:
                return  # the loop has closed: the gateway has stopped

    def _done(self, job: Job) -> None:
        if self._sink is None:
            self._early.append(job)
        else:
            self._sink.job_done(job)
        self._under_way -= 1
        if self._under_way == 0:
            self._is_idle.set()
