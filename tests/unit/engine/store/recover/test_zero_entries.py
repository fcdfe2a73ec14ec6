"""Entries that a power cut has made zeros although their sync had succeeded: the log still has their messages."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from engine.store.format.layout import ENTRY_BYTES
from engine.store.log.segment import load_segment
from engine.store.queues.consume_queue_files import ConsumeQueueFiles
from engine.store.recover.zero_entries import ZeroEntries
from engine.store.settings import StoreSettings
from engine.store.state.consume_queue import ConsumeQueue
from engine.store.state.destination import LoggedDestination
from engine.store.verify.store_check import verify
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import StoreError
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from tests.support.disk.spoiling_files import SpoilingFiles
from tests.support.store.store_home import FileHome, home_with_queue, message

SETTINGS = StoreSettings(segment_bytes=8192)
COUNT = 200


BODIES = [b"%d" % number for number in range(COUNT)]


def send(home: FileHome, queue: int, first: int, end: int) -> list[int]:
    """Send messages with bodies of their own, some in each segment, so that the files get most entries."""
    sizes: list[int] = []
    for body in BODIES[first:end]:
        sent = message(queue, body.ljust(90))
        home.store.append(sent)
        sizes.append(sent.size)
        home.flush()
        home.workers.run_all()
    return sizes


def bodies(home: FileHome, queue: int) -> list[bytes]:
    return [bytes(each.body).rstrip() for each in home.page(queue, 4, 0, COUNT).messages]


def entries_of(home: FileHome, queue: int) -> bytearray:
    (path,) = [path for path in home.files.paths(".cq") if f"/{queue}/4/" in path]
    return home.files.octets(path)


def make_zeros(home: FileHome, queue: int, first: int, count: int) -> None:
    octets = entries_of(home, queue)
    octets[first * ENTRY_BYTES : (first + count) * ENTRY_BYTES] = bytes(count * ENTRY_BYTES)
    home.files.settle()


@pytest.mark.parametrize("whole_sync_files", [1, 999])
def test_a_start_writes_to_no_file_whose_sync_has_failed(whole_sync_files: int) -> None:
    home = FileHome(replace(SETTINGS, whole_sync_files=whole_sync_files), files=SpoilingFiles(seed=3))
    queue = home.store.open_destination(QUEUE, "orders")
    send(home, queue, 0, 100)
    home.files.fail("fsync", errno.EIO, f"consumequeue/{queue}/", count=99)
    home.files.fail("syncfs", errno.EIO, count=99)
    send(home, queue, 100, 150)
    for path in home.files.paths(".cq"):
        home.files.inode(path).is_spoiled = True
    home.files.heal()
    try:
        home.kill()
    except StoreError:
        home.kill()  # the first start was told of the failure, too
    send(home, queue, 150, COUNT)
    home.restart()
    assert home.file_store.report.rebuilt == ""
    assert bodies(home, queue) == BODIES
    home.stop()
    assert verify(home.files, "data").findings == []


@pytest.mark.parametrize(("first", "count"), [(0, 1), (0, 102), (60, 13), (102, 30)])
def test_a_start_after_a_power_cut_makes_them_again(first: int, count: int) -> None:
    home, queue = home_with_queue(SETTINGS)
    send(home, queue, 0, COUNT)
    make_zeros(home, queue, first, count)
    home.files = home.files.crash()
    home.begin()
    report = home.file_store.report
    assert report.rebuilt == f"{count} entries were zeros, the first is data/consumequeue/{queue}/4, entry {first}"
    assert report.replayed_from > 0
    assert bodies(home, queue) == BODIES
    home.flush()
    home.restart()
    assert home.file_store.report.rebuilt == ""
    home.stop()
    assert verify(home.files, "data").findings == []


@pytest.mark.damages_store("entries that are settled are left zeros")
def test_settled_entries_need_no_record() -> None:
    home, queue = home_with_queue(SETTINGS)
    size = send(home, queue, 0, 80)[0]
    home.settle_durably(queue, 0, 40, size)
    home.settle_durably(queue, 50, 10, size)
    send(home, queue, 80, COUNT)
    make_zeros(home, queue, 0, 40)
    make_zeros(home, queue, 50, 10)
    found = str(verify(home.files, "data").findings[0])
    assert "entries 0 to 39 are zeros, their records are in the log" in found
    home.restart()
    assert home.file_store.report.rebuilt == ""


@pytest.mark.damages_store("entries that are settled are left zeros")
@pytest.mark.parametrize("is_settled", [False, True])
def test_a_durable_subscription_needs_them(is_settled: bool) -> None:
    home = FileHome(SETTINGS)
    topic = home.store.open_destination(TOPIC, "news")
    mail = home.store.open_subscription(topic, "mail", {}, {4: 0})
    sizes = send(home, topic, 0, 80)
    if is_settled:
        ranges = [Range(4, 10, 30, 0, sum(sizes[10:40]), tuple(sizes[10:40]))]
        home.store.settle(mail, 0, ACKNOWLEDGED, CAUSE_NONE, ranges)
    send(home, topic, 80, COUNT)
    make_zeros(home, topic, 20, 5)
    home.restart()
    assert bool(home.file_store.report.rebuilt) is not is_settled


def test_a_search_ends_where_it_has_read_enough() -> None:
    home, queue = home_with_queue(SETTINGS)
    send(home, queue, 0, COUNT)
    make_zeros(home, queue, 100, 1)
    files = ConsumeQueueFiles(home.files, "data/consumequeue")
    destination = LoggedDestination(queue, QUEUE, "orders")
    lane = ConsumeQueue(queue, 4, False, 120)
    names = [path.rpartition("/")[2] for path in home.files.paths(".log")]
    segments = [load_segment(home.files, "data/commitlog", name)[0] for name in names]
    for count in (19, 20):
        zeros = ZeroEntries(files, count * ENTRY_BYTES)
        zeros.find(destination, lane, 0, 1 << 40)
        assert bool(zeros.mend(home.files, segments)) == (count == 20)


@pytest.mark.damages_store("a record is damaged")
def test_an_entry_whose_record_was_skipped_stays_as_it_is() -> None:
    home, queue = home_with_queue(SETTINGS)
    send(home, queue, 0, COUNT)
    home.files = home.files.killed()
    octets = home.files.octets(home.files.paths(".log")[1])
    octets[octets.index(b"55 ")] ^= 1
    for path in home.files.paths(".cq"):
        home.files.unlink(path)
    home.is_skipping = True
    home.begin()
    assert len(home.file_store.report.skipped) == 1
    for _ in range(2):
        home.send_durably(queue, 1)
    home.is_skipping = False
    home.files.settle()
    home.kill()
    assert (home.file_store.report.rebuilt, home.file_store.report.replayed_from > 0) == ("", True)
    assert bodies(home, queue) == BODIES[:55] + BODIES[56:]
