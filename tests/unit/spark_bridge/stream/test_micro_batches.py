"""Ranges of a stream, without Spark: where it begins, how far a batch goes, what retention may not take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.store.disk.files import RealFiles
from engine.store.read.export_watermarks import Watermark, read_watermarks
from engine.values.errors import RangeGone, StoreError
from spark_bridge.stream.micro_batches import LogStream, Place, place_of
from tests.support.store.sample_store import DAY_ONE_MS, SampleStore
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import THINNING, FileHome
from tests.unit.spark_bridge.log.test_removed import ALIVE, send

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")

OFFSETS = pa.schema([("log_offset", pa.int64())])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data", segment_bytes=8192) as sample:
        sample.destination("orders")
        sample.destination("other")
        yield sample


def fill(store: SampleStore, count: int, is_clean: bool = False) -> list[int]:
    """Send to both queues in turn, a message each second; return the offsets of ``orders``."""
    sent = []
    for number in range(count):
        store.now_ms += 1000
        offset = store.send(1 + number % 2, b"x" * 300)
        if number % 2 == 0:
            sent.append(offset)
    store.publish(is_clean=is_clean)
    return sent


def stream_of(directory: Path, **options: Any) -> LogStream:
    given = {"destination": "orders"} | {name: str(value) for name, value in options.items()} | {"path": str(directory)}
    return LogStream(given, ["log_offset"])


def rows(stream: LogStream, start: Place, end: Place) -> list[int]:
    return [
        row["log_offset"] for task in stream.tasks(start, end) for batch in task.rows() for row in batch.to_pylist()
    ]


def batches(stream: LogStream, start: Place) -> list[list[int]]:
    """Read up to the end of the log, each batch by a stream that knows only what a checkpoint has."""
    found = []
    last = stream.last()
    while (end := stream.batch_end(start, last)).log_offset > start.log_offset:
        found.append(rows(stream, start, end))
        start = end
    return found


def test_a_limit_counts_the_rows_of_a_condition(store: SampleStore) -> None:
    sent = fill(store, 60)
    where = f"message_id <> 'ID:0badcafe-{sent[3]}' AND log_offset >= {sent[2]}"
    limited = stream_of(store.directory, maxMessagesPerTrigger=7, where=where)
    assert batches(limited, limited.first())[:2] == [[sent[2], *sent[4:10]], sent[10:17]]


@pytest.mark.parametrize("is_clean", [True, False], ids=["from consume queues", "with a tail"])
def test_each_batch_has_at_most_so_many_rows_and_none_is_lost(store: SampleStore, is_clean: bool) -> None:
    sent = fill(store, 60, is_clean)
    limited = stream_of(store.directory, maxMessagesPerTrigger=7)
    found = batches(limited, limited.first())
    assert [len(batch) for batch in found] == [7, 7, 7, 7, 2]
    assert [offset for batch in found for offset in batch] == sent
    small = stream_of(store.directory, **{"max-bytes-per-trigger": 1000, "partition-bytes": 500})
    found = batches(small, small.first())
    assert [offset for batch in found for offset in batch] == sent
    assert max(map(len, found)) == 2
    both = stream_of(store.directory, max_bytes_per_trigger=5000, max_messages_per_trigger=3)
    assert max(map(len, batches(both, both.first()))) == 3
    whole = stream_of(store.directory)
    assert batches(whole, whole.first()) == [sent]
    assert limited.batch_end(limited.first(), limited.last(), is_limited=False) == whole.last()


def test_a_task_has_the_same_rows_whenever_its_batch_is_read(store: SampleStore) -> None:
    """A sink tells a repeated task by its number."""
    fill(store, 60)
    stream = stream_of(store.directory, partitionBytes=1500)
    first, last = stream.first(), stream.last()

    def tasks() -> list[list[int]]:
        found = (pa.Table.from_batches(task.rows(), OFFSETS) for task in stream.tasks(first, last))
        return [table["log_offset"].to_pylist() for table in found]

    in_the_tail = tasks()
    store.publish(is_clean=True)
    assert tasks() == in_the_tail


def test_rows_of_one_record_stay_in_one_batch(store: SampleStore) -> None:
    fill(store, 40)
    records = [store.settle(1, (first, 5)) for first in range(0, 20, 5)]
    store.publish()
    stream = stream_of(store.directory, table="deliveries", maxMessagesPerTrigger=3)
    assert batches(stream, stream.first()) == [[record] * 5 for record in records]
    more = stream_of(store.directory, table="deliveries", maxMessagesPerTrigger=12)
    assert list(map(len, batches(more, more.first()))) == [10, 10]


def test_where_a_query_begins(store: SampleStore) -> None:
    sent = fill(store, 20)
    end = stream_of(store.directory).last().log_offset

    def first(**options: Any) -> Place:
        return stream_of(store.directory, **options).first()

    assert first() == first(startingOffsets="earliest") == Place("0badcafe", 0, end)
    assert first(startingOffsets="latest") == Place("0badcafe", end, end)
    assert first(startingOffsets=sent[3]).log_offset == sent[3]
    assert first(startingTime=DAY_ONE_MS + 7_000).log_offset == sent[3]
    assert place_of({"store": "0badcafe", "log_offset": 8, "whole_from": 16}) == Place("0badcafe", 8, 16)
    with pytest.raises(ValueError, match="the checkpoint has {'index': 1}, which is no place in a store"):
        place_of({"index": 1})


def test_a_repeated_batch_has_the_same_rows(store: SampleStore) -> None:
    sent = fill(store, 20)
    stream = stream_of(store.directory)
    start, end = stream.first(), stream.last()
    sent_later = fill(store, 20)
    assert rows(stream_of(store.directory), start, end) == sent
    assert rows(stream, end, stream.last()) == sent_later
    assert stream.last().log_offset > end.log_offset


def test_dropped_segments_are_an_error_that_names_the_range(store: SampleStore) -> None:
    sent = fill(store, 100)
    stream = stream_of(store.directory)
    start = stream.first()
    store.drop_first_segment()
    store.publish()
    left = [offset for offset in sent if offset >= store.first_offset]
    with pytest.raises(RangeGone, match=f"log offsets 0 to {store.first_offset} of .* gone.*fail-on-data-loss=false"):
        stream.tasks(start, stream.last())
    with pytest.raises(RangeGone, match="fail-on-data-loss=false continues with what is left"):
        stream_of(store.directory, maxMessagesPerTrigger=5).batch_end(start, stream.last())
    careless = stream_of(store.directory, failOnDataLoss="false", maxMessagesPerTrigger=5)
    found = batches(careless, start)
    assert [offset for batch in found for offset in batch] == left and max(map(len, found)) == 5
    assert rows(careless, start, Place("0badcafe", store.first_offset, 0)) == []


def test_segments_dropped_after_a_batch_is_planned(store: SampleStore) -> None:
    sent = fill(store, 100)
    start, end = stream_of(store.directory).first(), stream_of(store.directory).last()
    tasks = {
        fails: stream_of(store.directory, failOnDataLoss=fails, partitionBytes=4000).tasks(start, end)
        for fails in ("true", "false")
    }
    store.drop_first_segment()
    with pytest.raises(RangeGone, match="fail-on-data-loss=false continues"):
        [*tasks["true"][0].rows()]
    left = [row["log_offset"] for task in tasks["false"] for batch in task.rows() for row in batch.to_pylist()]
    assert left == [offset for offset in sent if offset >= store.first_offset]


def test_messages_removed_from_segments_since_the_query_began(tmp_path: Path) -> None:
    home = FileHome(THINNING)
    send(home, "orders")
    began = copy_to(tmp_path / "before", home.files).end().offset
    send(home, "orders")
    home.pass_by(4_000)
    reader = copy_to(tmp_path / "data", home.files)
    assert any(segment.is_sparse and segment.base > began for segment in reader.segments)
    stream = stream_of(reader.directory)
    end = stream.last()
    old, new = Place(reader.store_id, 0, end.log_offset), Place(reader.store_id, 0, began)
    left = rows(stream, old, end)
    assert 1 <= ALIVE < len(left) < 600
    with pytest.raises(RangeGone, match=r"retention has removed \d+ messages \(log offsets .*fail-on-data-loss=false"):
        rows(stream, new, end)
    assert rows(stream_of(reader.directory, failOnDataLoss="false"), new, end) == left


def test_a_named_stream_tells_the_gateway_what_it_has_read(store: SampleStore) -> None:
    def marks() -> list[Watermark]:
        return read_watermarks(RealFiles(), str(store.directory), store.store_id).marks

    sent = fill(store, 20)
    unnamed = stream_of(store.directory)
    unnamed.has_read(unnamed.last())
    assert marks() == []
    stream = stream_of(store.directory, reader="billing")
    stream.has_read(stream.first())
    assert [(mark.title(), mark.to_offset, mark.is_stream) for mark in marks()] == [("stream 'billing'", 0, True)]
    stream.has_read(stream.last())
    attempts = stream_of(store.directory, reader="attempts", table="deliveries", destination="queue://>")
    attempts.has_read(Place(store.store_id, sent[4], 0))
    assert sorted((mark.reader, str(mark.chosen), mark.to_offset, mark.has_messages) for mark in marks()) == [
        ("attempts", "queue://>", sent[4], False),
        ("billing", "orders", stream.last().log_offset, True),
    ]


def test_a_named_stream_beside_a_store_that_takes_no_files(store: SampleStore) -> None:
    fill(store, 2)
    (store.directory / "exports").write_text("no directory")
    stream = stream_of(store.directory, reader="billing")
    with pytest.raises(
        StoreError, match="retention cannot learn what stream 'billing' has read.*without option 'reader'"
    ):
        stream.has_read(stream.first())


def test_a_checkpoint_of_another_store_and_an_older_copy(store: SampleStore, tmp_path: Path) -> None:
    fill(store, 10)
    stream = stream_of(store.directory)
    end = stream.last()
    with SampleStore(tmp_path / "another", "c0ffee00") as another:
        another.publish()
        with pytest.raises(StoreError, match="is of store 0badcafe, and .* is store c0ffee00"):
            stream_of(another.directory).tasks(stream.first(), end)
    with SampleStore(tmp_path / "older") as older:
        older.publish()
        with pytest.raises(StoreError, match="it is an older copy"):
            stream_of(older.directory).tasks(stream.first(), end)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"path": ""}, "'path' is missing"),
        ({"lake": "x"}, "option 'lake' is for batches"),
        ({"endingTime": "1"}, "option 'to-time' is for batches"),
        ({"maxBytesPerTrigger": "0"}, "'max-bytes-per-trigger' is '0'; it takes a whole number, at least 1"),
        ({"failOnDataLoss": "no"}, "'fail-on-data-loss' is 'no'; it takes true or false"),
        ({"table": "consumers"}, "messages, deliveries, dead_letters"),
        ({"reader": ""}, "'reader' is ''; it takes 1 to 200 printable characters"),
        ({"reader": "a\nb"}, "'reader' is 'a.nb'; it takes"),
    ],
)
def test_options_that_mean_nothing(options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        LogStream({"path": "x"} | options, [])
