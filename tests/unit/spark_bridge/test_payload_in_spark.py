"""The column payload as Spark's VARIANT: in queries, in views and with a lake, equal to Spark's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession

from engine.values.message import PERSISTENT, TEXT
from spark_bridge import source
from spark_bridge.arrow.variant import DEPTH_MAX, NUMBER_MAX
from spark_bridge.export import Request, export
from tests.support.store.one_process_spark import OneProcessSpark
from tests.support.store.sample_store import SampleStore

pytestmark = [
    pytest.mark.damages_store("written by hand, without all that a gateway would write"),
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore"),  # pyspark's own
]

ORDERS = [
    '{"id": 7, "items": [{"sku": "a-1", "price": 9.90}, {"sku": "b-2"}]}',
    '{"id": 8, "items": []}',
    "not JSON",
    '{"id": 9, "items": [{"sku": "c-3", "price": 12}], "note": null}',
]
SKUS = [("a-1",), (None,), (None,), ("c-3",)]
ASKED = "SELECT variant_get(payload, '$.items[0].sku', 'string') FROM orders ORDER BY log_offset"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data", segment_bytes=1 << 20) as sample:
        sample.destination("orders")
        yield sample


def send(store: SampleStore, texts: list[str]) -> None:
    for text in texts:
        store.send(1, text.encode(), flags=PERSISTENT | TEXT)
    store.publish()


def read(session: SparkSession, store: SampleStore, **options: Any) -> DataFrame:
    options = {"path": str(store.directory), "payload": "variant"} | options
    return session.read.format("penstock").options(**options).load()


def test_paths_into_a_body(store: SampleStore, session: SparkSession) -> None:
    send(store, ORDERS)
    orders = read(session, store)
    assert orders.schema["payload"].dataType.simpleString() == "variant"
    orders.createOrReplaceTempView("orders")
    assert session.sql(ASKED).collect() == SKUS
    prices = session.sql("SELECT sum(try_variant_get(payload, '$.items[0].price', 'decimal(9, 2)')) FROM orders")
    assert str(prices.first()[0]) == "21.90"  # type: ignore[index]
    kinds = session.sql("SELECT schema_of_variant(payload), is_variant_null(payload) FROM orders ORDER BY log_offset")
    assert [row[0] for row in kinds.collect()] == [
        "OBJECT<id: BIGINT, items: ARRAY<OBJECT<price: DECIMAL(2,1), sku: STRING>>>",
        "OBJECT<id: BIGINT, items: ARRAY<VOID>>",
        None,
        "OBJECT<id: BIGINT, items: ARRAY<OBJECT<price: BIGINT, sku: STRING>>, note: VOID>",
    ]
    chosen = session.sql("SELECT log_offset FROM orders WHERE variant_get(payload, '$.id', 'int') > 7").collect()
    assert len(chosen) == 2
    row = orders.orderBy("log_offset").select("payload").first()
    assert row is not None and row.payload.toPython()["items"][1] == {"sku": "b-2"}


def test_views_tables_and_chosen_columns(store: SampleStore, session: SparkSession) -> None:
    send(store, ORDERS)
    options = f"path '{store.directory}', payload 'variant', columns 'log_offset, payload'"
    session.sql(f"CREATE TEMPORARY VIEW orders USING penstock OPTIONS ({options})")
    assert session.table("orders").columns == ["log_offset", "payload"]
    assert session.sql(ASKED).collect() == SKUS
    session.catalog.dropTempView("orders")
    source.register(session, "shop_payload", path=store.directory, payload="variant")
    session.sql("CREATE TABLE orders USING shop_payload")
    try:
        assert session.sql(ASKED).collect() == SKUS
    finally:
        session.sql("DROP TABLE orders")
    asked = session.read.format("penstock").options(path=str(store.directory), payload="variant")
    only = asked.schema("payload variant").load()
    assert (only.columns, only.count()) == (["payload"], 4)
    without = asked.schema("body_text string").load()
    assert (without.columns, without.count()) == (["body_text"], 4)
    with pytest.raises(Exception, match="column 'payload' is asked for as string; it is variant"):
        asked.schema("payload string").load().collect()
    with pytest.raises(Exception, match="option 'payload' is 'json'; it takes variant"):
        read(session, store, payload="json")


def test_with_a_lake(store: SampleStore, session: SparkSession, tmp_path: Path) -> None:
    send(store, ORDERS)
    export(Request(store.directory, ">", tmp_path / "lake"), spark=cast(Any, OneProcessSpark()))
    send(store, ORDERS)
    read(session, store, lake=str(tmp_path / "lake")).createOrReplaceTempView("orders")
    assert session.sql(ASKED).collect() == SKUS * 2
    # What an export has is made a VARIANT by Spark itself.
    session.read.parquet(str(tmp_path / "lake")).createOrReplaceTempView("exported")
    made = "variant_get(try_parse_json(body_text), '$.items[0].sku', 'string')"
    assert session.sql(f"SELECT {made} FROM exported ORDER BY log_offset").collect() == SKUS


ODD = [
    *("null", "true", '"x"', '""', "[]", "{}", "0", "-0", "127", "128", "32768", "-2147483649", "9223372036854775807"),
    *("9223372036854775808", "9" * 38, "9" * 39, "1" * NUMBER_MAX, "1.50", "-0.0", "0.123456789", "1.1234567890"),
    *("0." + "1" * 38, "0." + "1" * 39, "1e3", "1.5E-300", "1e400", "-1e-400", "123456789.123456789"),
    *(
        '{"b": 1, "a": {"b": [2, null]}}',
        '{"": 1}',
        '"' + "ä" * 40 + '"',
        '{"\\u0061": 1}',
        '"\\ud83d\\ude00"',
    ),
    json.dumps(dict.fromkeys(("\uffff", "\U0001f600", "z", *map(str, range(40))), 0)),
    json.dumps([*range(300)]),
    json.dumps({f"{number:x}": [number] for number in range(300)}),
    "[" * DEPTH_MAX + "]" * DEPTH_MAX,
    # None of these has a VARIANT.
    *(
        "",
        " ",
        "x",
        "NaN",
        "Infinity",
        "{'a': 1}",
        "[1,]",
        "01",
        "1.",
        ".5",
        "+1",
        '"\t"',
        "\ufeff{}",
        '{"a": 1, "a": 2}',
    ),
    *("1" * (NUMBER_MAX + 1), "[" * 100_000),
]


def test_it_is_what_spark_makes_of_the_text(store: SampleStore, session: SparkSession) -> None:
    send(store, ODD)
    rows = read(session, store).selectExpr("body_text", "payload", "try_parse_json(body_text) AS own").collect()
    assert len(rows) == len(ODD)
    different = [row.body_text for row in rows if octets(row.payload) != octets(row.own)]
    assert different == []
    assert sum(row.payload is None for row in rows) == 16


def octets(variant: Any) -> tuple[bytes, bytes] | None:
    return None if variant is None else (bytes(variant.value), bytes(variant.metadata))


def test_names_are_found_in_large_objects(store: SampleStore, session: SparkSession) -> None:
    names = ["\uffff", "\U0001f600", *map(str, range(60))]
    send(store, [json.dumps(dict.fromkeys(names, 5))])
    found = [f"variant_get(payload, '$[\"{name}\"]', 'int')" for name in names]
    assert read(session, store).selectExpr(*found).first() == (5,) * len(names)
