"""Reads by their options, without Spark."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from engine.values.errors import RangeGone, StoreError
from spark_bridge.arrow.schema import MESSAGES, SCHEMAS, TABLES
from spark_bridge.errors import LakeError, TargetError
from spark_bridge.files.choice import files_at
from spark_bridge.log.times import offset_at
from spark_bridge.read.lake import Bounds, last_manifest, make_lake, read_lake
from spark_bridge.read.scan import plan_read, scan
from tests.support.store.lake_rows import lake_rows
from tests.support.store.one_process_spark import OneProcessSpark
from tests.support.store.sample_store import DAY_ONE_MS, SampleStore

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data", segment_bytes=8192) as sample:
        yield sample


def filled(store: SampleStore) -> list[int]:
    """Send a message each second, and settle the one before; return the offsets of the messages."""
    queue = store.destination("orders")
    sent = []
    for number in range(100):
        store.now_ms = DAY_ONE_MS + number * 1000
        sent.append(store.send(queue, b"x" * 300))
        if number:
            store.settle(queue, (number - 1, 1))
    return sent


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("is_clean", [True, False], ids=["from consume queues", "tail scanned"])
def test_a_scan_has_the_rows_of_its_table(store: SampleStore, table: str, is_clean: bool) -> None:
    filled(store)
    store.publish(is_clean=is_clean)
    reader = scan(str(store.directory), table=table, partition_bytes=4000)
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema == SCHEMAS[table]
    assert reader.read_all().to_pylist() == lake_rows(store.directory, ">", table)


def test_a_scan_needs_no_spark() -> None:
    program = "import sys; sys.modules['pyspark'] = None; import penstock; penstock.scan"
    subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[4], check=True)


def test_chosen_columns_and_destinations(store: SampleStore) -> None:
    sent = filled(store)
    store.send(store.destination("other"))
    store.publish()
    found = scan(str(store.directory), ["log_offset"], destination="orders").read_all()
    assert found.to_pydict() == {"log_offset": sent}
    with pytest.raises(ValueError, match="unknown column 'colour'; deliveries has destination, "):
        scan(str(store.directory), ["colour"], table="deliveries")


@pytest.mark.parametrize("is_clean", [True, False], ids=["from consume queues", "tail scanned"])
def test_states_as_of_a_time(store: SampleStore, is_clean: bool) -> None:
    sent = filled(store)
    store.publish(is_clean=is_clean)

    def waiting(**options: Any) -> list[int]:
        rows = scan(str(store.directory), ["log_offset", "delivery_state"], **options).read_all().to_pylist()
        return [row["log_offset"] for row in rows if row["delivery_state"] == "pending"]

    assert waiting() == sent[-1:]
    assert waiting(to_time=DAY_ONE_MS + 50_000) == [sent[49]]
    assert waiting(to_time="2023-11-14T22:14:10Z") == [sent[49]]  # 50 s after the first
    assert waiting(toTime="2023-11-14T23:14:10.001+01:00") == [sent[50]]
    assert waiting(to_time=0) == []
    assert waiting(asOf=DAY_ONE_MS + 50_000, startingOffsets="earliest") == [sent[49]]
    assert waiting(**{"starting-time": DAY_ONE_MS, "ending-offsets": "latest"}) == sent[-1:]
    assert waiting(startingTimestamp=DAY_ONE_MS, timestampAsOf=DAY_ONE_MS + 50_000) == [sent[49]]
    assert waiting(endingTimestamp="2023-11-14 22:14:10") == [sent[49]]
    part = scan(str(store.directory), ["log_offset"], from_time=DAY_ONE_MS + 10_000, to_time=DAY_ONE_MS + 12_000)
    assert part.read_all()["log_offset"].to_pylist() == sent[10:12]


def test_the_offset_of_a_time_is_that_of_the_first_record(store: SampleStore) -> None:
    filled(store)
    store.continue_after_failed_sync()
    store.now_ms += 5_000
    store.send(1, b"in the continuation")
    store.publish()
    reader = StoreReader(store.directory)
    assert len(reader.segments) > 3
    records = [*reader.scan(0, reader.end().offset)]
    for time_ms in {record.store_time_ms + shift for record in records for shift in (-1, 0, 1)}:
        expected = next((one.offset for one in records if one.store_time_ms >= time_ms), reader.end().offset)
        assert reader.offset_at(time_ms) == expected


@pytest.mark.parametrize("is_clean", [True, False], ids=["from consume queues", "tail scanned"])
def test_consume_queues_say_the_same_of_a_time(store: SampleStore, is_clean: bool) -> None:
    filled(store)
    for number in range(40):  # two messages of each time, of two destinations and lanes
        store.now_ms += (number % 2) * 700
        store.send(store.destination("odd" if number % 4 else "even"), b"x" * 300, priority=4 + number % 3)
    store.publish(is_clean=is_clean)
    reader = StoreReader(store.directory)
    times = {record.store_time_ms for record in reader.scan(0, reader.end().offset)}
    for time_ms in {time_ms + shift for time_ms in times for shift in (-1, 0, 1)} | {0, 1 << 50}:
        assert offset_at(reader, time_ms) == reader.offset_at(time_ms)


def exported(store: SampleStore, lake: Path, destination: str = ">") -> None:
    pytest.importorskip("pyspark")
    from spark_bridge.export import Request, export

    export(Request(store.directory, destination, lake), spark=cast(Any, OneProcessSpark()))


def test_a_lake_and_the_log_behind_it(store: SampleStore, tmp_path: Path) -> None:
    sent = filled(store)
    store.publish()
    before = lake_rows(store.directory, ">")
    exported(store, tmp_path / "lake")
    store.drop_first_segment()
    sent += filled_again(store)
    store.publish()
    with pytest.raises(RangeGone):
        scan(str(store.directory), from_offset=0)
    union = scan(str(store.directory), lake=tmp_path / "lake")
    rows = union.read_all().to_pylist()
    assert [row["log_offset"] for row in rows] == sent
    assert rows[:100] == before
    columns = ["log_offset", "date"]
    late = scan(str(store.directory), columns, lake=tmp_path / "lake", from_time=DAY_ONE_MS + 90_000)
    assert late.read_all()["log_offset"].to_pylist() == sent[90:]
    part = scan(str(store.directory), columns, lake=tmp_path / "lake", from_offset=sent[90], to_offset=sent[102])
    assert part.read_all()["log_offset"].to_pylist() == sent[90:102]
    old = scan(str(store.directory), columns, lake=tmp_path / "lake", to_offset=sent[10], destination="orders")
    assert old.read_all()["log_offset"].to_pylist() == sent[:10]
    where = f"log_offset > {sent[90]} AND store_time < {DAY_ONE_MS + 200_001} AND destination = 'queue://orders'"
    some = scan(str(store.directory), ["date", "log_offset"], lake=tmp_path / "lake", where=where).read_all()
    assert some.column_names == ["date", "log_offset"]
    assert some["log_offset"].to_pylist() == sent[91:]
    for states in ({}, {"columns": ["log_offset"], "where": "delivery_state = 'pending'"}):
        with pytest.raises(ValueError, match="do not go with columns of states"):
            scan(str(store.directory), lake=tmp_path / "lake", asOf=DAY_ONE_MS + 10_000, **states)


def test_an_export_of_several_patterns_is_one_lake(store: SampleStore, tmp_path: Path) -> None:
    for name in ("orders.eu", "bills", "others", "orders.us"):
        store.send(store.destination(name))
    store.publish()
    exported(store, tmp_path / "lake", "orders.>, /queue/bills")
    last = last_manifest(files_at(tmp_path / "lake"), MESSAGES)
    assert last.destination == "orders.>,queue://bills"
    store.send(store.destination("bills"))
    store.publish()
    names = scan(str(store.directory), ["destination_name"], lake=tmp_path / "lake").read_all()
    assert names["destination_name"].to_pylist() == ["bills", "orders.eu", "orders.us", "bills"]
    some = scan(str(store.directory), ["destination_name"], lake=tmp_path / "lake", destination="bills,orders.eu")
    assert some.read_all()["destination_name"].to_pylist() == ["bills", "orders.eu", "bills"]
    with pytest.raises(ValueError, match="queue://others has no history there"):
        scan(str(store.directory), lake=tmp_path / "lake", destination="bills,others")
    with pytest.raises(TargetError, match="holds an export of destination 'orders.>,queue://bills', not 'bills'"):
        exported(store, tmp_path / "lake", "bills")


def filled_again(store: SampleStore) -> list[int]:
    store.now_ms = DAY_ONE_MS + 200_000
    return [store.send(1, b"later") for _ in range(5)]


def test_an_export_between_the_parts_of_a_plan_adds_no_row(store: SampleStore, tmp_path: Path) -> None:
    sent = filled(store)
    store.publish()
    exported(store, tmp_path / "lake")
    last = last_manifest(files_at(tmp_path / "lake"), MESSAGES)
    filled_again(store)
    store.publish()
    exported(store, tmp_path / "lake")
    bounds = Bounds(0, last.to_offset, 0, 1 << 62)
    lake = make_lake(files_at(tmp_path / "lake"), last.tables, MESSAGES, ["log_offset"], parse(">"), bounds, 1 << 20)
    assert sum(map(len, lake.partitions)) == 2
    batches = [batch for files in lake.partitions for batch in read_lake(lake, files, 1000)]
    assert pa.Table.from_batches(batches)["log_offset"].to_pylist() == sent


def test_row_groups_that_nobody_wants_are_not_read(store: SampleStore, tmp_path: Path) -> None:
    sent = filled(store)
    store.publish()
    lake = tmp_path / "lake"
    exported(store, lake)
    (file,) = lake.glob("destination=*/date=*/*.parquet")
    pq.write_table(pq.read_table(file, partitioning=None), file, row_group_size=10)
    octets = bytearray(file.read_bytes())
    for group in range(5):  # what is read of the first half, fails
        column = pq.read_metadata(file).row_group(group).column(0)
        start = column.dictionary_page_offset or column.data_page_offset
        octets[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    file.write_bytes(octets)
    columns = ["destination_kind", "log_offset"]

    def offsets(**bounds: Any) -> list[int]:
        found: list[int] = scan(str(store.directory), columns, lake=lake, **bounds).read_all()["log_offset"].to_pylist()
        return found

    assert offsets(from_offset=sent[50]) == sent[50:]
    assert offsets(from_time=DAY_ONE_MS + 50_000) == sent[50:]
    assert offsets(from_offset=sent[62], to_time=DAY_ONE_MS + 65_000) == sent[62:65]
    with pytest.raises(LakeError, match="cannot read destination="):
        offsets(from_offset=sent[49])


def test_a_lake_that_is_not_the_history_of_the_log(store: SampleStore, tmp_path: Path) -> None:
    filled(store)
    store.send(store.destination("other"))
    store.publish()
    path, lake = str(store.directory), tmp_path / "lake"
    with pytest.raises(ValueError, match="which holds no export"):
        scan(path, lake=lake)
    exported(store, lake, "orders")
    assert len(scan(path, lake=lake).read_all()) == 100  # the pattern of the lake
    with pytest.raises(ValueError, match="holds an export of 'orders'; queue://other has no history there"):
        scan(path, lake=lake, destination=">")
    with pytest.raises(ValueError, match="which has messages, and not deliveries"):
        scan(path, lake=lake, table="deliveries")
    with SampleStore(tmp_path / "another", "c0ffee00") as another:
        another.publish()
        with pytest.raises(ValueError, match="holds an export of store 0badcafe; 'path' is store c0ffee00"):
            scan(str(another.directory), lake=lake)
    with SampleStore(tmp_path / "older") as older:
        older.publish()
        with pytest.raises(StoreError, match="it is an older copy"):
            scan(str(older.directory), lake=lake)


def test_files_of_an_earlier_version(store: SampleStore, tmp_path: Path) -> None:
    """It had no Delta log, so files could be merged by hand; a column that they lack is null."""
    sent = filled(store)
    store.publish()
    lake = tmp_path / "lake"
    exported(store, lake)
    (file,) = lake.glob("destination=*/date=*/*.parquet")
    pq.write_table(
        pq.read_table(file, partitioning=None).drop_columns(["properties"]), file.with_name("merged.parquet")
    )
    file.unlink()
    shutil.rmtree(lake / "_delta_log")
    rows = scan(str(store.directory), ["log_offset", "properties", "destination"], lake=lake).read_all().to_pylist()
    assert [row["log_offset"] for row in rows] == sent
    assert rows[0]["properties"] is None and rows[0]["destination"] == "queue://orders"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "'path' is missing"),
        ({"path": "x", "colour": "red"}, "unknown option 'colour'"),
        ({"path": "x", "verify": "maybe"}, "true or false"),
        ({"path": "x", "body": "json"}, "text, binary or both"),
        ({"path": "x", "table": "consumers"}, "messages, deliveries, dead_letters"),
        ({"path": "x", "from-time": "nine"}, "'from-time' is 'nine'; it takes 2026-11-23T09:00:00Z or milliseconds"),
        ({"path": "x", "to-time": "1", "toOffset": "2"}, "'to-offset' and 'to-time' are both given"),
        ({"path": "x", "from_offset": "-1"}, "'from-offset' is '-1'; it takes a whole number, at least 0"),
        ({"path": "x", "startingOffsets": "latest"}, "'from-offset' is 'latest'; .* at least 0, or earliest"),
        ({"path": "x", "toTime": "1", "as-of": "2"}, "'to-time' is given twice, also as 'as-of'"),
    ],
)
def test_options_that_mean_nothing(options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        plan_read(options)
