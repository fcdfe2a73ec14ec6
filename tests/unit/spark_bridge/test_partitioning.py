"""Targets by destination and date, and by date alone: which one an export makes, and what a read of it leaves out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from engine.store.read.selection import Selection, parse
from engine.values.destination import KINDS_BY_NAME, TOPIC
from gateway.cli.dispatch import execute
from gateway.process import exit_codes
from spark_bridge.arrow.schema import MESSAGES
from spark_bridge.errors import TargetError
from spark_bridge.export import MANY, NO_SPARK, Request, export
from spark_bridge.files.choice import files_at
from spark_bridge.lake_import import EVERYTHING
from spark_bridge.partitioning import BY_DATE, BY_DESTINATION, MOST_DESTINATIONS, PARTITIONINGS, Partitioning
from spark_bridge.read.lake import make_lake, row_groups
from spark_bridge.read.scan import scan
from tests.support.store.lake_rows import lake_rows
from tests.support.store.sample_store import SampleStore

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")

COUNTS = {BY_DESTINATION: MOST_DESTINATIONS, BY_DATE: MOST_DESTINATIONS + 1}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data") as sample:
        yield sample


def fill(store: SampleStore, count: int) -> None:
    for number in range(count):
        store.send(store.destination(f"orders.{number:03}"), b"%d" % number)
    store.publish()


@pytest.mark.parametrize("partitioning", PARTITIONINGS, ids=",".join)
def test_a_new_target_is_partitioned_by_how_many_destinations_match(
    store: SampleStore, tmp_path: Path, partitioning: Partitioning, capsys: pytest.CaptureFixture[str]
) -> None:
    store.send(store.destination("other"))
    fill(store, COUNTS[partitioning])
    request = Request(store.directory, "orders.>", tmp_path / "out", NO_SPARK)
    told = export(replace(request, is_rehearsal=True))
    assert (told.partitioning, told.rows, len(told.destinations)) == (partitioning, *[COUNTS[partitioning]] * 2)
    command = ["export", "--data", str(store.directory), "--destination", "orders.>", "--to", str(request.target)]
    assert execute([*command, "--dry-run", "--nice", "0"]) == exit_codes.OK
    assert f"\npartitioned by {' and '.join(partitioning)}\n  queue://orders.000: 1 row" in capsys.readouterr().out
    done = export(request)
    assert (done.partitioning, done.note) == (partitioning, "")
    assert done.files == (1 if partitioning == BY_DATE else COUNTS[partitioning])
    assert export(request).partitioning == partitioning  # nothing is new
    fill(store, 2)
    other = BY_DATE if partitioning == BY_DESTINATION else BY_DESTINATION
    with pytest.raises(TargetError, match="each partitioning needs a directory of its own"):
        export(replace(request, partitioning=other))
    assert execute([*command, "--partition-by", ",".join(partitioning), "--master", "none", "--json"]) == exit_codes.OK
    assert json.loads(capsys.readouterr().out)["partitioning"] == list(partitioning)
    assert execute([*command, "--partition-by", ",".join(other), "--master", "none"]) == exit_codes.USAGE


def test_a_note_says_that_by_date_would_be_faster(store: SampleStore, tmp_path: Path) -> None:
    request = Request(store.directory, "orders.>", tmp_path / "out", NO_SPARK)
    fill(store, MOST_DESTINATIONS)
    assert export(request).note == ""
    fill(store, MOST_DESTINATIONS + 1)
    told = export(replace(request, is_rehearsal=True))
    assert told.note == MANY and told.partitioning == BY_DESTINATION
    assert export(replace(request, partitioning=BY_DESTINATION)).note == ""


def test_an_unknown_partitioning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["export", "--destination", "a", "--to", str(tmp_path / "out"), "--partition-by", "hour"]
    assert execute(arguments) == exit_codes.USAGE
    assert "--partition-by is 'hour'; allowed is destination,date or date" in capsys.readouterr().err


NAMES = ("a", "a.b", "a.b.c", "a/b", "ab", "a.\U0010ffff", "b", "bücher.日本", "z")


@pytest.fixture
def sorted_lake(store: SampleStore, tmp_path: Path) -> Path:
    """A target by date, whose row groups have three rows each."""
    for turn in range(4):
        for name in NAMES:
            for kind in (TOPIC, *KINDS_BY_NAME.values()):
                store.send(store.destination(name, kind) if not turn else 1, b"x")
    store.publish()
    lake = tmp_path / "lake"
    export(Request(store.directory, ">", lake, NO_SPARK, partitioning=BY_DATE))
    (file,) = lake.glob("date=*/*.parquet")
    pq.write_table(pq.ParquetFile(file).read(), file, row_group_size=3)
    return lake


def groups_of(lake: Path, selection: Selection) -> tuple[list[int], list[int], int]:
    """Return the row groups that are read, those that have chosen rows, and how many there are."""
    (file,) = lake.glob("date=*/*.parquet")
    planned = make_lake(files_at(lake), (MESSAGES,), MESSAGES, ["log_offset"], selection, EVERYTHING, 1)
    with pq.ParquetFile(file) as parquet:
        found = []
        for number in range(parquet.num_row_groups):
            uris = parquet.read_row_group(number, ["destination"])["destination"].to_pylist()
            split = [uri.split("://") for uri in uris]
            if any(selection.matches(KINDS_BY_NAME[kind], name) for kind, name in split):
                found.append(number)
        return row_groups(parquet.metadata, planned), found, parquet.num_row_groups


@pytest.mark.parametrize("pattern", [*NAMES, *(f"queue://{name}" for name in NAMES), "topic://z", ">", "queue://>"])
def test_of_an_exact_name_only_its_row_groups_are_read(sorted_lake: Path, pattern: str) -> None:
    read, needed, count = groups_of(sorted_lake, parse(pattern))
    assert read == needed and needed
    assert (len(read) < count) == (pattern != ">")


@pytest.mark.parametrize(
    "pattern", ["a.>", "a.*", "queue://a.b.>", "*", "topic://*", "bücher.>", "*.b", "none.>", "topic://z,a.*"]
)
def test_of_a_pattern_all_row_groups_with_its_rows_are_read(sorted_lake: Path, pattern: str) -> None:
    read, needed, _ = groups_of(sorted_lake, parse(pattern))
    assert set(read) >= set(needed)


@pytest.mark.parametrize(
    "only",
    [
        {"destination": {"queue://a.b", "topic://z"}},
        {"destination_name": {"bücher.日本"}},
        {"destination_kind": {"topic"}},
        {"destination": {"queue://none"}},
    ],
)
def test_of_conditions_only_their_row_groups_are_read(sorted_lake: Path, only: dict[str, set[str]]) -> None:
    values = tuple((column, frozenset(each)) for column, each in only.items())
    read, needed, count = groups_of(sorted_lake, replace(parse(">"), only=values))
    assert set(read) >= set(needed)
    assert len(read) <= len(needed) + 1 or "destination_kind" in only
    assert len(read) < count or "destination_kind" in only


@pytest.mark.parametrize("where", ["destination = 'queue://a.b'", "destination_name = 'z'", ""])
def test_a_read_of_such_a_lake_has_the_rows_of_the_log(store: SampleStore, sorted_lake: Path, where: str) -> None:
    options: dict[str, Any] = {"where": where} if where else {}
    store.send(1, b"later")
    store.publish()
    found = scan(str(store.directory), lake=sorted_lake, **options).read_all().sort_by("log_offset").to_pylist()
    assert found == scan(str(store.directory), **options).read_all().to_pylist()
    if not where:
        assert found == lake_rows(store.directory, ">")
