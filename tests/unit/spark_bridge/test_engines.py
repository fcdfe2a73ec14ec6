"""One export, read by engines that others wrote: equal counts, types and values, and those of the log itself."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark import SparkContext
from pyspark.sql import SparkSession

from engine.values.destination import TOPIC
from engine.values.message import DEAD_LETTER, PERSISTENT
from spark_bridge.arrow.schema import TABLES
from spark_bridge.export import Request, export
from spark_bridge.files.choice import files_at
from spark_bridge.parquet import directory_name
from spark_bridge.partitioning import BY_DESTINATION, PARTITIONINGS, Partitioning
from spark_bridge.read.scan import scan
from tests.support.store.one_process_spark import OneProcessSpark
from tests.support.store.sample_store import DAY_ONE_MS, SampleStore

pytestmark = [
    pytest.mark.damages_store("written by hand, without all that a gateway would write"),
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore"),  # the engines' own
]

Row = dict[str, Any]

ODD: Final = "bücher/日本 😀'\"%3A=?#"  # what directories, URIs and Hive escape
LONG: Final = "x" * 300  # the name of its directory is cut
MIB: Final = 1 << 20
TYPED: Final = """\
yes:true
no:false
byte:-128
short:32767
int:-2147483648
long:9223372036854775807
ulong:18446744073709551615
float:1.5
double:-2.5e300
infinite:inf
empty:
text:zwölf 😀
größe:12
amqp-property-types:yes=boolean,no=boolean,byte=byte,short=short,int=int,long=long,ulong=ulong,float=float,double=double,\
infinite=double,größe=int
"""
DIED: Final = """\
original-destination:/queue/orders
dlqDeliveryFailureCause:exhausted\\c delivery 3 failed; no\\nträble
originalMessageId:ID\\c0badcafe-72
originalDeliveryCount:3
dlqCause:exhausted
dlqFirstFailureTime:1700000000001
dlqLastFailureTime:1700000000250
"""
FULL: Final = """\
correlation-id:c-ä
type:order
reply-to:/queue/answers
content-type:text/plain
JMSXGroupID:g
JMSXGroupSeq:-3
timestamp:1700000000123
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one message of each kind, and exports of all its tables."""
    home = tmp_path_factory.mktemp("engines")
    with SampleStore(home / "data", segment_bytes=32 * MIB) as store:
        orders = store.destination("orders")
        for number in (orders, store.destination(ODD), store.destination(LONG)):
            store.send(number, b"")
            store.send(number, "zwölf 😀".encode(), FULL.encode(), expires_ms=DAY_ONE_MS + 1, priority=9)
            store.send(number, b"\x00\xff", TYPED.encode())
        store.send(orders, b"", b"amq-msg-type:text\n")
        store.send(orders, b"\xfe" * (5 * MIB))
        store.send(orders, "ä".encode() * (2 * MIB), b"content-type:text/plain\n")
        store.send(store.destination("prices", TOPIC), b"x")
        store.now_ms += 86_400_000
        store.send(store.destination("ActiveMQ.DLQ"), b"", FULL.encode(), DIED.encode(), PERSISTENT | DEAD_LETTER)
        store.settle(orders, (0, 2))
        store.publish()
    for partitioning in PARTITIONINGS:
        request = Request(home / "data", ">", lake(home, partitioning), tables=tuple(TABLES), partitioning=partitioning)
        export(request, spark=cast(Any, OneProcessSpark()))
    return home


def lake(home: Path, partitioning: Partitioning) -> Path:
    return home / "-".join(partitioning)


def by_pyarrow(folder: Path, session: SparkSession) -> pa.Table:
    # Of a day in the name of a directory Arrow makes a text, unless it is told.
    partitions = pa.schema([("destination", pa.string()), ("date", pa.date32())])
    return ds.dataset(folder, partitioning=ds.partitioning(partitions, flavor="hive")).to_table()


def by_spark(folder: Path, session: SparkSession) -> pa.Table:
    return session.read.parquet(str(folder)).toArrow()


def by_deltalake(folder: Path, session: SparkSession) -> pa.Table:
    deltalake = pytest.importorskip("deltalake")
    return pa.table(deltalake.DeltaTable(folder).to_pyarrow_dataset().to_table())


def by_polars(folder: Path, session: SparkSession) -> pa.Table:
    polars = pytest.importorskip("polars")
    return polars.scan_parquet(f"{folder}/**/date=*/*.parquet", hive_partitioning=True).collect().to_arrow()


def by_polars_and_delta(folder: Path, session: SparkSession) -> pa.Table:
    pytest.importorskip("deltalake")
    return pytest.importorskip("polars").scan_delta(str(folder)).collect().to_arrow()


def by_duckdb(folder: Path, session: SparkSession) -> pa.Table:
    with pytest.importorskip("duckdb").connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        files = f"{folder}/**/date=*/*.parquet"
        found = connection.execute("SELECT * FROM read_parquet($1, hive_partitioning = true)", [files])
        return found.to_arrow_table()


def by_added_files(folder: Path, session: SparkSession) -> pa.Table:
    pytest.importorskip("sqlalchemy")  # for a catalogue in a file
    catalogues = pytest.importorskip("pyiceberg.catalog.sql")
    home = Path(tempfile.mkdtemp(dir=folder.parents[1]))
    with catalogues.SqlCatalog("penstock", uri=f"sqlite:///{home}/catalogue", warehouse=f"file://{home}") as catalogue:
        catalogue.create_namespace("lake")
        files = sorted(map(str, folder.rglob("*.parquet")))
        table = catalogue.create_table("lake.exported", pq.read_schema(files[0]))
        table.add_files(files)
        return table.scan().to_arrow()


def by_pyiceberg(folder: Path, session: SparkSession) -> pa.Table:
    """Read what ``--iceberg`` publishes."""
    pytest.importorskip("sqlalchemy")
    catalogues = pytest.importorskip("pyiceberg.catalog.sql")
    from spark_bridge.iceberg.catalogue import IcebergCatalogue

    home = Path(tempfile.mkdtemp(dir=folder.parents[1]))
    with catalogues.SqlCatalog("penstock", uri=f"sqlite:///{home}/catalogue", warehouse=f"file://{home}") as catalogue:
        tables = IcebergCatalogue(catalogue, "penstock.lake", files_at(folder.parent), tuple(TABLES))
        assert tables.publish(tuple(folder.parent.name.split("-"))) == ""
        return catalogue.load_table(f"lake.{folder.name}").scan().to_arrow()


READERS: Final[dict[str, Callable[[Path, SparkSession], pa.Table]]] = {
    "pyarrow": by_pyarrow,
    "Spark": by_spark,
    "deltalake": by_deltalake,
    "Polars": by_polars,
    "Polars on Delta": by_polars_and_delta,
    "DuckDB": by_duckdb,
    "pyiceberg": by_pyiceberg,
    "pyiceberg (add_files)": by_added_files,
}
# These take the destination from the name of its directory, where a long one is cut; ``destination_name`` has it all.
OF_DIRECTORIES: Final = ("pyarrow", "Spark", "Polars", "Polars on Delta", "DuckDB")
# These see what is inside the files alone.
OF_FILES: Final = ("pyiceberg (add_files)",)


def type_of(arrow: pa.DataType) -> str:
    """Return the name of a type, whichever of its forms an engine prefers."""
    types = pa.types
    if types.is_dictionary(arrow):
        return type_of(arrow.value_type)
    if types.is_map(arrow):
        return f"map<{type_of(arrow.key_type)},{type_of(arrow.item_type)}>"
    if types.is_struct(arrow):
        return "struct<" + ",".join(f"{each.name}:{type_of(each.type)}" for each in arrow) + ">"
    if types.is_list(arrow) or types.is_large_list(arrow):  # Polars has no maps
        fields = {each.name: each.type for each in arrow.value_type}
        assert list(fields) == ["key", "value"]
        return f"map<{type_of(fields['key'])},{type_of(fields['value'])}>"
    if types.is_timestamp(arrow):
        assert arrow.tz in ("UTC", "Etc/UTC")
        return "timestamp"
    found = str(arrow).removeprefix("large_").removesuffix("_view")
    return found


def plain(value: Any) -> Any:
    """Return maps as dicts."""
    if isinstance(value, list):
        pairs = ((each["key"], each["value"]) if isinstance(each, dict) else each for each in value)
        return {key: plain(one) for key, one in pairs}
    return value


def rows_of(table: pa.Table) -> dict[tuple[int, int], Row]:
    rows = [{name: plain(value) for name, value in row.items()} for row in table.to_pylist()]
    return {(row["log_offset"], row["queue_offset"]): row for row in rows}


@pytest.mark.parametrize("engine", READERS)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("partitioning", PARTITIONINGS, ids=",".join)
def test_every_engine_reads_the_same(
    engine: str, table: str, partitioning: Partitioning, home: Path, spark: SparkContext
) -> None:
    session = SparkSession(spark).newSession()
    found = READERS[engine](lake(home, partitioning) / table, session)
    expected = scan(str(home / "data"), table=table).read_all()
    if engine in OF_FILES:
        expected = expected.drop_columns(list(partitioning))
    assert {field.name: type_of(field.type) for field in found.schema} == {
        field.name: type_of(field.type) for field in expected.schema
    }
    rows, same = rows_of(expected), rows_of(found)
    assert len(found) == len(same) == len(rows)
    if engine in OF_DIRECTORIES and partitioning == BY_DESTINATION:
        for row in rows.values():
            row["destination"] = unquote(directory_name(row["destination"]))
    for place, row in rows.items():  # one by one, because some are large
        assert [name for name, value in row.items() if same[place][name] != value] == []


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("partitioning", [(), *PARTITIONINGS], ids=",".join)
def test_lake_and_log_are_the_same_in_spark(
    table: str, partitioning: Partitioning, home: Path, spark: SparkContext
) -> None:
    session = SparkSession(spark).newSession()
    expected = scan(str(home / "data"), table=table).read_all()
    options = {"lake": str(lake(home, partitioning))} if partitioning else {}
    rows = session.read.format("penstock").options(path=str(home / "data"), table=table, **options).load()
    found = rows.toArrow()
    assert found.schema.names == expected.schema.names
    assert [type_of(field.type) for field in found.schema] == [type_of(field.type) for field in expected.schema]
    assert rows_of(found) == rows_of(expected)
