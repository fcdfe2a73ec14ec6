"""Exports to a bucket of a real S3 server: what readers see, exports at once, and requests that fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import time_ns
from typing import Any, cast

import pyarrow as pa
import pytest

from engine.store.disk.files import RealFiles
from engine.store.read.export_watermarks import read_watermarks
from engine.store.read.leases import Lease, read_leases
from engine.store.read.reader import StoreReader
from engine.values.errors import PenstockError
from gateway.cli.dispatch import execute
from gateway.process import exit_codes
from spark_bridge.errors import LakeError, TargetError
from spark_bridge.export import Request, export, export_on
from spark_bridge.files.choice import files_at
from spark_bridge.manifests import FOLDER
from spark_bridge.one_spark import OneSpark
from spark_bridge.read.scan import scan
from spark_bridge.target import target_at
from tests.support.objects.s3_server import CUT, IGNORE, LOSE, PASS, REFUSE, Relay, S3Lake, S3Server
from tests.support.store.one_process_spark import OneProcessSpark, OneProcessTasks
from tests.support.store.sample_store import SampleStore

pytest.importorskip("pyspark")
deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.damages_store("written by hand: its snapshots tell only what readers need")

Fault = Callable[[str, str, int], str]
BOTH = ("messages", "deliveries")
STEP = 8  # an export makes some 35 requests


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data") as store:
        yield store


@pytest.fixture
def lake(s3_server: S3Server) -> S3Lake:
    return s3_server.lake()


def fill(store: SampleStore, count: int = 3) -> None:
    for name in ("orders", "a b/%3A:ü"):
        number = store.destination(name)
        for one in range(count):
            store.send(number, b"text %d" % one, b"content-type:text/plain\n")
    store.publish()


def send_more(store: SampleStore) -> None:
    store.send(1, b"later")
    store.publish()


def export_to(store: SampleStore, url: str, tables: tuple[str, ...] = (), destination: str = ">") -> Any:
    return export(Request(store.directory, destination, url, tables=tables), spark=cast(Any, OneProcessSpark()))


def sent(store: SampleStore) -> list[int]:
    offsets: list[int] = scan(str(store.directory), ["log_offset"]).read_all()["log_offset"].to_pylist()
    return sorted(offsets)


def union(store: SampleStore, lake: S3Lake) -> list[int]:
    read = scan(str(store.directory), ["log_offset"], lake=lake.url).read_all()
    return sorted(read["log_offset"].to_pylist())


def delta(lake: S3Lake, table: str = "") -> list[int]:
    place = f"{lake.table}/{table}".rstrip("/")
    found = deltalake.DeltaTable(place, storage_options=lake.options).to_pyarrow_dataset()
    return sorted(pa.table(found.to_table(columns=["log_offset"]))["log_offset"].to_pylist())


def test_an_export_is_read_by_us_and_by_others(store: SampleStore, lake: S3Lake) -> None:
    fill(store)
    first = export_to(store, lake.url)
    assert (first.rows, first.note) == (6, "")
    assert first.manifest == f"s3://lake/{lake.prefix}/_penstock/manifest-00000001.json"
    send_more(store)
    assert union(store, lake) == sent(store) != delta(lake)
    assert export_to(store, lake.url).rows == 1
    assert export_to(store, lake.url).rows == 0
    assert union(store, lake) == sent(store) == delta(lake)
    files = files_at(lake.url)
    assert files.names(f"{FOLDER}/staging") == [] and len(files.walk("")) == 3
    (mark,) = read_watermarks(RealFiles(), str(store.directory), store.store_id).marks
    assert mark.reader == f"s3://lake/{lake.prefix}?endpoint_override=127.0.0.1:{lake.port}"
    assert mark.to_offset == StoreReader(store.directory).end().offset


def test_tables_have_logs_of_their_own(store: SampleStore, lake: S3Lake) -> None:
    fill(store)
    store.settle(1, (0, 2))
    store.publish()
    assert export_to(store, lake.url, BOTH).tables == {"messages": 6, "deliveries": 2}
    assert delta(lake, "messages") == sent(store)
    read = scan(str(store.directory), ["message_offset"], table="deliveries", lake=lake.url).read_all()
    assert read["message_offset"].to_pylist() == sent(store)[:2]


def test_others_compact_while_exports_go_on(store: SampleStore, lake: S3Lake) -> None:
    fill(store)
    export_to(store, lake.url)
    send_more(store)
    export_to(store, lake.url)
    table = deltalake.DeltaTable(lake.table, storage_options=lake.options)
    assert table.optimize.compact()["numFilesRemoved"] == 2
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    send_more(store)
    export_to(store, lake.url)
    assert union(store, lake) == sent(store) == delta(lake)


def test_a_bucket_belongs_to_one_store_and_choice(store: SampleStore, lake: S3Lake, tmp_path: Path) -> None:
    fill(store)
    export_to(store, lake.url)
    with pytest.raises(TargetError, match="holds an export of destination '>', not 'orders'"):
        export_to(store, lake.url, destination="orders")


def test_of_two_exports_at_once_one_commits(store: SampleStore, lake: S3Lake) -> None:
    fill(store)
    late = target_at(lake.url)
    with late.hold():
        number = late.next_range(store.store_id, ">").number
        with late.attempt(number) as attempt:
            late.files.write(f"destination=a/date=2024-01-01/x{attempt.suffix}.parquet", b"not committed")
            export_to(store, lake.url)  # it may not delete what the other has written
            assert len(late.files.walk("")) == 3
            manifest = target_at(lake.url).manifests()[0]
            with pytest.raises(TargetError, match="another export has written to s3://lake/.* meanwhile"):
                late.commit(replace(manifest, staging=attempt.name, files=()))
    assert len(files_at(lake.url).walk("")) == 2
    assert union(store, lake) == sent(store) == delta(lake)


def test_an_export_that_ends_leaves_the_lease_of_another(store: SampleStore, lake: S3Lake) -> None:
    fill(store)

    def leases() -> list[Lease]:
        now_ms = time_ns() // 1_000_000
        return read_leases(RealFiles(), str(store.directory), store.store_id, now_ms, 1 << 40)

    class Slow(OneProcessSpark):
        """Another export begins and ends while its tasks run."""

        def parallelize(self, values: list[Any], count: int) -> OneProcessTasks:
            (own,) = leases()
            if not exported:
                exported.append(export_to(store, lake.url).rows)
            assert leases() == [own]
            return super().parallelize(values, count)

    exported: list[int] = []
    request = Request(store.directory, ">", lake.url)
    with pytest.raises(TargetError, match="another export has written to s3://lake/.* meanwhile"):
        export(request, spark=cast(Any, Slow()))
    assert exported == [6] and leases() == []
    assert union(store, lake) == sent(store) == delta(lake)


def test_what_a_killed_export_left_is_deleted_once_it_cannot_be_committed(store: SampleStore, lake: S3Lake) -> None:
    fill(store)
    files = files_at(lake.url)
    name = "00000001-0badcafe"
    left = f"destination=a/date=2024-01-01/x-{name}.parquet"
    files.write(f"{FOLDER}/staging/{name}", b"")
    files.write(left, b"half")
    export_to(store, lake.url)
    assert left in files.walk("") and delta(lake) == sent(store)
    export_to(store, lake.url)
    assert left not in files.walk("") and files.names(f"{FOLDER}/staging") == []


class Requests:
    """Exports through a relay whose faults begin at one request after the other, until an export needs no more."""

    def __init__(self, store: SampleStore, server: S3Server, is_long: bool) -> None:
        self.store = store
        self.server = server
        self.step = 1 if is_long else STEP

    def each(self, fault: Callable[[int], Fault]) -> Iterator[tuple[S3Lake, str]]:
        """Yield the lake after an export with the fault from a request on, and the error of the export, "" for none."""
        number = self.step // 2
        is_reached = True
        while is_reached:
            lake = self.server.lake()
            relay = Relay(lake.port, fault(number))
            told = ""
            try:
                export_to(self.store, lake.at(relay.port))
            except PenstockError as error:
                told = str(error)
            finally:
                relay.close()
            yield lake, told
            is_reached = len(relay.requests) > number
            number += self.step


def test_an_export_may_lose_its_rights_at_any_request(store: SampleStore, s3_server: S3Server, is_long: bool) -> None:
    """Like a kill at each of them: nothing more reaches the store."""
    fill(store, 1)
    errors = set()
    everything = sent(store)
    for lake, told in Requests(store, s3_server, is_long).each(
        lambda at: lambda method, path, number: REFUSE if number >= at else PASS
    ):
        seen = visible(store, lake)
        assert seen in ([], everything), told
        assert told or seen
        errors.add(told.partition(" in s3://")[0])
        export_to(store, lake.url)
        send_more(store)
        everything = sent(store)
        export_to(store, lake.url)
        assert delta(lake) == union(store, lake) == everything
    if is_long:
        assert "cannot write _penstock/manifest-00000001.json" in errors
    assert len(errors) > 2


def visible(store: SampleStore, lake: S3Lake) -> list[int]:
    """Return what others see."""
    if not deltalake.DeltaTable.is_deltatable(lake.table, storage_options=lake.options):
        return []
    return delta(lake)


@pytest.mark.parametrize("what", [LOSE, CUT])
def test_an_answer_may_be_lost_or_a_connection_end_at_any_request(
    store: SampleStore, s3_server: S3Server, is_long: bool, what: str
) -> None:
    fill(store, 1)
    for lake, told in Requests(store, s3_server, is_long).each(
        lambda at: lambda method, path, number: what if number == at else PASS
    ):
        assert told == ""
        assert delta(lake) == union(store, lake) == sent(store)


def test_a_store_without_conditional_writes_is_refused(store: SampleStore, lake: S3Lake) -> None:
    fill(store)
    relay = Relay(lake.port, lambda method, path, number: IGNORE)
    with pytest.raises(TargetError, match="is refused: its object store knows no conditional writes, so two exports"):
        export_to(store, lake.at(relay.port))
    relay.close()
    assert files_at(lake.url).walk("") == [] and files_at(lake.url).names(FOLDER) == []


def test_a_place_that_cannot_have_an_export(store: SampleStore) -> None:
    fill(store)
    with pytest.raises(TargetError, match="hdfs:// has no conditional writes"):
        export_to(store, "hdfs://127.0.0.1:1/lake")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            lambda url: url.replace("s3://key:secret@lake/", "s3://key:secret@none/"),
            "s3://none/.*: there is no such bucket",
        ),
        (lambda url: url.split("?")[0] + "?endpoint_override=127.0.0.1:1&scheme=http", "s3://lake/"),
    ],
)
def test_a_place_that_is_not_there(
    store: SampleStore, lake: S3Lake, change: Callable[[str], str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(store)
    url = change(lake.url)
    with pytest.raises(LakeError, match=text):
        export_to(store, url)
    code = execute(["import", "--from", url, "--url", "tcp://127.0.0.1:1"])
    told = capsys.readouterr().err
    assert code in (exit_codes.FAILED, exit_codes.USAGE), told
    assert "secret" not in told and "Traceback" not in told


def test_no_credentials(store: SampleStore, lake: S3Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fill(store)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    relay = Relay(lake.port, lambda method, path, number: REFUSE)
    url = lake.at(relay.port).replace("key:secret@", "")
    with pytest.raises(LakeError, match="no credentials were found, neither given nor of this machine"):
        export_to(store, url)
    with pytest.raises(LakeError, match="access is denied: no credentials, or they lack the right"):
        files_at(url).names("")
    relay.close()


def test_reads_whose_connection_is_lost(store: SampleStore, lake: S3Lake) -> None:
    fill(store)
    export_to(store, lake.url)
    relay = Relay(lake.port, lambda method, path, number: REFUSE if ".parquet" in path and method == "GET" else PASS)
    with pytest.raises(LakeError, match="cannot read destination=.* access is denied"):
        scan(str(store.directory), ["log_offset"], lake=lake.at(relay.port)).read_all()
    relay.close()


def test_a_file_that_was_removed_by_hand(store: SampleStore, lake: S3Lake) -> None:
    fill(store)
    export_to(store, lake.url)
    files = files_at(lake.url)
    files.delete(files.walk("")[:1])
    with pytest.raises(TargetError, match="which is not there; remove and merge files with a tool for Delta$"):
        union(store, lake)


@pytest.mark.spark
def test_workers_of_spark_write_to_a_bucket(
    store: SampleStore,
    lake: S3Lake,
    capsys: pytest.CaptureFixture[str],
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lent = OneSpark(spark=spark)  # without a JVM of its own
    monkeypatch.setattr("spark_bridge.export.export_on", lambda _, request: export_on(lent, request))
    fill(store)
    arguments = ["export", "--data", str(store.directory), "--destination", ">", "--to", lake.url]
    assert execute(arguments) == exit_codes.OK
    told = capsys.readouterr().out
    assert f"6 messages of > in 2 files, 0.0 MiB, added to s3://lake/{lake.prefix}\n" in told and "secret" not in told
    assert execute([*arguments, "--json"]) == exit_codes.OK
    assert json.loads(capsys.readouterr().out)["rows"] == 0
    assert delta(lake) == sent(store)
