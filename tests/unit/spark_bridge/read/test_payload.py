"""The column payload, without Spark: which bodies have it, when it is made, and that lake and log agree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.values.message import AMQP_1_0, DEAD_LETTER, PERSISTENT, STOMP, TEXT
from spark_bridge.arrow.schema import MESSAGES, SCHEMAS, VARIANT
from spark_bridge.read.scan import plan_read, scan
from tests.support.store.one_process_spark import OneProcessSpark
from tests.support.store.sample_store import SampleStore
from tests.support.variant_decoder import decode

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")

AMQP_MAP = b"\x00\x53\x77\xc1\x06\x02\xa1\x01n\x54\x05"  # amqp-value: {"n": 5}
AMQP_LIST = b"\x00\x53\x76\xc0\x04\x02\x41\x54\x05"  # amqp-sequence: [true, 5]
AMQP_TEXT = b"\x00\x53\x77\xa1\x02[]"
NOTHING = object()
SENT: list[tuple[bytes, bytes, int, int, Any]] = [  # body, headers, flags, encoding -> payload
    (b'{"items": [{"sku": "a-7"}]}', b"", TEXT, STOMP, {"items": [{"sku": "a-7"}]}),
    (b"[1, 2.50]", b"content-type:application/json\n", 0, STOMP, [1, 2.5]),
    (b"null", b"", TEXT, STOMP, None),
    (b"order 7", b"", TEXT, STOMP, NOTHING),
    (b"", b"", TEXT, STOMP, NOTHING),
    (b"{}", b"content-type:application/octet-stream\n", 0, STOMP, NOTHING),
    (b"\xff{}", b"content-type:application/json\n", 0, STOMP, NOTHING),
    (AMQP_MAP, b"", 0, AMQP_1_0, {"n": 5}),
    (AMQP_LIST, b"", 0, AMQP_1_0, [True, 5]),
    (AMQP_TEXT, b"", 0, AMQP_1_0, []),
]
EXPECTED = [value for *_, value in SENT]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data", segment_bytes=8192) as sample:
        send_all(sample, sample.destination("orders"))
        sample.publish()
        yield sample


def send_all(store: SampleStore, destination: int) -> None:
    for body, headers, flags, encoding, _ in SENT:
        store.send(destination, body, headers, flags=PERSISTENT | flags, encoding=encoding)


def payloads(table: pa.Table) -> list[Any]:
    rows = table["payload"].to_pylist()
    return [NOTHING if row is None else decode(row["value"], row["metadata"]) for row in rows]


def test_bodies_that_are_json(store: SampleStore) -> None:
    path = str(store.directory)
    for form in ("text", "binary", "both"):
        found = scan(path, payload="variant", body=form).read_all()
        assert found.schema == pa.schema([*SCHEMAS[MESSAGES], ("payload", VARIANT)])
        assert payloads(found) == EXPECTED
        assert found.drop_columns(["payload"]).equals(scan(path, body=form).read_all())
    for columns in (["payload"], ["payload", "log_offset"], ["body_text", "payload"], ["payload", "body"]):
        found = scan(path, columns, payload="VARIANT").read_all()
        assert found.column_names == columns
        assert payloads(found) == EXPECTED
    asked = scan(path, ["log_offset", "payload"], payload="variant", where="type = 'none'").read_all()
    assert (asked.column_names, len(asked)) == (["log_offset", "payload"], 0)


def test_dead_letters_have_it_too(store: SampleStore) -> None:
    store.send(store.destination("ActiveMQ.DLQ"), b"[7]", flags=PERSISTENT | DEAD_LETTER | TEXT)
    store.publish()
    assert payloads(scan(str(store.directory), table="dead_letters", payload="variant").read_all()) == [[7]]


def test_it_is_there_only_if_it_is_asked_for(store: SampleStore) -> None:
    path = str(store.directory)
    assert "payload" not in scan(path).read_all().column_names
    # Its option alone makes nothing: these columns come from consume queues, and no record is read.
    assert scan(path, ["log_offset"], payload="variant").read_all().column_names == ["log_offset"]
    assert plan_read({"path": path, "payload": "variant"}, ["log_offset"]).plan.columns == ("log_offset",)
    with pytest.raises(ValueError, match="column 'payload' needs option 'payload': variant"):
        scan(path, ["payload"])
    with pytest.raises(ValueError, match="option 'payload' is 'json'; it takes variant"):
        scan(path, ["log_offset"], payload="json")
    with pytest.raises(ValueError, match="is for the tables messages and dead_letters; deliveries has no bodies"):
        scan(path, table="deliveries", payload="variant")
    with pytest.raises(ValueError, match="'payload' cannot be compared; of messages these can: destination, "):
        scan(path, payload="variant", where="payload = '1'")


@pytest.mark.parametrize("form", ["text", "both", "binary"])
def test_lake_and_log_agree(store: SampleStore, tmp_path: Path, form: str) -> None:
    pytest.importorskip("pyspark")
    from spark_bridge.export import Request, export

    lake = tmp_path / "lake"
    export(Request(store.directory, ">", lake, body=form), spark=cast(Any, OneProcessSpark()))
    assert all("payload" not in pq.read_schema(file).names for file in lake.rglob("*.parquet"))
    send_all(store, 1)
    store.publish()
    # An export of octets alone does not say which of them are a text.
    of_lake = EXPECTED if form != "binary" else [NOTHING] * len(EXPECTED)
    for columns in ([], ["payload"], ["payload", "destination", "headers"]):
        found = scan(str(store.directory), columns, lake=lake, payload="variant").read_all()
        assert payloads(found) == of_lake + EXPECTED
    kinds = scan(str(store.directory), ["payload"], lake=lake, payload="variant", where="content_type = 'none'")
    assert len(kinds.read_all()) == 0


def test_batches_of_a_lake_end_before_their_texts_are_too_many(store: SampleStore, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from spark_bridge.export import Request, export

    large = SampleStore(tmp_path / "large", segment_bytes=64 << 20)
    with large:
        queue = large.destination("large")
        for number in range(3):
            large.send(queue, b'["%d%s"]' % (number, b"x" * (9 << 20)), flags=PERSISTENT | TEXT)
        large.publish()
        export(Request(large.directory, ">", tmp_path / "lake"), spark=cast(Any, OneProcessSpark()))
        reader = scan(str(large.directory), ["log_offset", "payload"], lake=tmp_path / "lake", payload="variant")
        batches = [*reader]
    assert [len(batch) for batch in batches if len(batch)] == [1, 1, 1]
    rows = [decode(**row["payload"]) for batch in batches for row in batch.to_pylist()]
    assert [row[0][:2] for row in rows] == ["0x", "1x", "2x"]
