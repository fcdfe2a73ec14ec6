"""``penstock export``: what it says and returns without starting Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.dispatch import execute
from gateway.process import exit_codes
from tests.support.store.sample_store import SampleStore

ROOT = Path(__file__).parents[4]


EXPORT = ["export", "--destination", "a", "--to", "out"]


@pytest.mark.parametrize(
    ("options", "package", "extra"),
    [
        (EXPORT, "pyspark", "spark"),
        (["simulate", "--from", ".", "--master", "local[2]"], "pyspark", "spark"),
        ([*EXPORT, "--master", "none", "--iceberg", "prod.sales"], "pyiceberg", "iceberg"),
    ],
)
def test_without_a_package_it_says_what_to_install(
    options: list[str], package: str, extra: str, tmp_path: Path
) -> None:
    text = f"raise ModuleNotFoundError('No module named {package}', name='{package}')\n"
    (tmp_path / f"{package}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "gateway", *options],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == exit_codes.FAILED
    assert f"pip install 'penstock[{extra}]' (missing: {package})" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("destination", "code", "text"),
    [("orders", exit_codes.STORE, "is not a store"), ("a..b", exit_codes.USAGE, "empty word")],
)
def test_what_cannot_be_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], destination: str, code: int, text: str
) -> None:
    pytest.importorskip("pyspark")
    arguments = ["export", "--data", str(tmp_path), "--destination", destination, "--to", str(tmp_path / "out")]
    assert execute(arguments) == code
    assert text in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("size", ["0", "1023KiB", "257MiB", "many"])
def test_a_size_of_files_that_is_not_allowed(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([*EXPORT, "--file-bytes", size]) == exit_codes.USAGE
    assert f"--file-bytes is {size!r}; allowed is" in capsys.readouterr().err


@pytest.mark.damages_store("written by hand, without all that a gateway would write")
def test_files_of_a_size(tmp_path: Path) -> None:
    with SampleStore(tmp_path / "data") as store:
        queue = store.destination("a")
        for _ in range(300):
            store.send(queue, os.urandom(10_000))
        store.publish(is_clean=True)
    arguments = ["export", "--data", str(tmp_path / "data"), "--destination", "a", "--to", str(tmp_path / "out")]
    assert execute([*arguments, "--master", "none", "--file-bytes", "1MiB"]) == exit_codes.OK
    sizes = [path.stat().st_size for path in (tmp_path / "out").glob("*/*/*.parquet")]
    assert len(sizes) == 4 and max(sizes) < 1 << 20


def test_nothing_new_needs_no_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    with SampleStore(tmp_path / "data") as store:
        store.publish(durable_offset=0)
        (store.directory / "commitlog" / "00000000000000000000.log").unlink()
    arguments = ["export", "--data", str(tmp_path / "data"), "--destination", "a", "--to", str(tmp_path / "out")]
    assert execute(arguments) == exit_codes.OK
    assert "nothing new" in capsys.readouterr().out


@pytest.mark.damages_store("written by hand, without all that a gateway would write")
@pytest.mark.parametrize("target", ["s3a://lake/orders", "file:///lake/orders", "https://host/x", "file:/lake"])
def test_a_url_is_no_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with SampleStore(tmp_path / "data") as store:
        store.publish()
    assert execute(["export", "--destination", "a", "--data", "data", "--to", target]) == exit_codes.USAGE
    assert (
        f"{target.split(':')[0]}:// is no place that can be used; allowed is a path, or s3://"
        in capsys.readouterr().err
    )
    assert execute(["export", "--destination", "a", "--data", target, "--to", "out"]) == exit_codes.USAGE
    is_gateway = target.startswith("https")
    told = f"{target} is no gateway" if is_gateway else f"{target.split(':')[0]}:// is no place that can be used"
    assert told in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    assert not (tmp_path / "data/exports").exists()


def test_what_is_damaged_is_found_by_checksums(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["export", "--destination", "a", "--to", str(tmp_path / "out"), "--skip-damaged", "--no-verify"]
    assert execute(arguments) == exit_codes.USAGE
    assert "--skip-damaged needs the checksums" in capsys.readouterr().err


def test_a_lease_is_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["export", "--destination", "a", "--to", str(tmp_path / "out"), "--lease", "8d"]
    assert execute(arguments) == exit_codes.USAGE
    assert "--lease is '8d'; allowed is a time in milliseconds" in capsys.readouterr().err


def two(store: Path, one: Path, other: Path) -> list[str]:
    pairs = ["--destination", "a", "--to", str(one), "--destination", "b,c", "--to", str(other)]
    return ["export", "--data", str(store), *pairs, "--master", "none", "--nice", "0"]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--destination", "b"], "--destination is given 2 times and --to 1 time; allowed is one --to for each"),
        (["--to", "b"], "--destination is given 1 time and --to 2 times; allowed is one --to for each"),
        (["--destination", "b", "--to", "./out/"], "--to names ./out/ twice; allowed are different targets"),
        (["--destination", "b", "--to", "link"], "--to names link twice; allowed are different targets"),
        (["--destination", "b", "--to", ""], "--to is ''; allowed is a directory or a URL"),
        (["--destination", "b", "--to", "ftp:/x"], "ftp:// is no place that can be used"),
        (["--destination", "b,", "--to", "other"], "'b,' has an empty pattern"),
        (["--destination", "b", "--to", "c", "--iceberg", "a.b"], "--to is given 2 times, allowed is 1"),
        (["--destination", "b", "--to", "c"] * 100, "--to 101 times; allowed is one --to for each --destination, at m"),
    ],
)
def test_what_are_no_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: list[str], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("out")
    assert execute([*EXPORT, *more, "--master", "none", "--nice", "0"]) == exit_codes.USAGE
    assert text in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Return a store with a message for each of three queues."""
    with SampleStore(tmp_path / "data") as store:
        for name in "abc":
            store.send(store.destination(name))
        store.publish(is_clean=True)
    return tmp_path / "data"


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.damages_store("written by hand, without all that a gateway would write")
def test_several_targets(three: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = two(three, tmp_path / "one", tmp_path / "other")
    assert execute([*command, "--json", "--dry-run"]) == exit_codes.OK
    assert [(told["rows"], told["is_rehearsal"]) for told in lines(capsys.readouterr().out)] == [(1, True), (2, True)]
    assert not (tmp_path / "one").exists()
    for rows in (1, 2), (0, 0):
        assert execute([*command, "--json"]) == exit_codes.OK
        found = [(told["target"], told["destination"], told["rows"]) for told in lines(capsys.readouterr().out)]
        assert found == [(str(tmp_path / "one"), "a", rows[0]), (str(tmp_path / "other"), "b,c", rows[1])]
    assert execute(command) == exit_codes.OK
    assert capsys.readouterr().out.count("nothing new: ") == 2


@pytest.mark.damages_store("written by hand, without all that a gateway would write")
@pytest.mark.parametrize("is_first", [True, False])
def test_a_target_that_fails_keeps_no_other_from_its_export(
    three: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_first: bool
) -> None:
    (tmp_path / "file").write_text("no directory")
    places = [tmp_path / "file", tmp_path / "good"]
    assert execute([*two(three, *places[:: 1 if is_first else -1]), "--json"]) == exit_codes.FAILED
    told = capsys.readouterr()
    assert sorted(line["target"] for line in lines(told.out) if "rows" in line) == [str(places[1])]
    (failed,) = [line for line in lines(told.out) if "error" in line]
    assert failed["target"] == str(places[0])
    assert told.err.startswith(f"penstock: {places[0]}: ") and told.err.count("\n") == 1


@pytest.mark.damages_store("written by hand, without all that a gateway would write")
def test_the_exit_code_is_that_of_the_first_failure(three: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    taken = ["export", "--data", str(three), "--destination", "c", "--to", str(tmp_path / "taken"), "--nice", "0"]
    assert execute([*taken, "--master", "none"]) == exit_codes.OK
    assert execute(two(three, tmp_path / "file", tmp_path / "taken")) == exit_codes.FAILED
    assert execute(two(three, tmp_path / "taken", tmp_path / "file")) == exit_codes.USAGE


@pytest.mark.damages_store("a segment is removed")
@pytest.mark.parametrize("is_clean", [True, False], ids=["indexed", "scanned"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_segment_ends_the_export(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int, is_clean: bool
) -> None:
    pytest.importorskip("pyspark")
    with SampleStore(tmp_path / "data", segment_bytes=8192) as store:
        queue = store.destination("a")
        while store.base < 3 * 8192:
            store.send(queue, b"x" * 100)
        store.publish(is_clean=is_clean)
    sorted((tmp_path / "data/commitlog").iterdir())[number].unlink()
    target = tmp_path / "out"
    arguments = ["export", "--data", str(tmp_path / "data"), "--destination", "a", "--to", str(target)]
    assert execute(arguments) == exit_codes.STORE
    assert f"log offsets {number * 8192} to {(number + 1) * 8192} " in capsys.readouterr().err
    assert not list(target.rglob("manifest-*")) and not list(target.rglob("*.parquet"))
    assert not (tmp_path / "data/exports").exists()
