"""A store of many segments, half settled, and its expected state after a start."""

from __future__ import annotations

from engine.store.log.store_directory import RecoveryReport
from engine.values.destination import QUEUE
from tests.support.store.store_home import FileHome, lane


def report(home: FileHome) -> RecoveryReport:
    return home.file_store.report


def bodies(home: FileHome, queue: int, first: int, end: int) -> list[bytes]:
    found: list[bytes] = []
    while first < end:
        page = home.page(queue, 4, first, end - first)
        found += [each.body for each in page.messages]
        first = page.next_offset
    return found


def many_segments() -> tuple[FileHome, int]:
    home = FileHome()
    queue = home.store.open_destination(QUEUE, "orders")
    for number in range(30):
        home.send(queue, 10)
        home.settle_durably(queue, number * 10, 5)
    return home, queue


def check_many(home: FileHome, queue: int) -> None:
    found = lane(home.store.recovered(), "orders")
    assert (found.tail, found.cursor) == (300, 5)
    assert found.settled == [(first, 5) for first in range(10, 300, 10)]
    assert len(bodies(home, queue, 0, 300)) == 300
