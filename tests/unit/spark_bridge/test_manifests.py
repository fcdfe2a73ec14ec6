"""Manifests, staging, and what an export that died leaves."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engine.values.errors import StoreError
from spark_bridge.attempts import attempts_of
from spark_bridge.errors import TargetError
from spark_bridge.manifests import FOLDER, STAGING, ExportedFile, Manifest, check_continues
from spark_bridge.partitioning import BY_DATE, BY_DESTINATION
from spark_bridge.target import NextRange, Target, target_at
from tests.support.disk.modes import modes, umask

MESSAGES_ALONE = ("messages",)


def stage(target: Target, *paths: str) -> Manifest:
    """Put files into a new staging directory; return the manifest that would commit them."""
    attempt = attempts_of(target.files).begin(1)
    write(root(target) / FOLDER / STAGING / attempt.name, *paths)
    files = tuple(ExportedFile(path, 2, 10) for path in paths)
    return Manifest(1, "0badcafe", "orders.>", 0, 100, 5, 0, 6, attempt.name, files)


def root(target: Target) -> Path:
    return Path(target.files.title)


def write(directory: Path, *paths: str) -> None:
    for path in paths:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(b"parquet")


def seen(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*.parquet"))


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return target_at(tmp_path / "out")


def test_a_new_target_starts_with_the_first_manifest(target: Target) -> None:
    with target.hold():
        assert target.next_range("0badcafe", "orders.>") == NextRange(1, None, MESSAGES_ALONE, ())


X = "destination=a/date=2024-01-01/x.parquet"
Y = "destination=b/date=2024-01-01/y.parquet"


def test_committed_files_are_in_place_and_the_next_range_follows(target: Target) -> None:
    with target.hold():
        manifest = stage(target, X)
        path = target.commit(manifest)
    assert seen(root(target)) == [X]
    assert json.loads(Path(path).read_text())["rows"] == 2
    with target.hold():
        assert target.next_range("0badcafe", "orders.>") == NextRange(2, 100, MESSAGES_ALONE, BY_DESTINATION)
        assert target.manifests() == [manifest]


def test_a_table_whose_manifests_are_elsewhere_is_no_new_target(target: Target) -> None:
    both = ("messages", "deliveries")
    with target.hold():
        target.commit(replace(stage(target, f"messages/{X}"), tables=both))
    inside = target_at(root(target) / "messages")
    with (
        inside.hold(),
        pytest.raises(TargetError, match=r"/messages/_delta_log has commits, but .*/messages no manifest"),
    ):
        inside.next_range("0badcafe", "queue://orders.>")
    shutil.rmtree(root(target) / "_penstock")
    again = target_at(root(target))
    with again.hold(), pytest.raises(TargetError, match="allowed is a directory without a table"):
        again.next_range("0badcafe", "orders.>", both)
    shutil.rmtree(root(target) / "messages/_delta_log")
    shutil.rmtree(root(target) / "deliveries/_delta_log")
    with again.hold(), pytest.raises(TargetError, match=f"has messages/{X}, but .* no manifest"):
        again.next_range("0badcafe", "orders.>", both)


@pytest.mark.parametrize(("mask", "directories", "files"), [(0, 0o750, 0o640), (0o077, 0o700, 0o600)])
def test_a_target_is_no_more_readable_than_the_store(tmp_path: Path, mask: int, directories: int, files: int) -> None:
    with umask(mask):
        target = target_at(tmp_path / "lake/out")
        with target.hold():
            manifest = stage(target, X)
            (root(target) / "_penstock/staging" / manifest.staging / X).chmod(files)  # as a worker writes it
            target.commit(manifest)
    assert modes(tmp_path / "lake") == ({directories}, {files})


def test_a_target_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(0o755)
    with target_at(tmp_path / "out").hold():
        pass
    assert modes(tmp_path / "out") == ({0o755, 0o750}, {0o640})


def test_what_an_older_build_made_is_narrowed(tmp_path: Path) -> None:
    target = target_at(tmp_path / "out")
    with target.hold():
        target.commit(stage(target, X))
    (tmp_path / "out/own.txt").write_text("no file of an export")
    shutil.rmtree(tmp_path / "out/_delta_log")
    (tmp_path / "out/_penstock/newest").unlink()
    for path in (tmp_path / "out", *(tmp_path / "out").rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with target.hold():
        pass
    wide = {str(path.relative_to(tmp_path)) for path in (tmp_path / "out").rglob("*") if path.stat().st_mode & 0o007}
    assert wide - {"out/own.txt"} <= {f"out/_penstock/{name}" for name in ("staging", "manifest-00000001.json")}
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o755, "its owner has chosen that"
    assert (tmp_path / "out/own.txt").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "out/_penstock").stat().st_mode & 0o777 == 0o750


def test_what_is_no_attempt_is_left_alone(target: Target) -> None:
    write(root(target) / FOLDER / STAGING, ".nfs0000000000000001", "lost+found/x")
    with target.hold():
        assert target.lake_files(MESSAGES_ALONE, "messages") == []
        target.commit(stage(target, X))
    assert seen(root(target)) == [X]


def test_died_before_the_manifest_then_nothing_is_left(target: Target) -> None:
    with target.hold():
        stage(target, X)
    again = target_at(root(target))
    with again.hold():
        assert seen(root(target)) == []
        assert again.next_range("0badcafe", "orders.>") == NextRange(1, None, MESSAGES_ALONE, ())


def test_died_between_the_manifest_and_the_last_move_then_the_rest_follows(target: Target) -> None:
    with target.hold():
        manifest = stage(target, X, Y)
        target.commit(manifest)
        # As if only the first had moved.
        (root(target) / Y).unlink()
        write(root(target) / "_penstock" / "staging" / manifest.staging, Y)
    with target.hold():
        assert seen(root(target)) == [X, Y]
        assert target.next_range("0badcafe", "orders.>") == NextRange(2, 100, MESSAGES_ALONE, BY_DESTINATION)


def test_what_workers_of_a_killed_run_still_write_never_moves(target: Target) -> None:
    with target.hold():
        killed = stage(target, X)
    with target.hold():
        manifest = stage(target, Y)
        write(root(target) / "_penstock" / "staging" / killed.staging, X)
        write(root(target) / "_penstock" / "staging" / manifest.staging, X)
        target.commit(manifest)
        assert [path for path in seen(root(target)) if not path.startswith("_")] == [Y]
    with target.hold():
        assert seen(root(target)) == [Y]


def test_files_that_a_user_has_removed_do_not_matter(target: Target) -> None:
    with target.hold():
        target.commit(stage(target, X))
    (root(target) / X).unlink()
    with target.hold():
        assert target.next_range("0badcafe", "orders.>") == NextRange(2, 100, MESSAGES_ALONE, BY_DESTINATION)


def test_only_the_last_of_many_manifests_is_read(target: Target) -> None:
    with target.hold():
        target.commit(stage(target, X))
    first = root(target) / "_penstock" / "manifest-00000001.json"
    last = json.loads(first.read_text()) | {"number": 2, "from_offset": 100, "to_offset": 200, "staging": "00000002-b"}
    first.with_name("manifest-00000002.json").write_text(json.dumps(last))
    first.write_text("{")
    with target.hold():
        assert target.next_range("0badcafe", "orders.>") == NextRange(3, 200, MESSAGES_ALONE, BY_DESTINATION)


def test_two_exports_at_once(target: Target) -> None:
    with target.hold(), pytest.raises(TargetError, match="another export"), Target(target.files).hold():
        pass


@pytest.mark.parametrize(
    ("store_id", "destination", "text"),
    [("feedbeef", "orders.>", "of store 0badcafe, this is store feedbeef"), ("0badcafe", ">", "'orders.>', not '>'")],
)
def test_another_store_or_choice_is_refused(target: Target, store_id: str, destination: str, text: str) -> None:
    with target.hold():
        target.commit(stage(target))
        with pytest.raises(TargetError, match=text):
            target.next_range(store_id, destination)


def test_a_directory_keeps_its_tables(target: Target) -> None:
    both = ("messages", "deliveries")
    with target.hold():
        assert target.next_range("0badcafe", "orders.>", both) == NextRange(1, None, both, ())
        manifest = replace(stage(target, f"messages/{X}", f"messages/{Y}", f"deliveries/{X}"), tables=both)
        assert manifest.rows_by_table() == {"messages": 4, "deliveries": 2}
        target.commit(manifest)
    assert seen(root(target)) == [f"deliveries/{X}", f"messages/{X}", f"messages/{Y}"]
    with target.hold():
        assert target.manifests() == [manifest]
        assert target.next_range("0badcafe", "orders.>") == NextRange(2, 100, both, BY_DESTINATION)
        assert target.next_range("0badcafe", "orders.>", both) == NextRange(2, 100, both, BY_DESTINATION)
        with pytest.raises(TargetError, match="holds the tables messages, deliveries, not messages; each choice"):
            target.next_range("0badcafe", "orders.>", MESSAGES_ALONE)


def test_a_directory_keeps_its_partitioning(target: Target) -> None:
    with target.hold():
        assert target.next_range("0badcafe", "orders.>", (), BY_DATE).partitioning == BY_DATE
        manifest = replace(stage(target, "date=2024-01-01/x.parquet"), partitioning=BY_DATE)
        target.commit(manifest)
    with target.hold():
        assert target.manifests() == [manifest]
        assert target.next_range("0badcafe", "orders.>") == NextRange(2, 100, MESSAGES_ALONE, BY_DATE)
        assert target.next_range("0badcafe", "orders.>", (), BY_DATE).number == 2
        with pytest.raises(TargetError, match="is partitioned by date, not by destination, date; each partitioning"):
            target.next_range("0badcafe", "orders.>", (), BY_DESTINATION)


def test_a_manifest_from_before_tables_and_partitionings(target: Target) -> None:
    with target.hold():
        path = target.commit(stage(target, X))
        told = json.loads(Path(path).read_text())
        del told["tables"], told["partitioning"]
        Path(path).write_text(json.dumps(told))
        assert target.next_range("0badcafe", "orders.>", MESSAGES_ALONE) == NextRange(
            2, 100, MESSAGES_ALONE, BY_DESTINATION
        )


@pytest.mark.parametrize("text", ["{", "{}", '{"format": 99}', "[]"])
def test_a_manifest_that_cannot_be_read_stops_the_export(target: Target, text: str) -> None:
    folder = root(target) / "_penstock"
    folder.mkdir(parents=True)
    (folder / "manifest-00000001.json").write_text(text)
    with pytest.raises(TargetError, match="manifest-00000001"), target.hold():
        target.next_range("0badcafe", "orders.>")


def test_a_store_that_was_set_back() -> None:
    check_continues(100, 100)
    with pytest.raises(StoreError, match="older copy"):
        check_continues(100, 96)
