"""``penstock simulate``: on a store that a broker has written, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import pytest

from gateway.cli.dispatch import execute
from gateway.process import exit_codes
from tests.support.fakes import START_WALL_MS
from tests.support.store.one_process_spark import OneProcessSpark
from tests.support.what_if.recorded_store import MESSAGES, write_store

pytest.importorskip("pyarrow")

ROOT = Path(__file__).parents[4]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    write_store(directory)
    return directory


def simulated(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert execute(["simulate", "--json", *options]) == exit_codes.OK
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_present_configuration_gives_what_happened(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = simulated(capsys, "--from", str(data))
    assert report["runs"] == ["really", "present"]
    runs = report["destinations"]["queue://orders.eu"]
    assert runs["really"]["messages"] == MESSAGES
    assert (runs["really"]["dead_letters"], runs["really"]["acknowledged"]) == (2, MESSAGES - 2)
    counted = ("messages", "acknowledged", "redeliveries", "dead_letters", "waiting_at_end")
    assert [runs["present"][key] for key in counted] == [runs["really"][key] for key in counted]
    assert report["destinations"]["queue://ActiveMQ.DLQ"]["present"]["messages"] == 2


@pytest.mark.parametrize("partitioning", [("destination", "date"), ("date",)], ids=",".join)
def test_an_export_gives_the_same_as_its_store(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], partitioning: tuple[str, ...]
) -> None:
    pytest.importorskip("pyspark")
    from spark_bridge.export import Request, export

    lake = tmp_path / "lake"
    one_process = cast(Any, OneProcessSpark())
    export(Request(data, ">", lake, tables=("messages", "deliveries"), partitioning=partitioning), spark=one_process)
    assert simulated(capsys, "--from", str(lake)) == simulated(capsys, "--from", str(data))
    alone = tmp_path / "alone"
    export(Request(data, ">", alone), spark=one_process)
    assert execute(["simulate", "--from", str(alone)]) == exit_codes.USAGE
    assert "an export of messages; needed are messages and deliveries" in capsys.readouterr().err


def test_a_part_of_the_time(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = ("--from-time", str(START_WALL_MS + 101), "--to-time", str(START_WALL_MS + 201))
    report = simulated(capsys, "--from", str(data), *times)
    runs = report["destinations"]["queue://orders.eu"]
    assert runs["really"]["messages"] == 25 + 7  # those that came, and those that waited for another attempt
    assert report["to_ms"] == START_WALL_MS + 200


def test_settings_and_numbers_make_runs(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chart = tmp_path / "chart.svg"
    options = ("--set", "redelivery.maximum-redeliveries=0,1", "--consumers", "1,3", "--chart", str(chart))
    report = simulated(capsys, "--from", str(data), "--processes", "1", *options)
    assert len(report["runs"]) == 2 + 4
    runs = report["destinations"]["queue://orders.eu"]
    assert runs["redelivery.maximum-redeliveries=0 consumers=1"]["dead_letters"] == 12
    assert runs["redelivery.maximum-redeliveries=1 consumers=3"]["dead_letters"] == 2
    ElementTree.parse(chart)


def test_a_file_is_a_run_and_processes_give_the_same(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "new.yaml"
    config.write_text("addresses:\n- match: '>'\n  redelivery: {maximum-redeliveries: 0}\n")
    options = ("--from", str(data), "--config", str(config), "--service", "drawn")
    reports = [simulated(capsys, *options, "--processes", str(count)) for count in (1, 2)]
    assert reports[0] == reports[1]
    assert reports[0]["destinations"]["queue://orders.eu"]["new.yaml"]["redeliveries"] == 0


def test_the_report_is_a_table(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["simulate", "--from", str(data), "--destination", "orders.>"]) == exit_codes.OK
    words = [line.split() for line in capsys.readouterr().out.split("\n")]
    assert ["queue://orders.eu", "really", "present"] in words
    assert ["messages", "60", "60"] in words


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--set", "redelivery.maximum-redelivery=1"], "did you mean 'redelivery.maximum-redeliveries'?"),
        (["--set", "redelivery.maximum-redeliveries=many"], "'many', allowed is"),
        (["--set", "redelivery.maximum-redeliveries"], "allowed is KEY=VALUE"),
        (["--consumers", "0"], "--consumers is '0'; allowed is a whole number from 1 to 10000"),
        (["--consumers", "9" * 5_000], "allowed is a whole number from 1 to 10000"),
        (["--prefetch", "1,x"], "--prefetch is '1,x'"),
        (["--processes", "-1"], "--processes is -1"),
        (["--destination", "nobody"], "has no messages of 'nobody' in this time"),
        (["--from-time", "today"], "option 'from-time' is 'today'"),
        (["--from-time", "2026-01-02", "--to-time", "2026-01-01"], "--from-time 2026-01-02 is not before"),
        (["--consumers", ",".join(["1"] * 70)], "these are 71 runs; at most 64 are allowed"),
        (["--consumers", "1,2,3", "--runs-max", "3"], "these are 4 runs; at most 3 are allowed (--runs-max)"),
        (["--runs-max", "10001"], "--runs-max is 10001; allowed is 1 to 10,000"),
        (["--master", "local[2]", "--processes", "2"], "--processes are those of this machine"),
        (["--master", "local[2]", "--consumers", ",".join(["1"] * 1024)], "these are 1025 runs; at most 1024"),
        (["--config", "missing.yaml"], "missing.yaml"),
    ],
)
def test_wrong_options(data: Path, capsys: pytest.CaptureFixture[str], options: list[str], text: str) -> None:
    assert execute(["simulate", "--from", str(data), *options]) == exit_codes.USAGE
    assert text in capsys.readouterr().err


def test_what_is_no_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["simulate", "--from", str(tmp_path)]) == exit_codes.USAGE
    assert "neither an export nor the data directory of a store" in capsys.readouterr().err
    assert execute(["simulate", "--from", str(tmp_path / "missing")]) == exit_codes.USAGE
    assert "which is not a directory" in capsys.readouterr().err
    (tmp_path / "store.json").write_text("{}")
    assert execute(["simulate", "--from", str(tmp_path)]) == exit_codes.STORE
