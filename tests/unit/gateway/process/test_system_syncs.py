"""The kernel syncs a file beside the event loop, and the workers use that where a sync is nothing else."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from engine.ports.workers import SYNC_LANE, DataSync
from engine.values.histogram import Histogram
from gateway.process.system_syncs import KernelSyncs, SyncEnd, SystemSyncs, kernel_syncs
from gateway.process.workers import ThreadWorkers
from tests.unit.gateway.process.test_workers import Noted, Sink

NOT_ITS_OWN = -1
SUBMIT, GET_EVENTS = 1, 2


class Ends(SyncEnd):
    def __init__(self) -> None:
        self.errors: asyncio.Queue[OSError | None] = asyncio.Queue()

    def sync_ended(self, error: OSError | None) -> None:
        self.errors.put_nowait(error)


class LogSync(DataSync):
    """descriptor: what ``run`` syncs; NOT_ITS_OWN: that and more."""

    def __init__(self, descriptor: int = 7) -> None:
        self._descriptor = descriptor
        self.outcomes: list[OSError | None] = []
        self.has_run = False

    def run(self) -> None:
        self.has_run = True

    def finish(self) -> None:
        pass

    def descriptor(self) -> int:
        return self._descriptor

    def synced(self, error: OSError | None) -> None:
        self.outcomes.append(error)


class Kernel(SystemSyncs):
    """Ends a sync when told to."""

    def __init__(self, is_willing: bool = True) -> None:
        self.is_willing = is_willing
        self.started: list[int] = []
        self.ends: list[SyncEnd] = []
        self.is_closed = False

    def start(self, descriptor: int, end: SyncEnd) -> bool:
        self.started.append(descriptor)
        self.ends.append(end)
        return self.is_willing

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
async def real() -> AsyncIterator[SystemSyncs]:
    syncs = kernel_syncs(asyncio.get_running_loop())
    if syncs is None:
        pytest.skip("the kernel has no asynchronous syncs, or allows none")
    yield syncs
    syncs.close()


async def test_the_kernel_syncs_a_file_and_says_so(real: SystemSyncs, tmp_path: Path) -> None:
    ends = Ends()
    descriptor = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    try:
        for position in range(3):
            os.pwrite(descriptor, b"octets", position)
            assert real.start(descriptor, ends)
            async with asyncio.timeout(20):
                assert await ends.errors.get() is None
    finally:
        os.close(descriptor)


async def test_a_file_may_be_closed_while_the_kernel_syncs_it(real: SystemSyncs, tmp_path: Path) -> None:
    ends = Ends()
    descriptor = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    os.pwrite(descriptor, bytes(1 << 20), 0)
    assert real.start(descriptor, ends)
    os.close(descriptor)
    async with asyncio.timeout(20):
        assert await ends.errors.get() is None


@pytest.mark.parametrize("kind", ["closed", "pipe"])
async def test_what_cannot_be_synced_is_refused_or_ends_with_its_error(real: SystemSyncs, kind: str) -> None:
    reading, writing = os.pipe()
    ends = Ends()
    try:
        if kind == "pipe":
            refused = not real.start(writing, ends)
        else:
            refused = not real.start(1 << 20, ends)
        if not refused:
            async with asyncio.timeout(20):
                error = await ends.errors.get()
            assert error is not None and error.errno == errno.EINVAL and error.strerror
    finally:
        os.close(reading)
        os.close(writing)


def workers_with(kernel: Kernel, times: Histogram | None = None) -> tuple[ThreadWorkers, Sink]:
    workers = ThreadWorkers(asyncio.get_running_loop(), sync_times=times, system_syncs=kernel)
    sink = Sink()
    workers.attach(sink)
    return workers, sink


@pytest.mark.parametrize("error", [None, OSError(errno.EIO, "no")])
async def test_a_sync_of_one_file_is_the_systems(error: OSError | None) -> None:
    kernel, times = Kernel(), Histogram((1e9,))
    workers, sink = workers_with(kernel, times)
    job = LogSync()
    workers.submit(job, SYNC_LANE)
    assert (kernel.started, sink.jobs) == ([7], []) and not await workers.drained(0)
    kernel.ends[0].sync_ended(error)
    assert (job.outcomes, job.has_run, sink.jobs) == ([error], False, [job])
    assert times.stats().counts == (1, 0) and await workers.drained(20)


async def test_jobs_of_the_lane_wait_behind_the_systems_sync_in_their_order() -> None:
    kernel = Kernel()
    workers, sink = workers_with(kernel)
    jobs = [LogSync(1), Noted("repair"), LogSync(3), LogSync(NOT_ITS_OWN)]
    for job in jobs:
        workers.submit(job, SYNC_LANE)
    assert kernel.started == [1]
    kernel.ends[0].sync_ended(None)
    await sink.wait(4)
    assert sink.jobs == jobs
    assert kernel.started == [1], "the third went to the thread, where the second was"


async def test_syncs_behind_the_systems_are_the_systems_too() -> None:
    kernel = Kernel()
    workers, sink = workers_with(kernel)
    jobs = [LogSync(1), LogSync(2), LogSync(3)]
    for job in jobs:
        workers.submit(job, SYNC_LANE)
    for number in range(3):
        assert kernel.started == [1, 2, 3][: number + 1]
        kernel.ends[number].sync_ended(None)
    assert sink.jobs == jobs


@pytest.mark.parametrize("job", [LogSync(NOT_ITS_OWN), Noted("repair")])
async def test_what_is_more_than_a_sync_runs_on_the_thread(job: LogSync | Noted) -> None:
    kernel = Kernel()
    workers, sink = workers_with(kernel)
    workers.submit(job, SYNC_LANE)
    await sink.wait(1)
    assert kernel.started == []


async def test_a_system_that_refuses_is_not_asked_again() -> None:
    kernel = Kernel(is_willing=False)
    workers, sink = workers_with(kernel)
    jobs = [LogSync(), LogSync()]
    for job in jobs:
        workers.submit(job, SYNC_LANE)
    await sink.wait(2)
    assert kernel.started == [7] and all(job.has_run for job in jobs)
    assert kernel.is_closed


async def test_workers_give_back_what_the_system_lent() -> None:
    kernel = Kernel()
    workers, sink = workers_with(kernel)
    workers.close()
    workers.close()
    workers.submit(LogSync(), SYNC_LANE)
    await sink.wait(1)
    assert (kernel.is_closed, kernel.started) == (True, [])


class Calls:
    """The function ``syscall`` of a C library whose io_getevents answers ``found``, from the call ``since`` on."""

    def __init__(self, found: int, since: int) -> None:
        self._found = found
        self._left = since

    def __call__(self, number: ctypes.c_long, *arguments: object) -> int:
        if number.value != GET_EVENTS:
            return 1
        self._left -= 1
        return 0 if self._left >= 0 else self._found


def with_calls(found: int, since: int) -> tuple[KernelSyncs, int]:
    eventfd = os.eventfd(0, os.EFD_NONBLOCK)
    library = cast("ctypes.CDLL", SimpleNamespace(syscall=Calls(found, since)))
    return KernelSyncs(asyncio.get_running_loop(), library, (SUBMIT, GET_EVENTS), 0, eventfd), eventfd


async def test_nothing_is_started_where_the_end_of_a_sync_cannot_be_asked_for() -> None:
    syncs, _ = with_calls(found=-1, since=0)
    assert not syncs.start(7, Ends())
    syncs.close()


async def test_a_sync_whose_end_the_system_does_not_tell_has_failed_and_is_the_last() -> None:
    syncs, eventfd = with_calls(found=-1, since=1)
    ends = Ends()
    assert syncs.start(7, ends)
    os.eventfd_write(eventfd, 1)
    async with asyncio.timeout(20):
        error = await ends.errors.get()
    assert error is not None and error.errno == errno.EIO
    assert not syncs.start(7, ends)
    syncs.close()
