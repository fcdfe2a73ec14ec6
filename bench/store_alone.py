"""The store by itself: its records per second, beside the same octets in plain writes and syncs."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any, Final

from bench.lane_threads import DueTimers, LaneThreads
from engine.store.disk.files import RealFiles
from engine.store.file_store import FileStore
from engine.store.format import layout
from engine.store.settings import ASYNC, SYNC, StoreSettings
from engine.values.destination import QUEUE
from engine.values.message import PERSISTENT, PLAIN, STOMP, TEXT, Message
from gateway.process.clock import SystemClock

BATCH_RECORDS: Final = 1_000
BODY_BYTES: Final = 1_024
HEADERS: Final = b"content-type:text/plain\ntype:order\n"
AHEAD_BATCHES: Final = 4  # records written before the first of them is durable, as by independent clients


def measure(work: Path, records: int, runs: int) -> dict[str, Any]:
    """Return rates of both kinds of flush and of the bare disk, run by run; the three take turns."""
    work.mkdir(parents=True, exist_ok=True)
    sync, unsynced, plain = [], [], []
    for _ in range(runs):
        plain.append(_plain(work / "plain", records))
        sync.append(_store(work / "store", records, SYNC))
        unsynced.append(_store(work / "store", records, ASYNC))
    return {"records": records, "sync_per_s": sync, "async_per_s": unsynced, "plain_per_s": plain}


def _store(directory: Path, records: int, flush: str) -> int:
    """Return records per second until the last one is confirmed."""
    shutil.rmtree(directory, ignore_errors=True)
    clock, workers = SystemClock(), LaneThreads()
    timers = DueTimers(clock)
    store = FileStore(str(directory), RealFiles(), workers, clock, timers, StoreSettings(flush=flush))
    number = store.open_destination(QUEUE, "bench")
    body = b"x" * BODY_BYTES
    flags = PERSISTENT | PLAIN | TEXT
    ends: list[int] = []
    began = time.perf_counter()
    for _ in range(records // BATCH_RECORDS):
        store.set_time(clock.wall_ms())
        for _ in range(BATCH_RECORDS):
            store.append(Message(number, STOMP, flags, 4, 0, 0, 0, b"", HEADERS, body))
        store.write()
        store.sync()
        ends.append(store.append_offset())
        timers.fire_due()
        workers.pump(False)
        while len(ends) > AHEAD_BATCHES and store.confirmed_offset() < ends[-AHEAD_BATCHES]:
            workers.pump(True)
    while store.confirmed_offset() < ends[-1]:
        workers.pump(True)
    elapsed_s = time.perf_counter() - began
    workers.drain()
    store.close()
    shutil.rmtree(directory)
    return round(records / elapsed_s)


def _plain(path: Path, records: int) -> int:
    """Return the same for one preallocated file, written and synced in batches."""
    size = layout.padded(layout.MESSAGE_HEAD_BYTES + len(HEADERS) + BODY_BYTES)
    batch = os.urandom(size * BATCH_RECORDS)
    count = records // BATCH_RECORDS
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, len(batch) * count)
        os.fsync(descriptor)
        began = time.perf_counter()
        for turn in range(count):
            os.pwrite(descriptor, batch, turn * len(batch))
            os.fdatasync(descriptor)
        return round(records / (time.perf_counter() - began))
    finally:
        os.close(descriptor)
        path.unlink()
