"""Records in blocks: the same as one by one, wherever a piece of the log ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.read.reader import StoreReader, scan_piece
from engine.values.errors import StoreCorrupt
from spark_bridge.log.blocks import piece_blocks, record_of, scan_blocks
from tests.support.store.sample_store import SampleStore

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data", segment_bytes=32_768) as sample:
        queue = sample.destination("orders")
        for number in range(200):
            sample.send(queue, b"x" * (number * 7 % 900))
        sample.publish()
        yield sample


def told(record: Record) -> tuple[int, int, int, int, bytes]:
    return record.offset, record.type, record.sequence, record.store_time_ms, bytes(record.data)


def blocked(reader: StoreReader, start: int, stop: int) -> list[tuple[int, int, int, int, bytes]]:
    found = [block for _, block in scan_blocks(reader, start, stop)]
    return [told(record_of(block, row)) for block in found for row in range(len(block.positions))]


@pytest.mark.parametrize("piece_bytes", [8, 48, 1000, 4096, 1 << 20])
def test_pieces_of_any_size(store: SampleStore, piece_bytes: int) -> None:
    for segment in StoreReader(store.directory).segments:
        records = [*scan_piece(segment, segment.base, segment.limit)]
        for stop in (segment.limit, records[-1].offset, records[len(records) // 2].offset + 8):
            blocks = [*piece_blocks(segment, segment.base, stop, 0, piece_bytes)]
            assert all(len(block.positions) for block in blocks)
            found = [told(record_of(block, row)) for block in blocks for row in range(len(block.positions))]
            assert found == [told(record) for record in records if record.offset < stop]


def test_any_range(store: SampleStore) -> None:
    reader = StoreReader(store.directory)
    end = reader.end().offset
    offsets = [record.offset for record in reader.scan(0, end)]
    for start in (0, offsets[3], offsets[3] + 8, offsets[-1], end):
        for stop in (start, offsets[-1], end):
            if start <= stop:
                assert blocked(reader, start, stop) == [told(record) for record in reader.scan(start, stop)]


def test_what_is_missing_between_records_is_an_error(store: SampleStore) -> None:
    """Records of zeros look like the end of a segment; the next sequence number shows what they were."""
    reader = StoreReader(store.directory)
    first, last = reader.segments[0], [*scan_piece(reader.segments[-1], reader.segments[-1].base, reader.end().offset)]
    lost = [*scan_piece(first, first.base, first.limit)][-3]
    with open(first.path, "r+b") as file:
        file.seek(-(first.limit - lost.offset), 2)
        file.write(bytes(first.limit - lost.offset))
    with pytest.raises(StoreCorrupt, match=rf"has sequence number \d+ where {lost.sequence} follows"):
        blocked(reader, 0, reader.end().offset)
    path = reader.segments[-1].path
    octets = path.read_bytes()
    path.write_bytes(octets[: octets.index(bytes(last[-2].data))].ljust(len(octets), b"\0"))
    with pytest.raises(StoreCorrupt, match=f"ends with sequence number {last[-3].sequence},"):
        blocked(reader, last[0].offset, reader.end().offset)


def test_zeros_where_a_segment_begins_are_an_error(store: SampleStore) -> None:
    reader = StoreReader(store.directory)
    last = reader.segments[-1]
    with open(last.path, "r+b") as file:
        file.seek(layout.SEGMENT_HEADER_BYTES)
        file.write(bytes(4096))
    with pytest.raises(StoreCorrupt, match="has no record in its last segment, the checkpoint says"):
        blocked(reader, last.base, reader.end().offset)
