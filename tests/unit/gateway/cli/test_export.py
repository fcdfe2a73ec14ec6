"""``penstock export``: what it says and returns without starting Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
def test_a_size_of_files_that_is_not_allowed(size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([*EXPORT, "--to", str(tmp_path / "out"), "--file-bytes", size]) == exit_codes.USAGE
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
