#!/usr/bin/env python3
"""The way of a message without sockets: processor time a message from SEND to ACK, in one process.

Octets go into a producer's and a consumer's session as a socket would bring them, the store is a real one on disk,
syncs are left out.  Processor time hardly depends on what else the machine does, so this is the measure to compare
two versions of the hot path with; bench/run.py is the measure to quote.

    python bench/hot_path.py [--messages N] [--size BYTES] [--runs N] [--non-persistent] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.inspection import inspect
from engine.ports import Job, Timers, TimerTarget, Workers
from engine.store.file_store import FileStore
from engine.store.files import RealFiles
from engine.store.settings import StoreSettings
from gateway.clock import SystemClock
from protocols.connection import Link
from protocols.stomp.session import StompSession
from protocols.stomp.settings import SessionSettings

READ_BYTES = 256 * 1024  # what one read of a busy socket brings
ACK_ID = re.compile(rb"\nack:(\d+)\n")


class NoTimers(Timers):
    def call_at(self, when_ms: int, target: TimerTarget, key: int) -> None:
        pass


class InlineWorkers(Workers):
    def submit(self, job: Job, lane: int) -> None:
        job.run()
        job.finish()


class QuietLink(Link):
    def __init__(self) -> None:
        self.is_touched = False

    def touch(self) -> None:
        self.is_touched = True

    def authenticate(self, login: str, passcode: str) -> None:
        raise AssertionError("no login here")

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def warn(self, text: str) -> None:
        raise AssertionError(text)

    def peer(self) -> str:
        return "bench"


def run(directory: str, messages: int, size: int, is_persistent: bool) -> float:
    """Return microseconds of processor time a message."""
    clock = SystemClock()
    store = FileStore(directory, RealFiles(), InlineWorkers(), clock, NoTimers(), StoreSettings())
    broker = Broker(store, clock, NoTimers(), AddressMatcher(()), 1 << 30)
    producer = StompSession(broker, QuietLink(), SessionSettings(), 0)
    consumer = StompSession(broker, QuietLink(), SessionSettings(), 0)
    connect = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
    producer.receive_data(connect, 0)
    consumer.receive_data(
        connect + b"SUBSCRIBE\nid:s\ndestination:/queue/q\nack:client-individual\nactivemq.prefetchSize:30000\n\n\0", 0
    )
    persistent = b"persistent:true\n" if is_persistent else b""
    body = b"x" * size
    sends = [
        b"SEND\ndestination:/queue/q\ncontent-length:%d\n%breceipt:%010d\n\n%b\0" % (size, persistent, number, body)
        for number in range(messages)
    ]
    a_read = max(1, READ_BYTES // len(sends[0]))
    reads = [b"".join(sends[start : start + a_read]) for start in range(0, messages, a_read)]
    del sends
    gc.collect()
    gc.disable()
    spent_s = 0.0
    for read in reads:
        start = time.process_time()
        broker.begin_turn()
        producer.receive_data(read, 0)
        offset = broker.end_turn()
        producer.end_turn(offset, offset)
        delivered = consumer.end_turn(offset, offset)
        consumer.output_written(False)
        spent_s += time.process_time() - start
        acks = b"".join(b"ACK\nid:%b\n\n\0" % ack_id for ack_id in ACK_ID.findall(delivered))
        start = time.process_time()
        broker.begin_turn()
        consumer.receive_data(acks, 0)
        offset = broker.end_turn()
        consumer.end_turn(offset, offset)
        store.write()
        spent_s += time.process_time() - start
    gc.enable()
    stats = inspect(broker).destinations[0]
    assert stats.acknowledged == messages and stats.depth == 0, stats
    store.close()
    return spent_s / messages * 1e6


def measure(run: Callable[[str, int, int, bool], float], description: str | None) -> None:
    """Run it as the command line says; print what a message takes."""
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
        directory = tempfile.mkdtemp(prefix="penstock-hot-path-")
        try:
            if arguments.profile:
                profile.enable()
            results.append(run(directory, arguments.messages, arguments.size, not arguments.non_persistent))
            profile.disable()
        finally:
            shutil.rmtree(directory)
    if arguments.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
    print(f"{statistics.median(results):.2f} us a message (median of {len(results)}, least {min(results):.2f})")


if __name__ == "__main__":
    measure(run, __doc__)
