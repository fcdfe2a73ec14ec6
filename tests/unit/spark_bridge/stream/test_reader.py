"""Streams of Spark over a store that grows: checkpoints, limits, restarts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from engine.store.disk.files import RealFiles
from engine.store.read.export_watermarks import read_watermarks
from spark_bridge import source
from spark_bridge.stream.micro_batches import LogStream
from spark_bridge.stream.reader import StreamReader
from tests.support.store.sample_store import SampleStore
from tests.support.store.served_store import served

pytestmark = [
    pytest.mark.damages_store("written by hand, without all that a gateway would write"),
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore"),  # pyspark's own
]

TRIES = 20
Take = Callable[[DataFrame, int], None]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data", segment_bytes=8192) as sample:
        sample.destination("orders")
        yield sample


def fill(store: SampleStore, count: int) -> list[int]:
    sent = [store.send(1, b"x" * 300, b"n:%d\n" % number) for number in range(count)]
    store.publish()
    return sent


def run(session: SparkSession, store: SampleStore, take: Take, **options: Any) -> StreamingQuery:
    """Take all that is there, from the checkpoint on.  Raises: StreamingQueryException."""
    for tries_left in reversed(range(TRIES)):
        query = started(session, store, take, **options)
        try:
            query.awaitTermination()
            break
        except Exception as error:
            # Spark gives a new process of Python ten seconds, which may be too few on a busy machine.
            if "worker failed to connect back" not in str(error) or not tries_left:
                raise
    return query


def started(session: SparkSession, store: SampleStore, take: Take, **options: Any) -> StreamingQuery:
    reader = session.readStream.format("penstock").option("path", str(store.directory))
    for name, value in options.items():
        reader = reader.option(name, value)
    checkpoint = str(store.directory.parent / "checkpoint")
    writer = reader.load().writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()


def offsets_of(rows: DataFrame) -> list[int]:
    return sorted(row.log_offset for row in rows.select("log_offset").collect())


def test_no_row_is_lost_or_twice_over_failures_and_restarts(store: SampleStore, session: SparkSession) -> None:
    taken: dict[int, list[int]] = {}
    is_failing = True

    def take(rows: DataFrame, batch: int) -> None:
        found = offsets_of(rows)
        if batch == 1 and is_failing:
            taken[-1] = found
            raise RuntimeError("the sink has failed")
        taken[batch] = found

    sent = fill(store, 100)
    run(session, store, take)
    sent += fill(store, 60)
    with pytest.raises(Exception, match="the sink has failed"):
        run(session, store, take)
    # The batch that failed is repeated as it was, though more has come since.
    is_failing = False
    sent += fill(store, 50)
    run(session, store, take)
    run(session, store, take)  # before Spark 4.2 a run is one batch
    assert taken[1] == taken.pop(-1)
    assert [offset for batch in (0, 1, 2) for offset in taken[batch]] == sent


@pytest.mark.skipif(not hasattr(StreamReader, "getDefaultReadLimit"), reason="Spark 4.2 and newer have limits")
def test_limits_of_a_batch_and_the_lag_in_the_progress(store: SampleStore, session: SparkSession) -> None:
    source.register(session)
    taken: list[list[int]] = []

    def take(rows: DataFrame, batch: int) -> None:
        taken.append(offsets_of(rows))
        if batch == 0:
            fill(store, 7)  # after the query has begun: not its messages

    sent = fill(store, 50)
    query = run(session, store, take, maxMessagesPerTrigger=20)
    assert taken == [sent[:20], sent[20:40], sent[40:]]
    progress = query.recentProgress
    ends = [each["sources"][0]["endOffset"] for each in progress]
    assert all('"log_offset"' in end for end in ends) and len(set(ends)) == 3
    assert json.loads(progress[0]["sources"][0]["latestOffset"])["log_offset"] > sent[-1]


def test_what_retention_dropped_fails_a_query(store: SampleStore, session: SparkSession) -> None:
    taken: list[int] = []

    def take(rows: DataFrame, batch: int) -> None:
        taken.extend(offsets_of(rows))

    sent = fill(store, 10)
    run(session, store, take)
    sent += fill(store, 100)
    dropped_to = 0
    for _ in range(2):
        store.drop_first_segment()
        dropped_to = store.first_offset
    store.publish()
    with pytest.raises(Exception, match=rf"log offsets \d+ to {dropped_to} of store 0badcafe are gone"):
        run(session, store, take)
    assert taken == sent[:10]
    run(session, store, take, failOnDataLoss="false")
    assert taken[10:] == [offset for offset in sent[10:] if offset >= dropped_to]


def test_bodies_that_are_json_as_variant(store: SampleStore, session: SparkSession) -> None:
    found: list[Any] = []

    def take(rows: DataFrame, batch: int) -> None:
        found.extend(rows.orderBy("log_offset").selectExpr("variant_get(payload, '$.sku', 'string')").collect())

    for body in (b'{"sku": "a-1"}', b"not JSON", b'{"sku": "b-2"}'):
        store.send(1, body)
    store.publish()
    run(session, store, take, payload="variant")
    assert found == [("a-1",), (None,), ("b-2",)]


def test_limits_need_a_spark_that_says_where_a_batch_begins(store: SampleStore) -> None:
    stream = LogStream({"path": str(store.directory), "maxBytesPerTrigger": "1"}, [])
    with pytest.raises(ValueError, match="'max-bytes-per-trigger' and 'max-messages-per-trigger' need Spark 4.2"):
        StreamReader(stream)


def test_a_named_stream_of_a_gateway_elsewhere(store: SampleStore, session: SparkSession) -> None:
    taken: list[int] = []

    def take(rows: DataFrame, batch: int) -> None:
        taken.extend(offsets_of(rows))

    def work(url: str) -> None:
        sent: list[int] = []
        for _ in range(2):
            sent += fill(store, 40)
            run(session, store, take, path=url, reader="billing")
            assert taken == sent
            (mark,) = read_watermarks(RealFiles(), str(store.directory), store.store_id).marks
            assert mark.title() == "stream 'billing'"
        assert mark.to_offset > sent[30], "the first batch is done"

    served(store, work)


def test_a_named_stream_is_known_by_what_its_batches_have_taken(store: SampleStore, session: SparkSession) -> None:
    def read_to() -> list[int]:
        return [mark.to_offset for mark in read_watermarks(RealFiles(), str(store.directory), store.store_id).marks]

    seen: list[list[int]] = []

    def take(rows: DataFrame, batch: int) -> None:
        seen.append(read_to())
        rows.collect()

    ends = []
    for _ in range(3):
        fill(store, 20)
        ends.append(store.offset)
        run(session, store, take, reader="billing")
    assert seen == [[0], [ends[0]], [ends[1]]], "a batch counts when it is done, at the latest when the next one begins"
    assert read_to() == [ends[1]] or read_to() == [ends[2]]
