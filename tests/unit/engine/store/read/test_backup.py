"""Copies of stores: what is linked, what is copied, what is refused; and what a gateway finds in a copy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.store.disk.files import RealFiles
from engine.store.file_store import FileStore
from engine.store.read.backup import BackupRefused, back_up
from engine.store.read.found_message import Bounds
from engine.store.read.query import StoreQuery
from engine.store.read.reader import StoreReader
from engine.store.settings import StoreSettings
from engine.store.verify.store_check import verify
from engine.values.destination import QUEUE
from engine.values.errors import StoreError
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from tests.support.disk.modes import modes, umask
from tests.support.fakes import HeldWorkers, VirtualClock, VirtualTimers
from tests.support.store.store_home import lane, message
from tests.support.store.store_world import RecordingListener

SETTINGS = StoreSettings(segment_bytes=8192, index_slots=8)


class RealHome:
    """A store in a real directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = VirtualClock()
        self.timers = VirtualTimers(self.clock)
        self.workers = HeldWorkers()
        self.store = FileStore(str(directory), RealFiles(), self.workers, self.clock, self.timers, SETTINGS)
        self.store.attach(RecordingListener())
        self.orders = self.store.open_destination(QUEUE, "orders")

    def send(self, count: int) -> None:
        for number in range(count):
            self.store.append(message(self.orders, (b"%d" % number).ljust(200)))
        self.flush()

    def flush(self) -> None:
        self.store.sync()
        self.workers.run_all()

    def stop(self) -> None:
        self.workers.run_all()
        self.store.close()


def pending(directory: Path) -> tuple[int, int]:
    """Open a store as a gateway does; return cursor and tail of the queue, and close it."""
    home = RealHome(directory)
    found = lane(home.store.recovered(), "orders")
    home.send(1)
    home.stop()
    assert verify(RealFiles(), str(directory)).findings == []
    return found.cursor, found.tail


def test_a_copy_of_a_running_store_ends_at_the_durable_offset(tmp_path: Path) -> None:
    home = RealHome(tmp_path / "data")
    home.send(100)
    home.store.settle(home.orders, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, 10, 0, 10 * 213)])
    home.flush()
    durable = home.store.durable_offset()
    home.store.append(message(home.orders))
    home.store.write()
    made = back_up(tmp_path / "data", tmp_path / "copy")
    assert (made.directory, made.until_offset) == (str(tmp_path / "copy"), durable)
    segments = sorted((tmp_path / "copy" / "commitlog").iterdir())
    for path in segments[:-1]:
        assert os.path.samefile(path, tmp_path / "data" / "commitlog" / path.name), "full ones cost no space"
    assert not os.path.samefile(segments[-1], tmp_path / "data" / "commitlog" / segments[-1].name)
    assert made.linked_files == len(segments) - 1 > 1
    with StoreQuery(StoreReader(tmp_path / "copy")) as query:
        assert len(query.by_destination("orders", Bounds(limit=200)).messages) == 100
    before = {path.name: path.read_bytes() for path in (tmp_path / "data" / "commitlog").iterdir()}
    assert pending(tmp_path / "copy") == (10, 100)
    assert {path.name: path.read_bytes() for path in (tmp_path / "data" / "commitlog").iterdir()} == before
    home.send(50)
    home.stop()
    assert verify(RealFiles(), str(tmp_path / "data")).findings == [], "the copy's life does not touch the original"
    assert pending(tmp_path / "data") == (10, 151)


def test_a_copy_of_a_stopped_store(tmp_path: Path) -> None:
    home = RealHome(tmp_path / "data")
    home.send(60)
    home.stop()
    back_up(tmp_path / "data", tmp_path / "copy")
    assert pending(tmp_path / "copy") == (0, 60)


def test_a_copy_of_a_crashed_store_has_what_the_next_start_would_find(tmp_path: Path) -> None:
    home = RealHome(tmp_path / "data")
    home.send(60)
    home.store.append(message(home.orders))
    home.store.write()
    # Its process is gone: nobody holds the lock, and nothing was said.
    home.store._lock.close()
    back_up(tmp_path / "data", tmp_path / "copy")
    assert pending(tmp_path / "copy") == (0, 61)


def test_a_target_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    home = RealHome(tmp_path / "data")
    home.send(1)
    home.stop()
    (tmp_path / "copy").mkdir()
    back_up(tmp_path / "data", tmp_path / "copy")
    with pytest.raises(BackupRefused, match="not empty; allowed is a directory that is empty or missing"):
        back_up(tmp_path / "data", tmp_path / "copy")


@pytest.mark.parametrize("inside", ["", "copy", "commitlog/00000000000000999936.log", "consumequeue/../x/y"])
def test_a_target_inside_of_the_store_is_refused(tmp_path: Path, inside: str) -> None:
    home = RealHome(tmp_path / "data")
    home.send(1)
    home.stop()
    before = sorted((tmp_path / "data").rglob("*"))
    with pytest.raises(BackupRefused, match="inside of the store"):
        back_up(tmp_path / "data", tmp_path / "data" / inside)
    assert sorted((tmp_path / "data").rglob("*")) == before


def test_a_backup_that_is_being_made_is_left_alone(tmp_path: Path) -> None:
    home = RealHome(tmp_path / "data")
    home.send(1)
    home.stop()
    (tmp_path / "copy.making").mkdir()
    with pytest.raises(BackupRefused, match="a backup is running, or an interrupted backup left it"):
        back_up(tmp_path / "data", tmp_path / "copy")
    assert (tmp_path / "copy.making").exists()


def test_nothing_is_left_of_a_copy_that_failed(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a store"):
        back_up(tmp_path / "nothing", tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_directories_above_a_backup_are_no_more_readable_than_the_store(tmp_path: Path) -> None:
    home = RealHome(tmp_path / "data")
    home.send(1)
    home.stop()
    with umask(0):
        back_up(tmp_path / "data", tmp_path / "backups/daily/copy")
    assert modes(tmp_path / "backups")[0] == {0o750}


def test_nobody_may_read_more_of_a_backup_than_of_the_store(tmp_path: Path) -> None:
    home = RealHome(tmp_path / "data")
    home.send(100)
    for path in (tmp_path / "data").rglob("*.cq"):
        path.chmod(0o600)
    back_up(tmp_path / "data", tmp_path / "backups/copy")
    copied = sorted((tmp_path / "backups/copy").rglob("*"))
    assert len(copied) > 8
    for path in [*copied, tmp_path / "backups/copy"]:
        original = tmp_path / "data" / path.relative_to(tmp_path / "backups/copy")
        assert oct(path.stat().st_mode) == oct(original.stat().st_mode), path
        assert not path.stat().st_mode & 0o007
    home.stop()
