"""Files of one task: names, places, content."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from engine.store.format import layout
from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from engine.values.errors import StoreCorrupt
from engine.values.message import DEAD_LETTER, PERSISTENT, TEXT
from spark_bridge.arrow.schema import MESSAGES, SCHEMAS, TABLES
from spark_bridge.export import NO_SPARK, Request, export
from spark_bridge.files.choice import files_at
from spark_bridge.parquet import by_destination, directory_name, write_partition
from spark_bridge.parquet_file import SortedFile
from spark_bridge.partitioning import BY_DATE, BY_DESTINATION
from spark_bridge.read.plan import make_plan
from tests.support.disk.modes import modes, umask
from tests.support.store.sample_store import SampleStore

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")

ROOT = Path(__file__).parents[3]
DAY_MS = 86_400_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data") as sample:
        yield sample


def test_one_file_for_each_destination_and_day(store: SampleStore, tmp_path: Path) -> None:
    a, b = store.destination("a"), store.destination("b/ü:c")
    sent = []
    for number in range(30):
        sent.append(store.send(a if number % 2 else b, b"%d" % number))
        store.now_ms += DAY_MS // 10
    store.publish(is_clean=True)
    plan = make_plan(StoreReader(store.directory), parse(">"))
    files = write_partition(plan, plan.partitions[0], files_at(tmp_path / "out"), lambda part: "x.parquet").files
    assert sum(file.rows for file in files) == 30
    assert {file.path.split("/")[0] for file in files} == {
        "destination=queue%3A%2F%2Fa",
        "destination=queue%3A%2F%2Fb%2Fü%3Ac",
    }
    assert {file.path.split("/")[1] for file in files} == {f"date=2023-11-{day}" for day in (14, 15, 16, 17)}
    for file in files:
        assert (tmp_path / "out" / file.path).stat().st_size == file.bytes
        schema = pq.read_schema(tmp_path / "out" / file.path)
        assert schema.names == [name for name in SCHEMAS[MESSAGES].names if name not in BY_DESTINATION]
        assert (schema.metadata[b"penstock.store"], schema.metadata[b"penstock.destination"]) == (
            b"0badcafe",
            (unquote(file.path.split("/")[0]).removeprefix("destination=")).encode(),
        )
    table = ds.dataset(tmp_path / "out", partitioning="hive").to_table()
    assert sorted(table["log_offset"].to_pylist()) == sent
    assert set(table["destination"].to_pylist()) == {"queue://a", "queue://b/ü:c"}


def test_by_date_a_file_has_all_destinations_sorted(store: SampleStore, tmp_path: Path) -> None:
    queues = [store.destination(name) for name in ("b", "ü", "a.b", "a")]
    for number in range(40):
        store.send(queues[number % 4], b"%d" % number)
        store.now_ms += DAY_MS // 20
    store.publish(is_clean=True)
    plan = replace(make_plan(StoreReader(store.directory), parse(">")), partitioning=BY_DATE)
    written = write_partition(plan, plan.partitions[0], files_at(tmp_path / "out"), lambda part: "x.parquet")
    assert [file.path for file in written.files] == [f"date=2023-11-{day}/x.parquet" for day in (14, 15, 16)]
    assert by_destination([written]).keys() == {"queue://a", "queue://a.b", "queue://b", "queue://ü"}
    assert {counts["rows"] for counts in by_destination([written]).values()} == {10}
    octets = sum(counts["bytes"] for counts in by_destination([written]).values())
    assert octets == sum(file.bytes for file in written.files)
    for file in written.files:
        path = tmp_path / "out" / file.path
        schema = pq.read_schema(path)
        assert schema.names == [name for name in SCHEMAS[MESSAGES].names if name not in BY_DATE]
        assert schema.metadata[b"penstock.table"] == b"messages" and b"penstock.destination" not in schema.metadata
        rows = pq.ParquetFile(path).read(["destination", "log_offset"]).to_pylist()
        assert rows == sorted(rows, key=lambda row: (row["destination"].encode(), row["log_offset"]))
    table = ds.dataset(tmp_path / "out", partitioning="hive").to_table()
    assert len(table) == 40


def test_more_rows_than_are_kept_in_memory_are_sorted_part_by_part(tmp_path: Path) -> None:
    names = [f"queue://{number % 7}" for number in range(20_000)]
    batch = pa.record_batch({"destination": names, "body": [b"x" * 1024] * len(names)})
    file = SortedFile(files_at(tmp_path), "x.parquet", batch.schema, "")
    for _ in range(8):
        file.add(batch)
    finished = file.finish()
    assert finished.rows == sum(file.rows_by_destination().values()) == 160_000
    metadata = pq.read_metadata(tmp_path / "x.parquet")
    groups = [metadata.row_group(number).column(0).statistics for number in range(metadata.num_row_groups)]
    assert sum(one.min == "queue://0" for one in groups) > 2, "it is two sorted parts"
    assert sum(one.min <= "queue://3" <= one.max for one in groups) < len(groups) / 3


@pytest.mark.parametrize(("mask", "directories", "files"), [(0, 0o750, 0o640), (0o077, 0o700, 0o600)])
def test_files_are_no_more_readable_than_the_store(
    store: SampleStore, tmp_path: Path, mask: int, directories: int, files: int
) -> None:
    store.send(store.destination("a"))
    store.publish(is_clean=True)
    plan = make_plan(StoreReader(store.directory), parse(">"))
    with umask(mask):
        write_partition(plan, plan.partitions[0], files_at(tmp_path / "out"), lambda part: "x.parquet")
    assert modes(tmp_path / "out") == ({directories}, {files})


def test_each_table_has_a_folder(store: SampleStore, tmp_path: Path) -> None:
    orders, dead = store.destination("orders"), store.destination("ActiveMQ.DLQ")
    for number in range(4):
        store.send(orders, b"%d" % number)
    store.settle(orders, (1, 2))
    store.send(dead, flags=DEAD_LETTER | PERSISTENT)
    store.publish(is_clean=True)
    plan = make_plan(StoreReader(store.directory), parse(">"), tables=tuple(TABLES))
    written = write_partition(plan, plan.partitions[0], files_at(tmp_path / "out"), lambda part: "x.parquet")
    assert sum(written.rows.values()) == 5
    assert sorted(file.path.split("/")[0] for file in written.files) == [
        "dead_letters",
        "deliveries",
        "messages",
        "messages",
    ]
    (file,) = [file for file in written.files if file.path.startswith("deliveries/")]
    metadata = pq.read_schema(tmp_path / "out" / file.path).metadata
    assert (metadata[b"penstock.table"], metadata[b"penstock.destination"]) == (b"deliveries", b"queue://orders")


@pytest.mark.parametrize("partitioning", [BY_DESTINATION, BY_DATE], ids=",".join)
def test_each_table_has_its_columns(store: SampleStore, tmp_path: Path, partitioning: tuple[str, ...]) -> None:
    orders, dead = store.destination("orders"), store.destination("ActiveMQ.DLQ")
    sent = [store.send(orders, b"%d" % number) for number in range(4)]
    store.settle(orders, (1, 2))
    buried = store.send(dead, flags=DEAD_LETTER | PERSISTENT)
    store.publish(is_clean=True)
    plan = make_plan(StoreReader(store.directory), parse(">"), tables=tuple(TABLES))
    plan = replace(plan, partitioning=partitioning)
    write_partition(plan, plan.partitions[0], files_at(tmp_path / "out"), lambda part: "x.parquet")
    found = {table: ds.dataset(tmp_path / "out" / table, partitioning="hive").to_table() for table in TABLES}
    for table, columns in TABLES.items():
        assert set(found[table].column_names) == {name for name, *_ in columns}
    assert found["deliveries"]["message_offset"].to_pylist() == sent[1:3]
    assert found["dead_letters"]["log_offset"].to_pylist() == [buried]


def test_more_destinations_than_files_may_be_open(store: SampleStore, tmp_path: Path) -> None:
    queues = [store.destination(f"q{number}") for number in range(150)]
    sent = [store.send(queue, b"%d" % turn) for turn in range(2) for queue in queues]
    store.publish(is_clean=True)
    done = subprocess.run(
        [sys.executable, "-c", FEW_FILES, store.directory, tmp_path / "out"], cwd=ROOT, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    table = ds.dataset(tmp_path / "out", partitioning="hive").to_table()
    assert sorted(table["log_offset"].to_pylist()) == sent
    for row in table.select(["destination", "destination_name"]).to_pylist():
        assert row["destination"] == "queue://" + row["destination_name"]


FEW_FILES = """
import resource
import sys
from engine.store.read.reader import StoreReader
from spark_bridge.files.choice import files_at
from spark_bridge.parquet import write_partition
from spark_bridge.read.plan import make_plan
from engine.store.read.selection import parse
plan = make_plan(StoreReader(sys.argv[1]), parse(">"))
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
write_partition(plan, plan.partitions[0], files_at(sys.argv[2]), lambda part: "x.parquet")
"""


def test_running_twice_gives_the_same_files(store: SampleStore, tmp_path: Path) -> None:
    queue = store.destination("a")
    store.send(queue, b"x")
    store.publish(is_clean=True)
    plan = make_plan(StoreReader(store.directory), parse(">"))
    first = write_partition(plan, plan.partitions[0], files_at(tmp_path / "out"), lambda part: "x.parquet")
    assert write_partition(plan, plan.partitions[0], files_at(tmp_path / "out"), lambda part: "x.parquet") == first
    assert len([path for path in (tmp_path / "out").rglob("*") if path.is_file()]) == 1


@pytest.mark.parametrize("partitioning", [BY_DESTINATION, BY_DATE], ids=",".join)
def test_a_file_ends_once_it_has_its_size(store: SampleStore, tmp_path: Path, partitioning: tuple[str, ...]) -> None:
    draw = random.Random(1)
    queues = [store.destination("a"), store.destination("b")]
    sent = [store.send(queues[number % 2], draw.randbytes(1_000)) for number in range(200)]
    store.publish(is_clean=True)
    plan = make_plan(StoreReader(store.directory), parse(">"), partition_bytes=10_000)
    plan = replace(plan, partitioning=partitioning, file_bytes=20_000)
    pieces = [piece for each in plan.partitions for piece in each]  # each a batch, as in larger logs
    files = write_partition(plan, pieces, files_at(tmp_path / "out"), lambda part: f"x-{part}.parquet").files
    assert len({file.path for file in files}) == len(files) > 4
    whole = [file.bytes for file in files if file.bytes >= 20_000]
    assert len(files) - len(whole) <= len(queues), "at most the last one of each folder is smaller"
    assert max(whole) < 3 * 20_000, "a file ends with the row group that fills it"
    table = ds.dataset(tmp_path / "out", partitioning="hive").to_table()
    assert sorted(table["log_offset"].to_pylist()) == sent


def test_a_task_reads_what_filled_a_file_in_the_export_before(store: SampleStore, tmp_path: Path) -> None:
    request = Request(store.directory, ">", tmp_path / "out", NO_SPARK, file_bytes=30_000)
    counts = []
    for _ in range(3):
        for _ in range(400):
            store.send(store.destination("a"), b"x" * 1_000)  # which Parquet makes very small
        store.publish()
        counts.append(export(request).files)
    assert counts[0] > counts[1] > counts[2]
    assert ds.dataset(tmp_path / "out", partitioning="hive").count_rows() == 1_200


def test_nothing_is_left_of_a_task_that_fails(store: SampleStore, tmp_path: Path) -> None:
    queue = store.destination("a")
    offsets = [store.send(queue, b"x" * 100) for _ in range(10)]
    store.publish(is_clean=True)
    octets = bytearray(store.path.read_bytes())
    octets[layout.SEGMENT_HEADER_BYTES + offsets[9] + 100] ^= 1
    store.path.write_bytes(octets)
    plan = make_plan(StoreReader(store.directory), parse(">"))
    with pytest.raises(StoreCorrupt):
        write_partition(plan, plan.partitions[0], files_at(tmp_path / "out"), lambda part: "x.parquet")
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


PROGRAM = """
import sys
from engine.store.read.reader import StoreReader
from spark_bridge.files.choice import files_at
from spark_bridge.parquet import write_partition
from spark_bridge.read.plan import make_plan
from engine.store.read.selection import parse
plan = make_plan(StoreReader(sys.argv[1]), parse(">"))
files = write_partition(plan, plan.partitions[0], files_at(sys.argv[2]), lambda part: "x.parquet").files
assert sum(file.rows for file in files) == 2
assert "pandas" not in sys.modules
"""


def test_a_worker_does_not_spend_its_first_half_second_on_pandas(store: SampleStore, tmp_path: Path) -> None:
    queue = store.destination("a")
    store.send(queue, b"text", b"type:t\n", flags=PERSISTENT | TEXT)
    store.send(queue, b"octets", b"path:a\\cb\n", expires_ms=1)
    store.publish(is_clean=True)
    subprocess.run([sys.executable, "-c", PROGRAM, store.directory, tmp_path / "out"], cwd=ROOT, check=True)


@pytest.mark.parametrize("value", ["queue://a", "a%b", "a=b", "../..", "größe", "a b", "{x}[y]^"])
def test_directory_names_can_be_undone(value: str) -> None:
    name = directory_name(value)
    assert "/" not in name
    assert unquote(name) == value


def test_long_names_fit_a_file_system_and_stay_apart() -> None:
    names = {directory_name("queue://" + "ü:" * 300 + end) for end in "abc"}
    assert len(names) == 3
    cut = directory_name("queue://" + "x" * 300)
    assert directory_name(unquote(cut)) != cut, "somebody has called a destination as the folder of another is named"
    for name in names:
        assert len(f"destination={name}".encode()) <= 255
        unquote(name, errors="strict")
