"""Exports with Spark: a growing store, a run that dies, what is in the Parquet files."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from time import time_ns
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow.dataset as ds
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import SparkContext

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import Plan
from engine.store.disk.files import RealFiles
from engine.store.format import layout
from engine.store.read.export_watermarks import read_watermarks
from engine.store.read.leases import Lease, read_leases
from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from engine.values.destination import QUEUE, SCHEDULE_QUEUE, TOPIC
from engine.values.errors import RangeGone, StoreCorrupt
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE, DEAD_LETTERED
from engine.values.stored import Range
from gateway.__main__ import main
from gateway.cli.export_report import summary
from gateway.process import exit_codes
from spark_bridge.errors import TargetError
from spark_bridge.export import HOUR_MS, Request, export, export_on
from spark_bridge.job import ExportFailed, OnSpark
from spark_bridge.one_spark import OneSpark
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import make_plan
from spark_bridge.result import Result
from spark_bridge.target import target_at
from tests.support.engine.broker_view import BrokerView
from tests.support.process.sessions import command_of, interrupt, processes_of, run_until
from tests.support.store.one_process_spark import OneProcessSpark, OneProcessTasks
from tests.support.store.sample_store import SampleStore
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import THINNING, FileHome, message

pytestmark = [
    pytest.mark.damages_store("written by hand, without all that a gateway would write"),
    pytest.mark.spark,
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data") as sample:
        yield sample


def seen(target: Path) -> dict[int, dict[str, Any]]:
    """Return the rows that a reader of the directory sees, by log offset; each must be there once."""
    rows = ds.dataset(target, partitioning="hive").to_table().to_pylist()
    found = {row["log_offset"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def fill(store: SampleStore, destination_id: int, count: int, size: int = 200) -> list[int]:
    return [store.send(destination_id, b"x" * size, b"n:%d\n" % number) for number in range(count)]


def test_second_export_adds_what_is_new(store: SampleStore, tmp_path: Path, spark: SparkContext) -> None:
    eu, us, other = store.destination("orders.eu"), store.destination("orders.us", TOPIC), store.destination("other")
    sent = fill(store, eu, 400) + fill(store, us, 300)
    fill(store, other, 100)
    store.settle(eu, (0, 50))
    store.publish()
    request = Request(store.directory, "orders.>", tmp_path / "out")
    first = export(request, spark=spark)
    assert (first.rows, first.from_offset, first.to_offset) == (700, 0, store.offset)
    rows = seen(tmp_path / "out")
    assert sorted(rows) == sent
    states = [rows[offset]["delivery_state"] for offset in sent]
    assert states == ["acknowledged"] * 50 + ["pending"] * 350 + ["published"] * 300

    store.settle(eu, (50, 10))
    store.now_ms += 86_400_000
    more = fill(store, eu, 500)
    store.settle(eu, (400, 1))
    store.publish()
    second = export(request, spark=spark)
    assert (second.rows, second.from_offset, second.to_offset) == (500, first.to_offset, store.offset)
    rows = seen(tmp_path / "out")
    assert sorted(rows) == sent + more
    assert rows[sent[50]]["delivery_state"] == "pending"  # as of the export that wrote the row
    assert rows[more[0]]["delivery_state"] == "acknowledged"
    assert rows[more[0]]["date"] == "2023-11-15"

    nothing = export(request, spark=spark)
    assert (nothing.manifest, nothing.note) == ("", "")
    assert sorted(seen(tmp_path / "out")) == sent + more
    # What retention may be held for.
    watermarks = read_watermarks(RealFiles(), str(store.directory), store.store_id)
    assert [watermarks.reached(number, QUEUE, "any").offset for number in (eu, us, us + 1)] == [
        store.offset, store.offset, 0
    ]  # fmt: skip


def test_state_is_a_join_of_the_exported_tables(store: SampleStore, tmp_path: Path, spark: SparkContext) -> None:
    eu = store.destination("orders.eu")
    sent = fill(store, eu, 40)
    store.settle(eu, (0, 5))
    store.publish()
    out = tmp_path / "out"
    request = Request(store.directory, "orders.>", out, tables=("messages", "deliveries"))
    first = export(request, spark=spark)
    assert (first.rows, first.tables) == (45, {"messages": 40, "deliveries": 5})
    assert "40 rows of messages, 5 rows of deliveries of orders.> in 2 files" in summary(first, "out")
    store.settle(eu, (5, 10), (30, 1))
    sent += fill(store, eu, 10)
    store.publish()
    with pytest.raises(TargetError, match="holds the tables messages, deliveries, not messages"):
        export(replace(request, tables=("messages",)), spark=spark)
    second = export(replace(request, tables=()), spark=spark)
    assert second.tables == {"messages": 10, "deliveries": 11}
    assert sorted(seen(out / "messages")) == sent
    ends = ds.dataset(out / "deliveries", partitioning="hive").to_table()["message_offset"].to_pylist()
    assert sorted(ends) == sent[:15] + [sent[30]]


@pytest.mark.parametrize("others", [0, 4096], ids=["by the driver", "by workers"])
def test_the_settlements_of_several_partitions_are_read(others: int, store: SampleStore, spark: SparkContext) -> None:
    queue, other = store.destination("orders"), store.destination("other")
    fill(store, queue, 600)
    for number in range(others):
        store.settle(other, (number, 1))
    for number in range(0, 600, 3):
        store.settle(queue, (number, 2), outcome=DEAD_LETTERED if number % 2 else ACKNOWLEDGED)
    last = store.settle(queue, (2, 1))
    store.publish(is_clean=True)
    plan = make_plan(StoreReader(store.directory), parse(">"), partition_bytes=30_000, settles=False)
    assert len(plan.partitions) > 3
    rows = [row for part in plan.partitions for batch in read_pieces(plan, part) for row in batch.to_pylist()]
    assert {row["delivery_state"] for row in rows} == {"pending"}
    plan = OnSpark(spark).settled(plan)
    rows = [row for part in plan.partitions for batch in read_pieces(plan, part) for row in batch.to_pylist()]
    expected = ["dead-lettered" if number // 3 % 2 else "acknowledged" for number in range(600)]
    assert [row["delivery_state"] for row in rows] == [
        "pending" if number % 3 == 2 and number != 2 else state for number, state in enumerate(expected)
    ]
    healthy = store.path.read_bytes()
    broken = bytearray(healthy)
    broken[layout.SEGMENT_HEADER_BYTES + last - store.base + 70] ^= 1
    store.path.write_bytes(broken)
    with pytest.raises(StoreCorrupt, match=f"log offset {last} fails its checksum"):
        OnSpark(spark).settled(plan)
    skipping = OnSpark(spark).settled(replace(plan, skip_damaged=True))
    assert [(one.records, one.from_offset) for one in skipping.damaged] == [(1, last)]
    store.path.write_bytes(healthy)


@pytest.mark.parametrize(("directory", "verb"), [("exports", "learn of"), ("readers", "wait for")])
def test_an_export_that_cannot_tell_the_gateway_is_an_export_all_the_same(
    directory: str, verb: str, store: SampleStore, tmp_path: Path, spark: SparkContext
) -> None:
    fill(store, store.destination("orders.eu"), 10)
    store.publish()
    (store.directory / directory).write_text("in the way")
    result = export(Request(store.directory, "orders.>", tmp_path / "out"), spark=spark)
    assert result.rows == 10
    assert f"the gateway's retention does not {verb} this export" in result.note


def with_a_damaged_record(store: SampleStore) -> tuple[list[int], bytes]:
    """Damage the last of a thousand messages; return where they are, and the segment as it was."""
    sent = fill(store, store.destination("orders"), 1000)
    store.publish()
    store.append_octets()
    place = layout.SEGMENT_HEADER_BYTES + sent[-1] - store.base + 150
    healthy = store.path.read_bytes()
    broken = bytearray(healthy)
    broken[place] ^= 1
    store.publish(is_clean=True)
    store.path.write_bytes(broken)
    return sent, healthy


def test_a_run_that_fails_leaves_nothing_and_is_done_again(
    store: SampleStore, tmp_path: Path, spark: SparkContext
) -> None:
    sent, healthy = with_a_damaged_record(store)
    request = Request(store.directory, "orders", tmp_path / "out")
    with pytest.raises(StoreCorrupt, match=f"log offset {sent[-1]} fails its checksum; --skip-damaged"):
        export(request, spark=spark)
    assert list((tmp_path / "out").rglob("*.parquet")) == []
    store.path.write_bytes(healthy)
    assert export(request, spark=spark).rows == 1000
    assert sorted(seen(tmp_path / "out")) == sent


def test_skip_damaged_counts_what_it_leaves_out(store: SampleStore, tmp_path: Path, spark: SparkContext) -> None:
    sent, healthy = with_a_damaged_record(store)
    out = tmp_path / "out"
    result = export(Request(store.directory, "orders", out, skip_damaged=True), spark=spark)
    (damaged,) = result.damaged
    assert (result.rows, damaged.records, damaged.destination) == (999, 1, "queue://orders")
    told = f"not exported, because it is damaged: 1 message of queue://orders (log offsets {sent[-1]} to"
    assert told in summary(result, "out")
    assert json.loads(Path(result.manifest).read_text())["damaged"] == [asdict(damaged)]
    assert target_at(out).manifests()[-1].damaged == (damaged,)
    assert sorted(seen(out)) == sent[:-1]
    store.path.write_bytes(healthy)


def test_export_goes_on_after_a_crash_of_the_store(store: SampleStore, tmp_path: Path, spark: SparkContext) -> None:
    queue = store.destination("orders")
    sent = fill(store, queue, 100)
    store.publish()
    sent += fill(store, queue, 50)
    store.append_octets(b"\x50\0\0\0torn")
    request = Request(store.directory, "orders", tmp_path / "out")
    first = export(request, spark=spark)
    assert (first.rows, first.to_offset) == (150, store.offset)
    # The next start of the gateway seals the segment where we stopped, and goes on in another one.
    store.seal()
    store.roll()
    sent += fill(store, queue, 10)
    store.publish()
    assert export(request, spark=spark).rows == 10
    assert sorted(seen(tmp_path / "out")) == sent


def test_what_retention_dropped_is_named_and_can_be_skipped(
    store: SampleStore, tmp_path: Path, spark: SparkContext
) -> None:
    queue = store.destination("orders")
    fill(store, queue, 10)
    store.publish()
    export(Request(store.directory, "orders", tmp_path / "out"), spark=spark)
    fill(store, queue, 1000)
    store.drop_first_segment()
    store.publish()
    with pytest.raises(RangeGone, match="--skip-gone"):
        export(Request(store.directory, "orders", tmp_path / "out"), spark=spark)
    result = export(Request(store.directory, "orders", tmp_path / "out", skip_gone=True), spark=spark)
    assert result.from_offset == store.first_offset
    gone_offset = json.loads(Path(result.manifest).read_text())["gone_offset"]
    assert gone_offset < store.first_offset
    assert f"everything from log offset {gone_offset} to {store.first_offset}" in summary(result, "out")


def test_what_retention_took_out_of_a_segment_is_counted_and_can_be_skipped(
    tmp_path: Path, spark: SparkContext
) -> None:
    home = FileHome(THINNING)
    queue = home.store.open_destination(QUEUE, "orders")
    sent = home.send(queue, 50)
    home.flush()
    first_reader = copy_to(tmp_path / "monday", home.files)
    target = tmp_path / "out"
    assert export(Request(first_reader.directory, "orders", target), spark=spark).rows == 50
    for _ in range(30):
        sent += home.send(queue, 10)
        home.flush()
    sizes = [each.size for each in sent]
    for first, end in ((0, 60), (61, 350)):
        home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, first, end - first, 0, sum(sizes[first:end]))])
    home.flush()
    home.pass_by(4_000)
    data = copy_to(tmp_path / "sunday", home.files).directory
    with pytest.raises(
        RangeGone, match=r"before their export: (\d+) messages of queue://orders .*; --skip-gone"
    ) as failed:
        export(Request(data, "orders", target), spark=spark)
    assert len(list(target.glob("_penstock/manifest-*"))) == 1
    result = export(Request(data, "orders", target, skip_gone=True), spark=spark)
    (removed,) = result.removed
    assert str(removed) in str(failed.value)
    assert removed.messages + result.rows == 300
    assert result.rows < 100
    assert sent[60].log_offset in seen(target)
    assert f"not exported, because retention had removed it: {removed}" in summary(result, "out")
    manifest = json.loads(Path(result.manifest).read_text())
    assert manifest["removed"] == [asdict(removed)]
    assert manifest["gone_offset"] == manifest["from_offset"]
    assert target_at(target).manifests()[-1].removed == (removed,)
    # What the first export into a directory finds is all that it can have.
    assert export(Request(data, "orders", tmp_path / "anew"), spark=spark).removed == ()


class Lent:
    """A context that somebody else goes on to use."""

    def __init__(self, spark: SparkContext) -> None:
        self.broadcast = spark.broadcast
        self.parallelize = spark.parallelize
        self.statusTracker = spark.statusTracker
        self.defaultParallelism = spark.defaultParallelism
        self.cancelAllJobs = spark.cancelAllJobs

    def stop(self) -> None:
        pass


def test_the_plan_is_made_when_spark_has_started_and_a_lease_holds_what_it_is_about(
    store: SampleStore, tmp_path: Path, spark: SparkContext
) -> None:
    queue = store.destination("orders")
    fill(store, queue, 400)
    store.publish()
    late: list[int] = []
    leases: list[Lease] = []

    def starter(master: str, scratch: Path, driver_host: str, nice: int) -> Any:
        assert scratch.is_dir() and master == "local[2]"
        now_ms = time_ns() // 1_000_000
        leases.extend(read_leases(RealFiles(), str(store.directory), store.store_id, now_ms, HOUR_MS))
        # Retention was about to, and the traffic goes on.
        late.extend(fill(store, queue, 400))
        store.drop_first_segment()
        store.publish()
        return Lent(spark)

    request = Request(store.directory, "orders", tmp_path / "out")
    result = export(request, starter=starter)
    assert (result.from_offset, result.to_offset) == (store.first_offset, store.offset)
    assert late[-1] in seen(tmp_path / "out")
    (lease,) = leases
    assert (lease.from_offset, lease.reader) == (0, f"the export to {tmp_path / 'out'}")
    assert not list((store.directory / "readers").iterdir()), "it ends with the export"


def test_several_exports_start_one_spark(store: SampleStore, tmp_path: Path) -> None:
    for name in ("orders", "bills"):
        store.send(store.destination(name))
    store.publish()
    states: list[str] = []

    class Counted(OneProcessSpark):
        def stop(self) -> None:
            states.append("stopped")

    def starter(master: str, scratch: Path, driver_host: str, nice: int) -> Any:
        states.append("started")
        return Counted()

    with OneSpark(starter=starter) as one:
        assert export_on(one, Request(store.directory, "nothing", tmp_path / "none")).rows == 0
        assert states == []
        for name in ("orders", "bills"):
            assert export_on(one, Request(store.directory, name, tmp_path / name)).rows == 1
        assert states == ["started"]
        with pytest.raises(TargetError):
            export_on(one, Request(store.directory, "other", tmp_path / "orders"))
    assert states == ["started", "stopped"]


def test_an_export_whose_jvm_dies_keeps_no_other_from_a_jvm(store: SampleStore, tmp_path: Path) -> None:
    for name in ("orders", "bills"):
        store.send(store.destination(name))
    store.publish()
    states: list[str] = []

    class Killed(OneProcessSpark):
        def parallelize(self, values: list[Any], count: int) -> OneProcessTasks:
            raise Py4JNetworkError("nobody answers")

        def getActiveStageIds(self) -> list[int]:
            raise ConnectionRefusedError

        def stop(self) -> None:
            states.append("stopped")
            raise ConnectionRefusedError

    def starter(master: str, scratch: Path, driver_host: str, nice: int) -> Any:
        states.append("started")
        return Killed() if states == ["started"] else OneProcessSpark()

    with OneSpark(starter=starter) as one:
        with pytest.raises(ExportFailed, match="the connection to Spark's JVM is lost: nobody answers"):
            export_on(one, Request(store.directory, "orders", tmp_path / "orders"))
        assert export_on(one, Request(store.directory, "bills", tmp_path / "bills")).rows == 1
    assert states == ["started", "stopped", "started"]


def test_a_lease_that_ran_out_is_named_with_the_range(store: SampleStore, tmp_path: Path, spark: SparkContext) -> None:
    queue = store.destination("orders")
    fill(store, queue, 10)
    store.publish()
    request = Request(store.directory, "orders", tmp_path / "out", lease_ms=1)
    export(request, spark=spark)
    fill(store, queue, 1000)
    store.publish()

    def starter(master: str, scratch: Path, driver_host: str, nice: int) -> Any:
        store.drop_first_segment()
        store.publish()
        return Lent(spark)

    with pytest.raises(RangeGone, match=r"log offsets \d+ to 65536 .*--skip-gone.*; this export's lease has run out"):
        export(request, starter=starter)
    assert not list((store.directory / "readers").iterdir())
    assert len(list((tmp_path / "out").glob("_penstock/manifest-*"))) == 1


def test_a_pattern_that_matches_nothing_does_not_bind_the_directory(
    store: SampleStore, tmp_path: Path, spark: SparkContext
) -> None:
    sent = fill(store, store.destination("orders.eu"), 10)
    store.publish()
    result = export(Request(store.directory, "ordres.>", tmp_path / "out"), starter=no_spark)
    assert (result.rows, result.manifest) == (0, "")
    assert "no destination of the store matches 'ordres.>'" in result.note
    assert export(Request(store.directory, "orders.>", tmp_path / "out"), spark=spark).rows == 10
    assert sorted(seen(tmp_path / "out")) == sent


def no_spark(master: str, scratch: Path, driver_host: str, nice: int) -> Any:
    raise AssertionError("Spark is not needed")


def test_another_destination_needs_another_directory(store: SampleStore, tmp_path: Path, spark: SparkContext) -> None:
    fill(store, store.destination("orders"), 10)
    store.publish()
    export(Request(store.directory, "orders", tmp_path / "out"), spark=spark)
    with pytest.raises(TargetError, match="holds an export of destination 'orders', not '>'"):
        export(Request(store.directory, ">", tmp_path / "out"), spark=spark)


def test_a_scheduled_message_is_exported_when_it_has_fired_and_once(tmp_path: Path, spark: SparkContext) -> None:
    home = FileHome()
    broker = Broker(home.store, home.clock, home.timers, AddressMatcher(()), 1 << 20)
    queue = BrokerView(broker).queue("q")
    broker.send(queue, message(queue.destination_id, b"now"))
    for body, plan in ((b"once", Plan(delay_ms=1_000)), (b"twice", Plan(period_ms=1_000, repeat=1))):
        target = delayed(queue, plan)
        broker.send(target, message(0, body))
    data, out = tmp_path / "data", tmp_path / "out"
    for steps, expected in (
        (0, ["now"]),
        (13, ["now", "once", "twice"]),
        (15, ["now", "once", "twice", "twice"]),
        (15, ["now", "once", "twice", "twice"]),
    ):
        for _ in range(steps):
            home.pass_time(100)
            broker.begin_turn()
            home.workers.run_all()
            broker.end_turn()
        broker.sync()
        home.workers.run_all()
        shutil.rmtree(data, ignore_errors=True)
        copy_to(tmp_path, home.files)
        export(Request(data, ">", out), spark=spark)
        assert sorted(row["body_text"] for row in seen(out).values()) == expected
    export(Request(data, SCHEDULE_QUEUE, tmp_path / "own"), spark=spark)
    assert sorted(row["body_text"] for row in seen(tmp_path / "own").values()) == ["once", "twice"]


def command(store: SampleStore, target: Path, *more: str) -> list[str]:
    arguments = ["--data", str(store.directory), "--destination", "orders.>", "--to", str(target), "--json", *more]
    arguments += ["--nice", "0"]  # with a low priority it could take any time beside other tests
    return [sys.executable, "-m", "gateway", "export", *arguments]


def test_killed_half_way(
    tmp_path: Path, spark: SparkContext, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Partitions are 64 MiB of log: four of them, one after the other.
    with SampleStore(tmp_path / "data", segment_bytes=64 << 20) as store:
        sent = fill(store, store.destination("orders.eu"), 3500, size=70_000)
        store.publish()
    target = tmp_path / "out"
    words = command(store, target, "--master", "local[1]")
    with run_until(words, tmp_path, lambda session: has_come("while it exports", session, target)):
        pass  # in the end it is killed, with its JVM and its workers
    assert list(target.glob("_penstock/manifest-*")) == []
    assert list(target.glob("destination=*")) == []
    (lease,) = (store.directory / "readers").iterdir()  # it ends by itself, or with the next export
    assert json.loads(lease.read_text())["from_offset"] == 0
    lent = OneSpark(spark=spark)  # without a JVM of its own
    monkeypatch.setattr("spark_bridge.export.export_on", lambda _, request: export_on(lent, request))
    assert main(command(store, target)[3:]) == exit_codes.OK
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["rows"] == 3500
    assert set(json.loads(line)) == {"target", *Result.__dataclass_fields__}
    assert sorted(seen(target)) == sent
    assert not list(target.glob("_penstock/staging/*"))
    assert not list((store.directory / "readers").iterdir())


@pytest.mark.parametrize("moment", ["while Spark starts", "while it exports"])
def test_an_interrupt_leaves_neither_a_jvm_nor_a_traceback(tmp_path: Path, moment: str) -> None:
    with SampleStore(tmp_path / "data", segment_bytes=64 << 20) as store:
        fill(store, store.destination("orders.eu"), 3500, size=70_000)
        store.publish()
    target = tmp_path / "out"
    words = command(store, target, "--master", "local[1]")
    interrupt(words, tmp_path, lambda session: has_come(moment, session, target))
    assert list(target.glob("_penstock/manifest-*")) == []


def has_come(moment: str, session: int, target: Path) -> bool:
    if moment == "while Spark starts":
        return any(b"SparkSubmit" in command_of(pid) for pid in processes_of(session))
    return bool(list(target.glob("_penstock/staging/*/*/*/*.parquet")))
