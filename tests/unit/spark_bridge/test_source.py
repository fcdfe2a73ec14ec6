"""The data source in Spark: registration, options, columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark_bridge import source
from spark_bridge.export import Request, export
from tests.support.store.sample_store import SampleStore

pytestmark = [
    pytest.mark.damages_store("written by hand, without all that a gateway would write"),
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore"),  # pyspark's own
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data") as sample:
        yield sample


def fill(store: SampleStore, destination_id: int, count: int) -> list[int]:
    return [store.send(destination_id, b"x" * 200, b"n:%d\n" % number) for number in range(count)]


def test_an_installed_penstock_needs_no_registration(store: SampleStore, session: SparkSession) -> None:
    fill(store, store.destination("orders"), 5)
    fill(store, store.destination("other"), 2)
    store.publish()
    assert session.read.format("penstock").option("path", str(store.directory)).load().count() == 7
    session.sql(f"CREATE TEMPORARY VIEW v USING penstock OPTIONS (path '{store.directory}', destination 'orders')")
    assert session.sql("SELECT destination FROM v").collect() == [("queue://orders",)] * 5
    with pytest.raises(Exception, match="Spark does not give the options of a table to its reads"):
        session.sql(f"CREATE TABLE lost USING penstock OPTIONS (path '{store.directory}')")


def test_a_table_of_a_bound_name(store: SampleStore, session: SparkSession) -> None:
    orders = store.destination("orders")
    fill(store, orders, 5)
    fill(store, store.destination("other"), 2)
    store.publish()
    source.register(session, "shop", path=store.directory, destination="orders")
    session.sql("CREATE TABLE shop_orders USING shop COMMENT 'the queue'")
    try:
        assert session.sql("SELECT count(*) FROM shop_orders WHERE destination_name = 'orders'").first() == (5,)
        fill(store, orders, 1)
        store.publish()
        assert session.table("shop_orders").count() == 6  # each query plans its own read
    finally:
        session.sql("DROP TABLE shop_orders")
    assert session.read.format("shop").load().count() == 6
    with pytest.raises(Exception, match="option 'table': shop has those that it was registered with, and no others"):
        session.read.format("shop").option("table", "deliveries").load()
    with pytest.raises(Exception, match="option 'destination': shop has those"):
        session.sql("CREATE TABLE others USING shop OPTIONS (destination 'other')")
    with pytest.raises(ValueError, match="unknown option 'colour'"):
        source.register(session, "red", path=store.directory, colour="red")
    with pytest.raises(ValueError, match="option 'path' is missing: the directory of the store that 'red' reads"):
        source.register(session, "red")


def test_rows_of_the_chosen_destinations_and_table(
    store: SampleStore, tmp_path: Path, spark: SparkContext, session: SparkSession
) -> None:
    eu = store.destination("orders.eu")
    sent = fill(store, eu, 300)
    fill(store, store.destination("other"), 10)
    store.settle(eu, (0, 20))
    store.publish()
    source.register(session)
    messages = session.read.format("penstock").option("path", str(store.directory))
    orders = messages.option("destination", "orders.>").load()
    assert sorted(row.log_offset for row in orders.select("log_offset").collect()) == sent
    row = orders.orderBy("log_offset").first()
    assert row is not None
    assert (row.headers, row.body_text, row.destination) == ({"n": "0"}, "x" * 200, "queue://orders.eu")
    octets = messages.option("body", "binary").option("from-offset", sent[-1]).load().first()
    assert octets is not None
    assert (octets.body, octets.body_text) == (b"x" * 200, None)
    part = messages.option("from-offset", sent[10]).option("to-offset", sent[20]).load()
    assert part.count() == 10
    assert messages.option("destination", "nothing").load().count() == 0
    deliveries = session.read.format("penstock").option("path", str(store.directory)).option("table", "deliveries")
    ends = deliveries.load().orderBy("message_offset").collect()
    assert [(row.message_offset, row.outcome) for row in ends] == [(at, "acknowledged") for at in sent[:20]]
    only = deliveries.schema("attempt int").load()
    assert (only.columns, only.count()) == (["attempt"], 20)
    export(Request(store.directory, "orders.>", tmp_path / "out"), spark=spark)
    read_back = session.read.parquet(str(tmp_path / "out"))
    assert set(read_back.columns) == set(orders.columns)
    columns = [name for name in orders.columns if name not in ("headers", "properties", "subscription_states")]
    assert read_back.select(columns).exceptAll(orders.select(columns)).count() == 0


def test_typed_properties_in_sql(
    store: SampleStore, tmp_path: Path, spark: SparkContext, session: SparkSession
) -> None:
    store.send(
        store.destination("orders"), b"", b"n:5\nx:1.5\nok:true\namqp-property-types:n=int,x=double,ok=boolean\n"
    )
    store.send(store.destination("other"))
    store.publish()
    export(Request(store.directory, ">", tmp_path / "out"), spark=spark)
    log = session.read.format("penstock").option("path", str(store.directory)).load()
    for messages in (log, session.read.parquet(str(tmp_path / "out"))):
        messages.createOrReplaceTempView("messages")
        asked = "properties['n'].type, properties['n'].long + 1, properties['x'].double * 2, properties['ok'].boolean"
        rows = session.sql(f"SELECT {asked} FROM messages ORDER BY log_offset").collect()
        assert rows == [("int", 6, 3.0, True), (None, None, None, None)]


def test_lake_and_log_in_one_dataframe(
    store: SampleStore, tmp_path: Path, spark: SparkContext, session: SparkSession
) -> None:
    sent = fill(store, store.destination("orders"), 600)
    store.publish()
    export(Request(store.directory, ">", tmp_path / "out"), spark=spark)
    store.drop_first_segment()
    sent += fill(store, 1, 100)
    store.publish()
    union = session.read.format("penstock").option("path", str(store.directory)).option("lake", str(tmp_path / "out"))
    rows = union.load().select("log_offset", "headers").collect()
    assert sorted(row.log_offset for row in rows) == sent
    assert all("n" in row.headers for row in rows)


def test_filters_of_one_query_take_no_rows_from_another(store: SampleStore, session: SparkSession) -> None:
    sent = fill(store, store.destination("orders"), 20)
    store.publish()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")  # anybody may set it
    source.register(session)
    messages = session.read.format("penstock").option("path", str(store.directory)).load()
    first, last = messages.where(f"log_offset < {sent[3]}"), messages.where(f"log_offset >= {sent[-5]}")
    assert (last.count(), messages.count()) == (5, 20)
    assert (first.unionAll(last).count(), messages.join(last, "log_offset").count()) == (8, 5)


def test_columns_and_rows_by_options(store: SampleStore, session: SparkSession) -> None:
    sent = fill(store, store.destination("orders"), 5) + fill(store, store.destination("other"), 2)
    store.publish()
    options = f"path '{store.directory}', columns 'destination, log_offset', where 'log_offset >= {sent[2]}'"
    session.sql(f"CREATE TEMPORARY VIEW few USING penstock OPTIONS ({options})")
    assert session.table("few").columns == ["destination", "log_offset"]
    counted = session.sql("SELECT destination, count(*) FROM few GROUP BY 1 ORDER BY 1").collect()
    assert counted == [("queue://orders", 3), ("queue://other", 2)]
    with pytest.raises(Exception, match="unknown column 'colour'; messages has destination, "):
        session.read.format("penstock").option("path", str(store.directory)).option("columns", "colour").load()


def test_a_schema_prunes_the_columns(store: SampleStore, session: SparkSession) -> None:
    sent = fill(store, store.destination("orders"), 5)
    store.publish()
    source.register(session)
    messages = session.read.format("penstock").option("path", str(store.directory))
    rows = messages.schema("body_text string, log_offset bigint").load().orderBy("log_offset").collect()
    assert [row.log_offset for row in rows] == sent
    assert rows[0].asDict() == {"log_offset": sent[0], "body_text": "x" * 200}
    for asked, text in (("colour string", "unknown column 'colour'"), ("log_offset int", "it is bigint")):
        with pytest.raises(Exception, match=text):
            messages.schema(asked).load().collect()
