"""An export is a Delta table: deltalake, which others wrote, reads it, compacts it, and the bridge reads it on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.values.destination import TOPIC
from spark_bridge.delta.log import DeltaLog
from spark_bridge.errors import TargetError
from spark_bridge.files.choice import files_at
from spark_bridge.partitioning import BY_DATE, BY_DESTINATION
from spark_bridge.read.scan import scan
from spark_bridge.target import target_at
from tests.support.disk.modes import modes
from tests.support.store.one_process_spark import OneProcessSpark
from tests.support.store.sample_store import DAY_ONE_MS, SampleStore

pytest.importorskip("pyspark")
deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.damages_store("written by hand: its snapshots tell only what readers need")

DAY_MS = 86_400_000
ODD = "a b/%3A:ü\"'=?#"  # what directories, URIs and Hive escape
LONG = "x" * 300  # the directory's name is cut
SCHEMA = pa.schema([("destination", pa.string()), ("date", pa.date32()), ("log_offset", pa.int64())])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data") as store:
        yield store


def fill(store: SampleStore) -> None:
    for name in ("orders", ODD, LONG):
        number = store.destination(name)
        store.send(number, b"text", b"content-type:text/plain\n")
        store.send(number, b"\x00\xff")
    store.send(store.destination("prices", TOPIC), b"x")
    store.now_ms += DAY_MS
    store.send(1, b"the next day")
    store.publish()


def export_to(store: SampleStore, lake: Path, tables: tuple[str, ...] = (), partitioning: tuple[str, ...] = ()) -> None:
    from spark_bridge.export import Request, export

    request = Request(store.directory, ">", lake, tables=tables, partitioning=partitioning)
    export(request, spark=cast(Any, OneProcessSpark()))


def publish(log: DeltaLog, store_id: str, schema: pa.Schema, to_offset: int) -> None:
    log.publish(log.head(store_id), store_id, "messages", schema, BY_DESTINATION, [], to_offset, DAY_ONE_MS)


def delta_rows(table: Path, columns: list[str] | None = None) -> list[dict[str, Any]]:
    found = pa.table(deltalake.DeltaTable(table).to_pyarrow_dataset().to_table(columns=columns))
    rows: list[dict[str, Any]] = found.sort_by("log_offset").to_pylist()
    return rows


def union_offsets(store: SampleStore, lake: Path) -> list[int]:
    found: list[int] = scan(str(store.directory), ["log_offset"], lake=lake).read_all()["log_offset"].to_pylist()
    return sorted(found)


def commits(table: Path) -> list[Path]:
    return sorted((table / "_delta_log").glob("*.json"))


def test_an_export_is_a_delta_table(store: SampleStore, tmp_path: Path) -> None:
    fill(store)
    export_to(store, tmp_path / "lake")
    expected = scan(str(store.directory)).read_all().to_pylist()
    rows = delta_rows(tmp_path / "lake")
    assert rows == [{name: row[name] for name in rows[0]} for row in expected]
    assert set(rows[0]) == set(expected[0])
    assert {row["destination"] for row in rows} >= {f"queue://{ODD}", f"queue://{LONG}", "topic://prices"}
    table = deltalake.DeltaTable(tmp_path / "lake")
    assert table.metadata().partition_columns == ["destination", "date"]
    assert table.transaction_version("0badcafe") == target_at(tmp_path / "lake").manifests()[-1].to_offset
    wanted = [("destination", "=", f"queue://{LONG}")]
    assert len(table.to_pyarrow_table(filters=wanted)) == 2
    statistics = pa.table(table.get_add_actions(flatten=True))
    assert sum(statistics["num_records"].to_pylist()) == len(expected)
    assert min(statistics["min.log_offset"].to_pylist()) == expected[0]["log_offset"]
    assert max(statistics["max.store_time"].to_pylist()) == expected[-1]["store_time"]
    directories, files = modes(tmp_path / "lake/_delta_log")
    assert directories == {0o750} and files == {0o640}


def test_by_date_others_choose_files_and_merge_them(store: SampleStore, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    fill(store)
    export_to(store, lake, partitioning=BY_DATE)
    store.send(1, b"third")
    store.send(store.destination("zebras"), b"one")
    store.publish()
    export_to(store, lake)
    expected = scan(str(store.directory)).read_all().to_pylist()
    table = deltalake.DeltaTable(lake)
    assert table.metadata().partition_columns == ["date"]
    statistics = pa.table(table.get_add_actions(flatten=True))
    assert set(statistics["min.destination"].to_pylist()) == {"queue://" + ODD, "queue://orders"}
    assert set(statistics["max.destination"].to_pylist()) == {"topic://prices", "queue://orders", "queue://zebras"}
    assert len(table.to_pyarrow_table(filters=[("destination", "=", f"queue://{LONG}")])) == 2
    rows = delta_rows(lake)
    assert rows == [{name: row[name] for name in rows[0]} for row in expected]
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert union_offsets(store, lake) == [row["log_offset"] for row in expected]
    store.send(1, b"fourth")
    store.publish()
    export_to(store, lake)
    found = scan(str(store.directory), ["body"], lake=lake, destination="orders").read_all()["body"].to_pylist()
    assert sorted(filter(None, found)) == [b"\0\xff"]
    assert len(delta_rows(lake)) == len(expected) + 1


def test_each_table_has_a_log_and_each_range_a_commit(store: SampleStore, tmp_path: Path) -> None:
    fill(store)
    lake = tmp_path / "lake"
    export_to(store, lake, ("messages", "deliveries"))
    store.settle(1, (0, 1))
    store.publish()
    export_to(store, lake)
    assert len(delta_rows(lake / "messages")) == 8
    assert [row["outcome"] for row in delta_rows(lake / "deliveries")] == ["acknowledged"]
    table = deltalake.DeltaTable(lake / "messages")
    assert table.version() == 1 and [one["operation"] for one in table.history()] == ["WRITE", "WRITE"]
    export_to(store, lake)  # nothing is new
    assert len(commits(lake / "messages")) == 2


def test_ranges_of_an_older_build_are_published_with_the_next(store: SampleStore, tmp_path: Path) -> None:
    fill(store)
    lake = tmp_path / "lake"
    export_to(store, lake)
    store.send(1, b"second")
    store.publish()
    export_to(store, lake)
    shutil.rmtree(lake / "_delta_log")
    store.send(1, b"third")
    store.publish()
    export_to(store, lake)
    assert len(delta_rows(lake)) == 10 and len(commits(lake)) == 1


def test_files_that_were_removed_by_hand(store: SampleStore, tmp_path: Path) -> None:
    fill(store)
    lake = tmp_path / "lake"
    export_to(store, lake)
    sent = union_offsets(store, lake)
    gone = sorted(lake.glob("destination=queue*/date=*/*.parquet"))[0]
    lost = pq.read_table(gone, partitioning=None)["log_offset"].to_pylist()
    merged = sorted(lake.glob("destination=topic*/date=*/*.parquet"))[0]
    merged.rename(merged.with_name("merged.parquet"))
    gone.unlink()
    with pytest.raises(TargetError, match="which is not there; remove and merge files with a tool for Delta"):
        union_offsets(store, lake)
    shutil.rmtree(lake / "_delta_log")
    left = [offset for offset in sent if offset not in lost]
    assert union_offsets(store, lake) == left
    store.send(1, b"later")
    store.publish()
    export_to(store, lake)
    assert [row["log_offset"] for row in delta_rows(lake)] == union_offsets(store, lake)
    assert len(delta_rows(lake)) == len(left) + 1


def test_a_range_whose_publication_was_cut_off(store: SampleStore, tmp_path: Path) -> None:
    fill(store)
    lake = tmp_path / "lake"
    export_to(store, lake)
    sent = union_offsets(store, lake)
    commits(lake)[-1].unlink()
    last = target_at(lake).last()
    assert last is not None
    (lake / "_penstock/staging" / last.staging).mkdir()  # it is removed after the publication
    assert union_offsets(store, lake) == sent
    with target_at(lake).hold():
        pass
    assert [row["log_offset"] for row in delta_rows(lake)] == sent
    (lake / "_penstock/staging" / last.staging).mkdir()
    with target_at(lake).hold():
        pass
    assert len(commits(lake)) == 1, "published twice"


def test_what_others_merge_and_delete(store: SampleStore, tmp_path: Path) -> None:
    fill(store)
    lake = tmp_path / "lake"
    export_to(store, lake)
    store.send(1, b"later")
    store.publish()
    export_to(store, lake)
    sent = union_offsets(store, lake)
    table = deltalake.DeltaTable(lake)
    assert table.optimize.compact()["numFilesRemoved"] == 2
    assert union_offsets(store, lake) == sent
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert union_offsets(store, lake) == sent
    store.send(1, b"after the merge")
    store.publish()
    export_to(store, lake)
    assert [row["log_offset"] for row in delta_rows(lake)] == union_offsets(store, lake) != sent
    deltalake.DeltaTable(lake).delete("date = '2023-11-14'")
    left = [row["log_offset"] for row in delta_rows(lake)]
    assert len(left) == 3 and union_offsets(store, lake) == left


@pytest.mark.parametrize("partitioning", [BY_DESTINATION, BY_DATE], ids=",".join)
def test_rows_that_another_program_deletes(store: SampleStore, tmp_path: Path, partitioning: tuple[str, ...]) -> None:
    fill(store)
    lake = tmp_path / "lake"
    export_to(store, lake, partitioning=partitioning)
    first, *sent = union_offsets(store, lake)
    deltalake.DeltaTable(lake).delete(f"log_offset = {first}")
    assert "string_view" in {str(pq.read_schema(path).field("type").type) for path in lake.rglob("*.parquet")}
    assert union_offsets(store, lake) == sent
    found = scan(str(store.directory), lake=str(lake)).read_all().sort_by("log_offset")
    rows = scan(str(store.directory)).read_all().sort_by("log_offset").slice(1)
    assert found.to_pylist() == rows.to_pylist()


def test_a_long_log_has_checkpoints(store: SampleStore, tmp_path: Path) -> None:
    fill(store)
    lake = tmp_path / "lake"
    export_to(store, lake)
    rows = delta_rows(lake)
    log = DeltaLog(files_at(lake))
    end = log.head("0badcafe").published_to or 0
    for number in range(1, 130):
        publish(log, "c0ffee00", SCHEMA, number)
    checkpoints = sorted((lake / "_delta_log").glob("*.checkpoint.parquet"))
    assert [path.name[:20] for path in checkpoints] == [f"{99:020}"]
    for path in commits(lake)[:100]:
        path.unlink()
    assert delta_rows(lake) == rows
    assert union_offsets(store, lake) == [row["log_offset"] for row in rows]
    assert (log.head("0badcafe").published_to, log.head("c0ffee00").published_to) == (end, 129)
    table = deltalake.DeltaTable(lake)
    table.create_checkpoint()
    for path in commits(lake):
        path.unlink()
    assert (log.head("0badcafe").published_to, log.head("c0ffee00").published_to) == (end, 129)
    publish(log, "c0ffee00", SCHEMA, 130)
    assert delta_rows(lake) == rows and deltalake.DeltaTable(lake).version() == 130


def test_new_columns_join_those_that_others_added(tmp_path: Path) -> None:
    log = DeltaLog(files_at(tmp_path))
    publish(log, "0badcafe", SCHEMA, 1)
    table = deltalake.DeltaTable(tmp_path)
    table.alter.add_columns([deltalake.Field("theirs", "string")])
    publish(log, "0badcafe", SCHEMA.append(pa.field("ours", pa.int32())), 2)
    found = deltalake.DeltaTable(tmp_path)
    assert [field.name for field in found.schema().fields] == [*SCHEMA.names, "ours", "theirs"]
    assert found.metadata().id == table.metadata().id


def test_versions_that_others_take_meanwhile_are_left_to_them(tmp_path: Path) -> None:
    class Beside(DeltaLog):
        """Another program commits after this one has looked."""

        taken = 0

        def _commit(self, version: int, actions: list[dict[str, Any]]) -> bool:
            if self.taken < 3:
                self.taken += 1
                publish(DeltaLog(files_at(tmp_path)), "c0ffee00", SCHEMA, self.taken)
            return super()._commit(version, actions)

    publish(Beside(files_at(tmp_path)), "0badcafe", SCHEMA, 7)
    assert deltalake.DeltaTable(tmp_path).version() == 3
    assert DeltaLog(files_at(tmp_path)).head("0badcafe").published_to == 7
    assert os.listdir(tmp_path / "_delta_log") and not (tmp_path / "_delta_log/.penstock.tmp").exists()


@pytest.mark.parametrize(
    ("protocol", "text"),
    [
        ({"minReaderVersion": 1, "minWriterVersion": 7}, "has minWriterVersion 7; this program knows up to 2"),
        (
            {"minReaderVersion": 3, "minWriterVersion": 7},
            "has min(Reader|Writer)Version [37]; this program",
        ),
    ],
)
def test_a_table_of_a_later_protocol_gets_no_export(
    store: SampleStore, tmp_path: Path, protocol: dict[str, int], text: str
) -> None:
    fill(store)
    lake = tmp_path / "lake"
    export_to(store, lake)
    (lake / "_delta_log" / f"{1:020}.json").write_text(json.dumps({"protocol": protocol}))
    store.send(1, b"later")
    store.publish()
    with pytest.raises(TargetError, match=text):
        export_to(store, lake)
    assert len(target_at(lake).manifests()) == 1


@pytest.mark.parametrize(
    ("commit", "text"),
    [
        ({"add": {"path": "s3://bucket/x.parquet", "size": 1, "partitionValues": {}}}, "outside of the table"),
        ({"add": {"path": "/etc/passwd", "size": 1, "partitionValues": {}}}, "outside of the table"),
        ({"add": {"path": "a/../../x", "size": 1, "partitionValues": {}}}, "outside of the table"),
        ("no action", "is no commit of a Delta log"),
        ({"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, "has minReaderVersion 2; this program knows"),
    ],
)
def test_a_log_that_cannot_be_read(store: SampleStore, tmp_path: Path, commit: object, text: str) -> None:
    fill(store)
    lake = tmp_path / "lake"
    export_to(store, lake)
    (lake / "_delta_log" / f"{1:020}.json").write_text(json.dumps(commit))
    with pytest.raises(TargetError, match=text):
        union_offsets(store, lake)


def test_a_log_with_a_gap(store: SampleStore, tmp_path: Path) -> None:
    fill(store)
    lake = tmp_path / "lake"
    export_to(store, lake)
    shutil.copy(commits(lake)[0], lake / "_delta_log" / f"{2:020}.json")
    with pytest.raises(TargetError, match="lacks commit 1"):
        union_offsets(store, lake)


def test_a_committed_range_survives_a_failure_while_its_files_move(store: SampleStore, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    fill(store)
    (lake / "destination=queue%3A%2F%2Forders").write_text("in the way")
    with pytest.raises(OSError):
        export_to(store, lake)
    (lake / "destination=queue%3A%2F%2Forders").unlink()
    store.send(1, b"later")
    store.publish()
    export_to(store, lake)
    assert [row["log_offset"] for row in delta_rows(lake)] == union_offsets(store, lake)
    assert len(delta_rows(lake)) == 9
    export_to(store, lake)


def test_a_kill_between_the_name_of_a_commit_and_the_end_of_its_temporary_one(
    store: SampleStore, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    fill(store)
    export_to(store, lake)
    os.link(commits(lake)[0], lake / "_delta_log/.penstock.tmp")
    store.send(1, b"later")
    store.publish()
    export_to(store, lake)
    assert [row["log_offset"] for row in delta_rows(lake)] == union_offsets(store, lake)
    assert len(delta_rows(lake)) == 9
