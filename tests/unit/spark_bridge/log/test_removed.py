"""What retention took out of the log before it was exported is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from engine.values.destination import QUEUE, TOPIC
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from spark_bridge.log.removed import Removed, Rows, removed_messages, sum_rows, tell
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import make_plan
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import THINNING, FileHome

COUNT = 300
ALIVE = 5


def send(home: FileHome, name: str, count: int = COUNT, kind: int = QUEUE) -> int:
    """Send messages, one a turn; settle all but one where it is a queue.  Return the number of the destination."""
    number = home.store.open_destination(kind, name)
    (first,) = [lane.tail for lane in home.store.state_of(number).lanes] or [0]
    for entry in range(first, first + count):
        (sent,) = home.send(number, 1)
        if entry != ALIVE and kind == QUEUE:
            home.store.settle(number, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, entry, 1, 0, sent.size)])
        home.flush()
    return number


def removed_from(reader: StoreReader, pattern: str, start: int, rows: Rows | None = None) -> tuple[Removed, ...]:
    stop = reader.end().offset
    return removed_messages(reader, make_plan(reader, parse(pattern), start, stop).destinations, start, stop, rows)


def counted(reader: StoreReader, pattern: str, start: int) -> list[tuple[str, int]]:
    return [(each.destination, each.messages) for each in removed_from(reader, pattern, start)]


def left(reader: StoreReader, pattern: str, start: int) -> int:
    plan = make_plan(reader, parse(pattern), start)
    return sum(len(batch) for pieces in plan.partitions for batch in read_pieces(plan, pieces))


def test_nothing_is_removed_from_whole_segments(tmp_path: Path) -> None:
    home = FileHome(THINNING)
    send(home, "orders")
    assert removed_from(copy_to(tmp_path, home.files), ">", 0) == ()


def test_what_sparse_segments_lack_is_counted_by_destination(tmp_path: Path) -> None:
    home = FileHome(THINNING)
    send(home, "orders.eu")
    send(home, "orders.us", 100)
    send(home, "news", 50, TOPIC)
    send(home, "other", 200)
    home.pass_by(4_000)
    reader = copy_to(tmp_path, home.files)
    assert reader.segments[0].is_sparse
    removed = dict(counted(reader, "orders.>", 0))
    assert removed["queue://orders.eu"] == COUNT - 1
    # Of the others some may stand in the last segment, which is whole.
    for name, count in (("queue://orders.us", 100), ("topic://news", 50), ("queue://other", 200)):
        missing = dict(counted(reader, name, 0)).get(name, 0)
        assert missing + left(reader, name, 0) == count
    assert set(removed) == {"queue://orders.eu", "queue://orders.us"}


@pytest.mark.parametrize("watermark", [0, 1, 4, 5, 6, 20, 100])
@pytest.mark.parametrize("deletes_queues", [False, True], ids=["", "queues-made-again"])
def test_what_was_exported_before_is_not_missed(tmp_path: Path, watermark: int, deletes_queues: bool) -> None:
    """An export that ended at any message, in a segment that became sparse."""
    home = FileHome(THINNING)
    queue = send(home, "orders")
    exported_to = home.page(queue, 4, watermark, 1).messages[0].log_offset
    home.pass_by(4_000)
    if deletes_queues:
        home.stop()
        for path in home.files.paths(".cq"):
            home.files.unlink(path)
        home.begin()
        home.send(queue, 100)  # the queues' files are written when a segment is full
        home.flush()
    reader = copy_to(tmp_path, home.files)
    everything = COUNT + 100 * deletes_queues
    missing = dict(counted(reader, "orders", exported_to)).get("queue://orders", 0)
    expected = everything - watermark - left(reader, "orders", exported_to)
    if deletes_queues:
        # Which of those that are gone stood before the watermark, nobody knows any more: none is left out.
        assert expected <= missing <= expected + watermark
        assert watermark != ALIVE + 1 or missing == expected
    else:
        assert missing == expected


def test_one_that_is_removed_while_it_is_read_is_counted_by_what_was_read(tmp_path: Path) -> None:
    home = FileHome(THINNING)
    send(home, "orders")
    before = copy_to(tmp_path / "before", home.files)
    plan = make_plan(before, parse("orders"))
    parts: list[Rows] = []
    for number, segment in enumerate(before.segments):
        rows: Rows = {}
        pieces = [piece for pieces in plan.partitions for piece in pieces if piece.segment.base == segment.base]
        # Of the second segment the export has nothing.
        if number != 1:
            list(read_pieces(plan, pieces, rows=rows))
        parts.append(rows)
    home.pass_by(4_000)
    after = copy_to(tmp_path / "after", home.files)
    assert all(segment.is_sparse for segment in after.segments[:2])
    (removed,) = removed_from(after, "orders", 0, sum_rows(parts))
    assert removed.from_offset == after.segments[1].base
    assert removed.to_offset == after.segments[2].base
    assert 0 < removed.messages < COUNT // 2
    assert sum(sum(rows.values()) for rows in parts) + removed.messages == COUNT


def test_words() -> None:
    assert str(Removed("queue://a", 1, 0, 80)) == "1 message of queue://a (log offsets 0 to 80)"
    told = tell([Removed(f"queue://q{number}", 9 - number, 0, 80) for number in range(5)])
    assert told.startswith("9 messages of queue://q0 (log offsets 0 to 80), 8 messages of queue://q1")
    assert told.endswith(", and 11 of 2 other destinations")
