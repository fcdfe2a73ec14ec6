"""The key index as a worker makes it: it follows the log, survives stops, and is made again where it is not sound."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.store.index.index_directory import READ_BYTES
from engine.store.index.index_file import INDEX_DIRECTORY, list_index
from engine.store.read.found_message import Bounds
from engine.store.read.query import StoreQuery
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE
from engine.values.message import KEYED, PERSISTENT, STOMP, Message
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import FileHome

FOLDER = f"data/{INDEX_DIRECTORY}"
SETTINGS = StoreSettings(segment_bytes=8192, index_slots=8, index_entries=20)


@dataclass(frozen=True, slots=True)
class Answer:
    bodies: list[int]
    scanned_bytes: int


def send(home: FileHome, count: int, headers: str = "keys:k\n", size: int = 100) -> None:
    number = home.store.open_destination(QUEUE, "orders")
    for _ in range(count):
        body = b"%d" % home.store.append_offset()
        home.store.append(
            Message(number, STOMP, PERSISTENT | KEYED, 4, 0, 0, 0, b"", headers.encode(), body.ljust(size))
        )
    home.flush()


def files(home: FileHome) -> list[str]:
    return [path for path in home.files.paths() if path.startswith(FOLDER)]


def answer(home: FileHome, directory: Path, key: str = "k") -> Answer:
    with StoreQuery(copy_to(directory, home.files)) as query:
        page = query.by_key(key, Bounds(limit=1_000))
    return Answer([message.log_offset for message in page.messages], page.scanned_bytes)


def test_a_stopped_store_is_indexed_to_its_end_and_the_next_start_goes_on(tmp_path: Path) -> None:
    home = FileHome(SETTINGS)
    send(home, 30)
    home.stop()
    before = {path: bytes(home.files.octets(path)) for path in files(home)}
    assert len(before) == 2
    first = answer(home, tmp_path / "first")
    assert (len(first.bodies), first.scanned_bytes) == (30, 0)
    home.begin()
    send(home, 30)
    home.stop()
    second = answer(home, tmp_path / "second")
    assert (len(second.bodies), second.scanned_bytes) == (60, 0)
    sealed, grown = sorted(before)
    assert bytes(home.files.octets(sealed)) == before[sealed], "a sealed file is not touched again"
    kept = 128 + 8 * 4 + 10 * 24
    assert bytes(home.files.octets(grown))[160:kept] == before[grown][160:kept], "entries stay as they are"


@pytest.mark.parametrize("how", ["killed", "power cut"])
def test_after_a_crash_only_what_was_sealed_is_kept(tmp_path: Path, how: str) -> None:
    home = FileHome(SETTINGS)
    send(home, 30)
    home.pass_time(1_000)
    if how == "killed":
        home.files = home.files.killed()
    else:
        home.crash()
    crashed = answer(home, tmp_path / "crashed")
    assert len(crashed.bodies) == 30
    assert crashed.scanned_bytes > 0, "the growing file is not trusted"
    home.begin()
    home.pass_time(1_000)
    home.stop()
    again = answer(home, tmp_path / "again")
    assert (again.bodies, again.scanned_bytes) == (crashed.bodies, 0)


@pytest.mark.parametrize("sync", [0, 1], ids=["entries", "header"])
def test_a_file_whose_sync_has_failed_is_made_again(tmp_path: Path, sync: int) -> None:
    """The system may take for clean what it could not write: the same file is not believed a second time."""
    for seed in range(12):
        home = FileHome(SETTINGS, seed)
        home.files.fail("fdatasync", errno.EIO, INDEX_DIRECTORY, skip=sync)
        for _ in range(6):
            send(home, 10)
            home.pass_time(1_000)
        assert home.files.faults[0].count == 0
        home.crash()
        found = answer(home, tmp_path / f"{seed}")
        assert (len(found.bodies), len(set(found.bodies))) == (60, 60)


@pytest.mark.parametrize("gone", ["all", "first", "last", "foreign", "cut"])
@pytest.mark.damages_store("an index file is cut")
def test_what_is_deleted_or_unsound_is_made_again(tmp_path: Path, gone: str) -> None:
    home = FileHome(SETTINGS)
    send(home, 70)
    home.stop()
    whole = answer(home, tmp_path / "whole")
    paths = files(home)
    assert len(paths) == 4
    if gone == "cut":
        home.files.open(paths[1]).truncate(200)
    elif gone == "foreign":
        home.files.open(paths[1]).pwrite(b"PENSTKIX\2", 0)
    else:
        for path in {"all": paths, "first": paths[:1], "last": paths[-1:]}[gone]:
            home.files.unlink(path)
    lacking = answer(home, tmp_path / "lacking")
    assert lacking.bodies == whole.bodies
    assert lacking.scanned_bytes > 0
    home.begin()
    home.pass_time(1_000)
    home.stop()
    again = answer(home, tmp_path / "again")
    assert (again.bodies, again.scanned_bytes) == (whole.bodies, 0)


def test_a_disk_that_is_full_only_leaves_the_index_behind(tmp_path: Path) -> None:
    home = FileHome(SETTINGS)
    send(home, 10)
    home.pass_time(1_000)
    home.files.fail("pwrite", errno.ENOSPC, FOLDER, 3)
    send(home, 30)
    home.pass_time(250)
    assert home.store.is_accepting()
    for _ in range(3):
        home.pass_time(250)
    home.stop()
    found = answer(home, tmp_path)
    assert (len(found.bodies), len(set(found.bodies)), found.scanned_bytes) == (40, 40, 0)


def test_records_larger_than_one_read_are_taken_whole(tmp_path: Path) -> None:
    home = FileHome(StoreSettings(segment_bytes=1 << 20, index_slots=8, index_entries=20))
    for size in (10, READ_BYTES + 1, 3 * READ_BYTES, 10):
        send(home, 1, size=size)
        send(home, 1, headers="other:header\n", size=READ_BYTES // 2)
    home.stop()
    found = answer(home, tmp_path)
    assert (len(found.bodies), found.scanned_bytes) == (4, 0)


def test_names_of_headers_in_bodies_find_nothing(tmp_path: Path) -> None:
    home = FileHome(SETTINGS)
    number = home.store.open_destination(QUEUE, "orders")
    home.store.append(Message(number, STOMP, PERSISTENT | KEYED, 4, 0, 0, 0, b"keys:k\n", b"xkeys:k\n", b"\nkeys:k\n"))
    send(home, 1)
    home.stop()
    found = answer(home, tmp_path)
    assert (len(found.bodies), found.scanned_bytes) == (1, 0)


def test_a_file_that_grows_is_trusted_while_its_writer_lives(tmp_path: Path) -> None:
    home = FileHome(SETTINGS)
    send(home, 30)
    home.pass_time(1_000)
    reader = copy_to(tmp_path, home.files)
    end = reader.end().offset
    growing = list_index(reader.directory, reader.store_id, True, end)
    assert [file.header.is_sealed for file in growing] == [True, False]
    assert growing[-1].header.end == end
    assert len(list(growing[-1].places("k", end))) == 10
    resting = list_index(reader.directory, reader.store_id, False, end)
    assert [file.header.is_sealed for file in resting] == [True]


def test_without_slots_there_is_no_index(tmp_path: Path) -> None:
    home = FileHome(StoreSettings(segment_bytes=8192))
    send(home, 3)
    home.stop()
    assert files(home) == []
    assert len(answer(home, tmp_path).bodies) == 3


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_store_of_an_earlier_gateway_is_walked_through(tmp_path: Path, is_stopped: bool) -> None:
    """Messages that carry no flag, and those that came before the start, are found by their headers."""
    home = FileHome(StoreSettings(segment_bytes=8192))
    number = home.store.open_destination(QUEUE, "orders")
    for _ in range(100):
        home.store.append(Message(number, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"keys:k\n", b"body"))
    home.flush()
    if is_stopped:
        home.stop()
    else:
        home.files = home.files.killed()
    home.settings = SETTINGS
    home.begin()
    send(home, 5)
    home.pass_time(1_000)
    home.stop()
    found = answer(home, tmp_path)
    assert (len(found.bodies), found.scanned_bytes) == (105, 0)


def test_without_any_key_the_index_still_says_how_far_it_is(tmp_path: Path) -> None:
    home = FileHome(SETTINGS)
    home.send_durably(home.store.open_destination(QUEUE, "orders"), 200)
    home.stop()
    assert answer(home, tmp_path) == Answer([], 0)
    assert len(files(home)) == 1
