"""What is damaged or missing below what was durable: named, and skipped only when asked for."""

from __future__ import annotations

import re

import pytest

from engine.store.format import layout
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE
from engine.values.errors import StoreCorrupt
from tests.support.store.many_segments import bodies, check_many, many_segments, report
from tests.support.store.store_home import FileHome, home_with_queue, lane

HEADER = layout.SEGMENT_HEADER_BYTES
FIRST_SEGMENT = "data/commitlog/00000000000000000000.log"


def damaged_in_the_middle() -> tuple[FileHome, int, int]:
    home, queue = home_with_queue()
    sent = home.send(queue, 10)
    home.settle_durably(queue, 7, 1)
    home.files.octets(FIRST_SEGMENT)[HEADER + sent[4].log_offset + 100] ^= 1
    home.files = home.files.killed()
    return home, queue, sent[4].log_offset


@pytest.mark.damages_store("files are spoilt or gone")
def test_corruption_in_the_middle_is_refused_with_its_position() -> None:
    home, _, offset = damaged_in_the_middle()
    text = f"{FIRST_SEGMENT}, position {HEADER + offset}, log offset {offset}: the checksum of a record does not match"
    with pytest.raises(StoreCorrupt, match=re.escape(text)):
        home.begin()
    assert not home.files.locks


@pytest.mark.damages_store("files are spoilt or gone")
def test_corruption_in_the_middle_is_skipped_when_asked_for() -> None:
    home, queue, offset = damaged_in_the_middle()
    home.is_skipping = True
    home.begin()
    (skipped,) = report(home).skipped
    assert (skipped.offset, skipped.path, skipped.position) == (offset, FIRST_SEGMENT, HEADER + offset)
    assert skipped.end == offset + 200
    found = lane(home.store.recovered(), "orders")
    assert (found.tail, found.cursor, found.settled) == (10, 0, [(4, 1), (7, 1)])
    numbers = [int(body.split()[0]) for body in bodies(home, queue, 0, 10)]
    assert numbers == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_zeros_where_something_was_durable_are_corruption() -> None:
    home, queue = home_with_queue()
    sent = home.send(queue, 4)
    home.flush()
    octets = home.files.octets(FIRST_SEGMENT)
    start = HEADER + sent[2].log_offset
    octets[start:] = bytes(len(octets) - start)
    home.files = home.files.killed()
    with pytest.raises(StoreCorrupt, match=f"log offset {sent[2].log_offset}: no record, but the log was durable up"):
        home.begin()
    home.is_skipping = True
    home.begin()
    assert lane(home.store.recovered(), "orders").tail == 2


@pytest.mark.damages_store("files are spoilt or gone")
def test_without_a_checkpoint_only_what_nothing_follows_is_taken_for_a_torn_tail() -> None:
    home, _, offset = damaged_in_the_middle()
    home.files.unlink("data/checkpoint")
    with pytest.raises(StoreCorrupt, match=f"log offset {offset}:"):
        home.begin()


@pytest.mark.damages_store("files are spoilt or gone")
def test_any_suffix_of_the_log_that_begins_at_a_segment_is_enough() -> None:
    home, queue = many_segments()
    home.stop()
    # As retention would: but nothing in the queue points there any more.
    home.begin()
    home.settle(queue, 0, 300)
    home.send(queue, 1)
    home.stop()
    kept = home.files.paths(".log")[-1]
    for path in home.files.paths(".log"):
        if path != kept:
            home.files.unlink(path)
    for path in home.files.paths(".cq"):
        home.files.unlink(path)
    home.files.unlink("data/checkpoint")
    home.begin()
    found = lane(home.store.recovered(), "orders")
    assert (found.tail, found.cursor) == (301, 300)
    assert len(bodies(home, queue, 300, 301)) == 1


@pytest.mark.damages_store("files are spoilt or gone")
def test_a_missing_segment_is_named() -> None:
    home, _ = many_segments()
    home.kill()
    paths = home.files.paths(".log")
    home.files.unlink(paths[2])
    home.files = home.files.killed()
    with pytest.raises(StoreCorrupt, match=f"{paths[1]}: the segment that should follow it at log offset 16384"):
        home.begin()
    home.is_skipping = True
    home.begin()
    assert report(home).skipped
    assert lane(home.store.recovered(), "orders").tail == 300


@pytest.mark.damages_store("files are spoilt or gone")
def test_the_last_segment_missing_is_noticed() -> None:
    home, _ = many_segments()
    home.stop()
    home.files.unlink(home.files.paths(".log")[-1])
    with pytest.raises(StoreCorrupt, match="durable up to log offset"):
        home.begin()


@pytest.mark.damages_store("files are spoilt or gone")
def test_no_segment_left_is_not_taken_for_a_new_store() -> None:
    home = FileHome()
    home.store.open_destination(QUEUE, "orders")
    home.flush()
    home.stop()
    home.files.unlink(FIRST_SEGMENT)
    with pytest.raises(StoreCorrupt, match="no segment is left, but the log was durable up to log offset"):
        home.begin()


@pytest.mark.damages_store("files are spoilt or gone")
def test_a_segment_of_another_store_is_refused() -> None:
    home = FileHome()
    home.stop()
    octets = home.files.octets("data/store.json")
    octets[:] = bytes(octets).replace(home.store.store_id().encode(), b"deadbeef")
    with pytest.raises(
        StoreCorrupt, match=f"{FIRST_SEGMENT}: of store {home.store.store_id()}, this store is deadbeef"
    ):
        home.begin()


@pytest.mark.damages_store("files are spoilt or gone")
def test_a_store_of_the_future_is_refused() -> None:
    home = FileHome()
    home.stop()
    octets = home.files.octets("data/store.json")
    octets[:] = bytes(octets).replace(b'"format": 1', b'"format": 5')
    with pytest.raises(StoreCorrupt, match=r"data/store.json: version 5 of the format; supported are 1 to 4"):
        home.begin()


@pytest.mark.damages_store("files are spoilt or gone")
def test_a_segment_of_the_future_is_refused() -> None:
    home = FileHome()
    home.stop()
    home.files.octets(FIRST_SEGMENT)[8] = 9
    with pytest.raises(
        StoreCorrupt, match=f"{FIRST_SEGMENT}, position 8: version 9 of the format; supported are 1 to 4"
    ):
        home.begin()


@pytest.mark.parametrize("position", [0, 20, 56, layout.SEAL_POSITION + 3])
@pytest.mark.damages_store("files are spoilt or gone")
def test_a_damaged_segment_header_is_refused(position: int) -> None:
    home = FileHome()
    home.stop()
    home.files.octets(FIRST_SEGMENT)[position] ^= 1
    with pytest.raises(StoreCorrupt, match=re.escape(f"{FIRST_SEGMENT}, position ")):
        home.begin()


def damage_snapshot(home: FileHome, path: str) -> None:
    home.files.octets(path)[HEADER + layout.RECORD_HEADER_BYTES + 5] ^= 1


@pytest.mark.damages_store("files are spoilt or gone")
def test_where_damage_is_skipped_a_damaged_snapshot_costs_nothing_else() -> None:
    home, queue = many_segments()
    home.files = home.files.killed()
    paths = home.files.paths(".log")
    damage_snapshot(home, paths[-2])
    damage_snapshot(home, paths[-3])
    with pytest.raises(StoreCorrupt, match=f"{paths[-2]}, position 4096: the segment begins with a damaged snapshot"):
        home.begin()
    home.is_skipping = True
    home.begin()
    assert [(skipped.path, skipped.position) for skipped in report(home).skipped] == [
        (paths[-3], HEADER),
        (paths[-2], HEADER),
    ]
    assert report(home).rebuilt == ""
    check_many(home, queue)
    home.stop()
    home.files = home.files.killed()
    home.is_skipping = False
    home.begin()
    check_many(home, queue)


@pytest.mark.damages_store("files are spoilt or gone")
def test_where_damage_is_skipped_the_first_snapshot_of_all_is_not_missed() -> None:
    home, queue = home_with_queue()
    home.send_durably(queue, 10)
    home.files = home.files.killed()
    damage_snapshot(home, FIRST_SEGMENT)
    with pytest.raises(StoreCorrupt, match="the segment begins with a damaged snapshot"):
        home.begin()
    home.is_skipping = True
    home.begin()
    assert report(home).skipped[0].path == FIRST_SEGMENT
    assert len(bodies(home, queue, 0, 10)) == 10


@pytest.mark.damages_store("files are spoilt or gone")
def test_a_first_snapshot_that_told_of_what_is_gone_is_missed() -> None:
    home, queue = home_with_queue(StoreSettings(segment_bytes=8192, retention_bytes=0, retention_interval_ms=1_000))
    for number in range(30):
        home.send(queue, 10)
        home.settle_durably(queue, number * 10, 10)
    home.pass_time(1_000)
    (only,) = home.files.paths(".log")
    home.files = home.files.killed()
    damage_snapshot(home, only)
    home.is_skipping = True
    with pytest.raises(StoreCorrupt, match="the segment begins with a damaged snapshot"):
        home.begin()
