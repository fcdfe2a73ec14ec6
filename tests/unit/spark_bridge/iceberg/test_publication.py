"""Exports that are published in a catalogue of Iceberg: each message once there, whatever happens in between."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy")  # for a catalogue in a file
pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")

import deltalake
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException

from spark_bridge.arrow.schema import MESSAGES, TABLES
from spark_bridge.errors import LakeError, TargetError
from spark_bridge.export import NO_SPARK, Request, export
from spark_bridge.files.choice import files_at
from spark_bridge.follow import Followed, Rhythm, follow
from spark_bridge.iceberg.catalogue import IcebergCatalogue
from spark_bridge.iceberg.snapshots import forget_old
from spark_bridge.partitioning import BY_DATE, BY_DESTINATION, PARTITIONINGS, Partitioning
from spark_bridge.read.scan import scan
from spark_bridge.result import Result
from spark_bridge.target import Target, target_at
from tests.support.objects.s3_server import S3Server
from tests.support.store.counting_files import CountingFiles
from tests.support.store.sample_store import SampleStore

pytestmark = [
    pytest.mark.damages_store("written by hand: its snapshots tell only what readers need"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyiceberg"),
]

NAME = "prod.sales"
Step = Callable[[], object]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data") as store:
        for name in ("orders", "a b/%3A:ü"):
            store.send(store.destination(name), b"text", b"content-type:text/plain\nkey:value\n")
        store.publish()
        yield store


@pytest.fixture(autouse=True)
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlCatalog]:
    properties = {"uri": f"sqlite:///{tmp_path}/database/catalogue", "warehouse": f"file://{tmp_path}/warehouse"}
    (tmp_path / "database").mkdir()
    for name, value in properties.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{name.upper()}", value)
    with SqlCatalog("prod", **properties) as catalogue:
        yield catalogue


def send(store: SampleStore, count: int = 1) -> None:
    for _ in range(count):
        store.send(1, b"more")
    store.publish()


def request(store: SampleStore, **options: Any) -> Request:
    asked = Request(store.directory, ">", store.directory.parent / "lake", NO_SPARK, iceberg=NAME)
    return replace(asked, **options)


def published(store: SampleStore, **options: Any) -> Result:
    """Export with a commit to the catalogue."""
    result = export(request(store, **options))
    assert result.note == ""
    return result


def sent(store: SampleStore, table: str = MESSAGES) -> list[int]:
    return sorted(scan(str(store.directory), ["log_offset"], table=table).read_all()["log_offset"].to_pylist())


def in_iceberg(catalogue: SqlCatalog, table: str = MESSAGES) -> list[int]:
    rows = catalogue.load_table(f"sales.{table}").scan(selected_fields=("log_offset",)).to_arrow()
    return sorted(rows["log_offset"].to_pylist())


def operations(catalogue: SqlCatalog) -> list[str]:
    return [one.summary.operation.value for one in catalogue.load_table("sales.messages").snapshots()]


def test_an_export_of_a_store_that_has_published_nothing_yet(tmp_path: Path, catalogue: SqlCatalog) -> None:
    with SampleStore(tmp_path / "new") as new:
        new.publish(durable_offset=0)
        assert published(new).to_offset == 0
        new.send(new.destination("orders"))
        new.publish()
        assert published(new).rows == 1
        assert in_iceberg(catalogue) == sent(new)


@pytest.mark.parametrize("partitioning", PARTITIONINGS, ids=",".join)
def test_each_export_is_a_snapshot(store: SampleStore, catalogue: SqlCatalog, partitioning: Partitioning) -> None:
    store.settle(1, (0, 1))
    store.publish()
    published(store, tables=tuple(TABLES), partitioning=partitioning)
    send(store)
    published(store)
    published(store)  # with nothing new
    for table in TABLES:
        assert in_iceberg(catalogue, table) == sent(store, table)
    messages = catalogue.load_table("sales.messages")
    assert [str(one.transform) for one in messages.spec().fields] == ["identity"] * len(partitioning)
    assert operations(catalogue) == ["append", "append"]
    rows = messages.scan("destination = 'queue://a b/%3A:ü' and date = '2023-11-14'").to_arrow().to_pylist()
    (expected,) = scan(str(store.directory), destination="a b/%3A:ü").read_all().to_pylist()
    assert rows == [expected]


def test_what_an_export_without_it_has_added_comes_with_the_next(store: SampleStore, catalogue: SqlCatalog) -> None:
    """As if it had been killed between both commits."""
    for _ in range(3):
        export(request(store, iceberg=""))
        send(store)
    export(request(store, iceberg=""))
    published(store)
    assert in_iceberg(catalogue) == sent(store)
    for _ in range(2):
        send(store)
        export(request(store, iceberg=""))
    assert published(store).rows == 0
    assert in_iceberg(catalogue) == sent(store)
    assert operations(catalogue) == ["append", "append"]


class Between(SqlCatalog):
    """Before a commit, ``step`` happens once; a commit whose answer is lost has happened."""

    step: Step = staticmethod(lambda: None)
    loses = False

    def commit_table(self, *arguments: Any) -> Any:
        step, self.step = self.step, lambda: None
        step()
        committed = super().commit_table(*arguments)
        if self.loses:
            self.loses = False
            raise CommitStateUnknownException("the connection was lost")
        return committed


@pytest.fixture
def between(catalogue: SqlCatalog) -> Iterator[Between]:
    with Between("prod", **catalogue.properties) as between:
        yield between


def publish(store: SampleStore, catalogue: SqlCatalog) -> str:
    files = files_at(store.directory.parent / "lake")
    return IcebergCatalogue(catalogue, NAME, files, (MESSAGES,)).publish(BY_DESTINATION)


@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_at_once_one_adds_the_files(
    store: SampleStore, catalogue: SqlCatalog, between: Between, is_first: bool
) -> None:
    if not is_first:
        published(store)
        send(store)
    export(request(store, iceberg=""))
    between.step = lambda: published(store)
    assert publish(store, between) == ""
    assert in_iceberg(catalogue) == sent(store)
    assert len(operations(catalogue)) == 2 - is_first


def test_a_commit_without_files_takes_no_mark_back(store: SampleStore, catalogue: SqlCatalog, between: Between) -> None:
    published(store, destination="orders")
    store.send(2, b"not of the pattern")
    store.publish()
    assert export(request(store, destination="orders", iceberg="")).files == 0

    def another() -> None:
        send(store)
        published(store, destination="orders")

    between.step = another
    assert publish(store, between) == ""
    assert published(store, destination="orders").files == 0
    offsets = scan(str(store.directory), ["log_offset"], destination="orders").read_all()["log_offset"].to_pylist()
    assert in_iceberg(catalogue) == sorted(offsets)
    assert operations(catalogue) == ["append", "append"]


def test_a_commit_whose_answer_is_lost(store: SampleStore, catalogue: SqlCatalog, between: Between) -> None:
    published(store)
    send(store)
    export(request(store, iceberg=""))
    between.loses = True
    assert "CommitStateUnknownException: the connection was lost" in publish(store, between)
    published(store)
    assert in_iceberg(catalogue) == sent(store)


def test_it_follows_what_others_do_with_the_lake(store: SampleStore, catalogue: SqlCatalog) -> None:
    for _ in range(4):
        published(store)
        send(store)
    lake = deltalake.DeltaTable(store.directory.parent / "lake")
    lake.optimize.compact()
    lake.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    published(store)
    assert in_iceberg(catalogue) == sent(store)
    assert operations(catalogue)[-1] == "overwrite"
    deltalake.DeltaTable(store.directory.parent / "lake").delete("destination = 'queue://orders'")
    published(store)
    deltalake.DeltaTable(store.directory.parent / "lake").create_checkpoint()
    send(store)
    published(store)
    assert len(in_iceberg(catalogue)) == 2


def test_a_delta_log_that_was_made_anew(store: SampleStore, catalogue: SqlCatalog) -> None:
    published(store)
    send(store)
    published(store)
    shutil.rmtree(store.directory.parent / "lake/_delta_log")
    for _ in range(3):  # to more commits than before
        send(store)
        export(request(store, iceberg=""))
    published(store)
    assert in_iceberg(catalogue) == sent(store)
    assert operations(catalogue) == ["append"] * 3


def test_each_round_of_follow_is_published(store: SampleStore, catalogue: SqlCatalog, tmp_path: Path) -> None:
    def away() -> None:
        (tmp_path / "database").rename(tmp_path / "away")
        send(store)

    steps: list[Step] = [
        lambda: send(store),
        away,
        lambda: (tmp_path / "away").rename(tmp_path / "database"),
        lambda: send(store),
    ]
    told: list[int] = []

    class Reports:
        def exported(self, result: Result) -> None:
            assert result.note == ""
            told.append(result.rows)

        def failed(self, error: Exception, failures: int, pause_s: float) -> None:
            told.append(-1)

        def back(self, failures: int) -> None:
            pass

        def ended(self, error: Exception) -> None:
            raise error

    def rest(seconds: float) -> bool:
        if not steps:
            return True
        steps.pop(0)()
        return False

    follow([Followed(target_at(tmp_path / "lake"), request(store), Reports())], Rhythm(60), rest)
    assert told == [2, 1, -1, 1, 1]
    assert in_iceberg(catalogue) == sent(store)
    assert operations(catalogue) == ["append"] * 4


def test_a_round_reads_as_much_of_the_delta_log_after_many(store: SampleStore, tmp_path: Path) -> None:
    files = CountingFiles(tmp_path / "lake")
    opened: list[int] = []

    def step(seconds: float) -> bool:
        opened.append(files.opened)
        files.opened = 0
        send(store)
        return len(opened) == 12

    class Reports:
        def exported(self, result: Result) -> None:
            assert (result.note, result.rows > 0) == ("", True)

        def failed(self, error: Exception, failures: int, pause_s: float) -> None:
            raise error

        def back(self, failures: int) -> None:
            pass

        def ended(self, error: Exception) -> None:
            raise error

    follow([Followed(Target(files), request(store), Reports())], Rhythm(60), step)
    assert len(set(opened[2:])) == 1


def test_old_snapshots_and_their_files_go(store: SampleStore, catalogue: SqlCatalog, tmp_path: Path) -> None:
    for _ in range(8):
        published(store)
        send(store)
    deltalake.DeltaTable(tmp_path / "lake").optimize.compact()
    published(store)
    table = catalogue.load_table("sales.messages")
    table.manage_snapshots().create_tag(table.snapshots()[1].snapshot_id, "kept").commit()
    forget_old(table, kept=5)
    assert len(table.snapshots()) == 9
    forget_old(table, kept=3)
    assert len(catalogue.load_table("sales.messages").snapshots()) == 4
    assert in_iceberg(catalogue) == sent(store)
    found = {path.as_uri() for path in (tmp_path / "warehouse").rglob("*.avro")}
    named = {manifest.manifest_path for one in table.snapshots() for manifest in one.manifests(table.io)}
    assert found == named | {one.manifest_list for one in table.snapshots()}


def test_a_new_column(store: SampleStore, catalogue: SqlCatalog) -> None:
    published(store)
    with catalogue.load_table("sales.messages").update_schema() as update:  # as if of an older build
        update.delete_column("lane")
    send(store)
    published(store)
    rows = catalogue.load_table("sales.messages").scan().to_arrow()
    assert set(rows["lane"].to_pylist()) == {4} and in_iceberg(catalogue) == sent(store)


def make_table(catalogue: SqlCatalog, columns: str = "text") -> None:
    catalogue.create_namespace("sales")
    catalogue.create_table("sales.messages", pa.schema([(columns, pa.string())]))


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("prod", TargetError, "--iceberg is 'prod'; allowed is CATALOGUE.NAMESPACE"),
        ("prod.", TargetError, "--iceberg is 'prod.'; allowed is CATALOGUE.NAMESPACE"),
        (
            "other.sales",
            TargetError,
            "the Iceberg catalogue 'other' is not configured: .*CATALOG__OTHER__URI",
        ),
        ("odd.sales", TargetError, "the Iceberg catalogue 'odd' is not configured: 'no-such' is not a valid"),
        ("away.sales", LakeError, "cannot open the Iceberg catalogue 'away': ConnectionError: "),
        ("file.sales", LakeError, "cannot open the Iceberg catalogue 'file': OperationalError: "),
    ],
)
def test_a_catalogue_that_cannot_be_used(
    store: SampleStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, error: type[Exception], text: str
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__AWAY__URI", "http://127.0.0.1:1")
    monkeypatch.setenv("PYICEBERG_CATALOG__FILE__URI", f"sqlite:///{tmp_path}/none/catalogue")
    monkeypatch.setenv("PYICEBERG_CATALOG__ODD__TYPE", "no-such")
    with pytest.raises(error, match=text):
        export(request(store, iceberg=name))
    assert target_at(tmp_path / "lake").last() is None


def test_a_table_of_others_is_left_alone(store: SampleStore, catalogue: SqlCatalog, tmp_path: Path) -> None:
    make_table(catalogue)
    with pytest.raises(TargetError, match="the Iceberg table prod.sales.messages is of no export; choose another nam"):
        export(request(store))
    catalogue.drop_table("sales.messages")
    published(store)
    with pytest.raises(TargetError, match=r"prod.sales.messages publishes file:///.*/lake; choose another namespace"):
        export(request(store, target=tmp_path / "second"))
    assert target_at(tmp_path / "second").last() is None
    with pytest.raises(TargetError, match=r"has a '\?' or '#', which readers of Iceberg do not find"):
        export(request(store, target=tmp_path / "a#b"))


def test_a_table_that_others_have_changed(store: SampleStore, catalogue: SqlCatalog, tmp_path: Path) -> None:
    published(store)
    with catalogue.load_table("sales.messages").update_spec() as spec:
        spec.remove_field("date")
    with pytest.raises(TargetError, match="partitioned by identity of destination, the lake by destination, date"):
        export(request(store))
    with catalogue.load_table("sales.messages").update_spec() as spec:
        spec.add_identity("date")
    with catalogue.load_table("sales.messages").update_schema() as update:
        update.delete_column("lane")
    with catalogue.load_table("sales.messages").update_schema() as update:
        update.add_column("lane", catalogue.load_table("sales.messages").schema().find_type("persistent"))
    with pytest.raises(TargetError, match="has other columns than the lake"):
        export(request(store))


def test_a_table_that_cannot_be_written_is_a_note(
    store: SampleStore, catalogue: SqlCatalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "warehouse").write_text("no directory")
    result = export(request(store))
    assert result.rows == 2
    assert result.note.startswith("the export is complete, but Iceberg does not have all of it yet: cannot publish")
    (tmp_path / "warehouse").unlink()
    published(store)
    assert in_iceberg(catalogue) == sent(store)


def test_a_rehearsal_looks_and_writes_nothing(store: SampleStore, catalogue: SqlCatalog) -> None:
    assert published(store, is_rehearsal=True).rows == 2
    assert catalogue.list_namespaces() == []
    make_table(catalogue)
    with pytest.raises(TargetError, match="is of no export"):
        export(request(store, is_rehearsal=True))


def test_a_lake_in_an_object_store(
    store: SampleStore, catalogue: SqlCatalog, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore")
    lake = s3_server.lake()
    published(store, target=lake.url, partitioning=BY_DATE)
    send(store)
    published(store, target=lake.url)
    files = catalogue.load_table("sales.messages").inspect.files()["file_path"].to_pylist()
    assert all(path.startswith(f"{lake.table}/date=2023-11-14/") for path in files)
    access = {"endpoint": f"http://127.0.0.1:{lake.port}", "access-key-id": "key", "secret-access-key": "secret"}
    options = {f"s3.{name}": value for name, value in (access | {"region": "us-east-1"}).items()}
    with SqlCatalog("prod", **catalogue.properties, **options) as reader:
        assert in_iceberg(reader) == sent(store)


def test_the_bridge_loads_no_pyiceberg_unasked() -> None:
    told = "import sys, json, spark_bridge.export; print(json.dumps('pyiceberg' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is False
