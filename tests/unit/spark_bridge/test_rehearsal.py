"""``penstock export --dry-run``: what it says is what the export adds, and it writes nothing anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.store.format import layout
from engine.store.read.leases import Lease, write_lease
from gateway.cli.dispatch import execute
from gateway.process import exit_codes
from spark_bridge.errors import TargetError
from spark_bridge.export import NO_SPARK, Request, export
from spark_bridge.result import Result
from tests.support.objects.s3_server import PASS, Relay, S3Server
from tests.support.store.sample_store import SampleStore

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")

BOTH = ("messages", "deliveries")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data") as sample:
        yield sample


def fill(store: SampleStore, count: int = 40) -> None:
    for name in ("orders.eu", "orders." + "ü" * 150, "other"):
        number = store.destination(name)
        for one in range(count):
            store.send(number, b"x" * 200, b"n:%d\n" % one)
    store.publish()


def contents(*places: Path) -> dict[str, tuple[int, bytes]]:
    """Return what is there, so that nothing can be added, changed or made again unnoticed."""
    found = [path for place in places for path in place.rglob("*")]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in found}


def without_note(result: Result) -> Result:
    return replace(result, manifest="", is_rehearsal=False, destinations={})


@pytest.mark.parametrize("tables", [(), BOTH])
def test_it_says_what_the_export_then_adds(store: SampleStore, tmp_path: Path, tables: tuple[str, ...]) -> None:
    fill(store)
    store.settle(1, (0, 5))
    store.publish()
    request = Request(store.directory, "orders.>", tmp_path / "out", NO_SPARK, tables=tables)
    for _ in range(2):
        before = contents(tmp_path)
        told = export(replace(request, is_rehearsal=True))
        assert contents(tmp_path) == before
        done = export(request)
        assert without_note(told) == without_note(done)
        rows = {name: counts["rows"] for name, counts in told.destinations.items()}
        more = 5 if tables and not told.from_offset else 0
        assert rows == {"queue://orders.eu": 40 + more, "queue://orders." + "ü" * 150: 40}
        assert sum(counts["bytes"] for counts in told.destinations.values()) == done.bytes > 0
        fill(store)
    assert export(request).rows == 80
    before = contents(tmp_path)
    nothing = export(replace(request, is_rehearsal=True))
    assert (nothing.rows, nothing.from_offset == nothing.to_offset) == (0, True)
    assert export(Request(store.directory, "nobody", tmp_path / "new", is_rehearsal=True)).note
    assert contents(tmp_path) == before


def test_the_command_needs_no_spark_and_tells_each_destination(
    store: SampleStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(store)
    command = ["export", "--data", str(store.directory), "--destination", ">", "--to", str(tmp_path / "out")]
    command += ["--dry-run", "--nice", "0"]
    assert execute(command) == exit_codes.OK
    told = capsys.readouterr().out
    assert f"would be added to {tmp_path / 'out'}\nlog offsets 0 to {store.offset} " in told
    assert "\n  queue://other: 40 rows, 0.0 MiB\n" in told
    assert execute([*command, "--json"]) == exit_codes.OK
    line = json.loads(capsys.readouterr().out)
    assert (line["is_rehearsal"], line["destinations"]["queue://other"]["rows"]) == (True, 40)
    assert not (tmp_path / "out").exists()


def test_an_export_under_way_keeps_its_lease(store: SampleStore, tmp_path: Path) -> None:
    fill(store)
    lease = Lease(f"the export to {tmp_path / 'out'}", 0, store.now_ms)
    write_lease(store.directory, store.store_id, lease, store.now_ms)
    before = contents(tmp_path)
    export(Request(store.directory, ">", tmp_path / "out", is_rehearsal=True))
    assert contents(tmp_path) == before


def test_what_is_gone_ends_it_as_it_ends_the_export(
    store: SampleStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(store)
    export(Request(store.directory, ">", tmp_path / "out", NO_SPARK))
    fill(store, 300)
    store.drop_first_segment()
    store.publish()
    told = ["export", "--data", str(store.directory), "--destination", ">", "--to", str(tmp_path / "out")]
    told += ["--dry-run", "--nice", "0"]
    assert execute(told) == exit_codes.STORE
    assert "--skip-gone exports what is left" in capsys.readouterr().err
    assert execute([*told, "--skip-gone"]) == exit_codes.OK
    assert "because retention had removed it: everything from log offset" in capsys.readouterr().out


def test_what_is_damaged_ends_it_as_it_ends_the_export(
    store: SampleStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(store)
    store.append_octets()
    store.publish(is_clean=True)
    broken = bytearray(store.path.read_bytes())
    broken[layout.SEGMENT_HEADER_BYTES + store.offset - store.base - 20] ^= 1
    store.path.write_bytes(broken)
    told = ["export", "--data", str(store.directory), "--destination", ">", "--to", str(tmp_path / "out")]
    told += ["--dry-run", "--nice", "0"]
    assert execute(told) == exit_codes.STORE
    assert "--skip-damaged exports the rest" in capsys.readouterr().err
    assert execute([*told, "--skip-damaged", "--json"]) == exit_codes.OK
    rehearsed = json.loads(capsys.readouterr().out)
    done = export(Request(store.directory, ">", tmp_path / "out", NO_SPARK, skip_damaged=True))
    assert rehearsed["rows"] == done.rows == 119
    assert [each["records"] for each in rehearsed["damaged"]] == [each.records for each in done.damaged] == [1]


def test_another_choice_of_destinations_is_refused(store: SampleStore, tmp_path: Path) -> None:
    fill(store)
    export(Request(store.directory, ">", tmp_path / "out", NO_SPARK))
    with pytest.raises(TargetError, match="holds an export of destination '>', not 'other'"):
        export(Request(store.directory, "other", tmp_path / "out", is_rehearsal=True))


def test_a_bucket_is_only_read(store: SampleStore, tmp_path: Path, s3_server: S3Server) -> None:
    pytest.importorskip("obstore")
    fill(store)
    lake = s3_server.lake()
    asked: list[str] = []

    def listen(method: str, path: str, number: int) -> str:
        asked.append(method)
        return PASS

    relay = Relay(lake.port, listen)
    request = Request(store.directory, ">", lake.at(relay.port), NO_SPARK)
    try:
        for _ in range(2):
            asked.clear()
            told = export(replace(request, is_rehearsal=True))
            assert asked and set(asked) <= {"GET", "HEAD"}
            assert without_note(told) == without_note(export(request))
            fill(store)
    finally:
        relay.close()
