"""A segment that few live messages keep becomes a sparse one: what goes, what stays, and what every reader sees of it."""

from __future__ import annotations

from engine.destination import QUEUE
from engine.ports import ACKNOWLEDGED, CAUSE_NONE, Range
from engine.store.segment import load_segment
from engine.store.settings import StoreSettings
from engine.store.verify import verify
from tests.support.store_home import FileHome, lane

INTERVAL_MS = 1_000


def home_with(octets: int = 0, percent: int = 60) -> FileHome:
    return FileHome(
        StoreSettings(
            segment_bytes=8192,
            retention_time_ms=1 << 50,
            retention_bytes=octets,
            retention_interval_ms=INTERVAL_MS,
            compaction_live_percent=percent,
            compaction_min_age_ms=0,
            compaction_interval_ms=INTERVAL_MS,
        )
    )


def settle(home: FileHome, queue: int, first: int, count: int, size: int = 0) -> None:
    home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, first, count, 0, size * count)])


def fill(home: FileHome, destination: int, count: int = 300) -> int:
    size = 0
    for _ in range(count // 10):
        size = home.send(destination, 10)[0].size
        home.flush()
    return size


def pass_by(home: FileHome, milliseconds: int = 4 * INTERVAL_MS) -> None:
    for _ in range(milliseconds // 100):
        home.pass_time(100)


def sparse(home: FileHome) -> list[bool]:
    names = [path.rpartition("/")[2] for path in home.files.paths(".log")]
    return [load_segment(home.files, "data/commitlog", name)[0].is_sparse for name in names]


def test_one_live_message_keeps_itself_and_little_else() -> None:
    home = home_with()
    queue = home.store.open_destination(QUEUE, "orders")
    size = fill(home, queue)
    settle(home, queue, 0, 5, size)
    settle(home, queue, 6, 294, size)
    home.flush()
    before = {path: len(home.files.octets(path)) for path in home.files.paths(".log")}
    (alive,) = home.page(queue, 4, 5, 1).messages
    pass_by(home)
    assert sparse(home) == [True] * (len(before) - 1) + [False]
    for path in list(before)[:-1]:
        assert len(home.files.octets(path)) < before[path]
    (again,) = home.page(queue, 4, 5, 1).messages
    assert (again.body, again.log_offset) == (alive.body, alive.log_offset)
    page = home.page(queue, 4, 0, 300)
    assert page.messages[0].queue_offset == 5
    assert page.next_offset == 300
    home.stop()
    assert verify(home.files, "data").findings == []
    for path in home.files.paths(".cq"):
        home.files.unlink(path)
    home.begin()
    found = lane(home.store.recovered(), "orders")
    assert (found.tail, found.cursor, found.settled) == (300, 5, [(6, 294)])
    assert home.page(queue, 4, 5, 1).messages[0].body == alive.body
    assert home.store.state_of(queue).live_bytes == size
    home.stop()
    assert verify(home.files, "data").findings == []
