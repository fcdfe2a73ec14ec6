"""What the contract does not show of reading pages."""

from __future__ import annotations

from engine.destination import QUEUE
from engine.ports import READ_LANE
from engine.store.open_files import OpenFiles
from engine.store.paging import GAP_BYTES, READ_BYTES
from engine.store.settings import StoreSettings
from tests.support.faulty_files import FaultyFiles
from tests.support.store_home import UNLIMITED, FileHome


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
    home = FileHome(StoreSettings(segment_bytes=1 << 20))
    queue = home.store.open_destination(QUEUE, "orders")
    other = home.store.open_destination(QUEUE, "bills")
    for _ in range(50):
        home.send(queue, 1)
        home.send(other, 1, 1000)
    home.send(other, 1, GAP_BYTES + 1)
    home.send(queue, 10)
    home.flush()
    home.workers.run_all()
    assert reads(home, queue, 0, 50) == 2  # open and read
    assert reads(home, queue, 0, 50) == 1
    assert reads(home, queue, 40, 20) == 2


def test_small_gaps_that_add_up_are_read_along() -> None:
    home = FileHome(StoreSettings(segment_bytes=1 << 20))
    queue = home.store.open_destination(QUEUE, "orders")
    other = home.store.open_destination(QUEUE, "bills")
    for _ in range(50):
        home.send(queue, 1)
        home.send(other, 1, GAP_BYTES // 20)
    home.flush()
    home.workers.run_all()
    assert reads(home, queue, 0, 50) == 2  # open and read
    assert reads(home, queue, 10, 5) == 1


def test_a_read_ends_at_its_limit() -> None:
    home = FileHome(StoreSettings(segment_bytes=4 << 20))
    queue = home.store.open_destination(QUEUE, "orders")
    for _ in range(5):
        home.send(queue, 1, READ_BYTES // 2 - 100)
    home.flush()
    home.workers.run_all()
    assert reads(home, queue, 0, 5) == 4  # open, and two in each read
    home.store.request(queue, 4, 0, 5, READ_BYTES)
    home.workers.run_all(READ_LANE)
    page = home.listener.pages.pop()
    assert (len(page.messages), page.next_offset) == (3, 3)  # as much as was asked for, and the rest of one message


def test_entries_come_from_files_and_memory_alike() -> None:
    home = FileHome()
    queue = home.store.open_destination(QUEUE, "orders")
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
    home = FileHome()
    queue = home.store.open_destination(QUEUE, "orders")
    home.flush()
    page = home.page(queue, 0, 0, 10)
    assert (page.next_offset, page.messages) == (0, [])
