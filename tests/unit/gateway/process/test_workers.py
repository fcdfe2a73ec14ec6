"""Worker threads: a lane runs its jobs in order, results come back on the event loop's thread."""

from __future__ import annotations

import asyncio
import threading

import pytest

from engine.ports.workers import FILE_LANE, READ_LANE, SYNC_LANE, Job
from engine.values.histogram import Histogram
from gateway.process.workers import HERE_S, LANE_NAMES, JobSink, ThreadWorkers


class Noted(Job):
    def __init__(self, name: str, gate: threading.Event | None = None) -> None:
        self.name = name
        self.gate = gate
        self.began = threading.Event()
        self.thread = threading.current_thread()

    def run(self) -> None:
        self.thread = threading.current_thread()
        self.began.set()
        if self.gate is not None:
            assert self.gate.wait(20)

    def finish(self) -> None:
        pass


class Sink(JobSink):
    """Takes jobs; ``wait`` until so many have come."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.errors: list[Exception] = []
        self.threads: set[str] = set()
        self._came = asyncio.Event()

    def job_done(self, job: Job) -> None:
        self.jobs.append(job)
        self.threads.add(threading.current_thread().name)
        self._came.set()

    def job_failed(self, job: Job, error: Exception) -> None:
        self.errors.append(error)

    async def wait(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.jobs) < count:
                self._came.clear()
                await self._came.wait()


async def test_jobs_of_one_lane_run_in_order_on_its_thread() -> None:
    workers = ThreadWorkers(asyncio.get_running_loop())
    sink = Sink()
    workers.attach(sink)
    jobs = [Noted(str(number)) for number in range(50)]
    for job in jobs:
        workers.submit(job, SYNC_LANE)
    await sink.wait(50)
    assert sink.jobs == jobs
    assert {job.thread.name for job in jobs} == {LANE_NAMES[SYNC_LANE]}
    assert sink.threads == {threading.current_thread().name}


async def test_a_lane_that_hangs_does_not_hold_up_another() -> None:
    workers = ThreadWorkers(asyncio.get_running_loop())
    sink = Sink()
    workers.attach(sink)
    gate = threading.Event()
    slow, quick, file = Noted("slow", gate), Noted("quick"), Noted("file")
    workers.submit(slow, SYNC_LANE)
    workers.submit(quick, READ_LANE)
    workers.submit(file, FILE_LANE)
    await sink.wait(2)
    assert set(sink.jobs) == {quick, file}
    gate.set()
    await sink.wait(3)
    assert sink.jobs[2] is slow


async def test_what_finished_before_there_was_a_sink_is_handed_over_later() -> None:
    workers = ThreadWorkers(asyncio.get_running_loop())
    early, later = Noted("early"), Noted("later")
    workers.submit(early, READ_LANE)
    workers.submit(later, READ_LANE)
    assert later.began.wait(20)  # so the first one's result is with the loop
    await asyncio.sleep(0)
    sink = Sink()
    workers.attach(sink)
    await sink.wait(2)
    assert sink.jobs == [early, later]


def test_a_job_that_ends_after_the_loop_has_closed_is_dropped() -> None:
    gate = threading.Event()
    job = Noted("late", gate)

    async def start() -> None:
        ThreadWorkers(asyncio.get_running_loop()).submit(job, FILE_LANE)

    asyncio.run(start())
    assert job.began.wait(20)
    assert (job.thread.name, job.thread.daemon) == (LANE_NAMES[FILE_LANE], True)
    gate.set()
    job.thread.join(20)
    assert not job.thread.is_alive()


async def test_waiting_until_nothing_is_under_way() -> None:
    workers = ThreadWorkers(asyncio.get_running_loop())
    workers.attach(Sink())
    assert await workers.drained(20)
    gate = threading.Event()
    workers.submit(Noted("slow", gate), FILE_LANE)
    assert not await workers.drained(0.01)
    gate.set()
    assert await workers.drained(20)


async def test_what_the_last_job_led_to_is_waited_for() -> None:
    """As when the turn that the end of a sync opens writes more, and has that synced."""
    loop = asyncio.get_running_loop()
    workers = ThreadWorkers(loop)
    gates = threading.Event(), threading.Event()
    first, second = Noted("first", gates[0]), Noted("second", gates[1])

    class Leading(Sink):
        def job_done(self, job: Job) -> None:
            super().job_done(job)
            if job is first:
                loop.call_soon(workers.submit, second, FILE_LANE)

    sink = Leading()
    workers.attach(sink)
    workers.submit(first, FILE_LANE)
    draining = asyncio.ensure_future(workers.drained(20))
    await asyncio.sleep(0)
    gates[0].set()
    await asyncio.to_thread(second.began.wait, 20)
    assert not draining.done()
    gates[1].set()
    assert await draining
    assert sink.jobs == [first, second]


class Short(Noted):
    """A sync that takes ``time_s`` by the clock that all of them share, whatever the machine does meanwhile."""

    now_s = 0.0

    def __init__(self, time_s: float = 0.0) -> None:
        super().__init__("short")
        self.time_s = time_s

    def run(self) -> None:
        super().run()
        Short.now_s += self.time_s

    def is_short(self) -> bool:
        return True


def timed_workers(sync_times: Histogram | None = None) -> tuple[ThreadWorkers, Sink]:
    workers = ThreadWorkers(asyncio.get_running_loop(), lambda: Short.now_s, sync_times)
    sink = Sink()
    workers.attach(sink)
    return workers, sink


async def _make_quick(workers: ThreadWorkers, sink: Sink) -> None:
    """Sync until the disk is known to be quick."""
    assert await _sync(workers, sink, Short()) == LANE_NAMES[SYNC_LANE], "nothing is known of the disk yet"
    for _ in range(500):
        if await _sync(workers, sink, Short()) == threading.current_thread().name:
            return
    raise AssertionError("each sync was handed to the other thread")


async def _sync(workers: ThreadWorkers, sink: Sink, job: Short) -> str:
    count = len(sink.jobs)
    workers.submit(job, SYNC_LANE)
    await sink.wait(count + 1)
    return job.thread.name


async def test_short_syncs_come_to_this_thread_once_the_disk_is_known_to_be_quick() -> None:
    workers, sink = timed_workers()
    await _make_quick(workers, sink)
    here = threading.current_thread().name
    assert await _sync(workers, sink, Short()) == here
    at_once = Short()
    workers.submit(at_once, SYNC_LANE)
    assert sink.jobs[-1] is at_once, "what it confirms may leave at the end of the same turn"
    others = [Noted("long"), Noted("page")]
    workers.submit(others[0], SYNC_LANE)
    workers.submit(others[1], READ_LANE)
    await sink.wait(len(sink.jobs) + 2)
    assert here not in {job.thread.name for job in others}


async def test_a_slow_sync_sends_the_next_ones_back_to_the_other_thread() -> None:
    workers, sink = timed_workers()
    await _make_quick(workers, sink)
    assert await _sync(workers, sink, Short(time_s=4 * HERE_S)) == threading.current_thread().name
    assert await _sync(workers, sink, Short()) == LANE_NAMES[SYNC_LANE]


async def test_a_short_sync_does_not_overtake_one_that_is_with_the_thread() -> None:
    workers, sink = timed_workers()
    await _make_quick(workers, sink)
    gate = threading.Event()
    long, short = Noted("long", gate), Short()
    workers.submit(long, SYNC_LANE)
    workers.submit(short, SYNC_LANE)
    gate.set()
    await sink.wait(len(sink.jobs) + 2)
    assert sink.jobs[-2:] == [long, short]


async def test_the_time_of_each_sync_is_counted_on_whichever_thread() -> None:
    times = Histogram((1.0, 2.0))
    workers, sink = timed_workers(times)
    await _make_quick(workers, sink)
    assert times.stats().counts == (len(sink.jobs), 0, 0)
    await _sync(workers, sink, Short(time_s=1.5))
    await _sync(workers, sink, Short(time_s=8.0))  # the last one was slow, so this one is with the other thread
    assert times.stats().counts[1:] == (1, 1)
    workers.submit(Noted("page"), READ_LANE)
    await sink.wait(len(sink.jobs) + 1)
    assert sum(times.stats().counts) == len(sink.jobs) - 1


class Faulty(Job):
    def run(self) -> None:
        raise ValueError("ours")

    def finish(self) -> None:
        raise AssertionError("a job that failed has no result")


@pytest.mark.parametrize("lane", [SYNC_LANE, READ_LANE, FILE_LANE])
async def test_a_job_that_raises_is_handed_over_and_its_lane_goes_on(lane: int) -> None:
    workers = ThreadWorkers(asyncio.get_running_loop())
    sink = Sink()
    workers.attach(sink)
    after = Noted("after")
    workers.submit(Faulty(), lane)
    workers.submit(after, lane)
    await sink.wait(1)
    assert sink.jobs == [after] and [str(error) for error in sink.errors] == ["ours"]
    assert await workers.drained(20)


async def test_a_job_that_raised_before_there_was_a_sink_is_handed_over_with_it() -> None:
    workers = ThreadWorkers(asyncio.get_running_loop())
    workers.submit(Faulty(), FILE_LANE)
    assert await workers.drained(20)
    sink = Sink()
    workers.attach(sink)
    assert [str(error) for error in sink.errors] == ["ours"] and sink.jobs == []
