"""Exports of stores with damage in them: what is left, and what is counted; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from engine.store.format import layout
from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from engine.values.errors import RangeGone, StoreCorrupt
from spark_bridge.log.lost import Damaged, Lost, tell_damaged
from spark_bridge.log.removed import Rows
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import make_plan
from tests.support.store.sample_store import SampleStore

pytestmark = pytest.mark.damages_store("written by hand, and damaged")

SEGMENT_BYTES = 8192
SIZES = [40, 300, 2_000]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data", segment_bytes=SEGMENT_BYTES) as sample:
        yield sample


def fill(store: SampleStore, count: int = 100) -> list[int]:
    """Return the log offsets of the messages of two queues, in turns."""
    queues = store.destination("orders"), store.destination("bills")
    return [store.send(queues[number % 2], b"x" * SIZES[number % 3]) for number in range(count)]


def read(store: SampleStore, pattern: str = ">", skips: bool = True) -> tuple[list[int], Lost, Rows]:
    plan = make_plan(StoreReader(store.directory), parse(pattern), skip_damaged=skips, skip_gone=skips)
    lost, rows = Lost(list(plan.damaged)), Rows()
    found = []
    for pieces in plan.partitions:
        for batch in read_pieces(plan, pieces, 7, rows, lost):
            found += batch.column("log_offset").to_pylist()
    return found, lost, rows


def spoil(store: SampleStore, offset: int, octets: bytes, at: int = 0) -> None:
    base = offset - offset % SEGMENT_BYTES
    with open(store.directory / f"commitlog/{base:020}.log", "r+b") as file:
        file.seek(layout.SEGMENT_HEADER_BYTES + offset - base + at)
        file.write(octets)


def size_of(offsets: list[int], number: int) -> int:
    return layout.MESSAGE_HEAD_BYTES + SIZES[number % 3]


@pytest.mark.parametrize("at", [0, 4, 16, 24, 80], ids=["size", "checksum", "offset", "sequence", "head"])
@pytest.mark.parametrize("is_clean", [True, False], ids=["indexed", "scanned"])
@pytest.mark.parametrize("number", [0, 1, 50, 99], ids=["first", "second", "middle", "last"])
def test_one_damaged_record_costs_one_message(store: SampleStore, number: int, is_clean: bool, at: int) -> None:
    sent = fill(store)
    store.publish(is_clean=is_clean)
    spoil(store, sent[number], b"\xa5\xa5", at)
    with pytest.raises(StoreCorrupt):
        read(store, skips=False)
    found, lost, rows = read(store)
    assert found == [offset for offset in sent if offset != sent[number]]
    (damaged,) = lost.damaged
    assert damaged.records == 1
    assert damaged.from_offset == sent[number]
    assert damaged.to_offset >= sent[number] + size_of(sent, number)
    if is_clean:
        assert damaged.destination == ("queue://bills" if number % 2 else "queue://orders")
        assert sum(rows.values()) == 100, "it was not removed by retention"


@pytest.mark.parametrize("is_clean", [True, False], ids=["indexed", "scanned"])
@pytest.mark.parametrize("octets", [b"\0" * 1500, b"\xff" * 1500], ids=["zeros", "ones"])
def test_each_message_of_a_damaged_stretch_is_counted(store: SampleStore, octets: bytes, is_clean: bool) -> None:
    sent = fill(store)
    store.publish(is_clean=is_clean)
    first = next(number for number in range(20, 100) if sent[number] % SEGMENT_BYTES < 4000)
    spoil(store, sent[first], octets)
    hit = [offset for offset in sent if sent[first] <= offset < sent[first] + len(octets)]
    found, lost, _ = read(store)
    assert found == [offset for offset in sent if offset not in hit]
    assert sum(each.records for each in lost.damaged) == len(hit)
    assert min(each.from_offset for each in lost.damaged) == hit[0]
    if is_clean:
        assert {each.destination for each in lost.damaged} <= {"queue://orders", "queue://bills"}


@pytest.mark.parametrize("is_clean", [True, False], ids=["indexed", "scanned"])
@pytest.mark.parametrize("number", [1, 3])
def test_each_message_of_a_missing_file_is_counted(store: SampleStore, number: int, is_clean: bool) -> None:
    sent = fill(store)
    store.publish(is_clean=is_clean)
    base = number * SEGMENT_BYTES
    (store.directory / f"commitlog/{base:020}.log").unlink()
    gone = [place for place, offset in enumerate(sent) if base <= offset < base + SEGMENT_BYTES]
    found, lost, _ = read(store)
    assert found == [offset for place, offset in enumerate(sent) if place not in gone]
    orders = sum(place % 2 == 0 for place in gone)
    assert sorted(lost.damaged, key=lambda each: each.destination) == [
        Damaged("queue://bills", len(gone) - orders, base, base + SEGMENT_BYTES),
        Damaged("queue://orders", orders, base, base + SEGMENT_BYTES),
    ]


def test_the_end_of_the_log_that_is_missing_is_counted_by_its_sequence(store: SampleStore) -> None:
    sent = fill(store)
    store.publish()
    base = store.base
    store.path.unlink()
    gone = [offset for offset in sent if offset >= base]
    found, lost, _ = read(store)
    assert found == [offset for offset in sent if offset < base]
    (damaged,) = lost.damaged
    assert (damaged.destination, damaged.to_offset) == ("", store.offset)
    assert damaged.records == len(gone) + 1, "and the snapshot"


@pytest.mark.parametrize("is_clean", [True, False], ids=["indexed", "scanned"])
def test_a_settlement_that_is_damaged_is_counted(store: SampleStore, is_clean: bool) -> None:
    sent = fill(store, 10)
    settled = store.settle(1, (0, 2))
    store.settle(2, (0, 1))
    store.publish(is_clean=is_clean)
    spoil(store, settled, b"\xa5", 45)
    found, lost, _ = read(store)
    assert found == sent
    (damaged,) = lost.damaged
    assert (damaged.destination, damaged.records, damaged.from_offset) == ("", 1, settled)


def test_a_destination_whose_record_is_damaged_is_known_from_later_snapshots(store: SampleStore) -> None:
    place = store.offset
    sent = fill(store)
    store.publish(is_clean=True)
    spoil(store, place, b"\xa5", 45)
    found, lost, _ = read(store, "orders")
    assert found == sent[::2]
    assert [each.records for each in lost.damaged] == [1]


def test_what_belongs_to_others_is_not_counted(store: SampleStore) -> None:
    sent = fill(store)
    store.publish(is_clean=True)
    spoil(store, sent[51], b"\xa5", 90)
    found, lost, _ = read(store, "orders")
    assert found == sent[::2]
    assert lost.damaged == []


@pytest.mark.parametrize("skips", [False, True])
def test_a_file_that_goes_while_it_is_read_is_a_range_that_is_gone(store: SampleStore, skips: bool) -> None:
    sent = fill(store)
    store.publish(is_clean=True)
    plan = make_plan(StoreReader(store.directory), parse(">"), skip_gone=skips)
    store.drop_first_segment()
    lost = Lost()
    read_all = (batch for pieces in plan.partitions for batch in read_pieces(plan, pieces, lost=lost))
    if skips:
        assert sum(len(batch) for batch in read_all) < len(sent)
        ((first, end),) = lost.gone
        assert 0 <= first < end == SEGMENT_BYTES
    else:
        with pytest.raises(RangeGone, match=f"log offsets 0 to {SEGMENT_BYTES} are gone"):
            list(read_all)


@pytest.mark.parametrize("skips", [False, True])
def test_a_file_that_is_lost_while_it_is_read_is_no_work_of_retention(store: SampleStore, skips: bool) -> None:
    fill(store)
    store.publish(is_clean=True)
    plan = make_plan(StoreReader(store.directory), parse(">"), skip_gone=skips)
    (store.directory / f"commitlog/{SEGMENT_BYTES:020}.log").unlink()
    lost = Lost()
    with pytest.raises(
        StoreCorrupt, match=f"log offsets {SEGMENT_BYTES} to {2 * SEGMENT_BYTES} do not exist.* missing"
    ):
        [batch for pieces in plan.partitions for batch in read_pieces(plan, pieces, lost=lost)]
    assert lost.gone == []


def test_what_is_said_of_much_damage() -> None:
    damaged = [Damaged("queue://a", 2, 0, 80), Damaged("", 5, 96, 800), *[Damaged("queue://b", 1, 800, 900)] * 3]
    assert tell_damaged(damaged) == (
        "5 records that may be of any destination (log offsets 96 to 800), 2 messages of queue://a (log offsets 0 to "
        "80), 1 message of queue://b (log offsets 800 to 900), and 2 records more"
    )
