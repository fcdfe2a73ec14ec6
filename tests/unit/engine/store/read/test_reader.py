"""The read-only view of a store's directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.store.disk.directory_lock import take
from engine.store.format import layout
from engine.store.read.catalog import read_catalog
from engine.store.read.reader import DestinationInfo, StoreReader, scan_piece
from engine.store.read.segment_files import read_checkpoint
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import RangeGone, StoreCorrupt, StoreError
from tests.support.store.sample_store import SampleStore

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data", segment_bytes=8192) as sample:
        yield sample


def fill(store: SampleStore, destination_id: int, count: int, size: int = 100) -> list[int]:
    return [store.send(destination_id, bytes([65 + number % 26]) * size) for number in range(count)]


def bodies(reader: StoreReader, start: int | None = None) -> list[bytes]:
    head = layout.MESSAGE_HEAD_BYTES
    records = reader.scan(reader.first_offset if start is None else start, reader.end().offset)
    return [bytes(record.data[head:]) for record in records if record.type == layout.MESSAGE]


def flip(path: Path, position: int) -> None:
    octets = bytearray(path.read_bytes())
    octets[position] ^= 1
    path.write_bytes(octets)


def test_scan_yields_every_record_of_every_segment(store: SampleStore) -> None:
    orders = store.destination("orders")
    offsets = fill(store, orders, 200)
    store.publish(is_clean=True)
    reader = StoreReader(store.directory)
    assert len(reader.segments) > 3
    records = list(reader.scan(0, reader.end().offset))
    assert [record.offset for record in records if record.type == layout.MESSAGE] == offsets
    assert [record.sequence for record in records] == list(range(1, len(records) + 1))
    assert reader.end().offset == store.offset
    assert reader.end().time_ms == store.now_ms


def test_scan_from_inside_a_record_begins_with_the_next_one(store: SampleStore) -> None:
    offsets = fill(store, store.destination("orders"), 3)
    store.publish(is_clean=True)
    reader = StoreReader(store.directory)
    assert [record.offset for record in reader.scan(offsets[0] + 1, store.offset)] == offsets[1:]


def test_records_larger_than_the_chunk_that_is_read(tmp_path: Path) -> None:
    sent = [b"a", b"b" * (5 << 20), b"c", b"d" * (4 << 20), b"e"]
    with SampleStore(tmp_path / "data", segment_bytes=16 << 20) as store:
        orders = store.destination("orders")
        for body in sent:
            store.send(orders, body)
        store.publish(is_clean=True)
    assert bodies(StoreReader(store.directory)) == sent


def test_live_store_ends_at_the_published_offset(store: SampleStore) -> None:
    orders = store.destination("orders")
    store.send(orders, b"durable")
    store.publish()
    store.send(orders, b"not yet")
    store.append_octets()
    with open(store.directory / "lock", "w") as lock:
        assert take(lock.fileno())
        reader = StoreReader(store.directory)
        assert bodies(reader) == [b"durable"]
        assert reader.end().is_published
    assert bodies(StoreReader(store.directory)) == [b"durable", b"not yet"]


def test_live_store_that_has_published_nothing_is_empty(store: SampleStore) -> None:
    store.send(store.destination("orders"), b"not yet")
    with open(store.directory / "lock", "w") as lock:
        assert take(lock.fileno())
        assert bodies(StoreReader(store.directory)) == []


def test_crashed_store_ends_at_the_last_whole_record(store: SampleStore) -> None:
    orders = store.destination("orders")
    fill(store, orders, 100)
    store.publish()
    store.send(orders, b"whole")
    end = store.offset
    torn = layout.RECORD_HEADER.pack(200, 7, layout.MESSAGE, 1, 1, orders, end, store.sequence, store.now_ms)
    store.append_octets(torn + b"half")
    reader = StoreReader(store.directory)
    assert reader.end().offset == end
    assert not reader.end().is_published
    assert bodies(reader)[-1] == b"whole"


def test_crashed_store_without_a_checkpoint_is_read_from_its_first_segment(store: SampleStore) -> None:
    fill(store, store.destination("orders"), 100)
    store.publish()
    (store.directory / "checkpoint").unlink()
    assert len(bodies(StoreReader(store.directory))) == 100


def test_unfinished_transaction_is_left_out(store: SampleStore) -> None:
    orders = store.destination("orders")
    store.publish()
    store.begin()
    store.send(orders, b"committed")
    store.commit()
    end = store.offset
    store.begin()
    store.send(orders, b"open")
    store.append_octets()
    reader = StoreReader(store.directory)
    assert bodies(reader) == [b"committed"]
    assert reader.end().offset == end


def test_clean_store_is_not_read_past_its_end(store: SampleStore) -> None:
    orders = store.destination("orders")
    store.send(orders, b"kept")
    store.publish(is_clean=True)
    store.send(orders, b"left by nobody")
    store.append_octets()
    assert bodies(StoreReader(store.directory)) == [b"kept"]


def test_sealed_segment_ends_before_its_room(store: SampleStore) -> None:
    orders = store.destination("orders")
    store.send(orders, b"before")
    store.seal()
    store.append_octets(b"what a recovery has cut")
    store.roll()
    store.send(orders, b"after")
    store.publish(is_clean=True)
    assert bodies(StoreReader(store.directory)) == [b"before", b"after"]


def test_continuation_holds_what_its_predecessor_could_not(store: SampleStore) -> None:
    orders = store.destination("orders")
    store.send(orders, b"before")
    store.continue_after_failed_sync()
    store.send(orders, b"after")
    store.publish(is_clean=True)
    reader = StoreReader(store.directory)
    assert [segment.is_continuation for segment in reader.segments] == [False, True]
    assert bodies(reader) == [b"before", b"after"]
    assert read_catalog(reader).destinations == {orders: DestinationInfo(orders, QUEUE, "orders")}


def test_destinations_come_from_snapshots_and_later_records(store: SampleStore) -> None:
    orders = store.destination("orders.eu")
    fill(store, orders, 200)
    store.drop_first_segment()
    prices = store.destination("prices", TOPIC)
    store.publish()
    reader = StoreReader(store.directory)
    assert read_catalog(reader).destinations == {
        orders: DestinationInfo(orders, QUEUE, "orders.eu"),
        prices: DestinationInfo(prices, TOPIC, "prices"),
    }


def test_dropped_range_is_named(store: SampleStore) -> None:
    fill(store, store.destination("orders"), 200)
    store.drop_first_segment()
    store.publish(is_clean=True)
    reader = StoreReader(store.directory)
    with pytest.raises(RangeGone, match=rf"log offsets 0 to 8192 .* 8192 to {store.offset} are left"):
        reader.scan(0, store.offset)


def test_segment_that_goes_while_it_is_wanted(store: SampleStore) -> None:
    fill(store, store.destination("orders"), 200)
    store.publish(is_clean=True)
    reader = StoreReader(store.directory)
    reader.end()
    for _ in range(2):
        store.drop_first_segment()
    store.publish(is_clean=True)
    with pytest.raises(RangeGone, match="0 to 8192 are gone: retention"):
        list(reader.scan(0, store.offset))
    with pytest.raises(RangeGone, match="8192 to 16384 are gone: retention"):
        list(scan_piece(reader.segments[1], 8192, 16384))


def test_a_segment_that_is_lost_while_it_is_wanted_is_no_work_of_retention(store: SampleStore) -> None:
    fill(store, store.destination("orders"), 200)
    store.publish(is_clean=True)
    reader = StoreReader(store.directory)
    reader.end()
    reader.segments[1].path.unlink()
    with pytest.raises(StoreCorrupt, match="8192 to 16384 do not exist: the file of that segment, .*, is missing"):
        list(reader.scan(0, store.offset))
    with pytest.raises(StoreCorrupt, match="is missing"):
        list(scan_piece(reader.segments[1], 8192, 16384))


@pytest.mark.parametrize(
    ("number", "place"), [(0, "0 to 8192"), (1, "8192 to 16384"), (-1, r"\d+ to \d+")], ids=["first", "middle", "last"]
)
def test_a_missing_segment_is_named_before_anything_is_read(store: SampleStore, number: int, place: str) -> None:
    fill(store, store.destination("orders"), 200)
    store.publish(is_clean=True)
    StoreReader(store.directory).segments[number].path.unlink()
    reader = StoreReader(store.directory)
    with pytest.raises(StoreCorrupt, match=f"log offsets {place} .* file of that segment is missing"):
        reader.scan(reader.oldest_offset, reader.end().offset)


def test_what_is_missing_elsewhere_matters_to_nobody(store: SampleStore) -> None:
    fill(store, store.destination("orders"), 200)
    store.publish(is_clean=True)
    StoreReader(store.directory).segments[1].path.unlink()
    reader = StoreReader(store.directory)
    assert reader.missing(0, store.offset) == [(8192, 16384)]
    assert reader.missing(0, 8192) == reader.missing(16384, store.offset) == []
    assert reader.missing(10000, 10008) == [(10000, 10008)]
    assert len(bodies(reader, 16384)) > 50


@pytest.mark.parametrize(
    ("at", "text"),
    [(100, "checksum of a record"), (16, "checksum of a record"), (0, "checksum of a record|octets")],
    ids=["body", "offset", "size"],
)
def test_corruption_below_the_end_is_an_error(store: SampleStore, at: int, text: str) -> None:
    offsets = fill(store, store.destination("orders"), 10)
    store.publish(is_clean=True)
    flip(store.path, layout.SEGMENT_HEADER_BYTES + offsets[3] + at)
    with pytest.raises(StoreCorrupt, match=text):
        bodies(StoreReader(store.directory))


def test_zeros_in_the_middle_are_not_taken_for_the_end(store: SampleStore) -> None:
    offsets = fill(store, store.destination("orders"), 10)
    store.publish(is_clean=True)
    octets = bytearray(store.path.read_bytes())
    start = layout.SEGMENT_HEADER_BYTES + offsets[3]
    octets[start:] = bytes(len(octets) - start)
    store.path.write_bytes(octets)
    with pytest.raises(StoreCorrupt, match="sequence number"):
        bodies(StoreReader(store.directory))


def test_checkpoint_with_the_higher_generation_counts(store: SampleStore) -> None:
    path = store.directory / "checkpoint"
    for generation in (3, 4):
        store.publish(generation=generation)
        checkpoint = read_checkpoint(path)
        assert checkpoint is not None
        assert checkpoint.generation == generation
    flip(path, 40)  # generation 4 is in the first slot
    checkpoint = read_checkpoint(path)
    assert checkpoint is not None
    assert checkpoint.generation == 3
    flip(path, layout.CHECKPOINT_SLOT_BYTES + 40)
    assert read_checkpoint(path) is None


def test_range_that_is_not_there_yet(store: SampleStore) -> None:
    store.publish(is_clean=True)
    reader = StoreReader(store.directory)
    with pytest.raises(ValueError, match="is not in store"):
        reader.scan(0, store.offset + 8)
    with pytest.raises(ValueError, match="ends before it starts"):
        reader.scan(store.offset, 0)


def test_directory_without_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a store"):
        StoreReader(tmp_path)


@pytest.mark.parametrize("octets", [b"", b"\xff", b"[]", b"1", b'{"format": 1}', b'{"store_id": "0badcafe"}'])
def test_a_damaged_description_of_the_store(store: SampleStore, octets: bytes) -> None:
    store.publish()
    (store.directory / "store.json").write_bytes(octets)
    with pytest.raises(StoreCorrupt, match=r"store\.json"):
        StoreReader(store.directory)


def test_segment_of_another_store(store: SampleStore, tmp_path: Path) -> None:
    store.publish()
    with SampleStore(tmp_path / "other", store_id="feedbeef") as other:
        other.publish()
    other.path.replace(store.path)
    with pytest.raises(StoreCorrupt, match="feedbeef"):
        StoreReader(store.directory)


def test_a_catalog_without_the_snapshot_that_it_begins_with_is_none(store: SampleStore) -> None:
    fill(store, store.destination("orders"), 200)
    store.publish(is_clean=True)
    reader = StoreReader(store.directory)
    os.truncate(reader.segments[0].path, 1000)
    with pytest.raises(StoreCorrupt, match=r"00000\.log, position 4096: the segment's snapshot is missing"):
        read_catalog(StoreReader(store.directory))
