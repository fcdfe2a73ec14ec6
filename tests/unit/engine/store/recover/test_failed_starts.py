"""Starts that the disk fails: the next one goes on as if they had not been."""

from __future__ import annotations

import errno

import pytest

from engine.store.file_store import FileStore
from engine.store.settings import StoreSettings
from engine.store.verify.store_check import verify
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import StoreError
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.fakes import HeldWorkers, VirtualClock, VirtualTimers
from tests.support.store.store_home import lane, message
from tests.support.store.store_world import RecordingListener

SEEDS = range(20)
SETTINGS = StoreSettings(segment_bytes=4096)
LARGE = StoreSettings(segment_bytes=1 << 20)


class Starts:
    """Starts of one store, one after the other, each with its own process."""

    def __init__(self, seed: int) -> None:
        self.files = FaultyFiles(seed)
        self.clock = VirtualClock()
        self.timers = VirtualTimers(self.clock)
        self.workers = HeldWorkers()

    def start(self) -> FileStore:
        self.files = self.files.killed()
        self.workers = HeldWorkers()
        self.timers = VirtualTimers(self.clock)
        store = FileStore("data", self.files, self.workers, self.clock, self.timers, SETTINGS)
        store.attach(RecordingListener())
        return store

    def flush(self, store: FileStore) -> None:
        """Sync, also where that takes a retry."""
        store.sync()
        self.workers.run_all()
        self.timers.advance(SETTINGS.retry_interval_ms)
        self.workers.run_all()

    def segments(self) -> list[str]:
        return self.files.paths(".log")

    def fail_to_start(self, operation: str) -> None:
        self.files.fail(operation, errno.EIO)
        disk = self.files
        with pytest.raises(StoreError, match="Input/output error"):
            FileStore("data", disk, self.workers, self.clock, self.timers, SETTINGS)
        disk.heal()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_follows_a_first_sync_that_failed_is_durable(seed: int) -> None:
    """The system took the first snapshot for written: it is to be written again though nothing says what is durable."""
    starts = Starts(seed)
    starts.fail_to_start("fdatasync")
    store = starts.start()
    number = store.open_destination(QUEUE, "orders")
    store.append(message(number))
    starts.flush(store)
    assert store.durable_offset() == store.append_offset()
    starts.files = starts.files.crash()
    assert lane(starts.start().recovered(), "orders").tail == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_starts_that_fail_one_after_the_other_are_no_corruption(seed: int) -> None:
    starts = Starts(seed)
    for _ in range(4):
        starts.fail_to_start("fdatasync")
        starts.files = starts.files.crash()
    assert starts.start().recovered() == []


def test_a_continuation_whose_predecessor_was_dropped_is_no_finding() -> None:
    """A power cut takes back the checkpoint that had given up both, and of their two removals keeps the first."""
    starts = Starts(1)
    store = starts.start()
    number = store.open_destination(QUEUE, "orders")
    starts.flush(store)
    old_checkpoint = bytes(starts.files.octets("data/checkpoint"))
    starts.files.fail("fdatasync", errno.EIO)
    while len(starts.segments()) < 3:
        sent = message(number, bytes(500))
        store.append(sent)
        store.settle(number, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, sent.queue_offset, 1, 0, sent.size, (sent.size,))])
        starts.flush(store)
    store.close()
    starts.files.octets("data/checkpoint")[:] = old_checkpoint
    starts.files.unlink(starts.segments()[0])
    assert len(starts.segments()) == 2
    assert verify(starts.files, "data").findings == []
    store = starts.start()
    news = store.open_destination(TOPIC, "news")
    number = store.open_subscription(news, "archive", {}, {4: 0})  # what is kept begins behind the continuation
    assert store.state_of(number).lanes == []


@pytest.mark.parametrize("free_bytes", [100_000, 900_000, 2_000_000])
def test_a_start_takes_the_room_that_a_nearly_full_disk_has(free_bytes: int) -> None:
    """The room in the segment before, which the start gives back, is not enough for a whole one if that was full."""
    starts = Starts(1)
    starts.start()
    starts.files = starts.files.killed()
    starts.files.free_bytes = free_bytes
    store = FileStore("data", starts.files, HeldWorkers(), starts.clock, starts.timers, LARGE)
    sizes = [len(starts.files.octets(path)) for path in starts.segments()]
    assert free_bytes // 4 < sizes[-1] <= min(free_bytes + SETTINGS.segment_bytes, LARGE.segment_bytes + 4096)
    store.append(message(store.open_destination(QUEUE, "orders")))
    store.close()
    starts.files.free_bytes = -1
    assert verify(starts.files, "data").findings == []


def test_a_start_on_a_full_disk_says_how_much_it_needs() -> None:
    starts = Starts(1)
    starts.start()
    starts.files = starts.files.killed()
    starts.files.free_bytes = 5_000  # beside it, for the lock and the checkpoint
    said = r"commitlog/0+\d+\.log: No space left on device; a new segment of the log needs \d+ octets at least"
    with pytest.raises(StoreError, match=said):
        FileStore("data", starts.files, HeldWorkers(), starts.clock, starts.timers, LARGE)
    starts.files.free_bytes = -1
    starts.start()
