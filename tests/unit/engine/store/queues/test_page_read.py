"""What the contract does not show of reading pages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.ports.workers import READ_LANE
from engine.store.log.open_files import OpenFiles
from engine.store.queues.page_read import GAP_BYTES, READ_BYTES, dense_end, run_end
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE
from engine.values.stored import SEEK_TIME
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.store.store_home import UNLIMITED, FileHome, home_with_queue


def test_the_files_used_last_stay_open() -> None:
    files = FaultyFiles()
    files.make_directory("data")
    for name in "abc":
        files.create(f"data/{name}")
    open_files = OpenFiles(files, 2)
    a, b = open_files.get("data/a", 0), open_files.get("data/b", 0)
    assert open_files.get("data/a", 0) is a
    open_files.get("data/c", 0)
    assert open_files.get("data/a", 0) is a
    assert open_files.get("data/b", 0) is not b


def test_another_edition_is_opened_anew() -> None:
    files = FaultyFiles()
    files.make_directory("data")
    files.create("data/a")
    open_files = OpenFiles(files, 2)
    first = open_files.get("data/a", 0)
    assert open_files.get("data/a", 1) is not first


def reads(home: FileHome, queue: int, first: int, count: int) -> int:
    before = home.files.operations
    home.store.request(queue, 4, first, count, UNLIMITED)
    home.workers.run_all(READ_LANE)
    assert len(home.listener.pages.pop().messages) == count
    return home.files.operations - before


def test_neighbours_are_read_together() -> None:
    home, queue = home_with_queue(StoreSettings(segment_bytes=1 << 20))
    other = home.store.open_destination(QUEUE, "bills")
    for _ in range(50):
        home.send(queue, 1)
        home.send(other, 1, 1000)
    home.send(other, 1, GAP_BYTES + 1)
    home.send_durably(queue, 10)
    home.workers.run_all()
    assert reads(home, queue, 0, 50) == 3  # open, the head of the segment, and what was asked for
    assert reads(home, queue, 0, 50) == 1
    assert reads(home, queue, 40, 20) == 2


def test_small_gaps_that_add_up_are_read_along() -> None:
    home, queue = home_with_queue(StoreSettings(segment_bytes=1 << 20))
    other = home.store.open_destination(QUEUE, "bills")
    for _ in range(50):
        home.send(queue, 1)
        home.send(other, 1, GAP_BYTES // 20)
    home.flush()
    home.workers.run_all()
    assert reads(home, queue, 0, 50) == 3  # open, the head of the segment, and what was asked for
    assert reads(home, queue, 10, 5) == 1


def test_a_read_ends_at_its_limit() -> None:
    home, queue = home_with_queue(StoreSettings(segment_bytes=4 << 20))
    for _ in range(5):
        home.send(queue, 1, READ_BYTES // 2 - 100)
    home.flush()
    home.workers.run_all()
    assert reads(home, queue, 0, 5) == 5  # open, the head of the segment, and two in each read
    home.store.request(queue, 4, 0, 5, READ_BYTES)
    home.workers.run_all(READ_LANE)
    page = home.listener.pages.pop()
    assert (len(page.messages), page.next_offset) == (3, 3)  # as much as was asked for, and the rest of one message


def test_nothing_is_read_for_a_reader_that_has_gone() -> None:
    home, queue = home_with_queue(StoreSettings())
    home.send_durably(queue, 10)
    home.workers.run_all()
    home.store.request(queue, 4, 0, 10, UNLIMITED, reader=7)
    home.store.seek(queue, SEEK_TIME, 0, reader=7)
    home.store.request(queue, 4, 0, 10, UNLIMITED, reader=8)
    home.listener.gone_readers.add(7)
    home.workers.run_all(READ_LANE)
    gone, there = home.listener.pages
    assert (gone.reader, gone.messages, gone.next_offset) == (7, [], 0), "each request has its answer"
    assert (there.reader, len(there.messages)) == (8, 10)
    assert home.listener.sought_places[0][2] == []


SIZES = st.one_of(st.integers(80, 2_000), st.integers(80, READ_BYTES + 1))
GAPS = st.one_of(st.integers(0, 8), st.integers(0, 2 * GAP_BYTES))


@given(
    steps=st.lists(st.tuples(GAPS, SIZES), min_size=1, max_size=30),
    at=st.integers(0, 29),
    limit=st.integers(0, 4 * READ_BYTES),
    left=st.integers(1, 2 * READ_BYTES),
)
def test_the_short_way_to_the_end_of_a_run(steps: list[tuple[int, int]], at: int, limit: int, left: int) -> None:
    entries: list[tuple[int, int]] = []
    offset = 0
    for gap, size in steps:
        entries.append((offset + gap, size))
        offset += gap + size
    at %= len(entries)
    found = dense_end(entries, at, limit, left)
    assert found in (0, run_end(entries, at, len(entries), limit, left))


def test_the_short_way_is_the_usual_one() -> None:
    entries = [(number * 1_104, 1_100) for number in range(100)]
    assert dense_end(entries, 20, 1 << 30, 1 << 20) == 100
    assert dense_end(entries, 20, 1 << 30, 79 * 1_100) == 0, "as far as is wanted: that is looked for"


def test_entries_come_from_files_and_memory_alike() -> None:
    home, queue = home_with_queue()
    for _ in range(4):
        home.send(queue, 50)
        home.store.write()
        home.store.sync()
        home.workers.run_all()
    home.send(queue, 100)  # closed, but not on the disk yet
    home.store.write()
    for first in range(0, 300, 7):
        page = home.page(queue, 4, first, 300)
        assert [each.queue_offset for each in page.messages] == list(range(first, page.next_offset))
        assert page.next_offset == 300


def test_an_unused_lane_is_empty() -> None:
    home, queue = home_with_queue()
    home.flush()
    page = home.page(queue, 0, 0, 10)
    assert (page.next_offset, page.messages) == (0, [])
