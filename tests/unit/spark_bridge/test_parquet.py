"""Files of one task: names, places, content."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from engine.store.format import layout
from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from engine.values.errors import StoreCorrupt
from engine.values.message import DEAD_LETTER, PERSISTENT, TEXT
from spark_bridge.arrow.schema import MESSAGES, SCHEMAS, TABLES
from spark_bridge.files.choice import files_at
from spark_bridge.parquet import PARTITION_COLUMNS, directory_name, write_partition
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
    files = write_partition(plan, plan.partitions[0], files_at(tmp_path / "out"), "x.parquet").files
    assert sum(file.rows for file in files) == 30
    assert {file.path.split("/")[0] for file in files} == {
        "destination=queue%3A%2F%2Fa",
        "destination=queue%3A%2F%2Fb%2Fü%3Ac",
    }
    assert {file.path.split("/")[1] for file in files} == {f"date=2023-11-{day}" for day in (14, 15, 16, 17)}
    for file in files:
        assert (tmp_path / "out" / file.path).stat().st_size == file.bytes
        schema = pq.read_schema(tmp_path / "out" / file.path)
        assert schema.names == [name for name in SCHEMAS[MESSAGES].names if name not in PARTITION_COLUMNS]
        assert (schema.metadata[b"penstock.store"], schema.metadata[b"penstock.destination"]) == (
            b"0badcafe",
            (unquote(file.path.split("/")[0]).removeprefix("destination=")).encode(),
        )
    table = ds.dataset(tmp_path / "out", partitioning="hive").to_table()
    assert sorted(table["log_offset"].to_pylist()) == sent
    assert set(table["destination"].to_pylist()) == {"queue://a", "queue://b/ü:c"}


@pytest.mark.parametrize(("mask", "directories", "files"), [(0, 0o750, 0o640), (0o077, 0o700, 0o600)])
def test_files_are_no_more_readable_than_the_store(
    store: SampleStore, tmp_path: Path, mask: int, directories: int, files: int
) -> None:
    store.send(store.destination("a"))
    store.publish(is_clean=True)
    plan = make_plan(StoreReader(store.directory), parse(">"))
    with umask(mask):
        write_partition(plan, plan.partitions[0], files_at(tmp_path / "out"), "x.parquet")
    assert modes(tmp_path / "out") == ({directories}, {files})


def test_each_table_has_a_folder(store: SampleStore, tmp_path: Path) -> None:
    orders, dead = store.destination("orders"), store.destination("ActiveMQ.DLQ")
    sent = [store.send(orders, b"%d" % number) for number in range(4)]
    store.settle(orders, (1, 2))
    buried = store.send(dead, flags=DEAD_LETTER | PERSISTENT)
    store.publish(is_clean=True)
    plan = make_plan(StoreReader(store.directory), parse(">"), tables=tuple(TABLES))
    written = write_partition(plan, plan.partitions[0], files_at(tmp_path / "out"), "x.parquet")
    assert sum(written.rows.values()) == 5
    assert sorted(file.path.split("/")[0] for file in written.files) == [
        "dead_letters",
        "deliveries",
        "messages",
        "messages",
    ]
    for table, columns in TABLES.items():
        found = ds.dataset(tmp_path / "out" / table, partitioning="hive").to_table()
        assert set(found.column_names) == {name for name, *_ in columns}
    deliveries = ds.dataset(tmp_path / "out" / "deliveries", partitioning="hive").to_table()
    assert deliveries["message_offset"].to_pylist() == sent[1:3]
    dead_letters = ds.dataset(tmp_path / "out" / "dead_letters", partitioning="hive").to_table()
    assert dead_letters["log_offset"].to_pylist() == [buried]
    (file,) = [file for file in written.files if file.path.startswith("deliveries/")]
    metadata = pq.read_schema(tmp_path / "out" / file.path).metadata
    assert (metadata[b"penstock.table"], metadata[b"penstock.destination"]) == (b"deliveries", b"queue://orders")


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
write_partition(plan, plan.partitions[0], files_at(sys.argv[2]), "x.parquet")
"""


def test_running_twice_gives_the_same_files(store: SampleStore, tmp_path: Path) -> None:
    queue = store.destination("a")
    store.send(queue, b"x")
    store.publish(is_clean=True)
    plan = make_plan(StoreReader(store.directory), parse(">"))
    first = write_partition(plan, plan.partitions[0], files_at(tmp_path / "out"), "x.parquet")
    assert write_partition(plan, plan.partitions[0], files_at(tmp_path / "out"), "x.parquet") == first
    assert len([path for path in (tmp_path / "out").rglob("*") if path.is_file()]) == 1


def test_nothing_is_left_of_a_task_that_fails(store: SampleStore, tmp_path: Path) -> None:
    queue = store.destination("a")
    offsets = [store.send(queue, b"x" * 100) for _ in range(10)]
    store.publish(is_clean=True)
    octets = bytearray(store.path.read_bytes())
    octets[layout.SEGMENT_HEADER_BYTES + offsets[9] + 100] ^= 1
    store.path.write_bytes(octets)
    plan = make_plan(StoreReader(store.directory), parse(">"))
    with pytest.raises(StoreCorrupt):
        write_partition(plan, plan.partitions[0], files_at(tmp_path / "out"), "x.parquet")
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


PROGRAM = """
import sys
from engine.store.read.reader import StoreReader
from spark_bridge.files.choice import files_at
from spark_bridge.parquet import write_partition
from spark_bridge.read.plan import make_plan
from engine.store.read.selection import parse
plan = make_plan(StoreReader(sys.argv[1]), parse(">"))
files = write_partition(plan, plan.partitions[0], files_at(sys.argv[2]), "x.parquet").files
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
    for name in names:
        assert len(f"destination={name}".encode()) <= 255
        unquote(name, errors="strict")
