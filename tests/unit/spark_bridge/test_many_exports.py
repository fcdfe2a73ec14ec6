"""A target with many exports: another one asks for no more than after the first few, and a wrong note costs nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from spark_bridge.export import Request, export_to
from spark_bridge.files.lake_files import FileStatus
from spark_bridge.files.local import LocalFiles
from spark_bridge.result import Result
from spark_bridge.target import Target, target_at
from tests.support.store.sample_store import SampleStore

FEW = 5
MANY = 60

pytestmark = pytest.mark.damages_store("written by hand: its snapshots tell only what readers need")


class CountedFiles(LocalFiles):
    """asked: how often something was done with a file, and how many names were listed."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.asked: Counter[str] = Counter()

    def names(self, folder: str) -> list[str]:
        found = super().names(folder)
        self.asked["names"] += len(found)
        return found

    def walk(self, folder: str) -> list[str]:
        found = super().walk(folder)
        self.asked["names"] += len(found)
        return found

    def status(self, path: str) -> FileStatus | None:
        self.asked["status"] += 1
        return super().status(path)

    def open(self, path: str) -> pa.NativeFile:
        self.asked["open"] += 1
        return super().open(path)

    def write(self, path: str, octets: bytes) -> None:
        self.asked["write"] += 1
        super().write(path, octets)

    def write_if_absent(self, path: str, octets: bytes) -> bool:
        self.asked["write"] += 1
        return super().write_if_absent(path, octets)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data") as store:
        store.destination("orders")
        yield store


def export_one(store: SampleStore, target: Target) -> Result:
    store.send(1, b"text")
    store.publish()
    result = export_to(target, Request(store.directory, ">", target.files.title, master="none"))
    assert result.rows == 1
    return result


def asked_by_an_export(store: SampleStore, lake: Path) -> Counter[str]:
    files = CountedFiles(lake)
    export_one(store, Target(files))
    return files.asked


def test_an_export_asks_for_no_more_after_many(store: SampleStore, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for _ in range(FEW):
        export_one(store, target_at(lake))
    few = asked_by_an_export(store, lake)
    target = target_at(lake)
    for _ in range(MANY):
        export_one(store, target)
    assert asked_by_an_export(store, lake) == few
    assert few.total() < 25, few


def newer_is_missing(note: Path) -> None:
    told = json.loads(note.read_text())
    note.write_text(json.dumps({"manifest": told["manifest"] + 7, "commits": {"": told["commits"][""] + 7}}))


def older(note: Path) -> None:
    note.write_text(json.dumps({"manifest": 1, "commits": {"": 0}}))


@pytest.mark.parametrize(
    "spoil",
    [Path.unlink, newer_is_missing, older, lambda note: note.write_text("{"), lambda note: note.write_text("7")],
)
def test_a_note_that_is_wrong_or_lost_changes_nothing(
    store: SampleStore, tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    lake = tmp_path / "lake"
    for _ in range(FEW):
        export_one(store, target_at(lake))
    spoil(lake / "_penstock/newest")
    result = export_one(store, target_at(lake))
    assert result.manifest.endswith(f"manifest-{FEW + 1:08}.json")
    assert len(list((lake / "_delta_log").glob("*.json"))) == FEW + 1
    assert json.loads((lake / "_penstock/newest").read_text()) == {"manifest": FEW + 1, "commits": {"": FEW}}
