"""The engine on a real store in one process, without sockets, threads and syncs, for measurements of processor time.

Processor time hardly depends on other programs, so it is the measure for comparing two versions; the figures of
bench/run.py are those to quote.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Final

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.ports.clock import Clock
from engine.ports.timers import Timers, TimerTarget
from engine.ports.workers import Job, Workers
from engine.store.disk.files import RealFiles
from engine.store.file_store import FileStore
from engine.store.settings import StoreSettings
from gateway.process.clock import SystemClock
from protocols.connection import ProtocolConnection
from protocols.peer_socket import PeerSocket

READ_BYTES = 256 * 1024  # octets in one read of a busy socket
MEMORY_LIMIT_BYTES = 1 << 30
SYSTEM_CLOCK: Final = SystemClock()


class NoTimers(Timers):
    """No timers: nothing here lives long enough for one."""

    def call_at(self, when_ms: int, target: TimerTarget, key: int) -> None:
        pass


class DueTimers(Timers):
    """Timers that fire when the caller says so; the store has its turns between them, as in a gateway."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[tuple[int, TimerTarget, int]] = []

    def call_at(self, when_ms: int, target: TimerTarget, key: int) -> None:
        self._waiting.append((when_ms, target, key))

    def fire(self) -> None:
        """Fire those that are due, and those that they set for at once."""
        while due := [each for each in self._waiting if each[0] <= self._clock.monotonic_ms()]:
            self._waiting = [each for each in self._waiting if each not in due]
            for _, target, key in due:
                target.timer_fired(key)


class InlineWorkers(Workers):
    """Runs every job at once."""

    def submit(self, job: Job, lane: int) -> None:
        job.run()
        job.finish()


NO_TIMERS: Final = NoTimers()
INLINE_WORKERS: Final = InlineWorkers()


class QuietLink(PeerSocket):
    def __init__(self) -> None:
        self.is_touched = False

    def touch(self) -> None:
        self.is_touched = True

    def authenticate(self, login: str, passcode: str) -> None:
        raise AssertionError("no login here")

    def login_proved(self, login: str, is_right: bool) -> None:
        raise AssertionError("no login here")

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def tick_soon(self) -> None:
        pass

    def warn(self, text: str) -> None:
        raise AssertionError(text)

    def peer(self) -> str:
        return "bench"


def open_store(
    directory: str, clock: Clock = SYSTEM_CLOCK, workers: Workers = INLINE_WORKERS, timers: Timers = NO_TIMERS
) -> FileStore:
    return FileStore(directory, RealFiles(), workers, clock, timers, StoreSettings())


def open_broker(store: FileStore, clock: Clock = SYSTEM_CLOCK) -> Broker:
    return Broker(store, clock, NoTimers(), AddressMatcher(()), MEMORY_LIMIT_BYTES)


def reads_of(sends: list[bytes]) -> list[bytes]:
    """Return frames of one length, joined as in reads; a caller that keeps ``sends`` measures page faults as well."""
    a_read = max(1, READ_BYTES // len(sends[0]))
    return [b"".join(sends[start : start + a_read]) for start in range(0, len(sends), a_read)]


def spent_us(
    broker: Broker,
    store: FileStore,
    producer: ProtocolConnection,
    consumer: ProtocolConnection,
    reads: Iterable[bytes],
    answers: Callable[[bytes], bytes],
) -> float:
    """Pass messages from one to the other; return microseconds of processor time in total.

    answers: of the consumer's client to octets with deliveries; its time does not count.
    """
    gc.collect()
    gc.disable()
    spent_s = 0.0
    for read in reads:
        start = time.process_time()
        broker.begin_turn()
        producer.receive_data(read, 0)
        offset = ended(broker)
        producer.end_turn(offset, offset)
        delivered = consumer.end_turn(offset, offset)
        if consumer.is_output_full:
            consumer.output_written(False)
        spent_s += time.process_time() - start
        said = answers(delivered)
        start = time.process_time()
        broker.begin_turn()
        consumer.receive_data(said, 0)
        offset = ended(broker)
        consumer.end_turn(offset, offset)
        store.write()
        spent_s += time.process_time() - start
    gc.enable()
    return spent_s * 1e6


def ended(broker: Broker) -> int:
    """End turns until no frames of a read are left over."""
    offset = broker.end_turn()
    while broker.steps.inputs:
        broker.begin_turn()
        offset = broker.end_turn()
    return offset


def close_after(broker: Broker, store: FileStore, messages: int) -> None:
    """Check that this many messages passed from end to end, and close the store."""
    stats = broker.inspect().destinations[0]
    assert stats.acknowledged == messages and stats.depth == 0, stats
    store.close()


def measure(run: Callable[[str, int, int, bool], float], description: str | None) -> None:
    """Run it with the options of the command line; print the time per message.

    run: (directory, messages, octets of a body, persistent) -> microseconds per message.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0] if description else None)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--non-persistent", action="store_true")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    results: list[float] = []
    profile = cProfile.Profile()
    for _ in range(1 if arguments.profile else arguments.runs):
        directory = tempfile.mkdtemp(prefix="penstock-bench-")
        try:
            if arguments.profile:
                profile.enable()
            results.append(run(directory, arguments.messages, arguments.size, not arguments.non_persistent))
            profile.disable()
        finally:
            shutil.rmtree(directory)
    if arguments.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
    print(f"{statistics.median(results):.2f} us per message (median of {len(results)}, least {min(results):.2f})")
