"""A directory and a bucket as places of a lake: one suite for both, and what only one of them has."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from spark_bridge.errors import TargetError
from spark_bridge.files.choice import files_at
from spark_bridge.files.lake_files import LakeFiles
from spark_bridge.files.local import LocalFiles
from tests.support.objects.s3_server import S3Server

A = "destination=queue%3A%2F%2Fa b~/date=2024-01-01/x.parquet"


@pytest.fixture(params=["directory", "bucket"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> LakeFiles:
    if request.param == "directory":
        return files_at(tmp_path / "lake")
    server: S3Server = request.getfixturevalue("s3_server")
    return files_at(server.lake().url)


def put(files: LakeFiles, path: str, octets: bytes = b"octets") -> None:
    output = files.output(path)
    output.stream.write(octets)
    assert output.finish() == len(octets)


def test_what_is_written_is_read(files: LakeFiles) -> None:
    files.write("a/b", b"first")
    files.write("a/b", b"second")
    put(files, A, b"rows")
    assert (files.read("a/b"), files.read(A)) == (b"second", b"rows")
    with files.open(A) as source:
        source.seek(2)
        assert (source.read(), source.size()) == (b"ws", 4)
    status = files.status(A)
    assert status is not None and status.bytes == 4 and status.modified_ms > 1_700_000_000_000


def test_what_is_not_there(files: LakeFiles) -> None:
    files.write("there", b"")
    assert (files.names("none"), files.walk("none"), files.status("none"), files.status("a")) == ([], [], None, None)
    with pytest.raises(FileNotFoundError):
        files.open("none")
    with pytest.raises(FileNotFoundError):
        files.read("none/too")
    files.delete(["none", "there"])
    assert files.status("there") is None


def test_names_of_files_and_folders(files: LakeFiles) -> None:
    for path in ("_own/2", "_own/1", "_own/sub/3", "b", "a/x", "a/_hidden/y", "ab/z"):
        files.write(path, b"")
    assert files.names("_own") == ["1", "2", "sub"]
    assert files.walk("") == ["a/x", "ab/z", "b"]
    assert files.walk("a") == ["a/x"]


def test_a_file_that_must_not_be_replaced(files: LakeFiles) -> None:
    assert files.write_if_absent("log/1", b"first")
    assert not files.write_if_absent("log/1", b"second")
    assert files.read("log/1") == b"first"
    assert files.names("log") == ["1"]


def test_a_file_that_was_given_up(files: LakeFiles) -> None:
    output = files.output("sub/x")
    output.stream.write(b"half")
    output.discard()
    assert files.status("sub/x") is None and files.names("sub") == []


def test_marks(files: LakeFiles) -> None:
    assert files.marks("own/marks") == set()
    files.mark("own/marks", "one")
    files.mark("own/marks", "two")
    assert files.marks("own/marks") - {""} == {"one", "two"}


def test_workers_get_a_copy(files: LakeFiles) -> None:
    files.write("a", b"octets")
    copy: LakeFiles = pickle.loads(pickle.dumps(files))
    assert copy.read("a") == b"octets" and copy.title == files.title


def test_a_second_name_of_a_commit_does_not_change_it(tmp_path: Path) -> None:
    """Killed between the link and the removal of the temporary name."""
    files = LocalFiles(tmp_path)
    assert files.write_if_absent("log/1", b"first")
    os.link(tmp_path / "log/1", tmp_path / "log/.penstock.tmp")
    assert files.write_if_absent("log/2", b"second")
    assert files.read("log/1") == b"first"


def test_a_directory_has_one_export_at_a_time(tmp_path: Path) -> None:
    held, refused = LocalFiles(tmp_path).hold("own"), LocalFiles(tmp_path).hold("own")
    with held, pytest.raises(TargetError, match="another export is writing"), refused:
        pass


def test_exports_to_a_directory_have_one_token_and_another_directory_has_another(tmp_path: Path) -> None:
    """In two containers both may be mounted at the same path, and then only the tokens tell them apart."""
    tokens = []
    for place in ("lake", "lake", "other"):
        with LocalFiles(tmp_path / place).hold("own") as token:
            tokens.append(token)
    assert tokens[0] == tokens[1] != tokens[2]
    (tmp_path / "lake/own/lock").write_text("half")  # the disk was full
    for _ in range(2):
        with LocalFiles(tmp_path / "lake").hold("own") as token:
            tokens.append(token)
    assert tokens[3] == tokens[4] != tokens[0]


def test_arrow_reads_a_local_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"y")
    assert isinstance(LocalFiles(tmp_path).open("x"), pa.NativeFile)
