"""The real files, and the helpers that make short reads and writes whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.store.disk.files import RealFiles, describe, read_fully, write_fully
from tests.support.disk.faulty_files import FaultyFiles


def test_positional_reads_and_writes(tmp_path: Path) -> None:
    files = RealFiles()
    path = str(tmp_path / "file")
    file = files.create(path)
    file.preallocate(100)
    assert file.size() == 100
    assert file.pwrite(b"abc", 10) == 3
    assert file.pread(5, 9) == b"\0abc\0"
    assert file.pread(50, 90) == bytes(10)
    file.begin_write_back()
    file.fdatasync()
    file.fsync()
    file.truncate(12)
    assert file.size() == 12
    file.close()
    assert files.open_to_read(path).pread(2, 10) == b"ab"


def test_a_closed_file_fails_instead_of_using_a_number_that_is_another_file_by_now(tmp_path: Path) -> None:
    files = RealFiles()
    file = files.create(str(tmp_path / "one"))
    file.close()
    file.close()
    other = files.create(str(tmp_path / "two"))
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pwrite(b"x", 0)
    assert other.size() == 0
    other.close()


def test_creating_takes_the_place_of_what_was_left(tmp_path: Path) -> None:
    files = RealFiles()
    path = tmp_path / "file"
    path.write_bytes(b"left over")
    files.create(str(path)).close()
    assert path.read_bytes() == b""


def test_names(tmp_path: Path) -> None:
    files = RealFiles()
    directory = str(tmp_path / "a" / "b")
    assert files.list_directory(directory) == []
    files.make_directory(directory)
    files.make_directory(directory)
    assert files.exists(directory)
    for name in ("two", "one"):
        files.create(f"{directory}/{name}").close()
    assert files.list_directory(directory) == ["one", "two"]
    files.rename(f"{directory}/one", f"{directory}/two")
    files.sync_directory(directory)
    assert files.list_directory(directory) == ["two"]
    files.unlink(f"{directory}/two")
    files.unlink(f"{directory}/two")
    assert not files.exists(f"{directory}/two")


def test_a_lock_holds_until_its_file_is_closed(tmp_path: Path) -> None:
    files = RealFiles()
    path = str(tmp_path / "lock")
    lock = files.lock(path)
    assert lock is not None
    assert files.lock(path) is None
    lock.close()
    again = files.lock(path)
    assert again is not None
    again.close()


def test_process_and_chance() -> None:
    files = RealFiles()
    assert files.process_id() == os.getpid()
    assert len(files.random_bytes(4)) == 4


def test_short_writes_are_completed() -> None:
    files = FaultyFiles(seed=3)
    files.make_directory("data")
    file = files.create("data/file")
    files.short_writes = 10
    octets = bytes(range(256)) * 8
    write_fully(file, octets, 5)
    assert files.short_writes < 9
    assert read_fully(file, len(octets), 5) == octets


def test_a_write_that_takes_nothing_is_an_error() -> None:
    class Stuck(FaultyFiles):
        def room_for(self, path: str, size: int, growth: int) -> int:
            return 0

    files = Stuck()
    files.make_directory("data")
    with pytest.raises(OSError, match="accepted no octet"):
        write_fully(files.create("data/file"), b"abc", 0)


def test_a_description_names_the_file_and_what_the_system_said() -> None:
    assert describe(OSError(28, os.strerror(28)), "data/x") == "data/x: No space left on device"
    assert describe(OSError("odd"), "data/x") == "data/x: odd"
